//! The library as its users meet it, on a paused clock.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod calls;
mod cancellation;
mod conformance;
#[cfg(all(feature = "tokio-postgres", feature = "rusqlite", feature = "sqlx"))]
mod databases;
#[cfg(all(feature = "reqwest", feature = "hyper"))]
mod failures;
#[cfg(all(feature = "tracing", feature = "metrics"))]
mod observed;
mod outage;
#[cfg(feature = "reqwest-middleware")]
mod reqwest_middleware;
mod threads;
#[cfg(feature = "tonic")]
mod tonic;
#[cfg(feature = "tower")]
mod tower;

use std::io::{Error, ErrorKind};

/// An error of this kind, as an operation would return it.
fn error(kind: ErrorKind) -> Error {
    Error::from(kind)
}
