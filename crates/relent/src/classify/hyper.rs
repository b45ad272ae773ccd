//! hyper, and the pooling client of hyper-util. REQ-C3, REQ-C6, REQ-P3.
//!
//! Build the client with `.retry_canceled_requests(false)`: by itself it sends a request again when
//! a pooled connection turns out to be closed, which neither a budget nor a breaker would see.

use ::hyper_util::client::legacy;
use relent_policy::{Failure, FailureKind, Fault, Timestamp};

use super::chain::{Phase, fault_of};
use crate::judge::Classify;

/// An error of a connection that had been made: whatever it is, the request may have been applied.
///
/// ```no_run
/// use relent::{Classify, Timestamp};
///
/// # fn told(error: hyper::Error, now: Timestamp) {
/// if error.is_incomplete_message() {
///     assert_eq!(error.failure(now).kind.to_string(), "closed_early");
/// }
/// # }
/// ```
impl Classify for ::hyper::Error {
    fn failure(&self, _now: Timestamp) -> Failure {
        let fault = fault_of(self, Phase::Sent).unwrap_or(Fault::Unknown);
        FailureKind::Fault(fault).into()
    }
}

/// An error before or after the connection was made, as it says itself.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use http_body_util::Empty;
/// use hyper::body::Bytes;
/// use hyper_util::client::legacy::Client;
/// use hyper_util::rt::TokioExecutor;
/// use relent::{Classify, Timestamp};
///
/// # let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
/// let client = Client::builder(TokioExecutor::new())
///     .retry_canceled_requests(false)
///     .build_http::<Empty<Bytes>>();
/// let closed_port = format!("http://127.0.0.1:{port}").parse()?;
/// let error = client.get(closed_port).await.unwrap_err();
/// assert_eq!(error.failure(Timestamp::ZERO).kind.to_string(), "connect_refused");
/// # Ok(())
/// # }
/// ```
impl Classify for legacy::Error {
    fn failure(&self, _now: Timestamp) -> Failure {
        let phase = if self.is_connect() { Phase::Connecting } else { Phase::Sent };
        let fault = fault_of(self, phase).unwrap_or(Fault::Unknown);
        FailureKind::Fault(fault).into()
    }
}
