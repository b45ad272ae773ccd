//! What happens, as it happens: `GET /events`. REQ-O1.

use relent_policy::Timestamp;
use serde::{Deserialize, Serialize};

use crate::names::named;
use crate::task_document::Status;

named! {
    /// What happened.
    EventKind, "the type of an event" {
        TaskCreated "task.created" "A task was stored."
        AttemptFinished "attempt.finished" "An attempt came to its end, whatever that was."
        TaskSucceeded "task.succeeded" "A task was delivered."
        TaskExhausted "task.exhausted" "A task gave up."
        TaskCancelled "task.cancelled" "Somebody stopped a task."
        TaskRedriven "task.redriven" "A dead letter is tried again."
        LanePaused "lane.paused" "Somebody paused a lane."
        LaneResumed "lane.resumed" "Somebody let a lane go on."
        BreakerOpened "breaker.opened" "A dependency is not called for a while."
        BreakerClosed "breaker.closed" "A dependency is called again."
    }
}

/// One event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EventDocument {
    /// Its number, counted from the service's start.
    pub id: u64,
    /// When it happened.
    pub at: u64,
    /// What happened.
    #[serde(rename = "type")]
    pub kind: EventKind,
    /// The task it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// The lane it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lane_id: Option<String>,
    /// What that lane calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dependency: Option<String>,
    /// Where the task stands now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// The task's generation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<u32>,
    /// Which attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt_number: Option<u32>,
    /// The status of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_status: Option<u16>,
    /// The name of the failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Why it is so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
    /// When the next attempt is due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_attempt_at: Option<u64>,
}

impl EventDocument {
    /// An event with nothing but its number, its time and its type.
    pub fn new(id: u64, at: Timestamp, kind: EventKind) -> EventDocument {
        EventDocument {
            id,
            at: at.as_millis(),
            kind,
            task_id: None,
            lane_id: None,
            dependency: None,
            status: None,
            generation: None,
            attempt_number: None,
            response_status: None,
            error: None,
            because: None,
            next_attempt_at: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples;

    #[test]
    fn an_event_survives_the_wire() {
        let event = examples::event();
        let json = serde_json::to_string(&event).unwrap();
        assert_eq!(serde_json::from_str::<EventDocument>(&json).unwrap(), event);
        let bare = EventDocument::new(7, Timestamp::from_millis(5), EventKind::LanePaused);
        let json = serde_json::to_string(&bare).unwrap();
        assert_eq!(json, r#"{"id":7,"at":5,"type":"lane.paused"}"#);
    }
}
