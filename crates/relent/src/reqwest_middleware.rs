//! Retries as a middleware: every request of a `reqwest_middleware` client goes through a
//! [`Retrier`]. REQ-A1, REQ-I1, REQ-I2, REQ-L4, REQ-S10.
//!
//! ```no_run
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! use relent::reqwest_middleware::RetryMiddleware;
//! use relent::{Policy, Retrier};
//! use reqwest_middleware::ClientBuilder;
//! use std::time::Duration;
//!
//! let http = reqwest::Client::builder()
//!     .retry(reqwest::retry::never()) // reqwest retries some requests itself, unseen
//!     .connect_timeout(Duration::from_secs(3))
//!     .build()?;
//! let payments = Retrier::new("payments", Policy::sync_api());
//! let client = ClientBuilder::new(http).with(RetryMiddleware::new(payments)).build();
//! let response = client.get("https://payments.internal/charges/17").send().await?;
//! # Ok(())
//! # }
//! ```
//!
//! One client per dependency, as there is one [`Retrier`] per dependency. Middleware after this one
//! runs for every attempt (a token can be renewed there), middleware before it once per request.
//!
//! The call ends when a response's head is there: a body that breaks off while it is read later is
//! the reader's to handle. Neither does an attempt's timeout hold for the body.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;

use ::reqwest_middleware::{Error, Middleware, Next, Result};
use http::{Extensions, HeaderName};
use relent_policy::{Hop, IdempotencyKey, Repeatable};
use reqwest::{Request, Response, ResponseBuilderExt};

use crate::attempt::Attempt;
use crate::call::{self, Call, NotNow, Options};
use crate::clock::{DefaultClock, Sleep};
use crate::drive::Ended;
use crate::hop::{IDEMPOTENCY_KEY, RETRY_ATTEMPT, RETRY_MAX_ATTEMPTS};
use crate::judge::Judge;
use crate::retrier::Retrier;

/// What a request fails with when there is no error of reqwest's to return: no attempt was made, or
/// the last one did not end in its time. To be found in `reqwest_middleware::Error::Middleware`.
///
/// ```
/// use relent::reqwest_middleware::CallError;
///
/// fn was_not_even_tried(error: &reqwest_middleware::Error) -> bool {
///     match error {
///         reqwest_middleware::Error::Middleware(error) => {
///             matches!(error.downcast_ref(), Some(CallError::Refused(_)))
///         }
///         reqwest_middleware::Error::Reqwest(_) => false,
///     }
/// }
/// # let error = reqwest_middleware::Error::middleware(std::io::Error::other("another"));
/// # assert!(!was_not_even_tried(&error));
/// ```
pub type CallError = crate::CallError<Error>;

/// Retries the requests of a client.
///
/// # What is retried
///
/// GET, HEAD, OPTIONS, PUT and DELETE as they are; anything else only with an `Idempotency-Key`
/// that [`IdempotencyKey`] accepts, given or [generated](RetryMiddleware::with_generated_keys). A
/// request that may not be repeated, and one whose body is a stream and cannot be sent twice, gets
/// one attempt. A retrier that is [repeatable](crate::Builder::repeatable) vouches for all methods.
///
/// # What comes back
///
/// The last response, whatever its status, or the last attempt's error, unchanged: code that
/// matches on `reqwest_middleware::Error::Reqwest` or asks `is_timeout()` works as without retries.
/// Why there was no further attempt is told to the retrier's observers. Only where reqwest has no
/// error to return is there a [`CallError`], in `reqwest_middleware::Error::Middleware`.
///
/// ```
/// # rustls::crypto::ring::default_provider().install_default().unwrap();
/// use relent::reqwest_middleware::RetryMiddleware;
/// use relent::{Policy, Retrier};
///
/// let http = reqwest::Client::builder().retry(reqwest::retry::never()).build()?;
/// let retry = RetryMiddleware::new(Retrier::new("stock", Policy::sync_api()));
/// let client = reqwest_middleware::ClientBuilder::new(http).with(retry).build();
/// # let _ = client;
/// # Ok::<(), reqwest::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct RetryMiddleware {
    retrier: Retrier,
    keys: Keys,
}

/// Where a POST's idempotency key comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keys {
    Given,
    Generated,
}

impl RetryMiddleware {
    /// Puts all requests through this retrier.
    ///
    /// ```
    /// use relent::reqwest_middleware::RetryMiddleware;
    /// use relent::{Policy, Retrier};
    ///
    /// let retry = RetryMiddleware::new(Retrier::new("stock", Policy::sync_api()));
    /// # let _ = retry;
    /// ```
    pub fn new(retrier: Retrier) -> RetryMiddleware {
        RetryMiddleware { retrier, keys: Keys::Given }
    }

    /// Gives each POST, PATCH and the like that has no `Idempotency-Key` a UUID as its key, the
    /// same on every attempt. Only for a dependency that recognises a repeated key: for any other,
    /// a retried POST may be applied twice.
    ///
    /// ```
    /// use relent::reqwest_middleware::RetryMiddleware;
    /// use relent::{Policy, Retrier};
    ///
    /// let payments = Retrier::new("payments", Policy::sync_api());
    /// let retry = RetryMiddleware::new(payments).with_generated_keys();
    /// # let _ = retry;
    /// ```
    #[must_use]
    pub fn with_generated_keys(mut self) -> RetryMiddleware {
        self.keys = Keys::Generated;
        self
    }

    async fn send(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        let inner = &*self.retrier.inner;
        let (options, outgoing) = self.plan(request);
        let mut call = Call::new(inner, options);
        let ended = drive(&mut call, outgoing, extensions, next).await;
        ended.into_result().map_err(|error| match error {
            CallError::GaveUp(gave_up) => gave_up.into_inner(),
            error => Error::middleware(error),
        })
    }

