//! Where tasks are delivered to: answers 200 and notes when each one arrived.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, bail};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};

use super::http::{Buffer, body_of};

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
/// By this name its processor time is found.
pub(super) const THREAD: &str = "bench-sink";
/// `POST /0000000017 HTTP/1.1`
const PATH_AT: usize = "POST /".len();

/// A server on a thread of its own, which ends with the process.
#[derive(Debug)]
pub(super) struct Sink {
    pub(super) address: SocketAddr,
    arrivals: Arc<Arrivals>,
}

#[derive(Debug)]
struct Arrivals {
    /// By number: when it arrived first, in nanoseconds since the epoch; 0 if it has not.
    first: Vec<AtomicU64>,
    all: AtomicU64,
    repeated: AtomicU64,
}

impl Sink {
    /// A sink for tasks of these numbers.
    pub(super) fn start(numbers: u64) -> Result<Sink> {
        let arrivals = Arc::new(Arrivals {
            first: (0..numbers).map(|_| AtomicU64::new(0)).collect(),
            all: AtomicU64::new(0),
            repeated: AtomicU64::new(0),
        });
        let listener = std::net::TcpListener::bind("127.0.0.1:0").context("cannot listen")?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let shared = Arc::clone(&arrivals);
        let serve = move || runtime.block_on(accept(listener, shared));
        std::thread::Builder::new().name(THREAD.to_owned()).spawn(serve)?;
        Ok(Sink { address, arrivals })
    }

    /// Waits until so many have arrived.
    pub(super) async fn wait_for(&self, count: u64, within: Duration) -> Result<()> {
        let started_at = Instant::now();
        while self.arrived() < count {
            if started_at.elapsed() > within {
                bail!("{} of {count} tasks arrived within {within:?}", self.arrived());
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        Ok(())
    }

    /// How many have arrived, each counted once.
    pub(super) fn arrived(&self) -> u64 {
        self.arrivals.all.load(Ordering::Relaxed) - self.repeated()
    }

    /// How many arrived once more.
    pub(super) fn repeated(&self) -> u64 {
        self.arrivals.repeated.load(Ordering::Relaxed)
    }

    /// When a task arrived, in nanoseconds since the epoch.
    pub(super) fn arrived_at(&self, number: u64) -> Option<u64> {
        let first = self.arrivals.first.get(usize::try_from(number).ok()?)?;
        Some(first.load(Ordering::Relaxed)).filter(|at| *at > 0)
    }

    /// When the last one arrived.
    pub(super) fn last_at(&self) -> u64 {
        self.arrivals.first.iter().map(|at| at.load(Ordering::Relaxed)).max().unwrap_or(0)
    }
}

/// Nanoseconds since the epoch.
pub(super) fn wall_nanos() -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_epoch.as_nanos()).unwrap_or(u64::MAX)
}

async fn accept(listener: std::net::TcpListener, arrivals: Arc<Arrivals>) {
    let Ok(listener) = TcpListener::from_std(listener) else { return };
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(serve(stream, Arc::clone(&arrivals)));
    }
}

async fn serve(mut stream: TcpStream, arrivals: Arc<Arrivals>) {
    let _ = stream.set_nodelay(true);
    let mut read = Buffer::default();
    loop {
        while let Some(body) = body_of(read.bytes()) {
            let Ok(body) = body else { return };
            if read.bytes().len() < body.end {
                break;
            }
            arrivals.note(read.bytes());
            read.used(body.end);
            if stream.write_all(ANSWER).await.is_err() {
                return;
            }
        }
        match read.fill(&mut stream).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
    }
}

impl Arrivals {
    fn note(&self, request: &[u8]) {
        let digits = request.iter().skip(PATH_AT).take_while(|byte| byte.is_ascii_digit());
        let number = digits.fold(0, |number, digit| number * 10 + usize::from(digit - b'0'));
        let first = self.first.get(number).map(|at| {
            at.compare_exchange(0, wall_nanos(), Ordering::Relaxed, Ordering::Relaxed).is_ok()
        });
        if first == Some(false) {
            self.repeated.fetch_add(1, Ordering::Relaxed);
        }
        self.all.fetch_add(1, Ordering::Relaxed);
    }
}
