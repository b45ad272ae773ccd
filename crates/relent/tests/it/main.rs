//! The library as its users meet it, on a paused clock.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod calls;
mod cancellation;
mod outage;

use std::io::{Error, ErrorKind};

/// An error of this kind, as an operation would return it.
fn error(kind: ErrorKind) -> Error {
    Error::from(kind)
}
