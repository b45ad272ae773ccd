//! A target on loopback: answers 200, or 503 while it is down, and remembers when.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

/// When a call came, and whether it was answered 200.
pub(super) type Seen = (Duration, bool);

pub(super) struct Target {
    address: SocketAddr,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    is_down: AtomicBool,
    succeeded: AtomicU64,
    seen: Mutex<Vec<(Instant, bool)>>,
}

impl Target {
    pub(super) async fn start() -> io::Result<Target> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let (address, state) = (listener.local_addr()?, Arc::new(State::default()));
        let shared = Arc::clone(&state);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let state = Arc::clone(&shared);
                tokio::spawn(async move {
                    // A connection that breaks is the caller's business.
                    let _ = answer(stream, &state).await;
                });
            }
        });
        Ok(Target { address, state })
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/drill", self.address)
    }

    pub(super) fn set_down(&self, is_down: bool) {
        self.state.is_down.store(is_down, Ordering::Relaxed);
    }

    pub(super) fn succeeded(&self) -> u64 {
        self.state.succeeded.load(Ordering::Relaxed)
    }

    /// Every call so far, by the time since the start.
    pub(super) fn seen(&self, start: Instant) -> Vec<Seen> {
        let seen = self.state.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.iter().map(|(at, good)| (at.saturating_duration_since(start), *good)).collect()
    }
}

/// One connection, call after call.
async fn answer(stream: TcpStream, state: &State) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let (mut body_bytes, mut line) = (0, String::new());
        loop {
            line.clear();
            if stream.read_line(&mut line).await? == 0 {
                return Ok(());
            }
            let header = line.trim_end().to_ascii_lowercase();
            if header.is_empty() {
                break;
            }
            if let Some(length) = header.strip_prefix("content-length:") {
                body_bytes = length.trim().parse().unwrap_or(0);
            }
        }
        let mut body = vec![0; body_bytes];
        stream.read_exact(&mut body).await?;
        let good = !state.is_down.load(Ordering::Relaxed);
        state.seen.lock().unwrap_or_else(PoisonError::into_inner).push((Instant::now(), good));
        state.succeeded.fetch_add(u64::from(good), Ordering::Relaxed);
        let status = if good { "200 OK" } else { "503 Service Unavailable" };
        let head = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
        stream.get_mut().write_all(head.as_bytes()).await?;
    }
}
