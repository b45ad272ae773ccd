//! `sqlx::Error`, which is `sqlx_core::Error`: by what the database answered, else by what broke.
//! REQ-C6, REQ-P3.

use relent_policy::{Failure, FailureKind, Fault, Timestamp};
use sqlx_core::Error;
use sqlx_core::error::{DatabaseError, ErrorKind};

use super::{io, tls};
use crate::judge::{Classify, permanent};

/// Deadlocks, lost serializable races, a full pool or server, a busy SQLite file and broken
/// connections are worth another attempt; violated constraints, missing rows and what cannot be
/// decoded are not. PostgreSQL, MySQL and SQLite errors are told by their codes.
///
/// Retry the whole transaction: begin it inside the attempt.
///
/// ```
/// use relent::{Classify, Timestamp};
/// # use sqlx_core as sqlx;
///
/// let kind = |error: sqlx::Error| error.failure(Timestamp::ZERO).kind.to_string();
/// assert_eq!(kind(sqlx::Error::PoolTimedOut), "db_pool_exhausted");
/// assert_eq!(kind(sqlx::Error::RowNotFound), "db_query");
/// ```
impl Classify for Error {
    fn failure(&self, _now: Timestamp) -> Failure {
        let fault = match self {
            Error::Database(error) => answered(&**error),
            Error::Io(error) => io::fault_of(error.kind()),
            Error::Tls(error) => tls::fault_of(&**error),
            Error::PoolTimedOut => Fault::DbPoolExhausted,
            // The application has closed its pool: it means to end.
            Error::PoolClosed => return permanent(),
            Error::WorkerCrashed => Fault::DbConnectionLost,
            Error::Configuration(_) | Error::ConfigFile(_) => Fault::Configuration,
            Error::Encode(_) | Error::Decode(_) | Error::ColumnDecode { .. } => {
                Fault::Serialization
            }
            Error::AnyDriverError(_) => Fault::Serialization,
            Error::RowNotFound
            | Error::TypeNotFound { .. }
            | Error::ColumnIndexOutOfBounds { .. }
            | Error::ColumnNotFound(_)
            | Error::InvalidArgument(_)
            | Error::InvalidSavePointStatement
            | Error::BeginFailed => Fault::DbQuery,
            // A driver's bug or a broken connection: nobody can tell which.
            Error::Protocol(_) => Fault::Unknown,
            _ => Fault::Unknown,
        };
        FailureKind::Fault(fault).into()
    }
}

/// SQLSTATEs have five characters. SQLite's codes are decimal numbers, and the largest has four.
fn answered(error: &dyn DatabaseError) -> Fault {
    let by_code = match error.code() {
        None => Fault::Unknown,
        Some(code) if code.len() < 5 => {
            code.parse().map_or(Fault::Unknown, Fault::from_sqlite_code)
        }
        Some(code) => Fault::from_sqlstate(&code),
    };
    match (by_code, error.kind()) {
        (
            Fault::Unknown,
            ErrorKind::UniqueViolation
            | ErrorKind::ForeignKeyViolation
            | ErrorKind::NotNullViolation
            | ErrorKind::CheckViolation
            | ErrorKind::ExclusionViolation,
        ) => Fault::DbConstraint,
        (fault, _) => fault,
    }
}