    /// How the request is sent, and what its attempts carry.
    fn plan(&self, request: Request) -> (Options, Outgoing) {
        let given = request.headers().get(IDEMPOTENCY_KEY);
        let key = given.and_then(|key| IdempotencyKey::try_new(key.to_str().ok()?).ok());
        let declared = match self.retrier.inner.declared {
            Repeatable::No => Repeatable::by_method(request.method().as_str(), key.as_ref()),
            declared => declared,
        };
        let generates_key =
            declared == Repeatable::No && given.is_none() && self.keys == Keys::Generated;
        let may_repeat = declared != Repeatable::No
            || generates_key
            || self.retrier.policy().spec().assume_repeatable;
        let copy = if may_repeat { request.try_clone() } else { None };
        if copy.is_none() {
            // Whatever method, key or policy allow: there is nothing to send a second time.
            let options = Options { hop: Some(Hop::RetriedAbove), ..Options::default() };
            return (options, Outgoing { next: Some(request), copy, generates_key: false });
        }
        let options = Options { declared, key, ..Options::default() };
        (options, Outgoing { next: Some(request), copy, generates_key })
    }
}

impl Middleware for RetryMiddleware {
    // What `async_trait` makes of `async fn handle`.
    fn handle<'m, 'e, 'n, 'f>(
        &'m self,
        request: Request,
        extensions: &'e mut Extensions,
        next: Next<'n>,
    ) -> Pin<Box<dyn Future<Output = Result<Response>> + Send + 'f>>
    where
        Self: 'f,
        'm: 'f,
        'e: 'f,
        'n: 'f,
    {
        Box::pin(self.send(request, extensions, next))
    }
}

/// The attempts and the waits between them. Not [`Operation::call`](crate::Operation::call), whose
/// attempts may not borrow from each other: these all need the caller's extensions.
async fn drive(
    call: &mut Call<'_, DefaultClock>,
    mut outgoing: Outgoing,
    extensions: &mut Extensions,
    next: Next<'_>,
) -> Ended<Result<Response>> {
    let mut last = None;
    loop {
        let attempt = match call.begin() {
            Ok(attempt) => attempt,
            Err(NotNow::Wait(until)) => {
                call.sleep(until).await;
                continue;
            }
            Err(NotNow::Refused(refusal)) => {
                return match last {
                    None => Ended::Refused(refusal),
                    Some(result) => Ended::gave_up(result, refusal.into(), call),
                };
            }
        };
        let sent = next.clone().run(outgoing.request(&attempt), extensions);
        let result = in_time(call, sent).await;
        let now = call.now();
        let outcome = match &result {
            Some(result) => result.judge(now),
            None => Call::<DefaultClock>::timed_out(),
        };
        match (call.end(&outcome, now), result) {
            (call::Next::Done, Some(result)) => return Ended::Success(result),
            (call::Next::GiveUp(because), result) => {
                return Ended::gave_up(result, because, call);
            }
            (call::Next::Done, None) => unreachable!("a timeout is no success"),
            (call::Next::RetryIn(wait), result) => {
                last = Some(result.map(|result| result.map(without_body)));
                call.sleep(wait).await;
            }
        }
    }
}

/// The future's result, or `None` if the attempt's time ran out first.
async fn in_time<C: Sleep, R>(
    call: &mut Call<'_, C>,
    future: impl Future<Output = R>,
) -> Option<R> {
    let mut future = pin!(future);
    let polled = poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await;
    if let Poll::Ready(result) = polled {
        return Some(result);
    }
    let mut timer = pin!(call.timer());
    // It was polled a moment ago: once more at once, and a future that only wants to let others
    // run would be taken for one that was woken.
    let mut just_polled = true;
    poll_fn(|cx| {
        if !std::mem::take(&mut just_polled)
            && let Poll::Ready(result) = future.as_mut().poll(cx)
        {
            return Poll::Ready(Some(result));
        }
        timer.as_mut().poll(cx).map(|()| None)
    })
    .await
}

/// What is kept of a response during the wait for the next attempt. A body that nobody has read
/// would hold its connection to a dependency that has too much to do as it is.
fn without_body(response: Response) -> Response {
    let mut kept = http::Response::new("");
    if let Ok(with_url) = http::Response::builder().url(response.url().clone()).body("") {
        kept = with_url;
    }
    let (parts, _) = http::Response::<reqwest::Body>::from(response).into_parts();
    *kept.status_mut() = parts.status;
    *kept.version_mut() = parts.version;
    *kept.headers_mut() = parts.headers;
    kept.extensions_mut().extend(parts.extensions);
    kept.into()
}

/// A request that is sent as often as its call has attempts.
struct Outgoing {
    next: Option<Request>,
    /// What later attempts are copied from; `None` if there will be none.
    copy: Option<Request>,
    generates_key: bool,
}

impl Outgoing {
    /// What this attempt sends.
    fn request(&mut self, attempt: &Attempt<'_>) -> Request {
        let again = || self.copy.as_ref().and_then(Request::try_clone);
        let request = self.next.take().or_else(again);
        let mut request = request.expect("what cannot be copied is sent once");
        let max = if self.copy.is_some() { attempt.max() } else { 1 };
        let headers = request.headers_mut();
        headers.insert(HeaderName::from_static(RETRY_ATTEMPT), attempt.number().into());
        headers.insert(HeaderName::from_static(RETRY_MAX_ATTEMPTS), max.into());
        if self.generates_key {
            headers.insert(HeaderName::from_static(IDEMPOTENCY_KEY), attempt.key().into());
        }
        request
    }
}
