//! Databases as they really fail: SQLite in this process, PostgreSQL on a server. REQ-C6.

mod postgres;
mod sqlite;
mod sqlx;

use relent::{Classify, Policy, Retrier, Timestamp};

fn retrier() -> Retrier {
    Retrier::new("database", Policy::database())
}

/// The name of an error's failure.
fn kind(error: &impl Classify) -> String {
    error.failure(Timestamp::ZERO).kind.to_string()
}
