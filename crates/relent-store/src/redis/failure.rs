//! What the errors of Redis mean to whoever asked.
//!
//! A script that Redis refuses has changed nothing: scripts are made so that nothing in them can fail
//! once they have begun to write. An error of the connection says nothing about it: the script may have
//! run before the answer was lost. A record or a key that is sent again finds out; a task without a key
//! may then be there twice, as with any store behind a network. REQ-S4.

use redis::{ErrorKind, RedisError, ServerErrorKind};

use crate::error::Error;

/// How a command ended that did not end well.
#[derive(Debug)]
pub(super) enum Failure {
    /// Redis refused it.
    Refused(RedisError),
    /// The connection is of no use any more; what became of the command is not known.
    Lost(String),
    /// It was not sent.
    Down(String),
    /// The answer makes no sense, or it is the answer.
    Odd(Error),
}

/// What a script says when the data is not the data that it knew.
const RESET: &str = "RELENTRESET";

impl Failure {
    pub(super) fn server(&self) -> Option<ServerErrorKind> {
        match self {
            Failure::Refused(error) => match error.kind() {
                ErrorKind::Server(kind) => Some(kind),
                _ => None,
            },
            _ => None,
        }
    }

    /// Another server answers for this now, or will soon.
    pub(super) fn is_about_the_server(&self) -> bool {
        use ServerErrorKind::{ClusterDown, MasterDown, ReadOnly};
        let moved = matches!(self.server(), Some(ClusterDown | MasterDown | ReadOnly));
        moved || matches!(self, Failure::Lost(_) | Failure::Down(_))
    }

    pub(super) fn is_reset(&self) -> bool {
        matches!(self, Failure::Refused(error) if error.code() == Some(RESET))
    }

    /// In words, for the operator.
    pub(super) fn into_text(self) -> String {
        match Error::from(self) {
            Error::Unavailable(text) | Error::Damaged(text) => text,
            other => other.to_string(),
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
        let is_reset = failure.is_reset();
        let error = match failure {
            Failure::Odd(error) => return error,
            Failure::Lost(text) | Failure::Down(text) => return Error::Unavailable(text),
            Failure::Refused(error) => error,
        };
        if is_reset {
            let text = "the data in Redis was deleted or replaced while this node worked with it; \
                        tasks and keys may be lost. Accept the loss to go on";
            return Error::Unavailable(text.to_owned());
        }
        let text = describe(&error);
        match error.code() {
            Some("OOM") => Error::Full(format!("Redis has reached its maxmemory: {text}")),
            Some("WRONGTYPE") => Error::Damaged(text),
            _ if is_on_its_way(&error, &text) => Error::Unavailable(
                "the Cluster is moving this part of the tasks to another server".to_owned(),
            ),
            _ if text.contains("user_script") => Error::Damaged(text),
            _ => Error::Unavailable(text),
        }
    }
}

/// A slot is moved key by key, and until that is done a script could miss some.
fn is_on_its_way(error: &RedisError, text: &str) -> bool {
    let kinds = [ServerErrorKind::Ask, ServerErrorKind::TryAgain];
    kinds.iter().any(|kind| error.kind() == ErrorKind::Server(*kind))
        || text.contains("non local key")
}

/// An error in words, as Redis says it. Values are not part of it.
pub(super) fn describe(error: &RedisError) -> String {
    match (error.code(), error.detail()) {
        (Some(code), Some(detail)) => format!("{code} {detail}"),
        _ => error.to_string(),
    }
}
