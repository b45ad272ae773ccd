//! Two writers and one database that lets in one at a time: the whole transaction is repeated.
//!
//! `cargo run -p relent --example database_deadlock --features rusqlite`
//!
//! SQLite's `SQLITE_BUSY` stands in for the deadlock of a larger database; with sqlx or
//! tokio-postgres the code is the same, and SQLSTATE 40P01 and 40001 are what is retried.

use std::error::Error;
use std::path::Path;
use std::thread;
use std::time::Duration;

use relent::{Policy, Retrier};
use rusqlite::{Connection, TransactionBehavior};

fn main() -> Result<(), Box<dyn Error>> {
    let file = std::env::temp_dir().join(format!("relent-example-{}.db", std::process::id()));
    open(&file)?.execute_batch(
        "CREATE TABLE account (name TEXT PRIMARY KEY, cents INTEGER NOT NULL);
         INSERT INTO account VALUES ('a', 1000), ('b', 1000);",
    )?;
    let ledger = Retrier::new("ledger.db", Policy::database());

    // Somebody else is in the middle of a transaction, for a moment.
    let (locked, wait_for_lock) = std::sync::mpsc::channel();
    let other = thread::spawn({
        let file = file.clone();
        move || -> rusqlite::Result<()> {
            let mut connection = open(&file)?;
            let transfer = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let _ = locked.send(());
            thread::sleep(Duration::from_millis(120));
            transfer.execute("UPDATE account SET cents = cents - 1 WHERE name = 'a'", [])?;
            transfer.commit()
        }
    });
    wait_for_lock.recv()?;

    // A transaction that failed left nothing behind, so it may be repeated as it is.
    let outcome = ledger.repeatable().run(|attempt| {
        let result = transfer(&file, 250);
        let text = result.as_ref().map_or_else(ToString::to_string, |()| "committed".to_owned());
        println!("attempt {}: {text}", attempt.number());
        result
    });
    match &outcome {
        Ok(()) => println!("transferred"),
        Err(error) => println!("{error}"),
    }

    // A broken constraint is no matter of luck: one attempt.
    let refused = ledger.repeatable().run(|_attempt| {
        open(&file)?.execute("INSERT INTO account VALUES ('a', 0)", []).map(|_rows| ())
    });
    if let Err(error) = refused {
        println!("a second account a: {error}");
    }

    if other.join().is_err() {
        println!("the other writer panicked");
    }
    std::fs::remove_file(file)?;
    Ok(())
}

fn open(file: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(file)?;
    // relent waits with jitter between the attempts; SQLite need not wait inside them.
    connection.busy_timeout(Duration::ZERO)?;
    Ok(connection)
}

fn transfer(file: &Path, cents: i64) -> rusqlite::Result<()> {
    let mut connection = open(file)?;
    let transfer = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transfer.execute("UPDATE account SET cents = cents - ?1 WHERE name = 'a'", [cents])?;
    transfer.execute("UPDATE account SET cents = cents + ?1 WHERE name = 'b'", [cents])?;
    transfer.commit()
}
