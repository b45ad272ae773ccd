//! A dependency that answers as it is told, and keeps what it got.

use std::future::{Ready, ready};
use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use http::{HeaderMap, Request, Response};
use tower::Service;

/// Answers line by line, and with the last line from then on. It insists on being polled ready.
#[derive(Clone)]
pub(crate) struct Script {
    lines: &'static [Line],
    got: Arc<Mutex<Vec<(HeaderMap, &'static str)>>>,
    is_ready: bool,
}

/// One answer.
pub(crate) enum Line {
    Status(u16),
    Head(u16, &'static [(&'static str, &'static str)]),
    Error(ErrorKind),
}

impl Script {
    pub(crate) fn new(lines: &'static [Line]) -> Script {
        Script { lines, got: Arc::default(), is_ready: false }
    }

    pub(crate) fn calls(&self) -> usize {
        self.got.lock().unwrap().len()
    }

    /// The values that the attempts had in this header.
    pub(crate) fn header(&self, name: &str) -> Vec<String> {
        let got = self.got.lock().unwrap();
        let values = got.iter().filter_map(|(headers, _)| headers.get(name));
        values.map(|value| value.to_str().unwrap().to_owned()).collect()
    }

    pub(crate) fn bodies(&self) -> Vec<&'static str> {
        self.got.lock().unwrap().iter().map(|(_, body)| *body).collect()
    }
}

impl Service<Request<&'static str>> for Script {
    type Response = Response<&'static str>;
    type Error = io::Error;
    type Future = Ready<io::Result<Response<&'static str>>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.is_ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<&'static str>) -> Self::Future {
        assert!(self.is_ready, "only an instance that was polled ready is called");
        self.is_ready = false;
        let mut got = self.got.lock().unwrap();
        let line = self.lines.get(got.len()).or(self.lines.last()).unwrap();
        got.push((request.headers().clone(), request.body()));
        ready(line.answer())
    }
}

impl Line {
    fn answer(&self) -> io::Result<Response<&'static str>> {
        let (status, headers) = match self {
            Line::Status(status) => (*status, [].as_slice()),
            Line::Head(status, headers) => (*status, *headers),
            Line::Error(kind) => return Err((*kind).into()),
        };
        let head = Response::builder().status(status).header("content-length", "6");
        let head = headers.iter().fold(head, |head, (name, value)| head.header(*name, *value));
        Ok(head.body("theirs").unwrap())
    }
}
