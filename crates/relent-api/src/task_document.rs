//! A task as it is told: what it is, where it stands and why it waits. REQ-S1, REQ-D1, REQ-P2.
//!
//! Headers that carry secrets are hidden, and the body is there only when somebody asked for it.
//! Times are milliseconds since the epoch.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use crate::headers::HeaderText;
use crate::method::Method;
use crate::names::named;

named! {
    /// Where a task stands.
    ///
    /// ```
    /// use relent_api::Status;
    ///
    /// assert_eq!("IN_FLIGHT".parse(), Ok(Status::InFlight));
    /// assert!(Status::Exhausted.has_ended());
    /// ```
    Status, "a status" {
        Pending "PENDING" "It waits for its next attempt."
        InFlight "IN_FLIGHT" "An attempt is being made."
        Succeeded "SUCCEEDED" "Its target did what was asked."
        Exhausted "EXHAUSTED" "It gave up; it is a dead letter if its policy keeps those."
        Cancelled "CANCELLED" "Somebody stopped it."
    }
}

impl Status {
    /// Whether nothing more will be sent.
    pub const fn has_ended(self) -> bool {
        matches!(self, Status::Succeeded | Status::Exhausted | Status::Cancelled)
    }
}

named! {
    /// What a pending task waits for.
    WaitingReason, "a reason to wait" {
        Scheduled "scheduled" "Its first attempt was asked for at a later time."
        Backoff "backoff" "Its policy's delay before the next attempt."
        RetryAfter "retry_after" "Its target asked to be left alone for a while."
        Budget "budget" "The dependency's retry budget is spent."
        BreakerOpen "breaker_open" "The dependency's breaker is open."
        RateLimited "rate_limited" "The lane's rate is used up."
        Concurrency "concurrency" "As many attempts as the lane allows are in flight."
        Paused "paused" "Somebody paused the lane."
    }
}

/// A task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskDocument {
    /// Its name.
    pub task_id: String,
    /// Where it stands.
    pub status: Status,
    /// What it waits for, while it is pending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_reason: Option<WaitingReason>,
    /// By what its target recognises a repeated attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// What ties it to other work in logs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
    /// Where it goes.
    pub target_url: String,
    /// With which method.
    pub method: Method,
    /// With which headers; values that are secret are hidden.
    #[serde(default)]
    pub headers: BTreeMap<String, HeaderText>,
    /// How large its body is.
    pub body_bytes: u64,
    /// Its body, if it was asked for and is text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Payload>,
    /// Its body in base64, if it was asked for and is not text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_base64: Option<Payload>,
    /// Where its body is kept, if that is not beside the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_ref: Option<String>,
    /// How it is retried.
    pub policy_id: String,
    /// By which version of that policy.
    pub policy_version: u32,
    /// What it calls.
    pub dependency: String,
    /// The lane it waits in.
    pub lane_id: String,
    /// How many attempts were made or begun; 0 before the first.
    pub attempt_number: u32,
    /// How many there may be in all.
    pub max_attempts: u32,
    /// 1, and one more each time it is redriven.
    pub generation: u32,
    /// When it was created.
    pub created_at: u64,
    /// When the next attempt is due, while there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_attempt_at: Option<u64>,
    /// When it gives up at the latest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_at: Option<u64>,
    /// When its last attempt was begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_attempt_at: Option<u64>,
    /// The HTTP status of its last attempt, if that had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_status: Option<u16>,
    /// The failure of its last attempt, such as `connect_refused`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// Whether somebody asked to cancel it while an attempt was in flight.
    pub cancel_requested: bool,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<u64>,
    /// Why it ended as it did, such as `attempts_exhausted`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_because: Option<String>,
}

/// The answer to a task that was created, or that was there already: the same key with the same
/// content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CreatedDocument {
    /// Its name.
    pub task_id: String,
    /// Where it stands.
    pub status: Status,
    /// How it is retried.
    pub policy_id: String,
    /// By which version of that policy.
    pub policy_version: u32,
    /// What it calls.
    pub dependency: String,
    /// The lane it waits in.
    pub lane_id: String,
    /// When it was created.
    pub created_at: u64,
    /// When the next attempt is due, while there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_attempt_at: Option<u64>,
}

/// A body in a document. Debug output tells only its length.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Payload(pub String);

impl From<String> for Payload {
    fn from(text: String) -> Payload {
        Payload(text)
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Payload({} bytes)", self.0.len())
    }
}

impl TaskDocument {
    /// Puts the body in: as text if it is, in base64 otherwise.
    pub fn show_body(&mut self, bytes: &[u8]) {
        (self.body, self.body_base64) = match std::str::from_utf8(bytes) {
            Ok(text) => (Some(Payload(text.to_owned())), None),
            Err(_) => (None, Some(Payload(STANDARD.encode(bytes)))),
        };
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::examples;

    #[test]
    fn a_task_survives_the_wire() {
        let task = examples::task();
        let json = serde_json::to_string(&task).unwrap();
        assert_eq!(serde_json::from_str::<TaskDocument>(&json).unwrap(), task);
    }

    #[test]
    fn times_are_milliseconds_and_secrets_are_hidden() {
        let json = serde_json::to_value(examples::task()).unwrap();
        assert_eq!(json["createdAt"], 1_785_312_000_000_u64);
        assert_eq!(json["headers"]["authorization"], "[redacted]");
        assert_eq!(json["status"], "PENDING");
        assert_eq!(json["waitingReason"], "backoff");
    }

    #[test]
    fn bodies_are_shown_as_text_where_they_are_text() {
        let mut task = examples::task();
        task.show_body("é".as_bytes());
        let value = serde_json::to_value(&task).unwrap();
        assert_eq!((&value["body"], value.get("bodyBase64")), (&json!("é"), None));
        task.show_body(&[0xff]);
        let value = serde_json::to_value(&task).unwrap();
        assert_eq!((value.get("body"), &value["bodyBase64"]), (None, &json!("/w==")));
        assert!(!format!("{task:?}").contains("/w=="));
    }

    #[test]
    fn statuses_and_reasons_are_found_by_their_names() {
        for status in Status::ALL {
            assert_eq!(status.name().parse(), Ok(*status));
        }
        for reason in WaitingReason::ALL {
            assert_eq!(reason.name().parse(), Ok(*reason));
        }
        let unknown = "DONE".parse::<Status>().unwrap_err().to_string();
        assert!(unknown.contains("PENDING, IN_FLIGHT"), "{unknown}");
    }
}
