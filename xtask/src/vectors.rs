//! `cargo xtask vectors`: the golden vectors under `vectors/`.
//!
//! The cases are written here; what must come out is worked out by the engine when the files are
//! blessed, frozen in them, and checked from then on by the engine's tests and by an independent
//! implementation (`vectors/reference.py`). Without `--bless` this only says which files differ.

mod breaker;
mod budget;
mod case;
mod decide;
mod edges;
mod retry_after;

use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::golden::{self, Mode};

pub(crate) fn run(mode: Mode) -> Result<ExitCode> {
    let mut files = Vec::new();
    for (name, suite) in suites()? {
        files.push((name, pretty(&suite)?));
    }
    golden::settle("vectors", files, mode)
}

fn suites() -> Result<Vec<(String, Value)>> {
    let mut suites = decide::suites()?;
    suites.push(("retry-after.json".to_owned(), retry_after::suite()));
    suites.push(("budget.json".to_owned(), budget::suite()?));
    suites.push(("breaker.json".to_owned(), breaker::suite()?));
    Ok(suites)
}

/// One case a line, so that a changed decision is one changed line.
fn pretty(suite: &Value) -> Result<String> {
    let mut text = String::from("{\n");
    let entries = suite.as_object().context("a suite is an object")?;
    for (index, (key, value)) in entries.iter().enumerate() {
        let comma = if index + 1 < entries.len() { "," } else { "" };
        match value {
            Value::Array(cases) => {
                let lines: Vec<String> = cases.iter().map(|case| format!("    {case}")).collect();
                writeln!(text, "  {key:?}: [\n{}\n  ]{comma}", lines.join(",\n"))?;
            }
            Value::Object(map) => {
                let line = |(name, value): (&String, &Value)| format!("    {name:?}: {value}");
                let lines: Vec<String> = map.iter().map(line).collect();
                writeln!(text, "  {key:?}: {{\n{}\n  }}{comma}", lines.join(",\n"))?;
            }
            value => writeln!(text, "  {key:?}: {value}{comma}")?,
        }
    }
    text.push_str("}\n");
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_are_what_the_engine_says() {
        assert_eq!(run(Mode::Check).unwrap(), ExitCode::SUCCESS, "see cargo xtask vectors --bless");
    }
}
