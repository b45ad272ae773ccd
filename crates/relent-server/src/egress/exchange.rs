//! One request and its answer on a connection that has been made. REQ-A1, REQ-L4, REQ-P2.
//!
//! The answer's head decides. The body is read for two reasons only: what is shown of it, and to
//! have the connection back. So it is read within limits, and a body that is too long, too slow or
//! breaks off costs the connection and changes nothing else.

use std::pin::Pin;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName};
use http::{Request, Response};
use http_body::Body as _;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use relent_policy::{Fault, Outcome, Timestamp, read_retry_after};
use tokio::time::Sleep;

use super::pool::Connection;
use super::{RetryAfterSeen, faults};

/// What came of writing a request to a connection.
pub(super) enum Sent {
    Answered(Response<Incoming>),
    /// Not a byte of it was written: the connection had ended.
    Unwritten(Request<Full<Bytes>>),
    Failed(Fault),
}

/// Writes the request and waits for the answer's head. Hyper reads past informational answers, for
/// which there is no limit but the time.
pub(super) async fn exchange(
    connection: &mut Connection,
    request: Request<Full<Bytes>>,
    expired: Pin<&mut Sleep>,
) -> Sent {
    let sent = tokio::select! {
        biased;
        sent = connection.sender.try_send_request(request) => sent,
        () = expired => return Sent::Failed(Fault::ResponseTimeout),
    };
    match sent {
        Ok(response) => Sent::Answered(response),
        Err(mut error) => match error.take_message() {
            Some(request) => Sent::Unwritten(request),
            None => Sent::Failed(faults::of_sent(&error.into_error())),
        },
    }
}

/// What a connection that had just been made came to, which did not take its request.
pub(super) async fn why_unwritten(connection: Connection, expired: Pin<&mut Sleep>) -> Fault {
    tokio::select! {
        biased;
        error = connection.end() => faults::of_unsent(error.as_ref()),
        () = expired => Fault::ConnectReset,
    }
}

/// Reads what an answer's head says.
pub(super) fn judge(status: u16, headers: &HeaderMap) -> (Outcome, RetryAfterSeen) {
    let seen = retry_after(headers);
    // There are no such status codes, and no name for them in a policy or a log.
    let outcome = match status {
        100..=599 => Outcome::http(status),
        _ => Outcome::from(Fault::HttpParse),
    };
    match seen {
        RetryAfterSeen::Honoured(wait) => (outcome.retry_after(wait), seen),
        RetryAfterSeen::None | RetryAfterSeen::Ignored(_) => (outcome, seen),
    }
}

fn retry_after(headers: &HeaderMap) -> RetryAfterSeen {
    let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let Some(value) = text(header::RETRY_AFTER) else { return RetryAfterSeen::None };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = Timestamp::from_nanos(u64::try_from(now.as_nanos()).unwrap_or(u64::MAX));
    match read_retry_after(value, text(header::DATE), now) {
        Ok(wait) => RetryAfterSeen::Honoured(wait),
        Err(ignored) => RetryAfterSeen::Ignored(ignored),
    }
}

/// What was read of an answer's body.
pub(super) struct Body {
    pub(super) preview: Option<Bytes>,
    /// To the end, so that the connection is ready for the next request.
    pub(super) is_whole: bool,
}

/// Reads the body as far as the limits go.
pub(super) async fn read_body(
    mut body: Incoming,
    read_max: usize,
    preview_max: usize,
    mut expired: Pin<&mut Sleep>,
) -> Body {
    let mut preview = Vec::new();
    let mut read = 0_usize;
    let is_whole = loop {
        if body.is_end_stream() {
            break true;
        }
        let frame = tokio::select! {
            biased;
            frame = body.frame() => frame,
            () = expired.as_mut() => break false,
        };
        let data = match frame {
            None => break true,
            Some(Err(_)) => break false,
            Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
        };
        let shown = preview_max.min(read_max).saturating_sub(preview.len()).min(data.len());
        preview.extend_from_slice(&data[..shown]);
        read = read.saturating_add(data.len());
        if read > read_max {
            break false;
        }
    };
    let preview = (!preview.is_empty()).then(|| preview.into());
    Body { preview, is_whole }
}
