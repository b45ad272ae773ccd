//! What `cargo xtask bench stores` is told on the command line.

use std::fmt;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};

use super::server::StoreKind;
use crate::bench::options::number;

/// One thing that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scenario {
    Enqueue,
    EndToEnd,
    Lateness,
    Statements,
    Waiting,
    LongTransaction,
}

const SCENARIOS: [(&str, Scenario); 6] = [
    ("enqueue", Scenario::Enqueue),
    ("end-to-end", Scenario::EndToEnd),
    ("lateness", Scenario::Lateness),
    ("statements", Scenario::Statements),
    ("waiting", Scenario::Waiting),
    ("long-transaction", Scenario::LongTransaction),
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
    pub(super) stores: Vec<StoreKind>,
    /// How many nodes, or workers of a peer, there are, one after the other.
    pub(super) nodes: Vec<u64>,
    /// Whether peers are measured too.
    pub(super) peers: bool,
    /// Settings for the peers, as a JSON object, instead of those that served them best.
    pub(super) tune: Option<String>,
    /// Nobody but who has this name.
    pub(super) only: Option<String>,
    /// Tasks of `enqueue` and `end-to-end`.
    pub(super) tasks: u64,
    /// Tasks that wait far in the future, in `waiting`.
    pub(super) waiting: u64,
    /// How long the transaction of `long-transaction` is held open, in seconds.
    pub(super) hold_seconds: u64,
    pub(super) runs: u32,
    pub(super) json: Option<PathBuf>,
    /// A binary that is there already.
    pub(super) binary: Option<PathBuf>,
    /// Where the servers' data goes: on a disk, and where other users may go.
    pub(super) data: PathBuf,
}

impl Options {
    pub(super) fn read(args: &[&str]) -> Result<Options> {
        let mut options = Options {
            scenarios: Vec::new(),
            stores: vec![StoreKind::Postgres, StoreKind::Redis],
            nodes: vec![1, 3],
            peers: false,
            tune: None,
            only: None,
            tasks: 20_000,
            waiting: 1_000_000,
            hold_seconds: 120,
            runs: 3,
            json: None,
            binary: None,
            data: "/var/tmp".into(),
        };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            if let Some((_, scenario)) = SCENARIOS.iter().find(|(name, _)| name == arg) {
                options.scenarios.push(*scenario);
                continue;
            }
            let mut value = || args.next().with_context(|| format!("{arg} needs a value"));
            match *arg {
                "--store" => options.stores = StoreKind::list(value()?)?,
                "--nodes" => {
                    options.nodes = value()?.split(',').map(number).collect::<Result<_>>()?;
                }
                "--peers" => options.peers = true,
                "--tune" => options.tune = Some((*value()?).to_owned()),
                "--only" => options.only = Some((*value()?).to_owned()),
                "--tasks" => options.tasks = number(value()?)?,
                "--waiting" => options.waiting = number(value()?)?,
                "--hold" => options.hold_seconds = number(value()?)?,
                "--runs" => options.runs = u32::try_from(number(value()?)?)?,
                "--json" => options.json = Some(value()?.into()),
                "--binary" => options.binary = Some(value()?.into()),
                "--data" => options.data = value()?.into(),
                _ => bail!("`{arg}` is neither a scenario nor a flag; see `cargo xtask help`"),
            }
        }
        if options.scenarios.is_empty() {
            options.scenarios = SCENARIOS.map(|(_, scenario)| scenario).to_vec();
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_and_nodes_are_chosen() {
        let args = ["end-to-end", "--store", "redis", "--nodes", "1,2,4", "--peers"];
        let options = Options::read(&args).unwrap();
        assert_eq!(options.scenarios, [Scenario::EndToEnd]);
        assert_eq!(options.stores, [StoreKind::Redis]);
        assert_eq!((options.nodes, options.peers), (vec![1, 2, 4], true));
    }

    #[test]
    fn everything_is_measured_if_nothing_is_chosen() {
        let options = Options::read(&[]).unwrap();
        assert_eq!((options.scenarios.len(), options.stores.len()), (SCENARIOS.len(), 2));
    }

    #[test]
    fn what_is_not_known_is_refused() {
        for args in [&["restart"][..], &["--store", "mysql"], &["--nodes", "1,0"], &["--nodes"]] {
            assert!(Options::read(args).is_err(), "{args:?}");
        }
    }
}
