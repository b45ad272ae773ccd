//! What PostgreSQL's errors mean to whoever asked.
//!
//! An error that PostgreSQL itself reports has undone the statement. One of the connection says
//! nothing about it: it may have been committed before the answer was lost. A record or a key that
//! is sent again finds out; a task without a key may then be there twice, as with any store behind a
//! network. REQ-S4.

use tokio_postgres::Error as Failed;
use tokio_postgres::error::SqlState;

use crate::error::Error;

/// How a statement ended that did not end well.
#[derive(Debug)]
pub(super) enum Failure {
    /// PostgreSQL refused it and changed nothing.
    Refused(Failed),
    /// The connection is of no use any more; what became of the statement is not known.
    Lost(String),
    /// It was not sent.
    Down(String),
    /// The answer makes no sense.
    Odd(Error),
}

impl Failure {
    /// Another key was there first.
    pub(super) fn is_key_taken(&self) -> bool {
        self.code().is_some_and(|code| code.code() == "RL001")
    }

    /// Asking again, by itself, can help.
    pub(super) fn is_passing(&self) -> bool {
        let codes = [SqlState::T_R_DEADLOCK_DETECTED, SqlState::T_R_SERIALIZATION_FAILURE];
        self.code().is_some_and(|code| codes.contains(code))
    }

    /// It is about what the statement was given, and not about the server.
    pub(super) fn is_about_values(&self) -> bool {
        matches!(self, Failure::Refused(failed) if failed.code().is_none())
            || self.code().is_some_and(|code| code.code().starts_with("22"))
    }

    /// In words, for the operator.
    pub(super) fn into_text(self) -> String {
        match Error::from(self) {
            Error::Unavailable(text) | Error::Damaged(text) => text,
            other => other.to_string(),
        }
    }

    fn code(&self) -> Option<&SqlState> {
        match self {
            Failure::Refused(failed) => failed.code(),
            _ => None,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Odd(error)
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Error {
        let failed = match failure {
            Failure::Odd(error) => return error,
            Failure::Lost(text) | Failure::Down(text) => return Error::Unavailable(text),
            Failure::Refused(failed) => failed,
        };
        let text = describe(&failed);
        let Some(code) = failed.code().map(SqlState::code) else { return Error::Damaged(text) };
        match code {
            // Too many rows are locked, or too many connections: it passes.
            "40001" | "40P01" | "53300" | "55P03" => Error::Overloaded,
            // What was sent or found is not what it should be, or a table is missing.
            _ if code.starts_with("22") || code.starts_with("42") => Error::Damaged(text),
            _ if code.starts_with("23") || code.starts_with("XX") => Error::Damaged(text),
            _ => Error::Unavailable(text),
        }
    }
}

/// An error in words, with what PostgreSQL said. Values are not part of it.
pub(super) fn describe(failed: &Failed) -> String {
    if let Some(error) = failed.as_db_error() {
        return format!("{} ({})", error.message(), error.code().code());
    }
    let mut text = failed.to_string();
    let mut source = std::error::Error::source(failed);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
