//! sqlx: its errors, made by hand. The drivers are crates of their own, which we do not need; what
//! they answer with `code()` is written down here as they have it.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;
use std::io;

use sqlx_core::Error;
use sqlx_core::error::{DatabaseError, ErrorKind};

use super::kind;

/// What a driver says the database answered.
#[derive(Debug)]
struct Answer(Option<&'static str>, fn() -> ErrorKind);

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl StdError for Answer {}

impl DatabaseError for Answer {
    fn message(&self) -> &'static str {
        "refused"
    }

    fn code(&self) -> Option<Cow<'_, str>> {
        self.0.map(Cow::Borrowed)
    }

    fn as_error(&self) -> &(dyn StdError + Send + Sync + 'static) {
        self
    }

    fn as_error_mut(&mut self) -> &mut (dyn StdError + Send + Sync + 'static) {
        self
    }

    fn into_error(self: Box<Self>) -> Box<dyn StdError + Send + Sync + 'static> {
        self
    }

    fn kind(&self) -> ErrorKind {
        (self.1)()
    }
}

#[test]
fn what_the_database_answered_is_told_by_its_code() {
    let cases = [
        // PostgreSQL's SQLSTATEs.
        ("40P01", "db_deadlock"),
        ("40001", "db_serialization"),
        ("53300", "db_too_many_connections"),
        ("23505", "db_constraint"),
        ("42601", "db_query"),
        // MySQL's, where a deadlock comes as a serialization failure.
        ("23000", "db_constraint"),
        ("42S02", "db_query"),
        ("HY000", "unknown"),
        // SQLite's result codes, the extended ones included: busy snapshot, locked shared cache.
        ("5", "db_busy"),
        ("517", "db_busy"),
        ("262", "db_busy"),
        ("1555", "db_constraint"),
        ("1", "db_query"),
    ];
    for (code, name) in cases {
        let error = Error::from(Answer(Some(code), || ErrorKind::Other));
        assert_eq!(kind(&error), name, "{code}");
    }
}

#[test]
fn without_a_code_the_driver_s_own_word_counts() {
    let violated = Error::from(Answer(None, || ErrorKind::ForeignKeyViolation));
    assert_eq!(kind(&violated), "db_constraint");
    assert_eq!(kind(&Error::from(Answer(None, || ErrorKind::Other))), "unknown");
}

#[test]
fn what_broke_on_the_way_is_told_by_the_variant() {
    let text = || Box::<dyn StdError + Send + Sync>::from("text");
    let io = |kind: io::ErrorKind| Error::Io(kind.into());
    let cases = [
        (Error::PoolTimedOut, "db_pool_exhausted"),
        (Error::PoolClosed, "application_permanent"),
        (Error::WorkerCrashed, "db_connection_lost"),
        (io(io::ErrorKind::ConnectionRefused), "connect_refused"),
        (io(io::ErrorKind::UnexpectedEof), "closed_early"),
        (Error::Tls(text()), "tls_protocol"),
        (Error::Tls(Box::new(io::Error::from(io::ErrorKind::TimedOut))), "tls_handshake_timeout"),
        (Error::Configuration(text()), "configuration"),
        (Error::RowNotFound, "db_query"),
        (Error::ColumnNotFound("level".to_owned()), "db_query"),
        (Error::Decode(text()), "serialization"),
        (Error::Protocol("unexpected message".to_owned()), "unknown"),
    ];
    for (error, name) in cases {
        assert_eq!(kind(&error), name, "{error:?}");
    }
}
