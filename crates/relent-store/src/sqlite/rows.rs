//! How values are written in columns, and read back. What cannot be read is damage, and is said to
//! be. REQ-S1.

use std::borrow::Cow;
use std::time::Duration;

use relent_policy::{
    Class, FailureKind, GiveUpReason, History, IdempotencyKey, Repeatable, Timestamp,
};

use crate::error::Error;
use crate::id::TaskId;
use crate::task::{State, Waiting};

pub(super) const PENDING: i64 = 0;
pub(super) const IN_FLIGHT: i64 = 1;
pub(super) const SUCCEEDED: i64 = 2;
pub(super) const EXHAUSTED: i64 = 3;
pub(super) const CANCELLED: i64 = 4;
/// In flight, and no attempt is: it was taken over because its deadline had passed.
pub(super) const HELD: i64 = 5;

/// A time as a column has it. Those after the year 2262 become [`Timestamp::MAX`].
pub(super) fn from_time(at: Timestamp) -> i64 {
    i64::try_from(at.as_nanos()).unwrap_or(i64::MAX)
}

pub(super) fn to_time(column: i64) -> Timestamp {
    match column {
        i64::MAX => Timestamp::MAX,
        nanos => Timestamp::from_nanos(u64::try_from(nanos).unwrap_or_default()),
    }
}

/// The time that a column gives back for this one.
pub(super) fn storable(at: Timestamp) -> Timestamp {
    to_time(from_time(at))
}

pub(super) fn to_nanos(column: i64) -> u64 {
    to_time(column).as_nanos()
}

pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

pub(super) fn from_duration(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

pub(super) fn to_duration(column: i64) -> Duration {
    Duration::from_nanos(u64::try_from(column).unwrap_or_default())
}

pub(super) fn from_id(id: TaskId) -> i64 {
    id.as_u64().cast_signed()
}

pub(super) fn to_id(column: i64) -> Result<TaskId, Error> {
    let id = u64::try_from(column).ok().and_then(TaskId::from_u64);
    id.ok_or_else(|| Error::Damaged(format!("{column} is no task id")))
}

pub(super) fn to_state(column: i64) -> Result<State, Error> {
    Ok(match column {
        PENDING => State::Pending,
        IN_FLIGHT | HELD => State::InFlight,
        SUCCEEDED => State::Succeeded,
        EXHAUSTED => State::Exhausted,
        CANCELLED => State::Cancelled,
        _ => return Err(Error::Damaged(format!("{column} is no state of a task"))),
    })
}

pub(super) fn from_waiting(waiting: Waiting) -> i64 {
    match waiting {
        Waiting::Scheduled => 0,
        Waiting::Backoff => 1,
        Waiting::RetryAfter => 2,
    }
}

pub(super) fn to_waiting(column: i64) -> Result<Waiting, Error> {
    Ok(match column {
        0 => Waiting::Scheduled,
        1 => Waiting::Backoff,
        2 => Waiting::RetryAfter,
        _ => return Err(Error::Damaged(format!("{column} is no reason to wait"))),
    })
}

pub(super) fn from_repeatable(repeatable: Repeatable) -> i64 {
    match repeatable {
        Repeatable::No => 0,
        Repeatable::ByMethod => 1,
        Repeatable::ByKey => 2,
        Repeatable::Declared => 3,
    }
}

/// What is not known is not repeated.
pub(super) fn to_repeatable(column: i64) -> Repeatable {
    match column {
        1 => Repeatable::ByMethod,
        2 => Repeatable::ByKey,
        3 => Repeatable::Declared,
        _ => Repeatable::No,
    }
}

pub(super) fn from_failure(kind: FailureKind) -> Cow<'static, str> {
    match kind {
        FailureKind::Fault(fault) => Cow::Borrowed(fault.name()),
        other => Cow::Owned(other.to_string()),
    }
}

