//! Classifiers for what Rust programs meet: each behind the feature of the crate it knows. REQ-C6.

use std::any::Any;

use relent_policy::{Outcome, Timestamp};

#[cfg(any(feature = "hyper", feature = "reqwest"))]
mod chain;
#[cfg(feature = "http")]
pub(crate) mod http;
#[cfg(feature = "hyper")]
mod hyper;
mod io;
#[cfg(feature = "tokio-postgres")]
mod postgres;
#[cfg(feature = "reqwest")]
mod reqwest;
#[cfg(feature = "rusqlite")]
mod rusqlite;
#[cfg(feature = "sqlx")]
mod sqlx;
#[cfg(any(feature = "tokio-postgres", feature = "sqlx"))]
mod tls;
#[cfg(feature = "tonic")]
pub(crate) mod tonic;

/// What a value that came as `Ok` means: a success, or an HTTP response with a status.
pub(crate) fn response<T: Any>(value: &T, now: Timestamp) -> Outcome {
    #[cfg(feature = "reqwest")]
    if let Some(response) = (value as &dyn Any).downcast_ref::<::reqwest::Response>() {
        return http::outcome(response.status(), response.headers(), now);
    }
    let _ = (value, now);
    Outcome::Success
}
