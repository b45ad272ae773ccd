//! SQLite through rusqlite: locks that pass, and constraints that stay.

use std::path::PathBuf;
use std::time::Duration;

use relent::GiveUpReason;
use rusqlite::{Connection, Error, OpenFlags};

use super::{kind, retrier};

/// A database file of its own for each test, gone with it.
struct File(PathBuf);

impl File {
    fn new(test: &str) -> File {
        let name = format!("relent-{}-{test}.db", std::process::id());
        let file = File(std::env::temp_dir().join(name));
        let _ = std::fs::remove_file(&file.0);
        file.open().execute_batch("CREATE TABLE stock (id INTEGER PRIMARY KEY)").unwrap();
        file
    }

    /// A connection that does not wait for locks itself.
    fn open(&self) -> Connection {
        let connection = Connection::open(&self.0).unwrap();
        connection.busy_timeout(Duration::ZERO).unwrap();
        connection
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn a_busy_database_is_tried_again_until_the_other_writer_is_done() {
    let file = File::new("busy");
    let (ours, other) = (file.open(), file.open());
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut failures = Vec::new();
    let written = retrier().repeatable().run(|attempt| {
        failures.extend(attempt.previous().map(|kind| kind.to_string()));
        if attempt.number() == 2 {
            other.execute_batch("COMMIT")?;
        }
        ours.execute("INSERT INTO stock VALUES (17)", [])
    });
    assert_eq!(written.unwrap(), 1);
    assert_eq!(failures, ["db_busy"]);
}

#[test]
fn a_snapshot_that_is_too_old_is_busy_too_and_the_whole_transaction_is_tried_again() {
    let file = File::new("snapshot");
    let (mut ours, other) = (file.open(), file.open());
    ours.query_row("PRAGMA journal_mode = WAL", [], |row| row.get::<_, String>(0)).unwrap();
    let mut failures = Vec::new();
    let written = retrier().repeatable().run(|attempt| {
        failures.extend(attempt.previous().map(|kind| kind.to_string()));
        let transaction = ours.transaction()?;
        let count: i64 =
            transaction.query_row("SELECT count(*) FROM stock", [], |row| row.get(0))?;
        if attempt.number() == 1 {
            other.execute("INSERT INTO stock VALUES (100)", [])?;
        }
        transaction.execute("INSERT INTO stock VALUES (?)", [count])?;
        transaction.commit()?;
        Ok::<_, Error>(count)
    });
    assert_eq!(written.unwrap(), 1, "it saw the other's row");
    assert_eq!(failures, ["db_busy"]);
}

#[test]
fn a_locked_table_of_a_shared_cache_is_busy() {
    let name = "file:relent-shared?mode=memory&cache=shared";
    let open = || {
        let flags = OpenFlags::default() | OpenFlags::SQLITE_OPEN_URI;
        Connection::open_with_flags(name, flags).unwrap()
    };
    let (writer, reader) = (open(), open());
    writer.execute_batch("CREATE TABLE stock (id); BEGIN; INSERT INTO stock VALUES (1)").unwrap();
    let locked = reader.query_row("SELECT id FROM stock", [], |row| row.get::<_, i64>(0));
    let locked = locked.unwrap_err();
    assert_eq!(locked.sqlite_error_code(), Some(rusqlite::ErrorCode::DatabaseLocked));
    assert_eq!(kind(&locked), "db_busy");
}

#[test]
fn a_violated_constraint_is_permanent() {
    let file = File::new("constraint");
    let database = file.open();
    let mut attempts = 0;
    let failed = retrier().repeatable().run(|_| {
        attempts += 1;
        database.execute("INSERT INTO stock VALUES (17), (17)", [])
    });
    let failed = failed.unwrap_err();
    assert_eq!((attempts, failed.because()), (1, Some(GiveUpReason::Permanent)));
    assert_eq!(kind(failed.original().unwrap()), "db_constraint");
}

#[test]
fn wrong_statements_and_unfit_values_are_permanent() {
    let database = Connection::open_in_memory().unwrap();
    let query = |sql: &str| database.query_row(sql, [], |row| row.get::<_, u8>(0)).unwrap_err();
    assert_eq!(kind(&query("SELEKT 1")), "db_query");
    assert_eq!(kind(&query("SELECT * FROM nothing")), "db_query");
    assert_eq!(kind(&query("SELECT 1 WHERE 0")), "db_query");
    assert_eq!(kind(&query("SELECT 1000")), "serialization");
    assert_eq!(kind(&Connection::open("/no/such/folder/x.db").unwrap_err()), "db_unavailable");
}
