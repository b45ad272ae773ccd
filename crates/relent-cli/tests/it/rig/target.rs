//! A target: an HTTP server that does with each request what its script says, and writes down what
//! came. On plain sockets, because it must be able to misbehave.
//!
//! A script belongs to a path. Its steps are taken in turn by the requests of each idempotency key;
//! the last one is repeated. A path without a script answers 200.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime};

use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::script::Step;
use super::wire::{self, Reader, Request};
use super::{SOON, wait_until};

/// Between the drops of whatever drips.
const DRIP: Duration = Duration::from_millis(10);

/// A scripted target. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
    _accepting: JoinSet<()>,
}

/// One request that came.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) key: String,
    pub(crate) attempt: Option<u32>,
    pub(crate) max_attempts: Option<u32>,
    pub(crate) previous_status: Option<u16>,
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) body_hash: u64,
    pub(crate) connection: u64,
    /// When its first byte came.
    pub(crate) arrived: Instant,
    /// The same by the wall clock.
    pub(crate) arrived_at: SystemTime,
    /// When the target turned to its answer; its peer cannot know of any of it before.
    pub(crate) turned: Option<Instant>,
    /// When the target was done with it.
    pub(crate) ended: Option<Instant>,
    /// The status of an answer that was written in full.
    pub(crate) answered: Option<u16>,
    /// How many bytes of answer the peer took.
    pub(crate) written: u64,
    head: String,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers(name).first().copied()
    }

    /// The values of every line with this name.
    pub(crate) fn headers(&self, name: &str) -> Vec<&str> {
        wire::headers(&self.head, name).collect()
    }
}

#[derive(Debug, Default)]
struct Shared {
    scripts: Mutex<HashMap<String, Arc<[Step]>>>,
    book: Mutex<Book>,
}

#[derive(Debug, Default)]
struct Book {
    seen: Vec<Seen>,
    /// How many requests of each path and key there were.
    counts: HashMap<(String, String), usize>,
    connections: u64,
}

impl Target {
    pub(crate) async fn start() -> Target {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared::default());
        let mut accepting = JoinSet::new();
        accepting.spawn(accept(listener, Arc::clone(&shared)));
        Target { address, shared, _accepting: accepting }
    }

    /// What to do with requests to a path.
    pub(crate) fn on(&self, path: &str, script: impl IntoIterator<Item = Step>) {
        let script: Arc<[Step]> = script.into_iter().collect();
        self.shared.scripts.lock().unwrap().insert(path.to_owned(), script);
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.shared.book.lock().unwrap()
    }

    /// Everything that came, in the order of arrival.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.book().seen.clone()
    }

    /// What came to a path.
    pub(crate) fn seen_at(&self, path: &str) -> Vec<Seen> {
        self.book().seen.iter().filter(|seen| seen.path == path).cloned().collect()
    }

    pub(crate) fn count(&self) -> usize {
        self.book().seen.len()
    }

    pub(crate) fn connections(&self) -> u64 {
        self.book().connections
    }

    /// Waits for so many requests to a path.
    pub(crate) async fn until_seen(&self, path: &str, count: usize) -> Vec<Seen> {
        let what = format!("{count} requests to {path}");
        wait_until(SOON, &what, async || {
            let seen = self.seen_at(path);
            (seen.len() >= count).then_some(seen)
        })
        .await
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        // Too many open files, for a moment.
        let Ok((stream, _)) = listener.accept().await else {
            sleep(DRIP).await;
            continue;
        };
        let id = {
            let mut book = shared.book.lock().unwrap();
            book.connections += 1;
            book.connections
        };
        connections.spawn(serve(stream, id, Arc::clone(&shared)));
        while connections.try_join_next().is_some() {}
    }
}

async fn serve(stream: TcpStream, id: u64, shared: Arc<Shared>) {
    stream.set_nodelay(true).unwrap();
    let mut peer = Peer { reader: Reader::default(), stream, turned: None, written: 0 };
    while let Some(request) = peer.reader.next(&mut peer.stream).await {
        let (index, step) = shared.note(&request, id);
        (peer.turned, peer.written) = (None, 0);
        let answered = peer.take(&step).await;
        let mut book = shared.book.lock().unwrap();
        let seen = &mut book.seen[index];
        (seen.turned, seen.ended) = (peer.turned, Some(Instant::now()));
        seen.written = peer.written;
        match answered {
            Some(Done::Answered(status)) => seen.answered = Some(status),
            Some(Done::Hang) | None => return,
        }
    }
}

