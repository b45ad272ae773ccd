//! How values are written in columns, and read back. What cannot be read is damage, and is said to
//! be. REQ-S1.

use std::time::Duration;

use relent_policy::{
    Class, FailureKind, GiveUpReason, History, IdempotencyKey, Repeatable, Timestamp, Turn,
};
use sha2::{Digest, Sha256};
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use crate::error::Error;
use crate::id::{LaneId, PolicyKey, TaskId, TenantId};
use crate::task::{State, Waiting};

pub(super) const PENDING: i16 = 0;
pub(super) const IN_FLIGHT: i16 = 1;
pub(super) const SUCCEEDED: i16 = 2;
pub(super) const EXHAUSTED: i16 = 3;
pub(super) const CANCELLED: i16 = 4;
/// In flight, and no attempt is: it was taken over because its deadline had passed.
pub(super) const HELD: i16 = 5;

/// About 73 years: two of them can be added to any time until 2116.
const DURATION_MAX: i64 = 1 << 61;

/// A column of a row.
pub(super) fn column<'a, T: FromSql<'a>>(row: &'a Row, index: usize) -> Result<T, Error> {
    row.try_get(index).map_err(|error| Error::Damaged(error.to_string()))
}

/// A time as a column has it. Those after the year 2262 become [`Timestamp::MAX`].
pub(super) fn from_time(at: Timestamp) -> i64 {
    i64::try_from(at.as_nanos()).unwrap_or(i64::MAX)
}

/// A time that a duration can be added to.
pub(super) fn from_start(at: Timestamp) -> i64 {
    from_time(at).min(i64::MAX - DURATION_MAX)
}

pub(super) fn to_time(column: i64) -> Timestamp {
    match column {
        i64::MAX => Timestamp::MAX,
        nanos => Timestamp::from_nanos(u64::try_from(nanos).unwrap_or_default()),
    }
}

/// A duration that can be added to a time.
pub(super) fn from_duration(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX).min(DURATION_MAX)
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

pub(super) fn to_u32(column: i64) -> Result<u32, Error> {
    u32::try_from(column).map_err(|_| Error::Damaged(format!("{column} is no number of its kind")))
}

pub(super) fn to_policy(column: i64) -> Result<PolicyKey, Error> {
    to_u32(column).map(PolicyKey::from_u32)
}

pub(super) fn from_count(count: u32) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

pub(super) fn to_count(column: i32) -> u32 {
    u32::try_from(column).unwrap_or_default()
}

/// A line of a lane.
pub(super) fn from_line(lane: LaneId, turn: Turn) -> i64 {
    i64::from(lane.as_u32()) * 2 + i64::from(turn == Turn::Retry)
}

pub(super) fn to_line(column: i64) -> Result<(LaneId, Turn), Error> {
    let turn = if column & 1 == 0 { Turn::First } else { Turn::Retry };
    Ok((LaneId::from_u32(to_u32(column >> 1)?), turn))
}

pub(super) fn from_state(state: State) -> &'static [i16] {
    match state {
        State::Pending => &[PENDING],
        State::InFlight => &[IN_FLIGHT, HELD],
        State::Succeeded => &[SUCCEEDED],
        State::Exhausted => &[EXHAUSTED],
        State::Cancelled => &[CANCELLED],
    }
}

pub(super) fn to_state(column: i16) -> Result<State, Error> {
    Ok(match column {
        PENDING => State::Pending,
        IN_FLIGHT | HELD => State::InFlight,
        SUCCEEDED => State::Succeeded,
        EXHAUSTED => State::Exhausted,
        CANCELLED => State::Cancelled,
        _ => return Err(Error::Damaged(format!("{column} is no state of a task"))),
    })
}

pub(super) fn from_waiting(waiting: Waiting) -> i16 {
    match waiting {
        Waiting::Scheduled => 0,
        Waiting::Backoff => 1,
        Waiting::RetryAfter => 2,
    }
}

pub(super) fn to_waiting(column: i16) -> Result<Waiting, Error> {
    Ok(match column {
        0 => Waiting::Scheduled,
        1 => Waiting::Backoff,
        2 => Waiting::RetryAfter,
        _ => return Err(Error::Damaged(format!("{column} is no reason to wait"))),
    })
}

pub(super) fn from_repeatable(repeatable: Repeatable) -> i16 {
    match repeatable {
        Repeatable::No => 0,
        Repeatable::ByMethod => 1,
        Repeatable::ByKey => 2,
        Repeatable::Declared => 3,
    }
}

/// What is not known is not repeated.
pub(super) fn to_repeatable(column: i16) -> Repeatable {
    match column {
        1 => Repeatable::ByMethod,
        2 => Repeatable::ByKey,
        3 => Repeatable::Declared,
        _ => Repeatable::No,
    }
}

pub(super) fn to_status(column: Option<i32>) -> Result<Option<u16>, Error> {
    let status = column.map(u16::try_from).transpose();
    status.map_err(|_| Error::Damaged(format!("{column:?} is no status")))
}

pub(super) fn from_failure(kind: FailureKind) -> String {
    match kind {
        FailureKind::Fault(fault) => fault.name().to_owned(),
        other => other.to_string(),
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

pub(super) fn to_key(text: Option<&str>) -> Result<Option<IdempotencyKey>, Error> {
    let key = text.map(IdempotencyKey::try_new).transpose();
    key.map_err(|_| Error::Damaged("a stored idempotency key is none".to_owned()))
}

/// What a key is found by: a part of the SHA-256 over tenant and key.
pub(super) fn key_hash(tenant: &TenantId, key: &IdempotencyKey) -> Vec<u8> {
    let digest = Sha256::new()
        .chain_update(tenant.as_str())
        .chain_update([0])
        .chain_update(key.as_str())
        .finalize();
    digest[..16].to_vec()
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
    fn sums_of_times_fit_in_a_column() {
        let longest = from_duration(Duration::MAX);
        assert!(from_start(Timestamp::MAX).checked_add(longest).is_some());
        let in_2090 = from_time(Timestamp::from_secs(3_800_000_000));
        assert!(in_2090.checked_add(longest).and_then(|at| at.checked_add(longest)).is_some());
    }

    #[test]
    fn a_line_is_a_lane_and_a_turn() {
        for lane in [0, 1, u32::MAX].map(LaneId::from_u32) {
            for turn in [Turn::First, Turn::Retry] {
                assert_eq!(to_line(from_line(lane, turn)), Ok((lane, turn)));
            }
        }
    }
}
