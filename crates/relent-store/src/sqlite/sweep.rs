//! Taking over what nobody else will end.
//!
//! Two kinds. A lease that ran out: its attempt is lost, and counted. After a start these are all
//! the tasks that were in flight, as their owner was the process before. And a deadline that passed
//! while the task waited, in a lane that is held back. Both become in flight again under a new
//! token; the second without an attempt, which its state on disk remembers, so that a crash before
//! the record does not invent a lost attempt. REQ-S3, REQ-S4, REQ-G2.

use relent_policy::Timestamp;
use rusqlite::{OptionalExtension, params};

use super::due::LineId;
use super::queue::Failure;
use super::rows::{
    HELD, IN_FLIGHT, PENDING, from_id, from_time, nanos, to_history, to_key, to_nanos,
    to_repeatable, to_time,
};
use super::state::{Desk, Flight};
use crate::error::Error;
use crate::id::{LaneId, PolicyKey, TaskId};
use crate::lease::{Lease, SWEEP_LEASE, Swept, SweptBecause};

const TAKEN_OVER: &str = "SELECT state, lane, attempts, due_at, deadline_at, shelf, policy, \
     generation, started_at, repeatable, last_attempt, history, idempotency_key \
     FROM tasks JOIN payloads USING (id) WHERE id = ?1";
const TAKE_OVER: &str = "UPDATE tasks SET token = ?2 WHERE id = ?1";
const HOLD: &str = "UPDATE tasks SET state = ?2, token = ?3, since = ?4 WHERE id = ?1";

/// More than this is not taken over at once: others wait for the same commit.
const TASKS_MAX: usize = 1_024;

struct Row {
    state: i64,
    lane: u32,
    attempts: u32,
    due_at: u64,
    deadline_at: u64,
    shelf: i64,
    policy: u32,
    generation: u32,
    started_at: i64,
    repeatable: i64,
    last_attempt: i64,
    history: Option<String>,
    key: Option<String>,
}

impl Desk<'_> {
    pub(super) fn sweep(&mut self, max: u32) -> Result<Vec<Swept>, Failure> {
        let now = self.now.as_nanos();
        let max = (max as usize).min(TASKS_MAX);
        let expired: Vec<u64> = self.state.flights.expired(now).take(max).collect();
        let mut swept = Vec::with_capacity(expired.len());
        for task in expired {
            swept.extend(self.take_over(task)?);
        }
        if swept.len() < max {
            for entry in self.state.due.take_overdue(now) {
                self.state.overdue.insert((entry.deadline_at(), entry.id));
            }
        }
        while swept.len() < max
            && let Some((_, task)) = self.state.overdue.pop_first()
        {
            swept.extend(self.hold(task)?);
        }
        Ok(swept)
    }

    /// Takes over a task whose lease is over.
    fn take_over(&mut self, task: u64) -> Result<Option<Swept>, Failure> {
        let Some(flight) = self.state.flights.remove(task) else { return Ok(None) };
        let Some(row) = self.row(task)?.filter(|row| matches!(row.state, IN_FLIGHT | HELD)) else {
            tracing::error!(task, "a task in flight is not where it should be");
            return Ok(None);
        };
        let (id, lease) = self.new_lease(task)?;
        let token = lease.token.cast_signed();
        self.connection.prepare_cached(TAKE_OVER)?.execute(params![from_id(id), token])?;
        let until = lease.until.as_nanos();
        self.state.flights.insert(task, Flight { token: lease.token, until, ..flight });
        let because = match flight.claimed_at {
            Some(claimed_at) => {
                let began_at = Timestamp::from_nanos(claimed_at.max(row.due_at));
                SweptBecause::LeaseExpired { began_at }
            }
            None => SweptBecause::DeadlinePassed,
        };
        Ok(Some(row.swept(lease, because)))
    }

    /// Takes over a task whose deadline passed while it waited.
    fn hold(&mut self, task: u64) -> Result<Option<Swept>, Failure> {
        let now = self.now.as_nanos();
        let still_waits = |row: &Row| row.state == PENDING;
        let Some(row) = self.row(task)?.filter(still_waits) else { return Ok(None) };
        let line = LineId::of_waiting(row.lane, row.attempts);
        if row.deadline_at > now {
            // A deadline further away than an entry can say. It goes back in line.
            self.state.due.add(line, task, row.due_at, row.deadline_at);
            return Ok(None);
        }
        let (id, lease) = self.new_lease(task)?;
        let token = lease.token.cast_signed();
        let since = from_time(self.now);
        self.connection.prepare_cached(HOLD)?.execute(params![from_id(id), HELD, token, since])?;
        let flight = Flight {
            token: lease.token,
            until: lease.until.as_nanos(),
            claimed_at: None,
            lane: row.lane,
            attempts: row.attempts,
            last_attempt: row.last_attempt,
            shelf: row.shelf,
            deadline_at: row.deadline_at,
            cancel_requested: false,
        };
        self.state.flights.insert(task, flight);
        let tally = self.state.tally(row.lane);
        *tally.waiting(line) -= 1;
        tally.in_flight += 1;
        Ok(Some(row.swept(lease, SweptBecause::DeadlinePassed)))
    }

    fn new_lease(&mut self, task: u64) -> Result<(TaskId, Lease), Failure> {
        let id = TaskId::from_u64(task);
        let id = id.ok_or_else(|| Error::Damaged(format!("{task} is no task id")))?;
        let token = self.state.next_id(self.now).as_u64();
        let until = self.now.as_nanos().saturating_add(nanos(SWEEP_LEASE));
        Ok((id, Lease { task: id, token, until: Timestamp::from_nanos(until) }))
    }

    fn row(&self, task: u64) -> Result<Option<Row>, Failure> {
        let mut select = self.connection.prepare_cached(TAKEN_OVER)?;
        let row = select.query_row([task.cast_signed()], |row| {
            Ok(Row {
                state: row.get(0)?,
                lane: row.get(1)?,
                attempts: row.get(2)?,
                due_at: to_nanos(row.get(3)?),
                deadline_at: to_nanos(row.get(4)?),
                shelf: row.get(5)?,
                policy: row.get(6)?,
                generation: row.get(7)?,
                started_at: row.get(8)?,
                repeatable: row.get(9)?,
                last_attempt: row.get(10)?,
                history: row.get(11)?,
                key: row.get(12)?,
            })
        });
        Ok(row.optional()?)
    }
}

impl Row {
    fn swept(self, lease: Lease, because: SweptBecause) -> Swept {
        let started_at = to_time(self.started_at);
        let repeatable = to_repeatable(self.repeatable);
        Swept {
            lease,
            lane: LaneId::from_u32(self.lane),
            policy: PolicyKey::from_u32(self.policy),
            generation: self.generation,
            history: to_history(self.history.as_deref(), started_at, repeatable, self.attempts),
            because,
            key: self.key.as_deref().and_then(|key| to_key(key).ok()),
        }
    }
}