impl Shared {
    /// Writes a request down, and says what to do with it.
    fn note(&self, request: &Request, connection: u64) -> (usize, Step) {
        let number = |name| request.header(name).and_then(|value| value.parse().ok());
        let (path, key) = (request.path(), request.header("idempotency-key").unwrap_or_default());
        let seen = Seen {
            key: key.to_owned(),
            attempt: number("retry-attempt"),
            max_attempts: number("retry-max-attempts"),
            previous_status: number("retry-previous-status").and_then(|it| it.try_into().ok()),
            method: request.method().to_owned(),
            path: path.to_owned(),
            body_hash: wire::hash(&request.body),
            connection,
            arrived: request.arrived,
            arrived_at: request.arrived_at,
            turned: None,
            ended: None,
            answered: None,
            written: 0,
            head: request.head.clone(),
        };
        let script = self.scripts.lock().unwrap().get(path).cloned();
        let mut book = self.book.lock().unwrap();
        let count = book.counts.entry((path.to_owned(), key.to_owned())).or_default();
        let nth = *count;
        *count += 1;
        book.seen.push(seen);
        let step = script.and_then(|script| script.get(nth).or(script.last()).cloned());
        (book.seen.len() - 1, step.unwrap_or_else(super::script::ok))
    }
}

enum Done {
    /// The connection can be used again.
    Answered(u16),
    /// It is over.
    Hang,
}

struct Peer {
    reader: Reader,
    stream: TcpStream,
    turned: Option<Instant>,
    written: u64,
}

impl Peer {
    /// Does what the step says; `None` when the peer has hung up.
    async fn take(&mut self, mut step: &Step) -> Option<Done> {
        loop {
            step = match step {
                Step::After(wait, next) => {
                    sleep(*wait).await;
                    next
                }
                Step::Held(gate, next) => {
                    gate.passed().await;
                    next
                }
                _ => break,
            }
        }
        self.turned = Some(Instant::now());
        match step {
            Step::Answer { status, headers, body } => {
                let mut text = format!("HTTP/1.1 {status} x\r\ncontent-length: {}\r\n", body.len());
                for (name, value) in headers {
                    text.extend([name, ": ", value, "\r\n"]);
                }
                text.push_str("\r\n");
                let mut bytes = text.into_bytes();
                bytes.extend_from_slice(body);
                self.write(&bytes).await?;
                return Some(Done::Answered(*status));
            }
            Step::Reset => self.stream.set_zero_linger().unwrap(),
            Step::Close | Step::After(..) | Step::Held(..) => {}
            Step::LastAnswer => {
                self.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await?;
            }
            Step::Silence => self.reader.until_closed(&mut self.stream).await,
            Step::Truncated => {
                self.write(b"HTTP/1.1 200 OK\r\ncontent-length: 20\r\n\r\nonly half").await?;
            }
            Step::Garbage => self.write(b"\x00\xffthis is not HTTP\r\n\r\n").await?,
            Step::HugeHead => {
                self.write(b"HTTP/1.1 200 OK\r\nx-long: ").await?;
                self.fill(2 << 20).await?;
            }
            Step::HugeBody(bytes) => {
                let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {bytes}\r\n\r\n");
                self.write(head.as_bytes()).await?;
                self.fill(*bytes).await?;
            }
            Step::DripHead => {
                self.write(b"HTTP/1.1 200 OK\r\n").await?;
                self.repeat(b"x-more: to come\r\n").await?;
            }
            Step::EndlessBody => {
                self.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await?;
                self.repeat(b"4\r\nmore\r\n").await?;
            }
            Step::InterimFlood => self.repeat(b"HTTP/1.1 103 Early Hints\r\n\r\n").await?,
        }
        Some(Done::Hang)
    }

    async fn write(&mut self, bytes: &[u8]) -> Option<()> {
        self.stream.write_all(bytes).await.ok()?;
        self.written += bytes.len() as u64;
        Some(())
    }

    async fn fill(&mut self, bytes: u64) -> Option<()> {
        let block = [b'x'; 16 << 10];
        for _ in 0..bytes / block.len() as u64 {
            self.write(&block).await?;
        }
        Some(())
    }

    /// Until the peer hangs up.
    async fn repeat(&mut self, bytes: &[u8]) -> Option<()> {
        loop {
            self.write(bytes).await?;
            sleep(DRIP).await;
        }
    }
}
