//! What only a store with several nodes can get wrong. It needs a server, in `RELENT_TEST_POSTGRES`
//! as a connection string of a superuser, and a transaction-mode pooler before it, in
//! `RELENT_TEST_PGBOUNCER`; `./test` starts both.

mod examining;
mod long_transaction;
mod nodes;
mod outbox;
mod plans;
mod pooler;

use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, process, thread};

use relent_store::{ConnectError, PostgresOptions, PostgresStore};
use tokio_postgres::{NoTls, SimpleQueryMessage};

use crate::nodes::{Place, Reading};

/// Whether there is a server to test with. Without one the test is not run, unless servers are
/// required.
pub(crate) fn is_there() -> bool {
    is_set("RELENT_TEST_POSTGRES")
}

/// The same with a pooler before it.
pub(crate) fn is_pooled() -> bool {
    is_there() && is_set("RELENT_TEST_PGBOUNCER")
}

fn is_set(variable: &str) -> bool {
    let is_set = env::var(variable).is_ok();
    let required = env::var("RELENT_TEST_SERVERS").is_ok_and(|value| value == "required");
    assert!(is_set || !required, "servers are required, and {variable} is not set");
    is_set
}

fn server() -> String {
    env::var("RELENT_TEST_POSTGRES").unwrap()
}

/// A schema of its own, gone when it is dropped.
pub(crate) struct Schema {
    name: String,
    /// Where its nodes connect.
    door: String,
    is_pooled: bool,
}

impl Schema {
    pub(crate) fn new() -> Schema {
        Schema::behind(server(), false)
    }

    /// Reached through the pooler.
    pub(crate) fn pooled() -> Schema {
        Schema::behind(env::var("RELENT_TEST_PGBOUNCER").unwrap(), true)
    }

    /// Another that is reached in the same way.
    pub(crate) fn another(&self) -> Schema {
        Schema::behind(self.door.clone(), self.is_pooled)
    }

    fn behind(door: String, is_pooled: bool) -> Schema {
        static LAST: AtomicU32 = AtomicU32::new(0);
        let number = LAST.fetch_add(1, Ordering::SeqCst);
        Schema { name: format!("test_{}_{number}", process::id()), door, is_pooled }
    }

    /// Few connections, as many tests run at the same time.
    pub(crate) fn options(&self) -> PostgresOptions {
        let (schema, prepare) = (self.name.clone(), !self.is_pooled);
        PostgresOptions { schema, prepare, connections_max: 1, ..PostgresOptions::default() }
    }

    pub(crate) fn connect(&self, options: PostgresOptions) -> PostgresStore {
        self.try_connect(options).unwrap()
    }

    fn try_connect(&self, options: PostgresOptions) -> Result<PostgresStore, ConnectError> {
        let url = format!("{} application_name={}", self.door, self.name);
        PostgresStore::connect(&url, options)
    }

    /// Ends every connection of its nodes, in the middle of whatever they do.
    fn cut_connections(&self) {
        run(&format!(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '{}'",
            self.name
        ));
    }
}

impl Drop for Schema {
    fn drop(&mut self) {
        run(&format!("DROP SCHEMA IF EXISTS {} CASCADE", self.name));
    }
}

impl Place for Schema {
    type Options = PostgresOptions;
    type Node = PostgresStore;

    fn options(&self) -> PostgresOptions {
        self.options()
    }

    fn connect(&self, options: PostgresOptions) -> PostgresStore {
        self.connect(options)
    }

    fn alone(options: PostgresOptions) -> PostgresOptions {
        PostgresOptions { listen: false, ..options }
    }

    fn on_clock(options: PostgresOptions, clock: Reading) -> PostgresOptions {
        PostgresOptions { clock: Some(clock), ..options }
    }
}

/// Runs a statement of a superuser.
fn run(sql: &str) {
    value(sql);
}

/// What a statement of a superuser finds: the first number of its last row, or 0. On a thread of its
/// own, as it may be asked for where a runtime must not block.
fn value(sql: &str) -> i64 {
    let asked = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.unwrap().block_on(async {
            let (client, connection) = tokio_postgres::connect(&server(), NoTls).await.unwrap();
            tokio::spawn(connection);
            let mut found = 0;
            for message in client.simple_query(sql).await.unwrap() {
                if let SimpleQueryMessage::Row(row) = message {
                    found = row.get(0).and_then(|text| text.parse().ok()).unwrap_or_default();
                }
            }
            found
        })
    };
    thread::scope(|scope| scope.spawn(asked).join().unwrap())
}
