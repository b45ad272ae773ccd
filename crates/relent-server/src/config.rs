//! What a server is told: defaults, then a file, then the environment, then flags.
//!
//! `config.default.toml` is compiled in and is the reference: it holds every key there is, and the
//! type of each. What is read on top of it is checked against it, key by key, and every problem is
//! told at once, with the place it comes from. REQ-P4.
//!
//! ```
//! use relent_server::config::{Config, Override};
//!
//! let flags = [Override::new("--listen", "server.listen", "127.0.0.1:0")];
//! let config = Config::load(None, std::iter::empty(), &flags)?;
//! assert_eq!(config.server.listen.port(), 0);
//!
//! let typo = [("RELENT_SERVER__LISTN".to_owned(), "127.0.0.1:0".to_owned())];
//! let problems = Config::load(None, typo.into_iter(), &[]).unwrap_err();
//! assert!(problems.to_string().contains("did you mean `RELENT_SERVER__LISTEN`?"));
//! # Ok::<(), relent_server::config::ConfigProblems>(())
//! ```

use std::fs;
use std::path::Path;

use self::settings::Settings;
use crate::ServerOptions;

mod meaning;
mod problems;
mod settings;
mod sources;
mod stores;

pub use problems::{ConfigProblem, ConfigProblems};
pub use stores::{OpenStoreError, StoreConfig, StorePlace, StoreUrl};

/// Every key with its default and what it is for, as TOML.
pub const DEFAULT: &str = include_str!("../config.default.toml");

/// What a server is told, checked.
#[derive(Clone, Debug)]
pub struct Config {
    /// What the service itself is told.
    pub server: ServerOptions,
    /// Where tasks wait.
    pub store: StoreConfig,
    /// What is logged, and how.
    pub log: LogConfig,
    settings: Settings,
}

/// What is logged, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// A level, or directives such as `info,relent_server=debug`.
    pub level: String,
    /// How lines look.
    pub format: LogFormat,
}

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// A setting from the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    flag: String,
    key: String,
    value: String,
}

impl Override {
    /// This flag sets this key, as in `server.listen`.
    pub fn new(
        flag: impl Into<String>,
        key: impl Into<String>,
        value: impl Into<String>,
    ) -> Override {
        Override { flag: flag.into(), key: key.into(), value: value.into() }
    }

    /// What `--set section.key=value` means.
    pub fn from_set(text: &str) -> Override {
        let (key, value) = text.split_once('=').unwrap_or((text, ""));
        Override::new(format!("--set {key}"), key.trim(), value.trim())
    }
}

impl Config {
    /// Reads everything that was said, later over earlier: defaults, file, environment, flags.
    /// Of the environment only names with `RELENT_` matter.
    ///
    /// # Errors
    ///
    /// Every problem of every source.
    pub fn load(
        file: Option<&Path>,
        env: impl Iterator<Item = (String, String)>,
        overrides: &[Override],
    ) -> Result<Config, ConfigProblems> {
        let mut settings = Settings::default();
        let mut problems = Vec::new();
        if let Some(path) = file {
            match fs::read_to_string(path) {
                Ok(text) => sources::file(path, &text, &mut settings, &mut problems),
                Err(error) => problems.push(ConfigProblem::unreadable(path, &error)),
            }
        }
        sources::env(env, &mut settings, &mut problems);
        sources::flags(overrides, &mut settings, &mut problems);
        meaning::config(settings, problems)
    }

    /// The whole configuration as TOML, with a note wherever it is not the default.
    pub fn effective(&self) -> String {
        self.settings.as_toml()
    }
}

#[cfg(test)]
mod tests;
