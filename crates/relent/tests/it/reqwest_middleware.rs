//! The reqwest middleware: what goes out, what is repeated, and what comes back.
//! REQ-A1, REQ-I1, REQ-I2, REQ-S10.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, Once};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::IntoResponse;
use http::{HeaderMap, Method};
use relent::hop::{self, Hop};
use relent::observe::{GiveUpEvent, Observer};
use relent::relent_policy::{Backoff, Ratio};
use relent::reqwest_middleware::{CallError, RetryMiddleware};
use relent::{GiveUpReason, PolicySpec, Retrier, Timestamp};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Error, RequestBuilder};
use tokio::task::JoinSet;

/// What the server got.
#[derive(Clone, Debug)]
struct Got {
    headers: HeaderMap,
    body: Bytes,
}

impl Got {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

/// What the server answers next; 200 when there is nothing left.
type Script = VecDeque<(u16, Option<&'static str>)>;

#[derive(Clone, Default)]
struct Server {
    script: Arc<Mutex<Script>>,
    got: Arc<Mutex<Vec<Got>>>,
}

impl Server {
    async fn start(script: impl Into<Script>) -> (Server, SocketAddr, JoinSet<()>) {
        let server = Server { script: Arc::new(Mutex::new(script.into())), ..Server::default() };
        let app = Router::new().fallback(answer).with_state(server.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut serving = JoinSet::new();
        serving.spawn(async move { axum::serve(listener, app).await.unwrap() });
        (server, address, serving)
    }

    fn got(&self) -> Vec<Got> {
        self.got.lock().unwrap().clone()
    }
}

async fn answer(
    State(server): State<Server>,
    headers: HeaderMap,
    body: Bytes,
) -> impl IntoResponse {
    server.got.lock().unwrap().push(Got { headers, body });
    let (status, retry_after) = server.script.lock().unwrap().pop_front().unwrap_or((200, None));
    let status = http::StatusCode::from_u16(status).unwrap();
    let headers: HeaderMap = retry_after
        .map(|seconds| (http::header::RETRY_AFTER, seconds.parse().unwrap()))
        .into_iter()
        .collect();
    (status, headers, "the body")
}

fn unavailable(times: usize) -> Script {
    vec![(503, None); times].into()
}

fn spec() -> PolicySpec {
    PolicySpec {
        backoff: Backoff::Exponential {
            initial: Duration::from_millis(10),
            multiplier: Ratio::from_thousandths(2_000),
        },
        ..PolicySpec::sync_api()
    }
}

fn retrier() -> Retrier {
    Retrier::new("stock", spec().build(Timestamp::ZERO).unwrap())
}

fn client_with(retry: RetryMiddleware) -> ClientWithMiddleware {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
    let http = reqwest::Client::builder()
        .retry(reqwest::retry::never())
        .no_proxy()
        .tls_certs_only([])
        .build()
        .unwrap();
    ClientBuilder::new(http).with(retry).build()
}

fn client() -> ClientWithMiddleware {
    client_with(RetryMiddleware::new(retrier()))
}

fn request(client: &ClientWithMiddleware, method: Method, address: SocketAddr) -> RequestBuilder {
    client.request(method, format!("http://{address}/level"))
}

/// The status of the answer.
async fn status(request: RequestBuilder) -> u16 {
    request.send().await.unwrap().status().as_u16()
}

#[tokio::test]
async fn two_503_and_a_200_are_a_200() {
    let (server, address, _serving) = Server::start(unavailable(2)).await;
    let response = request(&client(), Method::GET, address).send().await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(response.text().await.unwrap(), "the body");
    assert_eq!(server.got().len(), 3);
}

#[tokio::test]
async fn the_last_503_is_returned_with_its_body() {
    let (server, address, _serving) = Server::start(unavailable(9)).await;
    let response = request(&client(), Method::GET, address).send().await.unwrap();
    assert_eq!(response.status(), 503);
    assert_eq!(response.text().await.unwrap(), "the body");
    assert_eq!(server.got().len(), 4);
}

#[tokio::test]
async fn a_404_is_an_answer() {
    let (server, address, _serving) = Server::start([(404, None)]).await;
    assert_eq!(status(request(&client(), Method::GET, address)).await, 404);
    assert_eq!(server.got().len(), 1);
}

#[tokio::test]
async fn every_attempt_says_which_it_is() {
    let (server, address, _serving) = Server::start(unavailable(2)).await;
    status(request(&client(), Method::PUT, address).body("mine")).await;
    let said: Vec<_> =
        server.got().iter().map(|got| got.header("retry-attempt").to_owned()).collect();
    assert_eq!(said, ["1", "2", "3"]);
    for got in server.got() {
        assert_eq!(got.header("retry-max-attempts"), "4");
        assert_eq!(got.body, "mine");
        assert_eq!(got.header("idempotency-key"), "", "PUT needs none");
    }
}

#[tokio::test]
async fn a_post_without_a_key_is_sent_once() {
    for method in [Method::POST, Method::PATCH] {
        let (server, address, _serving) = Server::start(unavailable(9)).await;
        assert_eq!(status(request(&client(), method, address).body("mine")).await, 503);
        assert_eq!(server.got().len(), 1);
        assert_eq!(server.got()[0].header("retry-max-attempts"), "1");
    }
}

#[tokio::test]
async fn a_post_with_a_key_is_repeated_with_it() {
    let (server, address, _serving) = Server::start(unavailable(2)).await;
    let post = request(&client(), Method::POST, address).header("idempotency-key", "order-17");
    assert_eq!(status(post).await, 200);
    let got = server.got();
    assert!(got.len() == 3 && got.iter().all(|got| got.header("idempotency-key") == "order-17"));
}

#[tokio::test]
async fn a_key_that_is_none_goes_out_as_it_is_and_is_not_relied_on() {
    let (server, address, _serving) = Server::start(unavailable(9)).await;
    let long = "k".repeat(65);
    let client = client_with(RetryMiddleware::new(retrier()).with_generated_keys());
    let post = request(&client, Method::POST, address).header("idempotency-key", &long);
    assert_eq!(status(post).await, 503);
    assert_eq!(server.got().len(), 1);
    assert_eq!(server.got()[0].header("idempotency-key"), long);
}

#[tokio::test]
async fn a_generated_key_is_a_uuid_and_the_same_on_every_attempt() {
    let (server, address, _serving) = Server::start(unavailable(2)).await;
    let client = client_with(RetryMiddleware::new(retrier()).with_generated_keys());
    assert_eq!(status(request(&client, Method::POST, address).body("mine")).await, 200);
    let got = server.got();
    let key = got[0].header("idempotency-key").to_owned();
    assert_eq!(key.len(), 36);
    assert!(got.len() == 3 && got.iter().all(|got| got.header("idempotency-key") == key));

    assert_eq!(status(request(&client, Method::POST, address)).await, 200);
    assert_ne!(server.got()[3].header("idempotency-key"), key, "another call, another key");
}

#[tokio::test]
async fn a_retrier_that_is_repeatable_vouches_for_a_post() {
    let (server, address, _serving) = Server::start(unavailable(2)).await;
    let policy = spec().build(Timestamp::ZERO).unwrap();
    let search = Retrier::builder("search").policy(policy).repeatable().build();
    let client = client_with(RetryMiddleware::new(search));
    assert_eq!(status(request(&client, Method::POST, address)).await, 200);
    assert_eq!(server.got().len(), 3);
}

#[tokio::test]
async fn a_body_that_is_a_stream_is_sent_once_and_that_is_no_error() {
    let (server, address, _serving) = Server::start(unavailable(9)).await;
    let client = client_with(RetryMiddleware::new(retrier()).with_generated_keys());
    for (method, key) in
        [(Method::PUT, None), (Method::POST, Some("order-17")), (Method::POST, None)]
    {
        let stream = reqwest::Body::wrap(http_body_util::Full::new(Bytes::from("streamed")));
        assert!(stream.as_bytes().is_none());
        let mut sending = request(&client, method, address).body(stream);
        if let Some(key) = key {
            sending = sending.header("idempotency-key", key);
        }
        assert_eq!(status(sending).await, 503);
    }
    let got = server.got();
    assert_eq!(got.len(), 3);
    assert!(got.iter().all(|got| got.body == "streamed"));
}

#[tokio::test]
async fn retry_after_is_waited_for_and_too_long_a_wish_ends_the_call() {
    let (server, address, _serving) = Server::start([(503, Some("1"))]).await;
    let started = Instant::now();
    assert_eq!(status(request(&client(), Method::GET, address)).await, 200);
    assert!(started.elapsed() >= Duration::from_secs(1), "{:?}", started.elapsed());
    assert_eq!(server.got().len(), 2);

    let (server, address, _serving) = Server::start([(503, Some("3600"))]).await;
    assert_eq!(status(request(&client(), Method::GET, address)).await, 503);
    assert_eq!(server.got().len(), 1);
}

#[tokio::test]
async fn an_error_of_reqwest_stays_one() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = request(&client(), Method::GET, closed).send().await.unwrap_err();
    assert!(matches!(&error, Error::Reqwest(error) if error.is_connect()), "{error:?}");
}

#[tokio::test]
async fn an_attempt_that_takes_too_long_is_a_call_error() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let spec = PolicySpec {
        attempt_timeout: Duration::from_millis(50),
        connect_timeout: Duration::from_millis(40),
        ..spec()
    };
    let retrier = Retrier::new("silent", spec.build(Timestamp::ZERO).unwrap());
    let client = client_with(RetryMiddleware::new(retrier));
    let address = silent.local_addr().unwrap();
    let error = request(&client, Method::GET, address).send().await.unwrap_err();
    let Error::Middleware(error) = error else { panic!("{error:?}") };
    let Some(CallError::TimedOut(timed_out)) = error.downcast_ref() else { panic!("{error:?}") };
    assert_eq!(timed_out.report.attempts, 4);
}

#[tokio::test]
async fn an_open_breaker_lets_nothing_out() {
    let (server, address, _serving) = Server::start(unavailable(99)).await;
    let client = client();
    let error = loop {
        match request(&client, Method::POST, address).send().await {
            Ok(response) => assert_eq!(response.status(), 503),
            Err(error) => break error,
        }
        assert!(server.got().len() < 90, "the breaker should have opened");
    };
    let Error::Middleware(error) = error else { panic!("{error:?}") };
    assert!(matches!(error.downcast_ref(), Some(CallError::Refused(_))), "{error:?}");
}

/// Remembers why calls were given up.
#[derive(Clone, Default)]
struct Reasons(Arc<Mutex<Vec<GiveUpReason>>>);

impl Observer for Reasons {
    fn gave_up(&self, event: &GiveUpEvent<'_>) {
        self.0.lock().unwrap().push(event.because);
    }
}

#[tokio::test]
async fn observers_hear_why_there_was_no_further_attempt() {
    let (server, address, _serving) = Server::start(unavailable(9)).await;
    let reasons = Reasons::default();
    let policy = spec().build(Timestamp::ZERO).unwrap();
    let retrier = Retrier::builder("stock").policy(policy).observer(reasons.clone()).build();
    let client = client_with(RetryMiddleware::new(retrier));
    status(request(&client, Method::POST, address)).await;
    hop::within(Hop::RetriedAbove, status(request(&client, Method::GET, address))).await;
    assert_eq!(server.got().len(), 2);
    let reasons = reasons.0.lock().unwrap().clone();
    assert_eq!(reasons, [GiveUpReason::UnsafeToRepeat, GiveUpReason::RetriedAbove]);
}
