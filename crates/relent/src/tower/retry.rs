//! The service: the attempts of a request, driven like those of every other call.
//!
//! Readiness is taken the usual way: a request goes to the very instance that was polled ready, and
//! a clone stays behind for the next. Later attempts poll a clone of their own, inside their timeout.
//! REQ-L4.

use std::future::{Future, poll_fn};
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response};
use relent_policy::GiveUpReason;
use tower_service::Service;

use super::RetryLayer;
use super::request::Outgoing;
use super::response::{Answer, ResponseBody};
use super::strategy::{ByClone, ByType, ClassifyError, Replay};
use crate::attempt::Attempt;
use crate::call::Options;
use crate::clock::{Clock, DefaultClock, Sleep};
use crate::drive::Drive;
use crate::error::{CallError, Report};

/// A service whose requests are retried. Made by [`RetryLayer`]; there is an example
/// [above](super).
///
/// Dropping a response's future, at any point, gives back what the call holds.
#[derive(Debug)]
pub struct Retry<S, K = ByType, R = ByClone, C: Clock = DefaultClock> {
    inner: S,
    layer: RetryLayer<K, R, C>,
}

/// The response of a [`Retry`], to come.
pub type ResponseFuture<B, E> =
    Pin<Box<dyn Future<Output = Result<Response<ResponseBody<B>>, CallError<E>>> + Send>>;

impl<S, K, R, C: Clock> Retry<S, K, R, C> {
    pub(super) fn new(inner: S, layer: RetryLayer<K, R, C>) -> Retry<S, K, R, C> {
        Retry { inner, layer }
    }
}

impl<S: Clone, K: Clone, R: Clone, C: Clock> Clone for Retry<S, K, R, C> {
    fn clone(&self) -> Self {
        Retry { inner: self.inner.clone(), layer: self.layer.clone() }
    }
}

impl<S, B, D, K, R, C> Service<Request<B>> for Retry<S, K, R, C>
where
    S: Service<Request<B>, Response = Response<D>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send + 'static,
    B: Send + 'static,
    D: Send + 'static,
    K: ClassifyError<S::Error> + Clone + Send + Sync + 'static,
    R: Replay<B> + Clone + Send + Sync + 'static,
    C: Sleep,
{
    type Response = Response<ResponseBody<D>>;
    type Error = CallError<S::Error>;
    type Future = ResponseFuture<D, S::Error>;

    /// An error here is the service's own and final: no request was made of it.
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), CallError<S::Error>>> {
        self.inner.poll_ready(cx).map_err(|error| {
            let report = Report { attempts: 0, elapsed: Duration::ZERO };
            CallError::gave_up(error, GiveUpReason::Permanent, report)
        })
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let next = self.inner.clone();
        let ready = mem::replace(&mut self.inner, next);
        let layer = self.layer.clone();
        let declared = layer.retrier.inner.declared;
        // Here and not in the future, which may be polled where the caller's hop is not known.
        let (outgoing, options) = Outgoing::new(request, declared, layer.keys, &layer.replay);
        Box::pin(send(layer, ready, outgoing, options))
    }
}

async fn send<S, B, D, K, R, C>(
    layer: RetryLayer<K, R, C>,
    mut service: S,
    mut outgoing: Outgoing<B>,
    options: Options,
) -> Result<Response<ResponseBody<D>>, CallError<S::Error>>
where
    S: Service<Request<B>, Response = Response<D>> + Clone,
    K: ClassifyError<S::Error> + Clone,
    R: Replay<B>,
    C: Sleep,
{
    let RetryLayer { retrier, classify, replay, .. } = layer;
    // The futures own what they use: with references in them, the compiler could not prove that the
    // whole is `Send`.
    let attempt = move |attempt: Attempt<'_>| {
        let (request, is_last) = outgoing.request(&attempt, &replay);
        let number = attempt.number();
        let next = service.clone();
        let mut service = mem::replace(&mut service, next);
        let classify = classify.clone();
        async move {
            let ready = match number {
                1 => Ok(()),
                _ => poll_fn(|cx| service.poll_ready(cx)).await,
            };
            let result = match ready {
                Ok(()) => service.call(request).await,
                Err(error) => Err(error),
            };
            let result = result.map(|response| response.map(ResponseBody::new));
            Answer { result, classify, is_last }
        }
    };
    let ended = Drive::new(&retrier.inner, options, attempt, Answer::without_body).await;
    ended.map(|answer| answer.result).into_result()
}