pub(super) fn to_failure(text: &str) -> Result<FailureKind, Error> {
    let http = || text.strip_prefix("http_")?.parse().ok().map(FailureKind::Http);
    let grpc = || text.strip_prefix("grpc_")?.parse().ok().map(FailureKind::Grpc);
    let judged = || {
        let classes = [Class::Retryable, Class::Permanent, Class::Unknown];
        let name = text.strip_prefix("application_")?;
        classes.into_iter().find(|class| class.to_string() == name).map(FailureKind::Judged)
    };
    let kind = text.parse().ok().or_else(http).or_else(grpc).or_else(judged);
    kind.ok_or_else(|| Error::Damaged(format!("`{text}` names no failure")))
}

pub(super) fn to_reason(text: &str) -> Result<GiveUpReason, Error> {
    let found = GiveUpReason::ALL.iter().find(|reason| reason.name() == text);
    found.copied().ok_or_else(|| Error::Damaged(format!("`{text}` is no reason to give up")))
}

pub(super) fn to_key(text: &str) -> Result<IdempotencyKey, Error> {
    let key = IdempotencyKey::try_new(text);
    key.map_err(|_| Error::Damaged("a stored idempotency key is none".to_owned()))
}

pub(super) fn from_headers(headers: &[(String, String)]) -> String {
    serde_json::to_string(headers).expect("pairs of texts can be written as JSON")
}

pub(super) fn to_headers(text: &str) -> Result<Vec<(String, String)>, Error> {
    serde_json::from_str(text)
        .map_err(|_| Error::Damaged("stored headers cannot be read".to_owned()))
}

pub(super) fn from_history(history: &History) -> String {
    serde_json::to_string(history).expect("a history can be written as JSON")
}

/// A task's past with this many attempts. One that cannot be read is replaced by one that knows
/// nothing but how many there were: the limit on attempts then still holds.
pub(super) fn to_history(
    stored: Option<&str>,
    started_at: Timestamp,
    repeatable: Repeatable,
    attempts: u32,
) -> History {
    let read = |text: &str| match serde_json::from_str::<History>(text) {
        Ok(history) => Some(history),
        Err(error) => {
            tracing::error!(%error, "a task's history cannot be read; only its attempts are known");
            None
        }
    };
    let mut history =
        stored.and_then(read).unwrap_or_else(|| History::start(started_at, repeatable));
    while history.attempts() < attempts.min(ATTEMPTS_MAX) {
        history = history.begin_attempt();
    }
    history
}

/// More than any policy allows: a damaged count does not keep the store busy.
const ATTEMPTS_MAX: u32 = 10_000;

#[cfg(test)]
mod tests {
    use super::*;
    use relent_policy::Fault;

    #[test]
    fn every_failure_is_read_back() {
        let faults = Fault::ALL.iter().map(|fault| FailureKind::Fault(*fault));
        let classes = [Class::Retryable, Class::Permanent, Class::Unknown];
        let kinds = [FailureKind::Http(503), FailureKind::Http(999), FailureKind::Grpc(14)];
        for kind in faults.chain(classes.map(FailureKind::Judged)).chain(kinds) {
            assert_eq!(to_failure(&from_failure(kind)), Ok(kind));
        }
        assert!(to_failure("nonsense").is_err());
    }

    #[test]
    fn times_survive_and_the_last_one_stays_the_last() {
        for at in [Timestamp::ZERO, Timestamp::from_secs(1_800_000_000), Timestamp::MAX] {
            assert_eq!(to_time(from_time(at)), at);
        }
        assert_eq!(to_time(from_time(Timestamp::from_nanos(u64::MAX - 5))), Timestamp::MAX);
    }

    #[test]
    fn a_damaged_history_still_knows_its_attempts() {
        let history = to_history(Some("{}"), Timestamp::ZERO, Repeatable::ByKey, 4);
        assert_eq!(history.attempts(), 4);
        assert_eq!(history.repeatable(), Repeatable::ByKey);
    }
}
