//! HTTP responses: their status, and their `Retry-After`. REQ-A1, REQ-C1.

use http::header::{DATE, RETRY_AFTER};
use http::{HeaderMap, StatusCode};
use relent_policy::{Outcome, Timestamp, read_retry_after};

use crate::judge::Judge;

impl<B> Judge for http::Response<B> {
    fn judge(&self, now: Timestamp) -> Outcome {
        outcome(self.status(), self.headers(), now)
    }
}

/// What a response with this head came to. A `Retry-After` that cannot be read is ignored.
pub(crate) fn outcome(status: StatusCode, headers: &HeaderMap, now: Timestamp) -> Outcome {
    let outcome = Outcome::http(status.as_u16());
    if outcome == Outcome::Success {
        return outcome;
    }
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    match text(RETRY_AFTER).map(|value| read_retry_after(value, text(DATE), now)) {
        Some(Ok(wait)) => outcome.retry_after(wait),
        Some(Err(_)) | None => outcome,
    }
}
