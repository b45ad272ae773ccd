//! What is wrong with a configuration: where it was said, which key, what is expected, what was there.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Where a setting comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    Default,
    File { path: PathBuf, line: usize },
    Env { name: String },
    Flag { name: String },
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("the defaults"),
            Origin::File { path, line } => write!(f, "{} line {line}", path.display()),
            Origin::Env { name } | Origin::Flag { name } => f.write_str(name),
        }
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigProblem {
    /// The file before the environment before flags; the file by its lines.
    order: (u8, usize),
    at: String,
    what: String,
}

/// Longer values are cut in messages.
const SHOWN_CHARS_MAX: usize = 60;

impl ConfigProblem {
    pub(super) fn new(at: &Origin, what: String) -> ConfigProblem {
        let order = match at {
            Origin::Default => (0, 0),
            Origin::File { line, .. } => (1, *line),
            Origin::Env { .. } => (2, 0),
            Origin::Flag { .. } => (3, 0),
        };
        ConfigProblem { order, at: at.to_string(), what }
    }

    pub(super) fn unreadable(path: &Path, error: &io::Error) -> ConfigProblem {
        let at = path.display().to_string();
        ConfigProblem { order: (1, 0), at, what: format!("cannot be read: {error}") }
    }

    pub(super) fn wrong(at: &Origin, key: &str, expected: &str, got: &str) -> ConfigProblem {
        let got = match got.char_indices().nth(SHOWN_CHARS_MAX) {
            Some((end, _)) => &[&got[..end], "…"].concat(),
            None => got,
        };
        ConfigProblem::new(at, format!("{key} must be {expected}, got {got}"))
    }

    /// `written` is the name as its source writes it, `meant` the one that is like it.
    pub(super) fn unknown(at: &Origin, written: &str, meant: Option<String>) -> ConfigProblem {
        let hint = match meant {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => "`relent config` prints every key there is".to_owned(),
        };
        ConfigProblem::new(at, format!("there is no setting `{written}`; {hint}"))
    }
}

impl fmt::Display for ConfigProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.at, self.what)
    }
}

/// Everything that is wrong with a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigProblems(Vec<ConfigProblem>);

impl ConfigProblems {
    pub(super) fn new(mut problems: Vec<ConfigProblem>) -> ConfigProblems {
        problems.sort_by_key(|problem| problem.order);
        ConfigProblems(problems)
    }
}

impl fmt::Display for ConfigProblems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.len() {
            1 => f.write_str("the configuration has a problem")?,
            count => write!(f, "the configuration has {count} problems")?,
        }
        for problem in &self.0 {
            write!(f, "\n  {problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigProblems {}
