//! A layer for any [`tower_service::Service`] over [`http::Request`], and one for the other end.
//! REQ-A1, REQ-I1, REQ-I2, REQ-L4, REQ-S10.
//!
//! [`RetryLayer`] goes around a client, [`HopLayer`] around a server's handlers:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), relent::CallError<std::io::Error>> {
//! use http::{Request, Response, StatusCode};
//! use relent::tower::RetryLayer;
//! use relent::{Policy, Retrier};
//! use tower::{Layer, ServiceExt, service_fn};
//!
//! # let client = service_fn(async |request: Request<&'static str>| {
//! #     let mut response = Response::new("twelve");
//! #     if request.headers()["retry-attempt"] != "3" {
//! #         *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
//! #     }
//! #     Ok::<_, std::io::Error>(response)
//! # });
//! let stock = RetryLayer::new(Retrier::new("stock", Policy::sync_api())).layer(client);
//! let response = stock.oneshot(Request::get("http://stock/level").body("").unwrap()).await?;
//! assert_eq!(response.status(), StatusCode::OK); // after two 503
//! # Ok(())
//! # }
//! ```
//!
//! # What is repeated
//!
//! - GET, HEAD, OPTIONS, PUT and DELETE. All other methods only if the request carries an
//!   `Idempotency-Key` of at most 64 characters, if the layer
//!   [makes keys](RetryLayer::with_generated_keys), or if the retrier was built
//!   [`repeatable`](crate::Builder::repeatable); otherwise there is one attempt.
//! - A request whose body can be sent twice. Bodies that implement `Clone` can, such as `Full` and
//!   `Empty` of http-body-util; for others [`RetryLayer::replay_with`] says how. One that cannot be
//!   copied is sent once, and that is no error.
//! - Not what [a layer above](crate::hop) repeats already. What holds for one request can be said
//!   with a [`Hop`] in its extensions.
//!
//! Every attempt carries `retry-attempt` and `retry-max-attempts`.
//!
//! # What comes back
//!
//! The response of the last attempt, whatever its status: a 503 is still a response when it is given
//! up. The body of a response that is going to be retried is dropped before the wait, so that no
//! connection is held by it; see [`ResponseBody`]. Errors of the service become a
//! [`CallError`].
//!
//! An attempt ends with the head of its response. Its timeout does not cover the body, and a body
//! that breaks off is not retried: part of it may have been used already.
//!
//! # gRPC
//!
//! A gRPC failure without a body ("trailers-only") has its `grpc-status` in the head, and is judged
//! by it; `grpc-retry-pushback-ms` is honoured. A status in the trailers after a body comes too late
//! for a layer. All gRPC requests are POST and need a key (metadata `idempotency-key`) or a retrier
//! that is declared repeatable, and the bodies that tonic's generated clients send cannot be copied.
//! So for these put [`Retrier::call`] around the client's method: it sees every `tonic::Status`.

mod hop;
mod request;
mod response;
mod retry;
mod strategy;

pub use hop::{HopLayer, HopService};
pub use response::ResponseBody;
pub use retry::{ResponseFuture, Retry};
pub use strategy::{ByClone, ByType, ClassifyError, Replay};

use relent_policy::{Failure, Timestamp};
use tower_layer::Layer;

use crate::clock::{Clock, DefaultClock};
use crate::retrier::Retrier;

#[cfg(doc)]
use crate::{CallError, Hop};

/// Retries the requests to one dependency.
///
/// # Default
///
/// - the service's error type implements [`Classify`](crate::Classify); for others see
///   [`classify_errors`](RetryLayer::classify_errors)
/// - bodies implement `Clone`; for others see [`replay_with`](RetryLayer::replay_with)
/// - no idempotency keys are made
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use http::{Request, Response, StatusCode};
/// use relent::tower::RetryLayer;
/// use relent::{Policy, Retrier};
/// use tower::{Layer, ServiceExt, service_fn};
///
/// let down = service_fn(async |request: Request<String>| {
///     assert_eq!(request.headers()["retry-max-attempts"], "4");
///     let response = Response::builder().status(StatusCode::SERVICE_UNAVAILABLE);
///     Ok::<_, std::io::Error>(response.body(request.headers()["retry-attempt"].clone()).unwrap())
/// });
/// let stock = RetryLayer::new(Retrier::new("stock", Policy::sync_api())).layer(down);
/// let request = Request::put("http://stock/level").body("12".to_owned()).unwrap();
/// let response = stock.oneshot(request).await.unwrap();
/// assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
/// assert_eq!(response.into_body().into_inner().unwrap(), "4"); // the last attempt's answer
/// # }
/// ```
#[derive(Debug)]
pub struct RetryLayer<K = ByType, R = ByClone, C: Clock = DefaultClock> {
    retrier: Retrier<C>,
    classify: K,
    replay: R,
    keys: Keys,
}

