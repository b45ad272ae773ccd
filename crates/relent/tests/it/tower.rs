//! The tower layers: what goes out, what is repeated, and what comes back.

mod hops;
pub(crate) mod script;

use std::future::pending;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::{self, Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use relent::relent_policy::{Backoff, Ratio};
use relent::tower::{ByClone, ResponseBody, Retry, RetryLayer};
use relent::{
    CallError, Classify, Failure, GiveUpReason, Policy, PolicySpec, Refusal, Retrier, Timestamp,
};
use tokio::time::{Instant, timeout};
use tower::{BoxError, Layer, Service, ServiceExt, service_fn};

use script::{Line, Script};

pub(crate) fn retrier() -> Retrier {
    Retrier::builder("stock").policy(Policy::sync_api()).seed(7).build()
}

pub(crate) fn request(method: Method) -> Request<&'static str> {
    Request::builder().method(method).uri("http://stock/level").body("mine").unwrap()
}

type Answered = Result<Response<ResponseBody<&'static str>>, CallError<io::Error>>;

async fn send(script: &Script, request: Request<&'static str>) -> Answered {
    RetryLayer::new(retrier()).layer(script.clone()).oneshot(request).await
}

#[tokio::test(start_paused = true)]
async fn a_dependency_that_comes_back_is_asked_until_it_does() {
    let lines = &[Line::Status(503), Line::Error(ErrorKind::ConnectionReset), Line::Status(200)];
    let script = Script::new(lines);
    let response = send(&script, request(Method::GET)).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(script.header("retry-attempt"), ["1", "2", "3"]);
    assert_eq!(script.header("retry-max-attempts"), ["4", "4", "4"]);
    assert_eq!(script.bodies(), ["mine"; 3]);
    assert!(script.header("idempotency-key").is_empty(), "none is made unasked");
}

