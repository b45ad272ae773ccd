//! Writing down what came of an attempt: its row and its task, in one transaction, fenced.
//!
//! Memory knows who holds each task; the row's token is compared all the same, as it is what
//! counts. Ending a task frees the bytes of its token, which are the bytes that its shelf and its
//! status need: the row stays as long as it was, and is replaced in place. REQ-S3, REQ-S4, REQ-O1.

use std::borrow::Cow;

use bytes::Bytes;
use relent_policy::Timestamp;
use rusqlite::params;

use super::due::{self, LineId};
use super::queue::{Failure, Size};
use super::rows::{
    CANCELLED, EXHAUSTED, SUCCEEDED, from_duration, from_failure, from_history, from_id, from_time,
    from_waiting, storable,
};
use super::state::{Desk, Flight, Hot};
use crate::attempt::{AttemptRecord, Ended, Record, Recorded, Then};
use crate::id::TaskId;

pub(super) const INSERT_ATTEMPT: &str = "INSERT INTO attempts (id, task, previous, generation, number, \
     started_at, took, status, failure, ended, next_at, waiting, because, roll, dns, connect, tls, \
     first_byte, preview) VALUES \
     (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)";
pub(super) const END: &str = "UPDATE tasks SET state = ?3, shelf = ?4, since = ?5, because = ?6, \
     last_status = coalesce(?7, last_status), last_attempt = ?8, token = 0, \
     cancel_requested = 0, history = NULL WHERE id = ?1 AND token = ?2";
const RETRY: &str = "UPDATE tasks SET state = 0, due_at = ?3, waiting = ?4, history = ?5, \
     since = ?6, last_status = coalesce(?7, last_status), last_attempt = ?8 \
     WHERE id = ?1 AND token = ?2";
const RETRY_ELSEWHERE: &str = "UPDATE tasks SET state = 0, due_at = ?3, waiting = ?4, \
     history = ?5, since = ?6, last_status = coalesce(?7, last_status), last_attempt = ?8, \
     shelf = ?9 WHERE id = ?1 AND token = ?2";

/// A record, as far as it can be made ready without the store.
pub(super) struct Prepared {
    record: Record,
    failure: Option<Cow<'static, str>>,
    history: Option<String>,
}

pub(super) fn prepare(records: Vec<Record>) -> Vec<Prepared> {
    let prepared = records.into_iter().map(|record| Prepared {
        failure: record.attempt.as_ref().and_then(|attempt| attempt.failure).map(from_failure),
        history: match &record.then {
            Then::RetryAt { history, .. } => Some(from_history(history)),
            Then::Succeed | Then::Exhaust { .. } => None,
        },
        record,
    });
    prepared.collect()
}

pub(super) fn size(records: &[Prepared]) -> Size {
    let preview = |one: &Prepared| {
        let attempt = one.record.attempt.as_ref();
        attempt.and_then(|attempt| attempt.preview.as_ref()).map_or(0, Bytes::len)
    };
    let bytes = records.iter().map(|one| preview(one) + 256).sum();
    Size { rows: 2 * records.len(), bytes, ..Size::default() }
}

/// What the row of a task is to say about its last attempt.
struct Last {
    attempt: i64,
    status: Option<u16>,
}