/// Who gives a request its idempotency key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keys {
    FromCaller,
    Generated,
}

impl<C: Clock> RetryLayer<ByType, ByClone, C> {
    /// A layer that puts all requests through this retrier.
    pub fn new(retrier: Retrier<C>) -> Self {
        RetryLayer { retrier, classify: ByType, replay: ByClone, keys: Keys::FromCaller }
    }
}

impl<K, R, C: Clock> RetryLayer<K, R, C> {
    /// Gives every POST, PATCH and the like that has no `Idempotency-Key` a new UUID, the same on
    /// all of its attempts. Only for a dependency that recognises such keys: one that ignores them
    /// would do the work again.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), relent::CallError<std::io::Error>> {
    /// use http::{Request, Response};
    /// use relent::tower::RetryLayer;
    /// use relent::{Policy, Retrier};
    /// use tower::{Layer, ServiceExt, service_fn};
    ///
    /// let payments = service_fn(async |request: Request<()>| {
    ///     assert_eq!(request.headers()["idempotency-key"].len(), 36);
    ///     Ok::<_, std::io::Error>(Response::new(()))
    /// });
    /// let retrier = Retrier::new("payments", Policy::sync_api());
    /// let payments = RetryLayer::new(retrier).with_generated_keys().layer(payments);
    /// payments.oneshot(Request::post("http://payments/").body(()).unwrap()).await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn with_generated_keys(mut self) -> Self {
        self.keys = Keys::Generated;
        self
    }

    /// Says what the service's errors mean, where their type does not: a boxed error, or that of
    /// another crate.
    ///
    /// ```
    /// use relent::tower::RetryLayer;
    /// use relent::{Classify, Failure, FailureKind, Fault, Policy, Retrier, Timestamp};
    /// use tower::BoxError;
    ///
    /// fn meaning(error: &BoxError, now: Timestamp) -> Failure {
    ///     match error.downcast_ref::<std::io::Error>() {
    ///         Some(error) => error.failure(now),
    ///         None => FailureKind::Fault(Fault::Unknown).into(), // retried once
    ///     }
    /// }
    ///
    /// let retrier = Retrier::new("stock", Policy::sync_api());
    /// let _layer = RetryLayer::new(retrier).classify_errors(meaning);
    /// ```
    pub fn classify_errors<E, F>(self, classify: F) -> RetryLayer<F, R, C>
    where
        F: Fn(&E, Timestamp) -> Failure,
    {
        let RetryLayer { retrier, replay, keys, .. } = self;
        RetryLayer { retrier, classify, replay, keys }
    }

    /// Says how to copy a body that is not `Clone`; `None` means that it can be sent only once.
    ///
    /// ```
    /// use relent::tower::RetryLayer;
    /// use relent::{Policy, Retrier};
    ///
    /// enum Body {
    ///     Bytes(Vec<u8>),
    ///     File(std::fs::File),
    /// }
    ///
    /// let retrier = Retrier::new("stock", Policy::sync_api());
    /// let _layer = RetryLayer::new(retrier).replay_with(|body: &Body| match body {
    ///     Body::Bytes(bytes) => Some(Body::Bytes(bytes.clone())),
    ///     Body::File(_) => None,
    /// });
    /// ```
    pub fn replay_with<B, F>(self, replay: F) -> RetryLayer<K, F, C>
    where
        F: Fn(&B) -> Option<B>,
    {
        let RetryLayer { retrier, classify, keys, .. } = self;
        RetryLayer { retrier, classify, replay, keys }
    }
}

/// By hand, because a clock need not be `Clone`: clones share the retrier.
impl<K: Clone, R: Clone, C: Clock> Clone for RetryLayer<K, R, C> {
    fn clone(&self) -> Self {
        RetryLayer {
            retrier: self.retrier.clone(),
            classify: self.classify.clone(),
            replay: self.replay.clone(),
            keys: self.keys,
        }
    }
}

impl<S, K, R, C> Layer<S> for RetryLayer<K, R, C>
where
    K: Clone,
    R: Clone,
    C: Clock,
{
    type Service = Retry<S, K, R, C>;

    fn layer(&self, inner: S) -> Retry<S, K, R, C> {
        Retry::new(inner, self.clone())
    }
}
