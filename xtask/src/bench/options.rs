//! What `cargo xtask bench` is told on the command line.

use std::fmt;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};

/// One thing that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scenario {
    Enqueue,
    Batch,
    EndToEnd,
    Lateness,
    Waiting,
    Restart,
    Neighbour,
}

const SCENARIOS: [(&str, Scenario); 7] = [
    ("enqueue", Scenario::Enqueue),
    ("batch", Scenario::Batch),
    ("end-to-end", Scenario::EndToEnd),
    ("lateness", Scenario::Lateness),
    ("waiting", Scenario::Waiting),
    ("restart", Scenario::Restart),
    ("neighbour", Scenario::Neighbour),
];

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = SCENARIOS.iter().find(|(_, scenario)| scenario == self);
        f.write_str(named.map_or("", |(name, _)| name))
    }
}

/// See the module's head.
#[derive(Debug)]
pub(super) struct Options {
    pub(super) scenarios: Vec<Scenario>,
    /// Tasks of `enqueue`, `batch` and `end-to-end`.
    pub(super) tasks: u64,
    /// Tasks that wait far in the future, in `lateness`, `waiting` and `restart`.
    pub(super) waiting: u64,
    pub(super) runs: u32,
    pub(super) json: Option<PathBuf>,
    /// What the service gets as `--store`.
    pub(super) store: String,
    /// A binary that is there already.
    pub(super) binary: Option<PathBuf>,
    /// Where the service's data goes, if not beside the binary.
    pub(super) data: Option<PathBuf>,
}

impl Options {
    pub(super) fn read(args: &[&str]) -> Result<Options> {
        let mut options = Options {
            scenarios: Vec::new(),
            tasks: 50_000,
            waiting: 1_000_000,
            runs: 3,
            json: None,
            store: "sqlite:".to_owned(),
            binary: None,
            data: None,
        };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            if let Some((_, scenario)) = SCENARIOS.iter().find(|(name, _)| name == arg) {
                options.scenarios.push(*scenario);
                continue;
            }
            let mut value = || args.next().with_context(|| format!("{arg} needs a value"));
            match *arg {
                "--tasks" => options.tasks = number(value()?)?,
                "--waiting" => options.waiting = number(value()?)?,
                "--runs" => options.runs = u32::try_from(number(value()?)?)?,
                "--json" => options.json = Some(value()?.into()),
                "--store" => options.store = (*value()?).to_owned(),
                "--binary" => options.binary = Some(value()?.into()),
                "--data" => options.data = Some(value()?.into()),
                _ => bail!("`{arg}` is neither a scenario nor a flag; see `cargo xtask help`"),
            }
        }
        if options.scenarios.is_empty() {
            options.scenarios = SCENARIOS.map(|(_, scenario)| scenario).to_vec();
        }
        Ok(options)
    }
}

/// People write 1,000,000 and 1_000_000.
pub(super) fn number(text: &str) -> Result<u64> {
    let digits: String = text.chars().filter(|char| !matches!(char, ',' | '_')).collect();
    let number = digits.parse().ok().filter(|number| *number > 0);
    number.with_context(|| format!("expected a number above 0, got `{text}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenarios_and_flags_come_in_any_order() {
        let options = Options::read(&["--tasks", "1_000", "enqueue", "--runs", "1"]).unwrap();
        assert_eq!(options.scenarios, [Scenario::Enqueue]);
        assert_eq!((options.tasks, options.runs), (1_000, 1));
    }

    #[test]
    fn without_a_scenario_all_are_measured() {
        assert_eq!(Options::read(&[]).unwrap().scenarios.len(), SCENARIOS.len());
    }

    #[test]
    fn what_is_not_known_is_refused() {
        for args in [&["enque"][..], &["--tasks"], &["--tasks", "many"], &["--runs", "0"]] {
            assert!(Options::read(args).is_err(), "{args:?}");
        }
    }
}
