//! Dead letters as they are told: a task that gave up, with all that is known of it. REQ-D1, REQ-D3.

use serde::{Deserialize, Serialize};

use crate::attempt::AttemptDocument;
use crate::task_document::TaskDocument;

/// A dead letter: the task with its body, and every attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeadLetterDocument {
    /// The task.
    #[serde(flatten)]
    pub task: TaskDocument,
    /// Its attempts, in order.
    pub attempts: Vec<AttemptDocument>,
}

/// What a purge came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PurgeReport {
    /// How many dead letters were deleted.
    pub purged: u64,
    /// What to send as `cursor` to go on; null when none are left.
    pub next_cursor: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples;

    #[test]
    fn a_dead_letter_is_a_task_with_its_attempts() {
        let letter = DeadLetterDocument {
            task: examples::task(),
            attempts: vec![examples::attempt(), examples::attempt()],
        };
        let json = serde_json::to_string(&letter).unwrap();
        assert!(json.starts_with(r#"{"taskId":"#), "{json}");
        assert_eq!(serde_json::from_str::<DeadLetterDocument>(&json).unwrap(), letter);
    }
}
