//! A place of a test's own in a store that nodes share, whichever way it is reached.

use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use super::postgres::server_of;
use super::{Postgres, Relent};
use crate::cli::{Ran, run};

/// How a store is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Postgres,
    /// PostgreSQL behind a transaction-mode pooler.
    Pooler,
    Redis,
    RedisCluster,
}

/// What nodes are told to share it.
#[derive(Debug)]
pub(crate) struct Shared {
    arguments: Vec<String>,
    /// Dropped after the nodes.
    _schema: Option<Postgres>,
}

impl Shared {
    /// On the servers that `./test` starts; `None` where tests that need servers are not run.
    pub(crate) fn by(way: Way) -> Option<Shared> {
        let schema = match way {
            Way::Postgres => Postgres::schema()?,
            Way::Pooler => Postgres::pooled()?,
            Way::Redis => return Some(Shared::on_redis(&server_of("RELENT_TEST_REDIS")?, &[])),
            Way::RedisCluster => {
                return Some(Shared::on_redis(&server_of("RELENT_TEST_REDIS_CLUSTER")?, &[]));
            }
        };
        Some(Shared { arguments: schema.arguments(), _schema: Some(schema) })
    }

    /// On PostgreSQL behind a pooler of the test's own.
    pub(crate) fn on_postgres(schema: Postgres) -> Shared {
        Shared { arguments: schema.arguments(), _schema: Some(schema) }
    }

    /// On a Redis, with more settings.
    pub(crate) fn on_redis(url: &str, settings: &[&str]) -> Shared {
        static LAST: AtomicU32 = AtomicU32::new(0);
        let number = LAST.fetch_add(1, Ordering::SeqCst);
        let prefix = format!("store.redis.prefix=cli-{}-{number}", process::id());
        Shared::at(url, &[&[&prefix[..]], settings].concat())
    }

    /// Anywhere.
    pub(crate) fn at(url: &str, settings: &[&str]) -> Shared {
        let mut arguments = vec!["--store".to_owned(), url.to_owned()];
        for setting in settings {
            arguments.extend(["--set".to_owned(), (*setting).to_owned()]);
        }
        Shared { arguments, _schema: None }
    }

    /// One more node.
    pub(crate) async fn node(&self, more: &[&str]) -> Relent {
        let own = self.arguments.iter().map(String::as_str);
        Relent::start_with(&own.chain(more.iter().copied()).collect::<Vec<_>>()).await
    }

    /// A command that is told the same.
    pub(crate) async fn run(&self, command: &[&str], more: &[&str]) -> Ran {
        let own = self.arguments.iter().map(String::as_str);
        let all = command.iter().copied().chain(own).chain(more.iter().copied());
        run(&all.collect::<Vec<_>>()).await
    }

    /// A node that is expected not to start.
    pub(crate) async fn refused(&self) -> Ran {
        self.run(&["serve", "--listen", "127.0.0.1:0"], &[]).await.exit(2)
    }
}

/// Whether servers of a test's own can be started.
pub(crate) fn can_start(way: Way) -> bool {
    let variable = match way {
        Way::Postgres => "RELENT_TEST_POSTGRES",
        Way::Pooler => "RELENT_TEST_PGBOUNCER",
        Way::Redis => "RELENT_TEST_REDIS",
        Way::RedisCluster => "RELENT_TEST_REDIS_CLUSTER",
    };
    server_of(variable).is_some()
}
