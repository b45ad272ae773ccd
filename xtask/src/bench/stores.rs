//! `cargo xtask bench stores`: the service on the stores that many nodes share, beside peers on the
//! same stores, doing the same work in the same run.
//!
//! Every measurement has a server of its own, started for it on a fresh directory: PostgreSQL with
//! `fsync` on, Redis with an append-only file that is flushed every second. Work is a POST of 512
//! bytes to the sink in here, which answers 200. The service is the real binary, one process for each
//! node; a peer is a process for each of its workers and one more that adds jobs, on the runtime that
//! it is made for. Whoever is measured takes turns within a run, so that a change of the machine's
//! gait meets all of them.

mod board;
mod claims;
mod delivery;
mod enqueue;
mod lateness;
mod long_transaction;
mod options;
mod peer;
mod postgres;
mod process;
mod redis;
mod server;
mod statements;
mod team;
mod waiting;

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result};

use board::Board;
use options::{Options, Scenario};
use peer::Peers;
use server::{Counting, Server, StoreKind};

/// What every scenario needs to know.
#[derive(Debug)]
struct Stage {
    options: Options,
    binary: PathBuf,
    peers: Option<Peers>,
    directory: PathBuf,
}

/// Chosen scenarios, one after the other.
pub(super) fn run(args: &[&str]) -> Result<ExitCode> {
    let options = Options::read(args)?;
    if cfg!(debug_assertions) {
        return super::run_optimised(&[&["stores"], args].concat());
    }
    let binary = match &options.binary {
        Some(binary) => binary.clone(),
        None => super::build()?,
    };
    let install = || Peers::install(options.tune.as_deref());
    let peers = options.peers.then(install).transpose()?;
    let directory = options.data.join(format!("relent-bench-{}", std::process::id()));
    let stage = Stage { options, binary, peers, directory };
    let mut board = Board::default();
    let measured = stage.note(&mut board).and_then(|()| stage.measure(&mut board));
    let _ = fs::remove_dir_all(&stage.directory);
    print!("{}", board.tables());
    if let Some(file) = &stage.options.json {
        fs::write(file, board.json())
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    measured.map(|()| ExitCode::SUCCESS)
}

impl Stage {
    /// The versions of everything, and what else the machine does.
    fn note(&self, board: &mut Board) -> Result<()> {
        for store in &self.options.stores {
            let server = self.server(*store, Counting::Nothing)?;
            board.note(&store.to_string(), server.version()?);
        }
        if let Some(peers) = &self.peers {
            board.note("peers", peers.versions()?);
        }
        let load = fs::read_to_string("/proc/loadavg")?;
        board.note("load average before", load.trim());
        Ok(())
    }

    /// A fresh server.
    fn server(&self, store: StoreKind, counting: Counting) -> Result<Server> {
        let _ = fs::remove_dir_all(&self.directory);
        fs::create_dir_all(&self.directory)
            .with_context(|| format!("cannot make {}", self.directory.display()))?;
        Server::start(store, &self.directory, counting)
    }

    fn measure(&self, board: &mut Board) -> Result<()> {
        for run in 1..=self.options.runs {
            for scenario in &self.options.scenarios {
                for store in &self.options.stores {
                    eprintln!("{scenario} on {store} (run {run} of {})", self.options.runs);
                    let runtime =
                        tokio::runtime::Builder::new_current_thread().enable_all().build()?;
                    let measured = runtime.block_on(async {
                        match scenario {
                            Scenario::Enqueue => enqueue::enqueue(self, *store, board).await,
                            Scenario::EndToEnd => delivery::end_to_end(self, *store, board).await,
                            Scenario::Lateness => lateness::lateness(self, *store, board).await,
                            Scenario::Statements => statements::count(self, *store, board).await,
                            Scenario::Waiting => waiting::waiting(self, *store, board).await,
                            Scenario::LongTransaction => {
                                long_transaction::long_transaction(self, *store, board).await
                            }
                        }
                    });
                    measured.with_context(|| format!("{scenario} on {store}, run {run}"))?;
                }
            }
        }
        Ok(())
    }
}
