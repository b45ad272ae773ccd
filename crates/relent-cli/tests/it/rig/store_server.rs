//! A store that several nodes share, of a test's own: each kind that there is, behind one face.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::postgres::server_of;
use super::postgres_server::PostgresServer;
use super::redis_server::RedisServer;

/// Which store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Postgres,
    Redis,
}

/// A server that only this test uses.
#[derive(Debug)]
pub(crate) enum StoreServer {
    Postgres(PostgresServer),
    Redis(RedisServer),
}

impl StoreServer {
    /// `None` where tests that need servers are not run.
    pub(crate) async fn start(kind: Kind) -> Option<StoreServer> {
        match kind {
            Kind::Postgres => {
                server_of("RELENT_TEST_POSTGRES")?;
                Some(StoreServer::Postgres(PostgresServer::start().await))
            }
            Kind::Redis => {
                server_of("RELENT_TEST_REDIS")?;
                Some(StoreServer::Redis(RedisServer::start().await))
            }
        }
    }

    /// Where a proxy finds it.
    pub(crate) fn socket(&self) -> PathBuf {
        match self {
            StoreServer::Postgres(server) => server.socket(),
            StoreServer::Redis(server) => server.socket(),
        }
    }

    /// What `relent serve` is told to use it from here.
    pub(crate) fn arguments(&self, address: SocketAddr) -> Vec<String> {
        let url = match self {
            StoreServer::Postgres(_) => format!("postgres://relent@{address}/postgres"),
            StoreServer::Redis(_) => format!("redis://{address}"),
        };
        vec!["--store".to_owned(), url]
    }

    /// Stops it in good order.
    pub(crate) async fn stop(&mut self) {
        match self {
            StoreServer::Postgres(server) => server.stop().await,
            StoreServer::Redis(server) => server.stop().await,
        }
    }

    /// Kills it without warning.
    pub(crate) async fn kill9(&mut self) {
        match self {
            StoreServer::Postgres(server) => server.kill9().await,
            StoreServer::Redis(server) => server.kill9().await,
        }
    }

    /// Starts it again on what it has kept, after it has ended.
    pub(crate) async fn start_again(&mut self) {
        match self {
            StoreServer::Postgres(server) => server.start_again().await,
            StoreServer::Redis(server) => server.start_again().await,
        }
    }
}
