//! As much of HTTP/1.1 as two ends need that know each other: heads end with an empty line, and
//! bodies have a `content-length` in lower case.

use std::net::SocketAddr;
use std::ops::Range;

use anyhow::{Context as _, Result, bail};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const BUFFER: usize = 16 * 1_024;

/// A client's connection, for one request at a time.
#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    read: Buffer,
}

impl Connection {
    pub(super) async fn open(address: SocketAddr) -> Result<Connection> {
        let stream = TcpStream::connect(address).await.context("cannot connect")?;
        stream.set_nodelay(true)?;
        Ok(Connection { stream, read: Buffer::default() })
    }

    /// Sends a request and reads its answer. An answer other than 2xx is an error.
    pub(super) async fn call(&mut self, request: &[u8]) -> Result<Range<usize>> {
        self.stream.write_all(request).await?;
        self.read.clear();
        loop {
            if self.read.fill(&mut self.stream).await? == 0 {
                bail!("the connection ended before the answer");
            }
            if let Some(body) = body_of(self.read.bytes()) {
                let body = body?;
                if self.read.bytes().len() < body.end {
                    continue;
                }
                if self.read.bytes().get(9) != Some(&b'2') {
                    bail!("{}", String::from_utf8_lossy(self.read.bytes()));
                }
                return Ok(body);
            }
        }
    }

    /// The body of a page.
    pub(super) async fn get(&mut self, path: &str) -> Result<String> {
        let request = format!("GET {path} HTTP/1.1\r\nhost: relent\r\n\r\n");
        let body = self.call(request.as_bytes()).await?;
        Ok(String::from_utf8_lossy(&self.read.bytes()[body]).into_owned())
    }
}

/// What was read and not used yet.
#[derive(Debug)]
pub(super) struct Buffer {
    bytes: Vec<u8>,
    end: usize,
}

impl Default for Buffer {
    fn default() -> Buffer {
        Buffer { bytes: vec![0; BUFFER], end: 0 }
    }
}

impl Buffer {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.end]
    }

    pub(super) fn clear(&mut self) {
        self.end = 0;
    }

    /// Drops what stands at the beginning.
    pub(super) fn used(&mut self, count: usize) {
        self.bytes.copy_within(count..self.end, 0);
        self.end -= count;
    }

    /// Reads once; 0 at the end of the stream.
    pub(super) async fn fill(&mut self, stream: &mut TcpStream) -> std::io::Result<usize> {
        if self.end == self.bytes.len() {
            self.bytes.resize(self.end * 2, 0);
        }
        let count = stream.read(&mut self.bytes[self.end..]).await?;
        self.end += count;
        Ok(count)
    }
}

/// Where the body of the first message stands; `None` until its head is whole. The body itself may
/// be still to come.
pub(super) fn body_of(bytes: &[u8]) -> Option<Result<Range<usize>>> {
    const LENGTH: &[u8] = b"\r\ncontent-length: ";
    let head_end = find(bytes, b"\r\n\r\n")? + 4;
    let Some(at) = find(&bytes[..head_end], LENGTH) else {
        return Some(Err(anyhow::anyhow!("a message without content-length")));
    };
    let digits = bytes[at + LENGTH.len()..].iter().take_while(|byte| byte.is_ascii_digit());
    let length = digits.fold(0, |length, digit| length * 10 + usize::from(digit - b'0'));
    Some(Ok(head_end..head_end + length))
}

fn find(bytes: &[u8], needle: &[u8]) -> Option<usize> {
    bytes.windows(needle.len()).position(|window| window == needle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_stands_behind_its_head() {
        let message = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nx: y\r\n\r\nhello";
        let body = body_of(message).unwrap().unwrap();
        assert_eq!(&message[body], b"hello");
        assert!(body_of(&message[..40]).is_none());
        assert!(body_of(b"HTTP/1.1 200 OK\r\n\r\n").unwrap().is_err());
    }
}
