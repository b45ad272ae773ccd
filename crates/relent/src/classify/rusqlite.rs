//! `rusqlite::Error`: by SQLite's result code; what fails on our side of it is permanent. REQ-C6.

use relent_policy::{Failure, FailureKind, Fault, Timestamp};
use rusqlite::Error;

use crate::judge::Classify;

/// A database or table that another writer has locked (`SQLITE_BUSY`, `SQLITE_LOCKED`) is worth
/// another attempt; violated constraints and wrong statements are not.
///
/// Retry the whole transaction: `SQLITE_BUSY_SNAPSHOT` does not go away inside it. SQLite's own
/// `busy_timeout` waits inside each attempt; with retries it can be short.
///
/// ```
/// use relent::{Policy, Retrier};
///
/// let settings = Retrier::new("settings.db", Policy::database());
/// let one = settings.repeatable().run(|_attempt| {
///     let database = rusqlite::Connection::open_in_memory()?;
///     database.query_row("SELECT 1", [], |row| row.get::<_, i64>(0))
/// });
/// assert_eq!(one.unwrap(), 1);
/// ```
impl Classify for Error {
    fn failure(&self, _now: Timestamp) -> Failure {
        let fault = match self {
            Error::SqliteFailure(error, _) | Error::SqlInputError { error, .. } => {
                Fault::from_sqlite_code(error.extended_code)
            }
            Error::SqliteSingleThreadedMode | Error::InvalidPath(_) => Fault::Configuration,
            Error::FromSqlConversionFailure(..)
            | Error::ToSqlConversionFailure(_)
            | Error::IntegralValueOutOfRange(..)
            | Error::Utf8Error(..)
            | Error::NulError(_) => Fault::Serialization,
            _ => Fault::DbQuery,
        };
        FailureKind::Fault(fault).into()
    }
}
