//! One attempt as it is told: what was sent, what came back, what was decided. REQ-S1, REQ-O1.
//!
//! A failure is a name out of a fixed list and a sentence that belongs to the name; what the peer
//! wrote is never repeated, except for a preview of the answer where the policy asks for one.

use relent_policy::Effect;
use serde::{Deserialize, Serialize};

use crate::names::named;
use crate::task_document::Payload;

named! {
    /// What was decided after an attempt.
    Decided, "a decision" {
        Done "done" "It succeeded."
        Retry "retry" "It is tried again."
        GiveUp "give_up" "There is no further attempt."
    }
}

named! {
    /// Whether the target may have acted on an attempt.
    ///
    /// ```
    /// use relent_api::EffectName;
    /// use relent_policy::Fault;
    ///
    /// assert_eq!(EffectName::from(Fault::Reset.effect()), EffectName::Ambiguous);
    /// ```
    EffectName, "an effect" {
        NotSent "not_sent" "The request never reached it."
        Ambiguous "ambiguous" "The request was written and no answer came: it may have been applied."
        Answered "answered" "It answered."
    }
}

impl From<Effect> for EffectName {
    fn from(effect: Effect) -> EffectName {
        match effect {
            Effect::NotSent => EffectName::NotSent,
            Effect::Ambiguous => EffectName::Ambiguous,
            Effect::Answered => EffectName::Answered,
        }
    }
}

/// One attempt of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AttemptDocument {
    /// The task.
    pub task_id: String,
    /// The task's generation: 1, and one more each time it is redriven.
    pub generation: u32,
    /// Which attempt of that generation, from 1.
    pub attempt_number: u32,
    /// When it began.
    pub started_at: u64,
    /// How long it took.
    pub duration_ms: u64,
    /// The same in microseconds.
    pub duration_us: u64,
    /// The status of the answer, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_status: Option<u16>,
    /// The name of the failure, such as `connect_refused`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The failure as a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
    /// Whether the target may have acted.
    pub effect: EffectName,
    /// What was decided then.
    pub decision: Decided,
    /// Why: what a retry waits for, or why the task gave up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
    /// When the next attempt was due then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_attempt_at: Option<u64>,
    /// How long the wait was meant to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff_ms: Option<u64>,
    /// The chance that went into the decision, in hexadecimal, so that it can be replayed.
    pub roll: String,
    /// Where the time went.
    #[serde(default)]
    pub phases: PhaseDocument,
    /// The beginning of the answer's body, if the policy asks for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_preview: Option<Payload>,
}

/// How long the parts of an attempt took, in microseconds; those that did not happen are not there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PhaseDocument {
    /// Resolving the name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dns_us: Option<u64>,
    /// Connecting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connect_us: Option<u64>,
    /// The TLS handshake.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_us: Option<u64>,
    /// From the request to the first byte of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_byte_us: Option<u64>,
}

/// A roll as documents write it: 16 hexadecimal digits. A JSON number would lose its last bits.
///
/// ```
/// assert_eq!(relent_api::roll_text(255), "00000000000000ff");
/// ```
pub fn roll_text(roll: u64) -> String {
    format!("{roll:016x}")
}

#[cfg(test)]
mod tests {
    use crate::{AttemptDocument, examples};

    #[test]
    fn an_attempt_survives_the_wire() {
        let attempt = examples::attempt();
        let json = serde_json::to_string(&attempt).unwrap();
        assert_eq!(serde_json::from_str::<AttemptDocument>(&json).unwrap(), attempt);
        assert!(json.contains(r#""decision":"retry""#), "{json}");
    }

    #[test]
    fn debug_output_does_not_show_the_preview() {
        assert!(!format!("{:?}", examples::attempt()).contains("unavailable"));
    }
}
