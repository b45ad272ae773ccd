//! HTTP responses: their status and `Retry-After`, or the gRPC status in their head.
//! REQ-A1, REQ-C1, REQ-C2.

use http::header::{DATE, RETRY_AFTER};
use http::{HeaderMap, StatusCode};
use relent_policy::{Failure, FailureKind, Hint, Outcome, Timestamp, read_retry_after};

use crate::judge::Judge;

const GRPC_STATUS: &str = "grpc-status";
pub(crate) const GRPC_PUSHBACK: &str = "grpc-retry-pushback-ms";

impl<B> Judge for http::Response<B> {
    fn judge(&self, now: Timestamp) -> Outcome {
        outcome(self.status(), self.headers(), now)
    }
}

/// What a response with this head came to. A `Retry-After` that cannot be read is ignored.
pub(crate) fn outcome(status: StatusCode, headers: &HeaderMap, now: Timestamp) -> Outcome {
    if let Some(failure) = grpc_failure(headers) {
        return Outcome::Failure(failure);
    }
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

/// The failure in the head of a gRPC response that has no body: its HTTP status is 200, and what
/// would be in its trailers is in its headers.
fn grpc_failure(headers: &HeaderMap) -> Option<Failure> {
    let status = headers.get(GRPC_STATUS)?;
    let code = status.to_str().ok().and_then(|text| text.parse().ok());
    let kind = match code {
        Some(0) => return None,
        Some(code @ 1..=16) => FailureKind::Grpc(code),
        // As gRPC has it: what cannot be read is UNKNOWN.
        _ => FailureKind::Grpc(2),
    };
    let hint = headers
        .get(GRPC_PUSHBACK)
        .map_or(Hint::None, |value| value.to_str().map_or(Hint::Stop, Hint::from_grpc_pushback));
    Some(Failure { kind, hint })
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use std::time::Duration;

    fn judge(status: u16, headers: &[(&'static str, &'static str)]) -> Outcome {
        let headers = headers
            .iter()
            .map(|(name, value)| {
                (http::HeaderName::from_static(name), HeaderValue::from_static(value))
            })
            .collect();
        outcome(StatusCode::from_u16(status).unwrap(), &headers, Timestamp::from_secs(784_111_777))
    }

    #[test]
    fn both_forms_of_retry_after_are_heard_and_nonsense_is_not() {
        let wait = |secs| Outcome::http(503).retry_after(Duration::from_secs(secs));
        assert_eq!(judge(503, &[("retry-after", "7")]), wait(7));
        let date = ("retry-after", "Sun, 06 Nov 1994 08:49:40 GMT");
        assert_eq!(judge(503, &[date]), wait(3));
        assert_eq!(judge(503, &[date, ("date", "Sun, 06 Nov 1994 08:49:30 GMT")]), wait(10));
        assert_eq!(judge(503, &[("retry-after", "-7")]), Outcome::http(503));
        assert_eq!(judge(200, &[("retry-after", "7")]), Outcome::Success);
    }

    #[test]
    fn a_grpc_status_in_the_head_counts_more_than_the_http_status() {
        assert_eq!(judge(200, &[("grpc-status", "0")]), Outcome::Success);
        assert_eq!(judge(503, &[("grpc-status", "0")]), Outcome::http(503));
        for (text, code) in [("14", 14), ("16", 16), ("17", 2), ("-1", 2), ("OK", 2)] {
            assert_eq!(judge(200, &[("grpc-status", text)]), Outcome::grpc(code), "{text}");
        }
    }

    #[test]
    fn a_pushback_is_a_wait_or_a_stop() {
        let hint = |value| match judge(200, &[("grpc-status", "14"), (GRPC_PUSHBACK, value)]) {
            Outcome::Failure(failure) => failure.hint,
            Outcome::Success => Hint::None,
        };
        assert_eq!(hint("250"), Hint::RetryAfter(Duration::from_millis(250)));
        assert_eq!(hint("-1"), Hint::Stop);
        assert_eq!(hint("later"), Hint::Stop);
    }
}
