//! Calling off, trying dead letters again, deleting. REQ-S2, REQ-S4, REQ-D3.

use relent_policy::Timestamp;

use super::state::{Row, State};
use crate::error::Error;
use crate::id::{TaskId, TenantId};
use crate::task::{Cancelled, Redrive, Redriven, Retention, State as TaskState, Waiting};

impl State {
    pub(super) fn cancel(&mut self, tenant: &TenantId, id: TaskId, now: Timestamp) -> Cancelled {
        let Some(row) = self.row_mut(tenant, id) else { return Cancelled::NotFound };
        match row.task.state {
            TaskState::Pending => {
                row.end(TaskState::Cancelled, now);
                Cancelled::Now
            }
            TaskState::InFlight => {
                row.task.cancel_requested = true;
                Cancelled::AfterAttempt
            }
            ended => Cancelled::Ended(ended),
        }
    }

    pub(super) fn redrive(
        &mut self,
        tenant: &TenantId,
        redrives: &[Redrive],
        now: Timestamp,
    ) -> Result<Vec<Redriven>, Error> {
        let policies = redrives.iter().filter_map(|redrive| redrive.policy);
        for (policy, _) in policies {
            if !self.policies.contains_key(&policy) {
                return Err(Error::Damaged(format!("there is no {policy}")));
            }
        }
        Ok(redrives.iter().map(|redrive| self.redrive_one(tenant, redrive, now)).collect())
    }

    fn redrive_one(&mut self, tenant: &TenantId, redrive: &Redrive, now: Timestamp) -> Redriven {
        let Some(row) = self.row_mut(tenant, redrive.task) else { return Redriven::NotFound };
        if row.task.state != TaskState::Exhausted {
            return Redriven::NotDead(row.task.state);
        }
        row.history = None;
        let task = &mut row.task;
        let former = (task.policy, task.deadline_at.saturating_since(task.started_at));
        let (policy, lifetime) = redrive.policy.unwrap_or(former);
        task.policy = policy;
        task.state = TaskState::Pending;
        task.generation += 1;
        task.attempts = 0;
        task.started_at = now + redrive.after;
        task.due_at = task.started_at;
        task.deadline_at = task.started_at + lifetime;
        task.waiting = Waiting::Scheduled;
        task.ended_at = None;
        task.because = None;
        task.last_status = None;
        let line = row.line();
        self.note_due(line);
        Redriven::Pending
    }

    pub(super) fn purge(&mut self, tenant: &TenantId, tasks: &[TaskId]) -> u64 {
        let mut purged = 0;
        for id in tasks {
            if self.row(tenant, *id).is_some_and(|row| row.task.state.is_final()) {
                self.delete(*id);
                purged += 1;
            }
        }
        purged
    }

    pub(super) fn prune(&mut self, retention: Retention, max: u32, now: Timestamp) -> u64 {
        let mut left = u64::from(max);
        let mut over = Vec::new();
        for (id, row) in &mut self.tasks {
            let task_is_over = row.is_over(retention, now);
            row.attempts.retain(|attempt| {
                let age = now.saturating_since(attempt.started_at);
                let delete = left > 0 && (task_is_over || age > retention.attempts);
                left -= u64::from(delete);
                !delete
            });
            if task_is_over && row.attempts.is_empty() && left > 0 {
                over.push(*id);
                left -= 1;
            }
        }
        for id in over {
            self.delete(id);
        }
        u64::from(max) - left
    }
}

impl Row {
    /// Whether it ended longer ago than it need be kept.
    fn is_over(&self, retention: Retention, now: Timestamp) -> bool {
        let kept = match self.task.state {
            TaskState::Exhausted => retention.dead_letters,
            _ => retention.ended,
        };
        self.task.ended_at.is_some_and(|ended_at| now.saturating_since(ended_at) > kept)
    }
}
