//! Reading what was said: a file, the environment, flags.
//!
//! A file says its types itself. What comes as a bare text is read as the type that its key has; a
//! list may be written as TOML or with commas.

use std::path::Path;

use toml::de::{DeTable, DeValue};

use super::Override;
use super::problems::{ConfigProblem, Origin};
use super::settings::{Settings, Value};

/// A level without a section of its own, as people are used to it.
const LOG_VARIABLE: &str = "RELENT_LOG";
const PREFIX: &str = "RELENT_";

pub(super) fn file(
    path: &Path,
    text: &str,
    settings: &mut Settings,
    problems: &mut Vec<ConfigProblem>,
) {
    let at = |from: usize| {
        let before = text.get(..from).unwrap_or(text);
        Origin::File { path: path.to_owned(), line: before.matches('\n').count() + 1 }
    };
    let (sections, errors) = DeTable::parse_recoverable(text);
    for error in errors {
        let at = at(error.span().map_or(0, |span| span.start));
        problems.push(ConfigProblem::new(&at, format!("not TOML: {}", error.message())));
    }
    for (section, table) in sections.get_ref() {
        let (line, section) = (at(section.span().start), section.get_ref().as_ref());
        match table.get_ref() {
            DeValue::Table(table) => of_section(section, table, &line, &at, settings, problems),
            other if Settings::is_section(section) => {
                problems.push(ConfigProblem::wrong(&line, section, "a section", kind(other)));
            }
            _ => problems.push(unknown(&line, section)),
        }
    }
}

/// The settings of a section and of the sections in it.
fn of_section(
    section: &str,
    table: &DeTable<'_>,
    line: &Origin,
    at: &impl Fn(usize) -> Origin,
    settings: &mut Settings,
    problems: &mut Vec<ConfigProblem>,
) {
    if table.is_empty() && !Settings::is_section(section) {
        problems.push(unknown(line, section));
    }
    for (key, value) in table {
        let line = at(key.span().start);
        let key = format!("{section}.{}", key.get_ref());
        if let DeValue::Table(table) = value.get_ref()
            && Settings::is_section(&key)
        {
            of_section(&key, table, &line, at, settings, problems);
            continue;
        }
        let Some(default) = Settings::default_of(&key) else {
            problems.push(match Settings::is_section(&key) {
                true => ConfigProblem::wrong(&line, &key, "a section", kind(value.get_ref())),
                false => unknown(&line, &key),
            });
            continue;
        };
        match typed(value.get_ref(), default) {
            Some(value) => settings.set(&key, value, line),
            None => {
                let got = kind(value.get_ref());
                problems.push(ConfigProblem::wrong(&line, &key, type_of(default), got));
            }
        }
    }
}

pub(super) fn env(
    env: impl Iterator<Item = (String, String)>,
    settings: &mut Settings,
    problems: &mut Vec<ConfigProblem>,
) {
    let mut ours: Vec<_> = env.filter(|(name, _)| name.starts_with(PREFIX)).collect();
    ours.sort_unstable();
    for (name, value) in ours {
        let at = Origin::Env { name: name.clone() };
        let rest = name.strip_prefix(PREFIX).unwrap_or_default();
        let key = match rest.contains("__") {
            true => rest.replace("__", ".").to_ascii_lowercase(),
            false if name == LOG_VARIABLE => "log.level".to_owned(),
            false => {
                if let Some(meant) = one_underscore(rest) {
                    problems.push(ConfigProblem::unknown(&at, &name, Some(variable(&meant))));
                }
                continue;
            }
        };
        match Settings::default_of(&key) {
            Some(default) => set(settings, problems, at, &key, &value, default),
            None => {
                let meant = Settings::closest(&key).map(variable);
                problems.push(ConfigProblem::unknown(&at, &name, meant));
            }
        }
    }
}

/// `SERVER_LISTEN`, which is a setting's name but for one underscore.
fn one_underscore(rest: &str) -> Option<String> {
    let (section, key) = rest.split_once('_')?;
    let key = format!("{section}.{key}").to_ascii_lowercase();
    Settings::default_of(&key).map(|_| key)
}

fn variable(key: &str) -> String {
    [PREFIX, &key.replace('.', "__").to_ascii_uppercase()].concat()
}

pub(super) fn flags(
    overrides: &[Override],
    settings: &mut Settings,
    problems: &mut Vec<ConfigProblem>,
) {
    for Override { flag, key, value } in overrides {
        let at = Origin::Flag { name: flag.clone() };
        match Settings::default_of(key) {
            Some(default) => set(settings, problems, at, key, value, default),
            None => problems.push(unknown(&at, key)),
        }
    }
}

fn unknown(at: &Origin, key: &str) -> ConfigProblem {
    ConfigProblem::unknown(at, key, Settings::closest(key).map(str::to_owned))
}

fn set(
    settings: &mut Settings,
    problems: &mut Vec<ConfigProblem>,
    at: Origin,
    key: &str,
    text: &str,
    default: &Value,
) {
    match from_text(text, default) {
        Some(value) => settings.set(key, value, at),
        None => {
            let got = format!("{text:?}");
            problems.push(ConfigProblem::wrong(&at, key, type_of(default), &got));
        }
    }
}

/// A bare text as the type that its key has.
fn from_text(text: &str, default: &Value) -> Option<Value> {
    match default {
        Value::Text(_) => Some(Value::Text(text.to_owned())),
        Value::Flag(_) => text.trim().parse().ok().map(Value::Flag),
        Value::Whole(_) => text.trim().replace('_', "").parse().ok().map(Value::Whole),
        Value::Texts(_) if text.trim().starts_with('[') => {
            let document = format!("list = {text}");
            let table = DeTable::parse(&document).ok()?;
            typed(table.get_ref().get("list")?.get_ref(), default)
        }
        Value::Texts(_) => {
            let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
            Some(Value::Texts(items.map(str::to_owned).collect()))
        }
    }
}

/// A value of a file, if it is of the type that its key has.
fn typed(value: &DeValue<'_>, default: &Value) -> Option<Value> {
    match (value, default) {
        (DeValue::String(text), Value::Text(_)) => Some(Value::Text(text.clone().into_owned())),
        (DeValue::Integer(whole), Value::Whole(_)) => {
            i64::from_str_radix(whole.as_str(), whole.radix()).ok().map(Value::Whole)
        }
        (DeValue::Boolean(flag), Value::Flag(_)) => Some(Value::Flag(*flag)),
        (DeValue::Array(items), Value::Texts(_)) => {
            let texts = items.iter().map(|item| item.get_ref().as_str().map(str::to_owned));
            texts.collect::<Option<Vec<String>>>().map(Value::Texts)
        }
        _ => None,
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Text(_) => "a text",
        Value::Whole(_) => "a whole number",
        Value::Flag(_) => "true or false",
        Value::Texts(_) => "a list of texts",
    }
}

fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number with a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list of something else",
        DeValue::Table(_) => "a section",
    }
}
