//! `tokio_postgres::Error`: by its SQLSTATE if the server answered, else by what broke. REQ-C6,
//! REQ-P3.
//!
//! What kind of error it is, the crate keeps to itself, apart from a closed connection. Where the
//! cause does not tell, the kind is read from the fixed words with which the error's text begins;
//! should those ever change, the cause alone decides, and the tests on a real server say so.

use std::error::Error as _;
use std::io;

use relent_policy::{Failure, FailureKind, Fault, Timestamp};
use tokio_postgres::Error;

use super::{io as by_kind, tls};
use crate::judge::Classify;

/// Deadlocks, lost serializable races, a server that is full, starting or stopping, and broken
/// connections are worth another attempt; violated constraints and wrong statements are not. A
/// certificate that is not to be trusted never is.
///
/// Retry the whole transaction, and connect inside the attempt (or take a connection from a pool
/// there): after a lost connection the old client is of no use.
///
/// ```
/// use relent::{Classify, Timestamp};
///
/// let wrong = "port=many".parse::<tokio_postgres::Config>().unwrap_err();
/// assert_eq!(wrong.failure(Timestamp::ZERO).kind.to_string(), "configuration");
/// ```
///
/// ```no_run
/// use relent::{Policy, Retrier};
/// use tokio_postgres::NoTls;
///
/// # async fn example() -> Result<(), relent::CallError<tokio_postgres::Error>> {
/// let orders = Retrier::new("orders-db", Policy::database());
/// orders
///     .repeatable()
///     .call(async |_attempt| {
///         let (mut client, connection) = tokio_postgres::connect("host=db", NoTls).await?;
///         tokio::spawn(connection);
///         let transaction = client.transaction().await?;
///         transaction.execute("UPDATE stock SET level = level - 1 WHERE id = 17", &[]).await?;
///         transaction.commit().await
///     })
///     .await
/// # }
/// ```
impl Classify for Error {
    fn failure(&self, _now: Timestamp) -> Failure {
        FailureKind::Fault(fault_of(self)).into()
    }
}

fn fault_of(error: &Error) -> Fault {
    if let Some(state) = error.code() {
        return Fault::from_sqlstate(state.code());
    }
    if error.is_closed() {
        return Fault::DbConnectionLost;
    }
    let text = error.to_string();
    let says = |words: &str| text.starts_with(words);
    let io = error.source().and_then(|source| source.downcast_ref::<io::Error>());
    match (error.source(), io) {
        (Some(source), _) if says("error performing TLS handshake") => tls::fault_of(source),
        (_, Some(io)) if says("error connecting to server") => while_connecting(io),
        (_, Some(io)) => by_kind::fault_of(io.kind()),
        _ if says("timeout waiting for server") => Fault::ResponseTimeout,
        _ if says("invalid connection string") || says("invalid configuration") => {
            Fault::Configuration
        }
        _ if says("authentication error") => Fault::Configuration,
        _ if says("error serializing") || says("error deserializing") => Fault::Serialization,
        // Too few rows, no such column, wrong number of parameters.
        _ => Fault::DbQuery,
    }
}

/// While it is being made, a connection has carried no statement yet.
fn while_connecting(error: &io::Error) -> Fault {
    match by_kind::fault_of(error.kind()) {
        Fault::IoTimedOut => Fault::ConnectTimeout,
        Fault::Reset | Fault::ClosedEarly => Fault::ConnectReset,
        // No socket file, or one whose queue is full: the server is not there, or not yet.
        Fault::IoNotFound | Fault::IoFileLocked => Fault::DbUnavailable,
        // Names are resolved outside the kernel: errors of that have no number.
        Fault::Unknown | Fault::IoInvalid if error.raw_os_error().is_none() => Fault::Dns,
        fault => fault,
    }
}
