//! The checks a compiler cannot make, and one way to run them all.
//!
//! A check reads the repository and returns everything it finds; it never stops at the first.
//! Each also runs on this repository as an ordinary test, so `cargo test` alone catches a breach,
//! and each has tests that feed it a bad sample: a check that cannot fail is worth nothing.

mod bans;
mod citations;
mod conformance;
mod crate_table;
mod deny_toml;
mod licences;
mod links;
mod purity;
mod rust_source;
mod source_rules;
mod spdx;

use std::{fmt, process::ExitCode};

use anyhow::Result;

use crate::repo::{Repo, TextFile};

type Check = fn(&Repo) -> Result<Vec<Finding>>;

const CHECKS: &[(&str, Check)] = &[
    ("crate table", crate_table::check),
    ("citations", citations::check),
    ("conformance", conformance::check),
    ("purity", purity::check),
    ("licences", licences::check),
    ("bans", bans::check),
    ("source rules", source_rules::check),
    ("links", links::check),
];

/// One breach: where it is, what was found and what was expected.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    path: String,
    line: Option<usize>,
    message: String,
}

pub(crate) fn run() -> Result<ExitCode> {
    let repo = Repo::load()?;
    let mut total = 0;
    for (name, check) in CHECKS {
        let findings = check(&repo)?;
        println!("{:<6}  {name}", if findings.is_empty() { "ok" } else { "FAILED" });
        for finding in &findings {
            println!("        {finding}");
        }
        total += findings.len();
    }
    Ok(if total == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Finding {
    fn in_file(path: &str, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line: None, message: message.into() }
    }

    fn at(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line: Some(line), message: message.into() }
    }

    /// Points at the first line of `path` that contains `needle`, or else at the file.
    fn near(repo: &Repo, path: &str, needle: &str, message: impl Into<String>) -> Self {
        let line = repo.text(path).and_then(|file: &TextFile| file.line_of(needle));
        Self { path: path.to_owned(), line, message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.path, self.message),
            None => write!(f, "{}: {}", self.path, self.message),
        }
    }
}

#[cfg(test)]
fn assert_repository_passes(check: Check) {
    let findings = check(&Repo::load().unwrap()).unwrap();
    let report: Vec<String> = findings.iter().map(Finding::to_string).collect();
    assert!(report.is_empty(), "{} findings:\n{}", report.len(), report.join("\n"));
}

#[cfg(test)]
fn report(check: Check, repo: &Repo) -> Vec<String> {
    check(repo).unwrap().iter().map(Finding::to_string).collect()
}
