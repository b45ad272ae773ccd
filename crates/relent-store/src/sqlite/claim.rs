//! Claiming: from the head of a line, each task compared with its row.
//!
//! The line says who may be next; the row says whether it is so. A row that has changed since (it
//! was called off) is passed over, one whose deadline has passed is put aside for the sweep. What is
//! claimed is counted, leased and read in the one transaction; bodies are read by the writer, as
//! they are on pages it has in its hands anyway, and JSON is taken apart by the caller. A claim
//! rewrites its row in place and touches no index. REQ-S3, REQ-S4, REQ-S5.

use std::time::Duration;

use bytes::Bytes;
use relent_policy::Timestamp;
use rusqlite::{OptionalExtension, Row, params};

use super::due::{Entry, LineId};
use super::queue::Failure;
use super::rows::{
    IN_FLIGHT, PENDING, from_id, from_time, nanos, to_headers, to_history, to_key, to_nanos,
    to_repeatable, to_time,
};
use super::state::{Desk, Flight, Hot, lane_due};
use crate::error::Error;
use crate::id::{LaneId, PolicyKey, TaskId};
use crate::lane::LaneDue;
use crate::lease::{Claimed, Claims, Lease, SWEEP_LEASE, Want};
use crate::task::StoredRequest;

pub(super) const DUE: &str = "SELECT state, due_at, deadline_at, attempts, shelf, policy, generation, \
     started_at, repeatable, last_status, last_attempt, history, method, url, headers, \
     idempotency_key, correlation_id, body \
     FROM tasks JOIN payloads USING (id) WHERE id = ?1";
pub(super) const CLAIM: &str =
    "UPDATE tasks SET state = ?2, attempts = ?3, token = ?4, since = ?5 WHERE id = ?1";
const WAITING: &str = "SELECT state, due_at FROM tasks WHERE id = ?1";

/// One claim takes no more than this, whatever is wanted: others wait for the same commit.
const TASKS_MAX: usize = 4_096;
const BYTES_MAX: usize = 64 << 20;
/// How many entries of tasks that cannot be claimed one operation passes over.
const PASSES_MAX: usize = 10_000;

/// What was claimed, as it stands in its row.
pub(super) struct Raw {
    lease: Lease,
    lane: u32,
    policy: u32,
    generation: u32,
    attempts: u32,
    started_at: i64,
    repeatable: i64,
    history: Option<String>,
    due_at: Timestamp,
    previous_status: Option<u16>,
    method: String,
    url: String,
    headers: String,
    key: Option<String>,
    correlation_id: Option<String>,
    body: Vec<u8>,
}

pub(super) struct RawClaims {
    claimed: Vec<Raw>,
    next: Vec<Option<Timestamp>>,
}

/// A row at the head of a line that can be claimed.
struct DueRow {
    flight: Flight,
    raw: Raw,
}

