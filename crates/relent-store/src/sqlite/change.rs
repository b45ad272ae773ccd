//! Calling off, and trying dead letters again. REQ-S2, REQ-S4, REQ-D3.

use rusqlite::{OptionalExtension, params};

use super::due::{self, Entry, LineId};
use super::queue::Failure;
use super::rows::{
    CANCELLED, EXHAUSTED, HELD, IN_FLIGHT, PENDING, from_id, from_time, storable, to_nanos,
    to_state, to_time,
};
use super::state::Desk;
use crate::id::{TaskId, TenantId};
use crate::task::{Cancelled, Redrive, Redriven};

const STANDING: &str = "SELECT state, lane, attempts, shelf, due_at, started_at, deadline_at, policy, generation \
     FROM tasks WHERE id = ?1";
const CANCEL: &str = "UPDATE tasks SET state = ?2, shelf = ?3, since = ?4 WHERE id = ?1";
const REQUEST_CANCEL: &str = "UPDATE tasks SET cancel_requested = 1 WHERE id = ?1";
const REDRIVE: &str = "UPDATE tasks SET state = 0, attempts = 0, due_at = ?2, deadline_at = ?3, \
     shelf = ?4, policy = ?5, generation = ?6, started_at = ?2, waiting = 0, \
     cancel_requested = 0, token = id, since = ?7, last_status = NULL, because = NULL, \
     history = NULL WHERE id = ?1";

/// Where a task stands.
struct Standing {
    state: i64,
    lane: u32,
    attempts: u32,
    shelf: i64,
    due_at: u64,
    started_at: i64,
    deadline_at: i64,
    policy: u32,
    generation: u32,
}

impl Desk<'_> {
    pub(super) fn cancel(&mut self, tenant: &TenantId, task: TaskId) -> Result<Cancelled, Failure> {
        let Some(standing) = self.standing(tenant, task)? else { return Ok(Cancelled::NotFound) };
        match standing.state {
            PENDING => {
                self.cancel_waiting(task, &standing)?;
                Ok(Cancelled::Now)
            }
            IN_FLIGHT | HELD => {
                self.connection.prepare_cached(REQUEST_CANCEL)?.execute([from_id(task)])?;
                if let Some(flight) = self.state.flights.get_mut(task.as_u64()) {
                    flight.cancel_requested = true;
                }
                Ok(Cancelled::AfterAttempt)
            }
            ended => Ok(Cancelled::Ended(to_state(ended)?)),
        }
    }

    fn cancel_waiting(&mut self, task: TaskId, standing: &Standing) -> Result<(), Failure> {
        let now = self.now.as_nanos();
        let shelf = due::ended_shelf(CANCELLED, now);
        let since = from_time(self.now);
        self.connection.prepare_cached(CANCEL)?.execute(params![
            from_id(task),
            CANCELLED,
            shelf,
            since
        ])?;
        let line = LineId::of_waiting(standing.lane, standing.attempts);
        let deadline_at = to_nanos(standing.deadline_at);
        let entry = Entry::new(task.as_u64(), standing.due_at, deadline_at);
        if !self.state.overdue.remove(&(entry.deadline_at(), entry.id)) {
            self.state.due.forget(line, standing.shelf, standing.due_at);
        }
        *self.state.tally(standing.lane).waiting(line) -= 1;
        Ok(())
    }

    pub(super) fn redrive(
        &mut self,
        tenant: &TenantId,
        redrives: &[Redrive],
    ) -> Result<Vec<Redriven>, Failure> {
        for (policy, _) in redrives.iter().filter_map(|redrive| redrive.policy) {
            self.state.expect_policy(policy)?;
        }
        redrives.iter().map(|redrive| self.redrive_one(tenant, redrive)).collect()
    }

    fn redrive_one(&mut self, tenant: &TenantId, redrive: &Redrive) -> Result<Redriven, Failure> {
        let Some(dead) = self.standing(tenant, redrive.task)? else {
            return Ok(Redriven::NotFound);
        };
        if dead.state != EXHAUSTED {
            return Ok(Redriven::NotDead(to_state(dead.state)?));
        }
        let former = to_time(dead.deadline_at).saturating_since(to_time(dead.started_at));
        let (policy, lifetime) = match redrive.policy {
            Some((policy, lifetime)) => (policy.as_u32(), lifetime),
            None => (dead.policy, former),
        };
        let due_at = storable(self.now + redrive.after);
        let deadline_at = due_at + lifetime;
        let line = LineId::of_waiting(dead.lane, 0);
        let id = redrive.task;
        let shelf = self.state.wait(line, id.as_u64(), due_at.as_nanos(), deadline_at.as_nanos());
        self.connection.prepare_cached(REDRIVE)?.execute(params![
            from_id(id),
            from_time(due_at),
            from_time(deadline_at),
            shelf,
            policy,
            dead.generation.saturating_add(1),
            from_time(self.now),
        ])?;
        self.state.tally(dead.lane).dead_letters -= 1;
        Ok(Redriven::Pending)
    }

    /// Where a task of this tenant stands.
    fn standing(&self, tenant: &TenantId, task: TaskId) -> Result<Option<Standing>, Failure> {
        let mut select = self.connection.prepare_cached(STANDING)?;
        let standing = select.query_row([from_id(task)], |row| {
            Ok(Standing {
                state: row.get(0)?,
                lane: row.get(1)?,
                attempts: row.get(2)?,
                shelf: row.get(3)?,
                due_at: to_nanos(row.get(4)?),
                started_at: row.get(5)?,
                deadline_at: row.get(6)?,
                policy: row.get(7)?,
                generation: row.get(8)?,
            })
        });
        let is_own = |standing: &Standing| self.state.lanes.tenant(standing.lane) == Some(tenant);
        Ok(standing.optional()?.filter(is_own))
    }
}
