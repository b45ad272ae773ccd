//! Every key with its value and where that came from. Which keys there are, and of what type, the
//! defaults say.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::LazyLock;

use toml::Table;

use super::DEFAULT;
use super::problems::Origin;
use super::stores::without_password;

/// A value of one of the types that settings have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Text(String),
    Whole(i64),
    Flag(bool),
    Texts(Vec<String>),
}

#[derive(Clone, Debug)]
pub(super) struct Setting {
    pub(super) value: Value,
    pub(super) origin: Origin,
}

/// Keys, as in `server.listen`, and what they are set to.
#[derive(Clone)]
pub(super) struct Settings(BTreeMap<String, Setting>);

static DEFAULTS: LazyLock<BTreeMap<String, Setting>> = LazyLock::new(|| {
    let sections: Table = DEFAULT.parse().expect("the defaults are TOML: every test reads them");
    let mut keys = BTreeMap::new();
    collect("", &sections, &mut keys);
    keys
});

/// The keys of a table and of the tables in it, each with its whole name.
fn collect(section: &str, table: &Table, keys: &mut BTreeMap<String, Setting>) {
    for (key, value) in table {
        let key = if section.is_empty() { key.clone() } else { format!("{section}.{key}") };
        match value {
            toml::Value::Table(table) => collect(&key, table, keys),
            value => drop(keys.insert(key, default(value))),
        }
    }
}

fn default(value: &toml::Value) -> Setting {
    let value = match value {
        toml::Value::Integer(whole) => Value::Whole(*whole),
        toml::Value::Boolean(flag) => Value::Flag(*flag),
        toml::Value::Array(items) => {
            Value::Texts(items.iter().filter_map(|item| Some(item.as_str()?.to_owned())).collect())
        }
        other => Value::Text(other.as_str().unwrap_or_default().to_owned()),
    };
    Setting { value, origin: Origin::Default }
}

impl Default for Settings {
    fn default() -> Settings {
        Settings(DEFAULTS.clone())
    }
}

impl Settings {
    /// A key that is in the defaults.
    pub(super) fn get(&self, key: &str) -> &Setting {
        self.0.get(key).expect("only keys of the defaults are asked for: a test asks for all")
    }

    /// The default of a key; `None` if there is no such key.
    pub(super) fn default_of(key: &str) -> Option<&'static Value> {
        DEFAULTS.get(key).map(|setting| &setting.value)
    }

    pub(super) fn set(&mut self, key: &str, value: Value, origin: Origin) {
        self.0.insert(key.to_owned(), Setting { value, origin });
    }

    /// Whether keys begin with this.
    pub(super) fn is_section(name: &str) -> bool {
        let within = |key: &str| key.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'));
        DEFAULTS.keys().any(|key| within(key))
    }

    /// The key that a mistyped one was probably meant to be.
    pub(super) fn closest(typed: &str) -> Option<&'static str> {
        let typed = typed.to_ascii_lowercase();
        // The right key under the wrong section is as near as a slip of the finger.
        let last = typed.rsplit('.').next().unwrap_or_default();
        let distance = |key: &str| {
            let key_alone = key.rsplit('.').next().unwrap_or_default();
            let of_key = strsim::damerau_levenshtein(last, key_alone) + 1;
            strsim::damerau_levenshtein(&typed, key).min(of_key)
        };
        let near = DEFAULTS.keys().map(|key| (distance(key), key.as_str()));
        near.filter(|(distance, key)| *distance <= 1 + key.len() / 5).min().map(|(_, key)| key)
    }

    /// The defaults' file with the values that hold, and a note on those that are not its own.
    pub(super) fn as_toml(&self) -> String {
        let mut text = String::new();
        let mut section = "";
        for line in DEFAULT.lines() {
            if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                section = name;
            }
            let key = line.split_once(" = ").map(|(key, _)| format!("{section}.{key}"));
            match key.and_then(|key| self.0.get_key_value(&key)) {
                Some((key, Setting { value, origin })) if *origin != Origin::Default => {
                    let value = shown(key, value);
                    let key = key.rsplit('.').next().unwrap_or_default();
                    text.push_str(&format!("{key} = {value} # from {origin}"));
                }
                _ => text.push_str(line),
            }
            text.push('\n');
        }
        text
    }
}

impl fmt::Debug for Settings {
    /// Not the values: there may be a password among them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings").finish_non_exhaustive()
    }
}

/// A value as it may be printed.
fn shown(key: &str, value: &Value) -> Value {
    match value {
        Value::Text(url) if key == "store.url" => Value::Text(without_password(url)),
        value => value.clone(),
    }
}

impl fmt::Display for Value {
    /// As TOML writes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Text(text) => fmt::Display::fmt(&toml::Value::from(text.as_str()), f),
            Value::Whole(whole) => fmt::Display::fmt(whole, f),
            Value::Flag(flag) => fmt::Display::fmt(flag, f),
            Value::Texts(texts) => fmt::Display::fmt(&toml::Value::from(texts.clone()), f),
        }
    }
}
