//! reqwest: its errors, and its responses. REQ-C1, REQ-C3, REQ-C4, REQ-C6, REQ-P3.
//!
//! What to set on the client, and why:
//!
//! - `.retry(reqwest::retry::never())`: by default reqwest sends a request again that an HTTP/2
//!   server refused. No budget, breaker or attempt header knows of those.
//! - `.connect_timeout(..)`, shorter than any other: with a total timeout only, a hanging connect
//!   looks like a slow answer, and a request that was never sent like one that may have been.
//!   It covers resolving, TCP and TLS together.
//!
//! A body that stalls or breaks off comes after a status that this error no longer knows. To a
//! caller who needs the body the call has failed, so it is judged as what it was (`reset`,
//! `closed_early`, `response_timeout`): worth another attempt, and ambiguous, so only for what may
//! be repeated. A caller for whom the status is the answer does not read the body inside the call.

use ::reqwest::{Error, Response};
use relent_policy::{Failure, FailureKind, Fault, Outcome, Timestamp};

use super::chain::{Phase, fault_of};
use crate::judge::{Classify, Judge};

/// A failed request by its cause, `error_for_status` by the status. The latter has lost the
/// response's `Retry-After`: better to return the [`Response`] itself from the operation, where
/// its status and headers are read.
///
/// ```
/// # rustls::crypto::ring::default_provider().install_default().unwrap();
/// use relent::{Class, Classify, Timestamp};
///
/// let client = reqwest::Client::builder().retry(reqwest::retry::never()).build()?;
/// let error = client.get("no scheme").build().unwrap_err();
/// let kind = error.failure(Timestamp::ZERO).kind;
/// assert_eq!(kind.to_string(), "configuration");
/// assert_eq!(Class::of(kind), Class::Permanent);
/// # Ok::<(), reqwest::Error>(())
/// ```
impl Classify for Error {
    fn failure(&self, _now: Timestamp) -> Failure {
        match self.status() {
            Some(status) => FailureKind::Http(status.as_u16()).into(),
            None => FailureKind::Fault(fault(self)).into(),
        }
    }
}

/// A response by its status, and by its `Retry-After`.
///
/// ```
/// use relent::{FailureKind, Judge, Outcome, Timestamp};
///
/// # let unavailable = http::Response::builder().status(503).body("").unwrap();
/// let response = reqwest::Response::from(unavailable);
/// let Outcome::Failure(failure) = response.judge(Timestamp::ZERO) else { panic!() };
/// assert_eq!(failure.kind, FailureKind::Http(503));
/// ```
impl Judge for Response {
    fn judge(&self, now: Timestamp) -> Outcome {
        super::http::outcome(self.status(), self.headers(), now)
    }
}

/// reqwest's error where it comes through middleware, else what the middleware's own error was
/// caused by.
///
/// ```
/// # rustls::crypto::ring::default_provider().install_default().unwrap();
/// use relent::{Classify, Timestamp};
///
/// let error = reqwest::Client::new().get("no scheme").build().unwrap_err();
/// let error = reqwest_middleware::Error::from(error);
/// assert_eq!(error.failure(Timestamp::ZERO).kind.to_string(), "configuration");
/// ```
#[cfg(feature = "reqwest-middleware")]
impl Classify for ::reqwest_middleware::Error {
    fn failure(&self, now: Timestamp) -> Failure {
        match self {
            ::reqwest_middleware::Error::Reqwest(error) => error.failure(now),
            ::reqwest_middleware::Error::Middleware(error) => match error.downcast_ref::<Error>() {
                Some(error) => error.failure(now),
                None => {
                    let fault = fault_of(&**error, Phase::Sent).unwrap_or(Fault::Unknown);
                    FailureKind::Fault(fault).into()
                }
            },
        }
    }
}

fn fault(error: &Error) -> Fault {
    if error.is_builder() || error.is_redirect() {
        return Fault::Configuration;
    }
    let connecting = error.is_connect();
    let phase = if connecting { Phase::Connecting } else { Phase::Sent };
    match fault_of(error, phase) {
        // Before the name: a resolver may itself use TLS.
        Some(Fault::TlsCertificate) => Fault::TlsCertificate,
        _ if error.is_dns() => Fault::Dns,
        Some(fault) => fault,
        None if connecting && error.is_timeout() => connect_timeout(error),
        None if error.is_timeout() => Fault::ResponseTimeout,
        None if error.is_decode() => Fault::Serialization,
        None => Fault::Unknown,
    }
}

/// reqwest has two timers for the connect timeout: one for TCP, whose error the walk finds, and one
/// for all of it. They start microseconds apart and the latter may fire first, so over https a TCP
/// timeout is now and then taken for one of TLS; both are retryable and nothing was sent. Over http
/// there is nothing to confuse.
fn connect_timeout(error: &Error) -> Fault {
    match error.url() {
        Some(url) if url.scheme() == "http" => Fault::ConnectTimeout,
        _ => Fault::TlsHandshakeTimeout,
    }
}
