//! `GET /events`: what happens, as server-sent events.
//!
//! A live view, not a log: it begins when it is opened. Who reads too slowly is told how many events
//! were left out, and goes on with the latest.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use ::http::{HeaderValue, header};
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use hyper::body::Frame;
use relent_api::{Code, Problem};
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::sync::mpsc;

use super::Handled;
use crate::service::Service;

/// Something is said at least so often, so that a dead connection is noticed.
const HEARTBEAT: Duration = Duration::from_secs(15);

pub(super) async fn stream(State(service): State<Arc<Service>>) -> Handled {
    let Some(events) = service.events.subscribe() else {
        return Err(Problem::new(Code::Draining, "the service is on its way out").into());
    };
    let (sender, lines) = mpsc::channel(16);
    tokio::spawn(pass_on(events, sender));
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    let response: Response = (headers, Body::new(Lines(lines))).into_response();
    Ok(response)
}

/// Writes events out until nobody listens or nothing more will happen.
async fn pass_on(mut events: broadcast::Receiver<Arc<str>>, sender: mpsc::Sender<Bytes>) {
    if sender.send(Bytes::from_static(b": relent\n\n")).await.is_err() {
        return;
    }
    loop {
        let text = match tokio::time::timeout(HEARTBEAT, events.recv()).await {
            Err(_) => Bytes::from_static(b": still here\n\n"),
            Ok(Ok(event)) => Bytes::copy_from_slice(event.as_bytes()),
            Ok(Err(RecvError::Lagged(missed))) => {
                Bytes::from(format!("event: missed\ndata: {{\"missed\":{missed}}}\n\n"))
            }
            Ok(Err(RecvError::Closed)) => return,
        };
        if sender.send(text).await.is_err() {
            return;
        }
    }
}

struct Lines(mpsc::Receiver<Bytes>);

impl http_body::Body for Lines {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|text| text.map(|text| Ok(Frame::data(text))))
    }
}
