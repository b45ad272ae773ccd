//! A task's past in the 40 bytes that a task has room for, so that a retry rewrites it in place. REQ-S3.

use relent_policy::History;
use serde::{Deserialize, Serialize};

use super::pack::{Reader, damaged};
use crate::error::Error;

pub(super) const HISTORY_BYTES: usize = 40;

/// A history as its own crate writes it.
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Past {
    version: u8,
    created_at: u64,
    deadline_at: Option<u64>,
    previous_backoff: u64,
    attempts: u32,
    repeatable: u8,
    retried_above: bool,
    spent: [u8; 8],
}

/// A history in 40 bytes, which is what a task has room for; the first is 0 where there is none.
///
/// # Errors
///
/// When histories have become something else.
pub(super) fn from_history(history: &History) -> Result<[u8; HISTORY_BYTES], Error> {
    let past = serde_json::to_value(history).and_then(serde_json::from_value::<Past>);
    let past = past.map_err(|error| Error::Damaged(format!("a history has no place: {error}")))?;
    let mut out = Vec::with_capacity(HISTORY_BYTES);
    out.push(past.version);
    out.extend(past.created_at.to_be_bytes());
    out.extend(past.deadline_at.unwrap_or(u64::MAX).to_be_bytes());
    out.extend(past.previous_backoff.to_be_bytes());
    out.extend(past.attempts.to_be_bytes());
    out.push(past.repeatable);
    out.push(u8::from(past.retried_above));
    out.extend(past.spent);
    out.resize(HISTORY_BYTES, 0);
    out.try_into().map_err(|_| damaged("is too long for its place"))
}

/// The history; `None` if there is none, or one that cannot be read: then only the attempts count.
pub(super) fn to_history(bytes: &[u8; HISTORY_BYTES]) -> Option<History> {
    if bytes[0] == 0 {
        return None;
    }
    let read = || {
        let mut stored = Reader::new(bytes);
        let past = Past {
            version: stored.u8()?,
            created_at: stored.u64()?,
            deadline_at: Some(stored.u64()?).filter(|at| *at != u64::MAX),
            previous_backoff: stored.u64()?,
            attempts: stored.u32()?,
            repeatable: stored.u8()?,
            retried_above: stored.u8()? == 1,
            spent: stored.array()?,
        };
        let history = serde_json::to_value(past).and_then(serde_json::from_value);
        history.map_err(|error| Error::Damaged(error.to_string()))
    };
    match read() {
        Ok(history) => Some(history),
        Err(error) => {
            tracing::error!(%error, "a task's history cannot be read; only its attempts are known");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use relent_policy::{Hop, Repeatable, Timestamp};

    #[test]
    fn a_history_is_read_back_as_it_was() {
        use Repeatable::{ByKey, ByMethod, Declared, No};
        for repeatable in [No, ByMethod, ByKey, Declared] {
            let history = History::start(Timestamp::from_nanos(u64::MAX - 1), repeatable);
            let history = history.begin_attempt().with_hop(Hop::RetriedAbove);
            for history in [history, history.with_deadline(Timestamp::from_secs(9))] {
                assert_eq!(to_history(&from_history(&history).unwrap()), Some(history));
            }
        }
        assert_eq!(to_history(&[0; HISTORY_BYTES]), None);
        assert_eq!(to_history(&[9; HISTORY_BYTES]), None, "of a later version");
    }
}
