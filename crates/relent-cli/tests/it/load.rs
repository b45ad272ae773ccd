//! Tasks of all kinds, what producers know about them, and the guarantees held against it: G1 to
//! G10.

pub(crate) mod check;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use fastrand::Rng;
use serde_json::{Value, json};

use crate::rig::{Reply, Step, Target, ok, quick_policy, status, task, with};

pub(crate) const POLICY: &str = "load";
pub(crate) const MAX_ATTEMPTS: usize = 6;

/// What producers know.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    /// The ids of acknowledged tasks, by key.
    pub(crate) acked: HashMap<String, String>,
    /// When a cancellation was acknowledged, and the attempt that was under way then, by key.
    pub(crate) cancelled: HashMap<String, (Instant, Option<u64>)>,
    /// The keys of tasks that were refused because the service was stopping, and not sent again.
    pub(crate) refused: Vec<String>,
    /// How many posts had no answer.
    pub(crate) unanswered: usize,
}

impl Journal {
    /// Notes what was said to a cancellation. Nothing is, unless it was acknowledged.
    pub(crate) fn note_cancel(&mut self, key: &str, reply: &Reply) {
        match reply.status.as_u16() {
            code @ (200 | 202) => {
                let at = Instant::now();
                let under_way = (code == 202).then(|| reply.json()["attemptNumber"].as_u64());
                self.cancelled.insert(key.to_owned(), (at, under_way.flatten()));
            }
            503 => {}
            _ => assert_eq!(reply.problem(409), "already_ended"),
        }
    }
}

/// A target with a path for each kind of task.
pub(crate) async fn target() -> Target {
    let target = Target::start().await;
    target.on("/flaky", [status(503), ok()]);
    target.on("/down", [status(503)]);
    target.on("/slow", [ok().after(Duration::from_millis(60))]);
    target.on("/asks", [status(429).header("retry-after", "1"), ok()]);
    target.on("/silent", [Step::Silence, ok()]);
    target
}

/// The policy of all these tasks.
pub(crate) fn policy(attempt_timeout: Duration) -> Value {
    let attempt_timeout = u64::try_from(attempt_timeout.as_millis()).unwrap();
    let fields = json!({
        "attemptTimeoutMs": attempt_timeout,
        "connectTimeoutMs": attempt_timeout,
        "retryAfter": {"jitterMaxMs": 50},
    });
    with(quick_policy(POLICY, u32::try_from(MAX_ATTEMPTS).unwrap()), fields)
}

/// A task of some kind, and whether it is cancelled again.
pub(crate) fn document(target: &Target, key: &str, rng: &mut Rng) -> (Value, bool) {
    let (path, fields, cancels) = match rng.u32(0..100) {
        0..40 => ("/ok", json!({}), false),
        40..60 => ("/flaky", json!({}), false),
        60..70 => ("/down", json!({}), false),
        70..83 => ("/slow", json!({}), false),
        83..85 => ("/silent", json!({}), false),
        85..88 => ("/asks", json!({}), false),
        88..94 => ("/ok", json!({"delayMs": rng.u32(0..2_000)}), false),
        94..97 => ("/ok", json!({"delayMs": rng.u32(0..30)}), true),
        _ => ("/down", json!({}), true),
    };
    let document = task(&target.url(path), key, POLICY);
    (with(with(document, json!({"dependency": path})), fields), cancels)
}