impl Desk<'_> {
    pub(super) fn claim(&mut self, wants: &[Want]) -> Result<RawClaims, Failure> {
        let mut claims = RawClaims { claimed: Vec::new(), next: Vec::with_capacity(wants.len()) };
        let (mut bytes, mut passes) = (0, PASSES_MAX);
        for want in wants {
            let line = LineId::new(want.lane.as_u32(), want.turn);
            let mut left = (want.max as usize).min(TASKS_MAX.saturating_sub(claims.claimed.len()));
            while left > 0 && bytes < BYTES_MAX {
                let Some(raw) = self.claim_head(line, want.ahead, &mut passes)? else { break };
                bytes += raw.body.len();
                left -= 1;
                claims.claimed.push(raw);
            }
            let next = self.next_due(line, &mut passes)?;
            claims.next.push(next.map(Timestamp::from_nanos));
        }
        Ok(claims)
    }

    /// Claims the first task of a line that can be, if one is due by then.
    fn claim_head(
        &mut self,
        line: LineId,
        ahead: Duration,
        passes: &mut usize,
    ) -> Result<Option<Raw>, Failure> {
        let (now, due_by) = (self.now.as_nanos(), (self.now + ahead).as_nanos());
        while let Some(left) = passes.checked_sub(1) {
            let Some(head) = self.state.due.head(line) else { return Ok(None) };
            if head.due_at > due_by {
                return Ok(None);
            }
            if self.put_aside(line, head) {
                *passes = left;
                continue;
            }
            let Some(row) = self.due_row(line, head)? else {
                if self.still_waits(head)? {
                    tracing::error!(task = head.id, "a task has lost what it is to send");
                }
                self.state.due.pop_stale(line);
                *passes = left;
                continue;
            };
            self.state.due.pop(line);
            if row.flight.deadline_at <= now {
                self.state.overdue.insert((head.deadline_at(), head.id));
                *passes = left;
                continue;
            }
            return self.take(line, head.id, row).map(Some);
        }
        Ok(None)
    }

    /// Puts the head of a line aside for the sweep, if its deadline has passed.
    fn put_aside(&mut self, line: LineId, head: Entry) -> bool {
        let is_overdue = head.deadline_at() <= self.now.as_nanos();
        if is_overdue {
            self.state.due.pop(line);
            self.state.overdue.insert((head.deadline_at(), head.id));
        }
        is_overdue
    }

    /// The row of an entry; `None` if it does not wait for this time any more.
    fn due_row(&mut self, line: LineId, entry: Entry) -> Result<Option<DueRow>, Failure> {
        let Some(task) = TaskId::from_u64(entry.id) else { return Ok(None) };
        let row = self.hot(Hot::Due)?.query_row([from_id(task)], |row| {
            let waits = row.get::<_, i64>(0)? == PENDING && to_nanos(row.get(1)?) == entry.due_at;
            waits.then(|| due_row(row, line.lane, task)).transpose()
        });
        Ok(row.optional()?.flatten())
    }

    fn take(&mut self, line: LineId, task: u64, row: DueRow) -> Result<Raw, Failure> {
        let DueRow { mut flight, mut raw } = row;
        let lease = self.state.leases.get(&raw.policy).copied();
        let until = self.now.as_nanos().saturating_add(lease.unwrap_or(nanos(SWEEP_LEASE)));
        let token = self.state.next_id(self.now);
        flight.token = token.as_u64();
        flight.until = until;
        flight.claimed_at = Some(self.now.as_nanos());
        let since = from_time(self.now);
        let id = task.cast_signed();
        self.hot(Hot::Claim)?.execute(params![
            id,
            IN_FLIGHT,
            flight.attempts,
            from_id(token),
            since
        ])?;
        raw.lease.token = flight.token;
        raw.lease.until = Timestamp::from_nanos(until);
        self.state.flights.insert(task, flight);
        let tally = self.state.tally(line.lane);
        *tally.waiting(line) -= 1;
        tally.in_flight += 1;
        Ok(raw)
    }

    /// When the next task of a line is due. Its head is made sure of, unless too many were passed
    /// over: then the line may be said to have something due that has not.
    fn next_due(&mut self, line: LineId, passes: &mut usize) -> Result<Option<u64>, Failure> {
        while let Some(left) = passes.checked_sub(1)
            && let Some(head) = self.state.due.head(line)
        {
            if self.put_aside(line, head) {
                *passes = left;
                continue;
            }
            if !self.state.due.is_doubtful(line) || self.still_waits(head)? {
                break;
            }
            self.state.due.pop_stale(line);
            *passes = left;
        }
        Ok(self.state.due.earliest(line))
    }

    fn still_waits(&self, entry: Entry) -> Result<bool, Failure> {
        let mut select = self.connection.prepare_cached(WAITING)?;
        let waits = select.query_row([entry.id.cast_signed()], |row| {
            Ok(row.get::<_, i64>(0)? == PENDING && to_nanos(row.get(1)?) == entry.due_at)
        });
        Ok(waits.optional()?.unwrap_or(false))
    }

    pub(super) fn lines(&mut self) -> Result<Vec<LaneDue>, Failure> {
        let mut lines = Vec::new();
        let mut passes = PASSES_MAX;
        for line in self.state.due.lines() {
            lines.extend(self.next_due(line, &mut passes)?.map(|at| lane_due(line, at)));
        }
        Ok(lines)
    }
}

fn due_row(row: &Row<'_>, lane: u32, task: TaskId) -> rusqlite::Result<DueRow> {
    let attempts = row.get::<_, u32>(3)?.saturating_add(1);
    let flight = Flight {
        token: 0,
        until: 0,
        claimed_at: None,
        lane,
        attempts,
        last_attempt: row.get(10)?,
        shelf: row.get(4)?,
        deadline_at: to_nanos(row.get(2)?),
        cancel_requested: false,
    };
    let raw = Raw {
        lease: Lease { task, token: 0, until: Timestamp::ZERO },
        lane,
        policy: row.get(5)?,
        generation: row.get(6)?,
        attempts,
        started_at: row.get(7)?,
        repeatable: row.get(8)?,
        history: row.get(11)?,
        due_at: to_time(row.get(1)?),
        previous_status: row.get(9)?,
        method: row.get(12)?,
        url: row.get(13)?,
        headers: row.get(14)?,
        key: row.get(15)?,
        correlation_id: row.get(16)?,
        body: row.get(17)?,
    };
    Ok(DueRow { flight, raw })
}

impl RawClaims {
    /// What the caller gets. A task that cannot be read is left out: it is never sent without the
    /// headers that it was stored with, and its lease runs out like that of any lost attempt.
    pub(super) fn read(self) -> Claims {
        let claimed = self.claimed.into_iter().filter_map(|raw| {
            let task = raw.lease.task;
            let read = raw.read();
            if let Err(error) = &read {
                tracing::error!(%task, %error, "a claimed task cannot be read");
            }
            read.ok()
        });
        Claims { claimed: claimed.collect(), next: self.next }
    }
}

impl Raw {
    fn read(self) -> Result<Claimed, Error> {
        let started_at = to_time(self.started_at);
        let repeatable = to_repeatable(self.repeatable);
        let history = to_history(self.history.as_deref(), started_at, repeatable, self.attempts);
        Ok(Claimed {
            lease: self.lease,
            lane: LaneId::from_u32(self.lane),
            policy: PolicyKey::from_u32(self.policy),
            generation: self.generation,
            history,
            due_at: self.due_at,
            previous_status: self.previous_status,
            key: self.key.as_deref().map(to_key).transpose()?,
            request: StoredRequest {
                method: self.method,
                url: self.url,
                headers: to_headers(&self.headers)?,
                body: Bytes::from(self.body),
                correlation_id: self.correlation_id,
            },
        })
    }
}
