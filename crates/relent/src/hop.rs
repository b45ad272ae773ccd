//! One retry layer per hop: who else retries, told and heard through headers. REQ-S10.
//!
//! Three layers with three attempts each make 27 requests out of one. So an attempt says which one it
//! is (`Retry-Attempt`, `Retry-Max-Attempts`), and a service that is itself being retried does not
//! retry in turn: whoever is above will come again anyway.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

pub use relent_policy::Hop;

/// The header with the number of an attempt, from 1.
pub const RETRY_ATTEMPT: &str = "retry-attempt";
/// The header with the number of attempts there may be.
pub const RETRY_MAX_ATTEMPTS: &str = "retry-max-attempts";
/// The header that carries an idempotency key.
pub const IDEMPOTENCY_KEY: &str = "idempotency-key";
const ENVOY_ATTEMPT_COUNT: &str = "x-envoy-attempt-count";
pub(crate) const GRPC_PREVIOUS_ATTEMPTS: &str = "grpc-previous-rpc-attempts";

/// Whether an incoming request is itself a retry, by its headers. `header` looks one up by its
/// lower-case name.
///
/// ```
/// use relent::hop::{self, Hop};
///
/// let second = |name: &str| (name == "retry-attempt").then_some("2");
/// assert_eq!(hop::of_request(second), Hop::RetriedAbove);
/// assert_eq!(hop::of_request(|_| None), Hop::Retries);
/// ```
pub fn of_request<'h>(header: impl Fn(&str) -> Option<&'h str>) -> Hop {
    let at_least = |name: &str, least: u64| {
        header(name).and_then(|value| value.trim().parse::<u64>().ok()).is_some_and(|n| n >= least)
    };
    let retried = at_least(RETRY_ATTEMPT, 2)
        || at_least(ENVOY_ATTEMPT_COUNT, 2)
        || at_least(GRPC_PREVIOUS_ATTEMPTS, 1);
    if retried { Hop::RetriedAbove } else { Hop::Retries }
}

thread_local! {
    static CURRENT: Cell<Hop> = const { Cell::new(Hop::Retries) };
}

/// What the request being handled says, inside [`within`].
pub(crate) fn current() -> Hop {
    CURRENT.get()
}

/// Runs a request's handler so that all calls it makes know whether they are retried above.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use relent::hop::{self, Hop};
/// use relent::{CallError, Policy, Retrier};
///
/// let retrier = Retrier::new("stock", Policy::sync_api());
/// let handler = async {
///     retrier.repeatable().call(async |_| Err::<(), _>(std::io::Error::from(std::io::ErrorKind::TimedOut))).await
/// };
/// let failed = hop::within(Hop::RetriedAbove, handler).await.unwrap_err();
/// assert_eq!(failed.because().unwrap().name(), "retried_above");
/// # }
/// ```
pub fn within<F: Future>(hop: Hop, future: F) -> Within<F> {
    Within { hop, future: Box::pin(future) }
}

/// [`within`] for what happens before there is a future.
#[cfg(feature = "tower")]
pub(crate) fn entered<T>(hop: Hop, action: impl FnOnce() -> T) -> T {
    let _restored = Restore(CURRENT.replace(hop));
    action()
}

/// The future of [`within`].
#[derive(Debug)]
pub struct Within<F> {
    hop: Hop,
    future: Pin<Box<F>>,
}

impl<F: Future> Future for Within<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let _restored = Restore(CURRENT.replace(self.hop));
        self.future.as_mut().poll(cx)
    }
}

/// Puts the former value back, also when the handler panics.
struct Restore(Hop);

impl Drop for Restore {
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_attempt_of_any_layer_above_is_recognised() {
        let hop = |name: &'static str, value: &'static str| {
            of_request(move |asked| (asked == name).then_some(value))
        };
        for (name, first, retried) in [
            ("retry-attempt", "1", "2"),
            ("x-envoy-attempt-count", "1", "3"),
            ("grpc-previous-rpc-attempts", "0", "1"),
        ] {
            assert_eq!(hop(name, first), Hop::Retries, "{name}: {first}");
            assert_eq!(hop(name, retried), Hop::RetriedAbove, "{name}: {retried}");
            assert_eq!(hop(name, "many"), Hop::Retries, "{name}: nonsense says nothing");
        }
    }
}