impl Desk<'_> {
    pub(super) fn record(&mut self, records: &[Prepared]) -> Result<Vec<Recorded>, Failure> {
        records.iter().map(|record| self.record_one(record)).collect()
    }

    fn record_one(&mut self, prepared: &Prepared) -> Result<Recorded, Failure> {
        let Record { lease, attempt, then } = &prepared.record;
        let held = self.state.flights.get(lease.task.as_u64()).copied();
        let Some(flight) = held.filter(|flight| flight.token == lease.token) else {
            tracing::warn!(task = %lease.task, "a result came after its lease was over");
            return Ok(Recorded::Stale);
        };
        let mut last = Last { attempt: flight.last_attempt, status: None };
        if let Some(attempt) = attempt {
            last.attempt = self.insert_attempt(lease.task, flight, attempt, prepared)?;
            last.status = attempt.status;
        }
        let (id, now) = (lease.task, self.now);
        let recorded = match then {
            Then::RetryAt { at, .. } if !flight.cancel_requested => {
                self.retry(id, flight, *at, prepared, &last)?;
                Recorded::Applied
            }
            Then::RetryAt { .. } => {
                self.end(id, flight, CANCELLED, None, &last, now)?;
                Recorded::Cancelled
            }
            Then::Succeed => {
                self.end(id, flight, SUCCEEDED, None, &last, now)?;
                Recorded::Applied
            }
            Then::Exhaust { because } => {
                self.end(id, flight, EXHAUSTED, Some(because.name()), &last, now)?;
                self.state.tally(flight.lane).dead_letters += 1;
                Recorded::Applied
            }
        };
        self.state.flights.remove(id.as_u64());
        self.state.tally(flight.lane).in_flight -= 1;
        Ok(recorded)
    }

    fn end(
        &mut self,
        task: TaskId,
        flight: Flight,
        state: i64,
        because: Option<&str>,
        last: &Last,
        now: Timestamp,
    ) -> Result<(), Failure> {
        let changed = self.hot(Hot::End)?.execute(params![
            from_id(task),
            flight.token.cast_signed(),
            state,
            due::ended_shelf(state, now.as_nanos()),
            from_time(now),
            because,
            last.status,
            last.attempt,
        ])?;
        expect_one(changed)
    }

    fn retry(
        &mut self,
        task: TaskId,
        flight: Flight,
        at: Timestamp,
        prepared: &Prepared,
        last: &Last,
    ) -> Result<(), Failure> {
        let Then::RetryAt { waiting, .. } = prepared.record.then else { return Ok(()) };
        let at = storable(at);
        let line = LineId::of_waiting(flight.lane, flight.attempts);
        let shelf = self.state.wait(line, task.as_u64(), at.as_nanos(), flight.deadline_at);
        let (id, token) = (from_id(task), flight.token.cast_signed());
        let (at, since, waiting) = (from_time(at), from_time(self.now), from_waiting(waiting));
        let history = &prepared.history;
        let changed = if shelf == flight.shelf {
            self.connection.prepare_cached(RETRY)?.execute(params![
                id,
                token,
                at,
                waiting,
                history,
                since,
                last.status,
                last.attempt
            ])?
        } else {
            self.connection.prepare_cached(RETRY_ELSEWHERE)?.execute(params![
                id,
                token,
                at,
                waiting,
                history,
                since,
                last.status,
                last.attempt,
                shelf
            ])?
        };
        expect_one(changed)
    }

    fn insert_attempt(
        &mut self,
        task: TaskId,
        flight: Flight,
        attempt: &AttemptRecord,
        prepared: &Prepared,
    ) -> Result<i64, Failure> {
        let id = from_id(self.state.next_id(self.now));
        self.log(id, task, flight.last_attempt, attempt, prepared.failure.as_deref())?;
        Ok(id)
    }

    /// Writes the row of an attempt behind the one before it.
    pub(super) fn log(
        &mut self,
        id: i64,
        task: TaskId,
        previous: i64,
        attempt: &AttemptRecord,
        failure: Option<&str>,
    ) -> Result<(), Failure> {
        let (ended, next_at, waiting, because) = match attempt.ended {
            Ended::Done => (0, None, None, None),
            Ended::RetryAt { at, waiting } => {
                (1, Some(from_time(at)), Some(from_waiting(waiting)), None)
            }
            Ended::GaveUp { because } => (2, None, None, Some(because.name())),
        };
        let phases = attempt.phases;
        self.hot(Hot::InsertAttempt)?.execute(params![
            id,
            from_id(task),
            previous,
            attempt.generation,
            attempt.number,
            from_time(attempt.started_at),
            from_duration(attempt.took),
            attempt.status,
            failure,
            ended,
            next_at,
            waiting,
            because,
            attempt.roll.cast_signed(),
            phases.dns.map(from_duration),
            phases.connect.map(from_duration),
            phases.tls.map(from_duration),
            phases.first_byte.map(from_duration),
            attempt.preview.as_deref(),
        ])?;
        Ok(())
    }
}

/// The row that memory speaks of is there, with the token that memory has. If not, memory and disk
/// disagree: the transaction is undone and memory is read again.
fn expect_one(changed: usize) -> Result<(), Failure> {
    match changed {
        1 => Ok(()),
        _ => Err(Failure::Sqlite(rusqlite::Error::StatementChangedRows(changed))),
    }
}