#[tokio::test(start_paused = true)]
async fn only_what_may_be_sent_twice_is() {
    let repeated = [Method::GET, Method::HEAD, Method::OPTIONS, Method::PUT, Method::DELETE];
    let not = [Method::POST, Method::PATCH];
    for (methods, attempts) in [(repeated.as_slice(), 4), (&not, 1)] {
        for method in methods {
            let script = Script::new(&[Line::Status(503)]);
            let response = send(&script, request(method.clone())).await.unwrap();
            assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
            assert_eq!(script.calls(), attempts, "{method}");
            assert_eq!(script.header("retry-max-attempts")[0], attempts.to_string(), "{method}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_callers_key_makes_a_post_repeatable_if_receivers_can_tell_it_from_others() {
    let long = "k".repeat(65);
    for (key, attempts) in [("order-17", 4), ("\"order-17\"", 4), (&long, 1), ("order 17", 1)] {
        let script = Script::new(&[Line::Status(503)]);
        let mut request = request(Method::POST);
        request.headers_mut().insert("idempotency-key", key.parse().unwrap());
        send(&script, request).await.unwrap();
        assert_eq!(script.header("idempotency-key"), vec![key; attempts]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_generated_key_is_made_once_for_each_request_that_needs_one() {
    let script = Script::new(&[Line::Status(503)]);
    let ungated = Retrier::builder("stock").policy(Policy::sync_api()).ungated().build();
    let mut service = RetryLayer::new(ungated).with_generated_keys().layer(script.clone());
    for method in [Method::POST, Method::PATCH, Method::GET] {
        service.ready().await.unwrap().call(request(method)).await.unwrap();
    }
    let keys = script.header("idempotency-key");
    assert_eq!((script.calls(), keys.len()), (12, 8), "POST and PATCH only");
    assert!(keys[..4].iter().all(|key| *key == keys[0]));
    assert!(keys[4..].iter().all(|key| *key == keys[4]));
    assert_ne!(keys[0], keys[4]);
    assert!(keys.iter().all(|key| key.len() == 36 && key.as_bytes()[14] == b'4'), "UUID v4");
}

#[tokio::test(start_paused = true)]
async fn a_retrier_that_is_declared_repeatable_repeats_every_method() {
    let script = Script::new(&[Line::Status(503)]);
    let layer = RetryLayer::new(Retrier::builder("search").repeatable().build());
    layer.layer(script.clone()).oneshot(request(Method::POST)).await.unwrap();
    assert_eq!(script.calls(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_cannot_be_copied_is_sent_once_and_that_is_no_error() {
    for copies in [0, 1] {
        let script = Script::new(&[Line::Status(503)]);
        let left = Arc::new(Mutex::new(vec!["mine"; copies]));
        let layer = RetryLayer::new(retrier())
            .replay_with(move |_: &&'static str| left.lock().unwrap().pop());
        let response = layer.layer(script.clone()).oneshot(request(Method::PUT)).await.unwrap();
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(script.bodies(), vec!["mine"; 1 + copies], "as often as there is a body");
    }
}

#[tokio::test(start_paused = true)]
async fn both_forms_of_retry_after_are_waited_for() {
    let seconds = Script::new(&[Line::Head(429, &[("retry-after", "10")]), Line::Status(200)]);
    let date = Script::new(&[
        Line::Head(
            503,
            &[
                ("date", "Sun, 06 Nov 1994 08:49:37 GMT"),
                ("retry-after", "Sun, 06 Nov 1994 08:49:47 GMT"),
            ],
        ),
        Line::Status(200),
    ]);
    for script in [seconds, date] {
        let started = Instant::now();
        assert_eq!(send(&script, request(Method::GET)).await.unwrap().status(), StatusCode::OK);
        let waited = started.elapsed();
        assert!((10.0..=15.0).contains(&waited.as_secs_f64()), "{waited:?}");
    }
    let started = Instant::now();
    let too_long = Script::new(&[Line::Head(503, &[("retry-after", "31")])]);
    let response = send(&too_long, request(Method::GET)).await.unwrap();
    assert_eq!((response.status().as_u16(), too_long.calls()), (503, 1));
    assert_eq!(started.elapsed(), Duration::ZERO, "more than the call's time: it ends at once");
}

#[tokio::test(start_paused = true)]
async fn what_would_fail_again_comes_back_at_once() {
    for line in [&[Line::Status(400)], &[Line::Status(404)], &[Line::Status(501)]] {
        let script = Script::new(line);
        assert!(!send(&script, request(Method::GET)).await.unwrap().status().is_success());
        assert_eq!(script.calls(), 1);
    }
    let script = Script::new(&[Line::Error(ErrorKind::PermissionDenied)]);
    let failed = send(&script, request(Method::GET)).await.unwrap_err();
    assert_eq!((script.calls(), failed.because()), (1, Some(GiveUpReason::Permanent)));
}

#[tokio::test(start_paused = true)]
async fn the_last_response_is_returned_as_it_is_and_the_last_error_with_its_story() {
    let script = Script::new(&[Line::Status(500), Line::Status(502), Line::Status(503)]);
    let response = send(&script, request(Method::GET)).await.unwrap();
    assert_eq!((response.status().as_u16(), script.calls()), (503, 4));
    assert_eq!(response.headers()["content-length"], "6");
    assert_eq!(response.into_body().into_inner(), Some("theirs"));

    let script = Script::new(&[Line::Error(ErrorKind::ConnectionRefused)]);
    let failed = send(&script, request(Method::GET)).await.unwrap_err();
    assert_eq!(failed.original().unwrap().kind(), ErrorKind::ConnectionRefused);
    assert_eq!(failed.because(), Some(GiveUpReason::AttemptsExhausted));
    assert_eq!(failed.report().attempts, 4);
}

#[tokio::test(start_paused = true)]
async fn boxed_errors_are_judged_by_the_hook() {
    let boxed = service_fn(async |_request: Request<()>| {
        Err::<Response<()>, BoxError>(io::Error::other("no route").into())
    });
    fn meaning(error: &BoxError, now: Timestamp) -> Failure {
        let error = error.downcast_ref::<io::Error>();
        error.map_or_else(relent::permanent, |error| error.failure(now))
    }
    let layer = RetryLayer::new(retrier()).classify_errors(meaning);
    let failed = layer.layer(boxed).oneshot(Request::new(())).await.unwrap_err();
    assert!(failed.original().is_some());
    assert_eq!(failed.report().attempts, 2, "an unknown failure is retried once");
}

#[tokio::test(start_paused = true)]
async fn an_attempt_ends_when_its_time_is_over_and_the_call_when_its_own_is() {
    let started = Instant::now();
    let silent =
        service_fn(async |_request: Request<()>| pending::<io::Result<Response<()>>>().await);
    let service = RetryLayer::new(retrier()).layer(silent);
    let failed = service.oneshot(Request::new(())).await.unwrap_err();
    let CallError::TimedOut(timed_out) = failed else { panic!("{failed}") };
    assert!(timed_out.report.attempts >= 2);
    assert!(started.elapsed() <= Duration::from_secs(30), "{:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_gives_back_what_it_holds() {
    let retrier = retrier();
    let silent =
        service_fn(async |_request: Request<()>| pending::<io::Result<Response<()>>>().await);
    let call = RetryLayer::new(retrier.clone()).layer(silent).oneshot(Request::new(()));
    let mut call = Box::pin(call);
    assert!(timeout(Duration::from_secs(1), &mut call).await.is_err());
    assert_eq!(retrier.lane().unwrap().in_flight(), 1);
    drop(call);
    assert_eq!(retrier.lane().unwrap().in_flight(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_open_breaker_lets_no_request_through() {
    let script = Script::new(&[Line::Status(503)]);
    let service = RetryLayer::new(retrier()).layer(script.clone());
    for _ in 0..20 {
        let _ = service.clone().oneshot(request(Method::POST)).await;
    }
    let before = script.calls();
    let refused = service.oneshot(request(Method::GET)).await.unwrap_err();
    let CallError::Refused(refused) = refused else { panic!("{refused}") };
    assert!(matches!(refused.refusal, Refusal::BreakerOpen { .. }));
    assert_eq!(script.calls(), before);
}

#[tokio::test(start_paused = true)]
async fn a_body_is_dropped_before_the_wait_and_its_head_returned_if_nothing_follows() {
    let mut spec = PolicySpec::sync_api();
    spec.concurrency.in_flight_max = 1;
    spec.concurrency.retries_in_flight_max = 1;
    let policy = spec.build(Timestamp::ZERO).unwrap();
    let retrier = Retrier::builder("narrow").policy(policy).seed(7).build();
    let bodies = Arc::new(Mutex::new(Vec::new()));
    let given = Arc::clone(&bodies);
    let service = service_fn(move |_request: Request<()>| {
        let body = Arc::new(());
        given.lock().unwrap().push(Arc::downgrade(&body));
        let head = Response::builder().status(503).header("content-length", "6");
        std::future::ready(Ok::<_, io::Error>(head.body(body).unwrap()))
    });
    let call = RetryLayer::new(retrier.clone()).layer(service).oneshot(Request::new(()));
    let mut call = Box::pin(call);
    assert!(timeout(Duration::from_millis(1), &mut call).await.is_err(), "it waits");
    assert_eq!(bodies.lock().unwrap().iter().filter_map(Weak::upgrade).count(), 0, "without it");

    let other = retrier.call(async |_| pending::<io::Result<()>>().await);
    let (_, response) = tokio::join!(timeout(Duration::from_secs(5), other), call);
    let response = response.unwrap();
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(response.headers().get("content-length").is_none(), "there is none to promise");
    assert_eq!(response.into_body().into_inner(), None);
    assert_eq!(bodies.lock().unwrap().len(), 1);
}

type Quick =
    Retry<Client<HttpConnector, Full<Bytes>>, fn(&legacy::Error, Timestamp) -> Failure, ByClone>;

/// A client on real connections, with short waits.
fn quick() -> Quick {
    let initial = Duration::from_millis(10);
    let backoff = Backoff::Exponential { initial, multiplier: Ratio::from_thousandths(2_000) };
    let spec = PolicySpec { backoff, ..PolicySpec::sync_api() };
    let retrier = Retrier::new("stock", spec.build(Timestamp::ZERO).unwrap());
    let meaning: fn(&legacy::Error, Timestamp) -> Failure = |_, _| relent::retryable();
    let client = Client::builder(TokioExecutor::new()).build_http();
    RetryLayer::new(retrier).with_generated_keys().classify_errors(meaning).layer(client)
}

/// Serves on a port of its own.
async fn serve(app: Router) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    at
}

async fn in_time<F: Future>(future: F) -> F::Output {
    timeout(Duration::from_secs(20), future).await.unwrap()
}

fn get(at: SocketAddr) -> Request<Full<Bytes>> {
    Request::get(format!("http://{at}/")).body(Full::default()).unwrap()
}

#[tokio::test]
async fn the_headers_and_the_body_are_on_the_wire_of_every_attempt() {
    let got = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&got);
    let at = serve(Router::new().fallback(move |headers: HeaderMap, body: Bytes| {
        let mut seen = seen.lock().unwrap();
        seen.push((headers, body));
        let status = if seen.len() < 3 { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
        std::future::ready((status, "twelve"))
    }))
    .await;
    let post = Request::post(format!("http://{at}/")).body(Full::from("a charge")).unwrap();
    let response = in_time(quick().oneshot(post)).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "twelve");

    let got = got.lock().unwrap();
    assert_eq!(got.len(), 3);
    for (n, (headers, body)) in (1..).zip(got.iter()) {
        assert_eq!(headers["retry-attempt"], n.to_string());
        assert_eq!(headers["retry-max-attempts"], "4");
        assert_eq!(headers["idempotency-key"], got[0].0["idempotency-key"]);
        assert_eq!(body, "a charge");
    }
}

#[tokio::test]
async fn a_refused_connection_is_tried_again() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    drop(listener);
    let failed = in_time(quick().oneshot(get(at))).await.unwrap_err();
    assert!(failed.original().unwrap().is_connect());
    assert_eq!(failed.report().attempts, 4);
}
