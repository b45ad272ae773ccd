//! The server's end: a handler that is being retried does not retry in turn. REQ-S10.

use std::task::{Context, Poll};

use http::Request;
use tower_layer::Layer;
use tower_service::Service;

use crate::hop::{self, Within};

/// Handles every request [within](hop::within) what its headers say: whether it is itself a retry.
///
/// Read are `retry-attempt`, `x-envoy-attempt-count` and `grpc-previous-rpc-attempts`. The calls that
/// the handler makes in its own task know it at once. For those of a task that it spawns, the
/// request's extensions have a [`Hop`](crate::Hop) to pass on.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use http::Request;
/// use relent::tower::HopLayer;
/// use relent::{Policy, Retrier};
/// use std::io::{Error, ErrorKind};
/// use tower::{Layer, ServiceExt, service_fn};
///
/// let handler = HopLayer.layer(service_fn(async |_request: Request<()>| {
///     let stock = Retrier::new("stock", Policy::sync_api());
///     stock.repeatable().call(async |_| Err::<(), _>(Error::from(ErrorKind::TimedOut))).await
/// }));
/// let second = Request::builder().header("retry-attempt", "2").body(()).unwrap();
/// let failed = handler.oneshot(second).await.unwrap_err();
/// assert_eq!(failed.because().unwrap().name(), "retried_above");
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct HopLayer;

/// The service that [`HopLayer`] makes.
#[derive(Clone, Copy, Debug)]
pub struct HopService<S> {
    inner: S,
}

impl<S> Layer<S> for HopLayer {
    type Service = HopService<S>;

    fn layer(&self, inner: S) -> HopService<S> {
        HopService { inner }
    }
}

impl<S, B> Service<Request<B>> for HopService<S>
where
    S: Service<Request<B>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Within<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Within<S::Future> {
        let headers = request.headers();
        let hop = hop::of_request(|name| headers.get(name).and_then(|value| value.to_str().ok()));
        request.extensions_mut().insert(hop);
        let future = hop::entered(hop, || self.inner.call(request));
        hop::within(hop, future)
    }
}
