//! As much HTTP/1.1 as a target needs to read, written by hand so that it can break every rule.

use std::hash::{DefaultHasher, Hasher as _};
use std::time::{Instant, SystemTime};

use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

/// A request as it came.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) arrived: Instant,
    pub(super) arrived_at: SystemTime,
    pub(super) head: String,
    pub(super) body: Vec<u8>,
}

impl Request {
    pub(super) fn method(&self) -> &str {
        self.head.split(' ').next().unwrap_or_default()
    }

    pub(super) fn path(&self) -> &str {
        self.head.split(' ').nth(1).unwrap_or_default()
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        header(&self.head, name)
    }
}

/// The value of the first header line with this name.
fn header<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    headers(head, name).next()
}

/// The values of every header line with this name.
pub(super) fn headers<'h>(head: &'h str, name: &str) -> impl Iterator<Item = &'h str> {
    head.lines().skip(1).filter_map(move |line| {
        let (found, value) = line.split_once(':')?;
        found.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

/// Reads requests off a connection, one after the other.
#[derive(Default)]
pub(super) struct Reader {
    buffer: Vec<u8>,
}

impl Reader {
    /// The next request; `None` when the peer has hung up.
    pub(super) async fn next(&mut self, stream: &mut TcpStream) -> Option<Request> {
        if self.buffer.is_empty() {
            self.more(stream).await?;
        }
        let (arrived, arrived_at) = (Instant::now(), SystemTime::now());
        let head = loop {
            match self.buffer.windows(4).position(|end| end == b"\r\n\r\n") {
                Some(end) => break end + 4,
                None => self.more(stream).await?,
            }
        };
        let text = String::from_utf8_lossy(&self.buffer[..head]).into_owned();
        let length = header(&text, "content-length").and_then(|length| length.parse().ok());
        let end = head + length.unwrap_or(0_usize);
        while self.buffer.len() < end {
            self.more(stream).await?;
        }
        let body = self.buffer[head..end].to_vec();
        self.buffer.drain(..end);
        Some(Request { arrived, arrived_at, head: text, body })
    }

    /// Waits until the peer hangs up.
    pub(super) async fn until_closed(&mut self, stream: &mut TcpStream) {
        while self.more(stream).await.is_some() {
            self.buffer.clear();
        }
    }

    async fn more(&mut self, stream: &mut TcpStream) -> Option<()> {
        stream.read_buf(&mut self.buffer).await.ok().filter(|read| *read > 0).map(|_| ())
    }
}

/// What two bodies must share to count as the same.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}
