//! Reading a request's body: bounded in size and in time.

use std::time::Duration;

use ::http::header;
use axum::extract::Request;
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use relent_api::{Code, Problem};

/// A body must have come within this.
const WITHIN: Duration = Duration::from_secs(30);

/// What kind of body a request says it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Json,
    /// One JSON document a line.
    Lines,
}

/// The kind of the body; JSON where nothing is said.
pub(super) fn kind(request: &Request) -> Result<Kind, Problem> {
    let Some(value) = request.headers().get(header::CONTENT_TYPE) else {
        return Ok(Kind::Json);
    };
    let essence =
        value.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    if essence.eq_ignore_ascii_case(b"application/json")
        || essence.to_ascii_lowercase().ends_with(b"+json")
    {
        Ok(Kind::Json)
    } else if [&b"application/x-ndjson"[..], b"application/jsonl", b"application/ndjson"]
        .iter()
        .any(|lines| essence.eq_ignore_ascii_case(lines))
    {
        Ok(Kind::Lines)
    } else if essence.eq_ignore_ascii_case(b"application/x-www-form-urlencoded") {
        // What `curl -d` sends when nobody says otherwise. It can only be JSON here.
        Ok(Kind::Json)
    } else {
        Err(Problem::new(
            Code::UnsupportedMediaType,
            "expected content-type application/json or application/x-ndjson",
        ))
    }
}

/// The whole body, at most so many bytes of it.
pub(super) async fn read(request: Request, bytes_max: usize) -> Result<Bytes, Problem> {
    let body = Limited::new(request.into_body(), bytes_max);
    match tokio::time::timeout(WITHIN, body.collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            Err(Problem::new(Code::PayloadTooLarge, format!("expected at most {bytes_max} bytes")))
        }
        Ok(Err(_)) => Err(Problem::new(Code::MalformedJson, "the body ended before its time")),
        Err(_) => Err(Problem::new(Code::RequestTimeout, "the body did not come within 30 s")),
    }
}
