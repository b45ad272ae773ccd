//! Every key with its value and where that came from. Which keys there are, and of what type, the
//! defaults say.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::LazyLock;

use toml::Table;

use super::DEFAULT;
use super::problems::Origin;

/// A value of one of the types that settings have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Text(String),
    Whole(i64),
    Texts(Vec<String>),
}

#[derive(Clone, Debug)]
pub(super) struct Setting {
    pub(super) value: Value,
    pub(super) origin: Origin,
}

/// Keys, as in `server.listen`, and what they are set to.
#[derive(Clone, Debug)]
pub(super) struct Settings(BTreeMap<String, Setting>);

static DEFAULTS: LazyLock<BTreeMap<String, Setting>> = LazyLock::new(|| {
    let sections: Table = DEFAULT.parse().expect("the defaults are TOML: every test reads them");
    let sections = sections.iter().filter_map(|(name, table)| Some((name, table.as_table()?)));
    let keys = sections.flat_map(|(section, table)| {
        table.iter().map(move |(key, value)| (format!("{section}.{key}"), default(value)))
    });
    keys.collect()
});

fn default(value: &toml::Value) -> Setting {
    let value = match value {
        toml::Value::Integer(whole) => Value::Whole(*whole),
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

    pub(super) fn sections() -> impl Iterator<Item = &'static str> {
        let mut last = "";
        let sections = DEFAULTS.keys().filter_map(|key| Some(key.split_once('.')?.0));
        sections.filter(move |section| std::mem::replace(&mut last, section) != *section)
    }

    /// The key that a mistyped one was probably meant to be.
    pub(super) fn closest(typed: &str) -> Option<&'static str> {
        let typed = typed.to_ascii_lowercase();
        // The right key under the wrong section is as near as a slip of the finger.
        let last = typed.rsplit('.').next().unwrap_or_default();
        let distance = |key: &str| {
            let key_alone = key.split_once('.').map_or(key, |(_, key)| key);
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

impl fmt::Display for Value {
    /// As TOML writes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Text(text) => fmt::Display::fmt(&toml::Value::from(text.as_str()), f),
            Value::Whole(whole) => fmt::Display::fmt(whole, f),
            Value::Texts(texts) => fmt::Display::fmt(&toml::Value::from(texts.clone()), f),
        }
    }
}
