//! A small client of the API: one connection, made anew when it is gone.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::time::{sleep, timeout};

use super::{SOON, wait_until};

/// An answer that does not come within this is none.
const ANSWERED_WITHIN: Duration = Duration::from_secs(20);
/// A page as large as can be.
const PAGE: &str = "limit=200";

#[derive(Debug)]
pub(crate) struct Client {
    address: SocketAddr,
    connection: Mutex<Option<SendRequest<Full<Bytes>>>>,
    /// How long lists are asked for again while the store is away.
    patience: Duration,
}

/// An answer in full.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        let text = String::from_utf8_lossy(&self.body);
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// The JSON of an answer with this status; anything else fails.
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        self.json()
    }

    /// The code of a problem document with this status; anything else fails.
    #[track_caller]
    pub(crate) fn problem(&self, status: u16) -> String {
        assert_eq!(self.status, status, "{}", self.text());
        assert_eq!(self.header("content-type"), "application/problem+json");
        let problem = self.json();
        assert_eq!(problem["status"], status);
        problem["code"].as_str().unwrap().to_owned()
    }
}

impl Client {
    pub(crate) fn new(address: SocketAddr) -> Client {
        Client { address, connection: Mutex::new(None), patience: Duration::ZERO }
    }

    /// One that asks again for lists, as it is told to, while the service finds its store again.
    pub(crate) fn patient(address: SocketAddr) -> Client {
        Client { patience: SOON, ..Client::new(address) }
    }

    /// Sends anything; `Err` if no answer came.
    pub(crate) async fn try_send(&self, request: Request<Full<Bytes>>) -> Result<Reply, String> {
        let mut connection = self.connection.lock().await;
        let answered = timeout(ANSWERED_WITHIN, async {
            if connection.as_ref().is_none_or(SendRequest::is_closed) {
                *connection = Some(connect(self.address).await?);
            }
            let Some(sender) = connection.as_mut() else { return Err("no connection".to_owned()) };
            sender.ready().await.map_err(|error| error.to_string())?;
            let response = sender.send_request(request).await.map_err(|error| error.to_string())?;
            let (head, body) = response.into_parts();
            let body = body.collect().await.map_err(|error| error.to_string())?.to_bytes();
            Ok(Reply { status: head.status, headers: head.headers, body })
        });
        let answer = answered.await.unwrap_or_else(|_| Err("no answer in time".to_owned()));
        if answer.is_err() {
            *connection = None;
        }
        answer
    }

    pub(crate) async fn send(&self, request: Request<Full<Bytes>>) -> Reply {
        let what = format!("{} {}", request.method(), request.uri());
        self.try_send(request).await.unwrap_or_else(|error| panic!("{what}: {error}"))
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.send(request(Method::GET, path, None)).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Reply {
        self.send(request(Method::DELETE, path, None)).await
    }

    pub(crate) async fn post(&self, path: &str, document: &Value) -> Reply {
        self.send(request(Method::POST, path, Some(document))).await
    }

    pub(crate) async fn put(&self, path: &str, document: &Value) -> Reply {
        self.send(request(Method::PUT, path, Some(document))).await
    }

    /// Creates a task that must be new; its id.
    pub(crate) async fn create(&self, task: &Value) -> String {
        let created = self.post("/retry-tasks", task).await.expect(202);
        created["taskId"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn task(&self, id: &str) -> Value {
        self.get(&format!("/retry-tasks/{id}")).await.expect(200)
    }

    pub(crate) async fn register(&self, policy: &Value) -> Value {
        let reply = self.post("/retry-policies", policy).await;
        assert!(reply.status.is_success(), "{}", reply.text());
        reply.json()
    }

    pub(crate) async fn cancel(&self, id: &str) -> Reply {
        self.delete(&format!("/retry-tasks/{id}")).await
    }

    /// All attempts of a task.
    pub(crate) async fn attempts(&self, id: &str) -> Vec<Value> {
        self.all(&format!("/retry-tasks/{id}/attempts")).await
    }

    /// All items of a list, page by page. The path may have a query.
    pub(crate) async fn all(&self, path: &str) -> Vec<Value> {
        let mut items = Vec::new();
        let first = format!("{path}{}{PAGE}", if path.contains('?') { '&' } else { '?' });
        let mut next = first.clone();
        loop {
            let mut page = self.page(&next).await.expect(200);
            let Value::Array(more) = page["items"].take() else { panic!("no items: {page}") };
            items.extend(more);
            match page["nextCursor"].as_str() {
                Some(cursor) => next = format!("{first}&cursor={cursor}"),
                None => return items,
            }
        }
    }

    async fn page(&self, path: &str) -> Reply {
        let patient_until = Instant::now() + self.patience;
        loop {
            let reply = self.get(path).await;
            if reply.status != StatusCode::SERVICE_UNAVAILABLE || Instant::now() > patient_until {
                return reply;
            }
            let pause = reply.json()["retryAfterMs"].as_u64().unwrap();
            sleep(Duration::from_millis(pause)).await;
        }
    }

    /// The lane of a dependency.
    pub(crate) async fn lane(&self, dependency: &str) -> Value {
        let lanes = self.all("/lanes").await;
        let found = lanes.into_iter().find(|lane| lane["dependency"] == dependency);
        found.unwrap_or_else(|| panic!("no lane for {dependency}"))
    }

    /// Waits until a task's document meets the condition.
    pub(crate) async fn until(&self, id: &str, what: &str, met: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        let found = wait_until(SOON, what, async || {
            last = self.task(id).await;
            met(&last).then(|| last.clone())
        });
        found.await
    }

    /// Waits until a task has this status; it may not end otherwise.
    pub(crate) async fn until_status(&self, id: &str, status: &str) -> Value {
        let what = format!("task {id} is {status}");
        let task = self.until(id, &what, |task| task["status"] == status || has_ended(task)).await;
        assert_eq!(task["status"], status, "{task:#}");
        task
    }
}

pub(crate) fn has_ended(task: &Value) -> bool {
    ["SUCCEEDED", "EXHAUSTED", "CANCELLED"].iter().any(|status| task["status"] == *status)
}

/// A request; a document goes as JSON.
pub(crate) fn request(
    method: Method,
    path: &str,
    document: Option<&Value>,
) -> Request<Full<Bytes>> {
    let request = Request::builder().method(method).uri(path).header("host", "relent.test");
    match document {
        None => request.body(Full::default()).unwrap(),
        Some(document) => request
            .header("content-type", "application/json")
            .body(Full::from(document.to_string()))
            .unwrap(),
    }
}

async fn connect(address: SocketAddr) -> Result<SendRequest<Full<Bytes>>, String> {
    let stream = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
    stream.set_nodelay(true).map_err(|error| error.to_string())?;
    let made = handshake(TokioIo::new(stream)).await;
    let (sender, connection) = made.map_err(|error| error.to_string())?;
    tokio::spawn(connection);
    Ok(sender)
}
