//! The server under a measurement, of either kind.

use std::fmt;
use std::path::Path;

use anyhow::{Result, bail};

use super::postgres::Postgres;
use super::redis::Redis;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StoreKind {
    Postgres,
    Redis,
}

impl StoreKind {
    /// `postgres`, `redis`, or `all`.
    pub(super) fn list(text: &str) -> Result<Vec<StoreKind>> {
        match text {
            "postgres" => Ok(vec![StoreKind::Postgres]),
            "redis" => Ok(vec![StoreKind::Redis]),
            "all" => Ok(vec![StoreKind::Postgres, StoreKind::Redis]),
            _ => bail!("expected postgres, redis or all, got `{text}`"),
        }
    }
}

impl fmt::Display for StoreKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StoreKind::Postgres => "PostgreSQL",
            StoreKind::Redis => "Redis",
        })
    }
}

/// Whether PostgreSQL counts statements, which costs a little for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counting {
    Nothing,
    Statements,
}

/// What a server was asked to do since it started.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    /// Statements; or scripts, on Redis.
    pub(super) sent: f64,
    /// Transactions; or commands, also those within scripts.
    pub(super) done: f64,
}

#[derive(Debug)]
pub(super) enum Server {
    Postgres(Postgres),
    Redis(Redis),
}

impl Server {
    pub(super) fn start(kind: StoreKind, directory: &Path, counting: Counting) -> Result<Server> {
        Ok(match kind {
            StoreKind::Postgres => Server::Postgres(Postgres::start(directory, counting)?),
            StoreKind::Redis => Server::Redis(Redis::start(directory)?),
        })
    }

    pub(super) fn url(&self) -> String {
        match self {
            Server::Postgres(server) => server.url(),
            Server::Redis(server) => server.url(),
        }
    }

    pub(super) fn version(&self) -> Result<String> {
        match self {
            Server::Postgres(server) => server.version(),
            Server::Redis(server) => server.version(),
        }
    }

    pub(super) fn cpu_seconds(&self) -> Result<f64> {
        match self {
            Server::Postgres(server) => server.cpu_seconds(),
            Server::Redis(server) => server.cpu_seconds(),
        }
    }

    pub(super) fn work(&self) -> Result<Work> {
        match self {
            Server::Postgres(server) => server.work(),
            Server::Redis(server) => server.work(),
        }
    }
}
