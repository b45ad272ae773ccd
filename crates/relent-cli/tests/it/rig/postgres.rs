//! A place in the PostgreSQL that `./test` starts: a schema of its own, gone when it is dropped.
//!
//! `RELENT_TEST_POSTGRES` is a connection string of a superuser, `RELENT_TEST_PGBOUNCER` one of the
//! pooler before it. Without them a test is not run, unless `RELENT_TEST_SERVERS` says that servers are
//! required.

use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, process, thread};

use tokio_postgres::NoTls;

#[derive(Debug)]
pub(crate) struct Postgres {
    server: String,
    /// Where nodes connect: the server, or a pooler before it.
    door: String,
    pub(crate) schema: String,
}

impl Postgres {
    /// `None` if there is no server to test with.
    pub(crate) fn schema() -> Option<Postgres> {
        let server = server_of("RELENT_TEST_POSTGRES")?;
        Some(Postgres::behind(server.clone(), server))
    }

    /// The same, whose nodes go through the pooler.
    pub(crate) fn pooled() -> Option<Postgres> {
        let server = server_of("RELENT_TEST_POSTGRES")?;
        Some(Postgres::behind(server, server_of("RELENT_TEST_PGBOUNCER")?))
    }

    /// Whose nodes connect there.
    pub(super) fn behind(server: String, door: String) -> Postgres {
        static LAST: AtomicU32 = AtomicU32::new(0);
        let number = LAST.fetch_add(1, Ordering::SeqCst);
        Postgres { server, door, schema: format!("cli_{}_{number}", process::id()) }
    }

    /// As `--store` takes it, with a password that the server does not ask for.
    pub(crate) fn url(&self) -> String {
        let find = |name: &str| {
            let mut pairs = self.door.split(' ').filter_map(|pair| pair.split_once('='));
            pairs.find(|(key, _)| *key == name).map(|(_, value)| value.replace('/', "%2F"))
        };
        let value = |name: &str| find(name).unwrap();
        let (host, user, database) = (value("host"), value("user"), value("dbname"));
        let port = find("port").map_or(String::new(), |port| format!(":{port}"));
        format!("postgres://{user}:hunter2@{host}{port}/{database}")
    }

    /// What `serve` and others are told to use it.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let set = |key: &str, value: &str| ["--set".to_owned(), format!("{key}={value}")];
        let mut arguments = vec!["--store".to_owned(), self.url()];
        arguments.extend(set("store.postgres.schema", &self.schema));
        // It need not outlive the tests, and does not flush.
        arguments.extend(set("store.allow_unsafe", "true"));
        // Few connections, as many tests run at the same time.
        arguments.extend(set("store.postgres.connections_max", "1"));
        if self.door != self.server {
            arguments.extend(set("store.postgres.prepare", "false"));
        }
        arguments
    }

    /// Runs a statement of a superuser. On a thread of its own, as it is also called where a runtime
    /// must not block.
    pub(crate) fn run(&self, sql: &str) {
        let run = || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                let connected = tokio_postgres::connect(&self.server, NoTls).await;
                let (client, connection) = connected.unwrap();
                tokio::spawn(connection);
                client.batch_execute(sql).await.unwrap();
            });
        };
        thread::scope(|scope| scope.spawn(run).join().unwrap());
    }
}

/// The server that is named by a variable. `None` if there is none to test with, unless servers are
/// required.
pub(super) fn server_of(variable: &str) -> Option<String> {
    if let Ok(server) = env::var(variable) {
        return Some(server);
    }
    let required = env::var("RELENT_TEST_SERVERS").is_ok_and(|value| value == "required");
    assert!(!required, "servers are required, and {variable} is not set");
    eprintln!("not run: {variable} is not set");
    None
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.run(&format!("DROP SCHEMA IF EXISTS {} CASCADE", self.schema));
    }
}
