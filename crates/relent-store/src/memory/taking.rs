//! Taking tasks in: all of a batch or nothing of it. REQ-S1, REQ-S4.

use std::collections::BTreeMap;

use relent_policy::{IdempotencyKey, Timestamp};

use super::state::{Row, State};
use crate::error::Error;
use crate::id::{TaskId, TenantId};
use crate::task::{Enqueued, FirstAttempt, NewTask, State as TaskState, TaskRecord, Waiting};

impl State {
    pub(super) fn enqueue(
        &mut self,
        tenant: &TenantId,
        tasks: Vec<NewTask>,
        now: Timestamp,
    ) -> Result<Vec<Enqueued>, Error> {
        for task in &tasks {
            self.expect_lane_and_policy(tenant, task)?;
        }
        if let Some(refusal) = self.refusal(tenant, &tasks) {
            return Ok(refusal);
        }
        Ok(tasks.into_iter().map(|task| self.take(tenant, task, now)).collect())
    }

    fn expect_lane_and_policy(&self, tenant: &TenantId, task: &NewTask) -> Result<(), Error> {
        if self.lanes.get(&task.lane).is_none_or(|lane| lane.tenant != *tenant) {
            return Err(Error::Damaged(format!("{tenant} has no {}", task.lane)));
        }
        if !self.policies.contains_key(&task.policy) {
            return Err(Error::Damaged(format!("there is no {}", task.policy)));
        }
        Ok(())
    }

    /// What is answered instead of storing the batch; `None` if nothing conflicts.
    fn refusal(&self, tenant: &TenantId, tasks: &[NewTask]) -> Option<Vec<Enqueued>> {
        let mut batch = BTreeMap::<&IdempotencyKey, [u8; 16]>::new();
        let mut answers = Vec::new();
        for task in tasks {
            let stored = task.key.as_ref().and_then(|key| self.task_by_key(tenant, key));
            answers.push(match (stored, &task.key) {
                (Some(id), _) if self.tasks[&id].task.fingerprint == task.fingerprint => {
                    Enqueued::Existing(id)
                }
                (Some(id), _) => Enqueued::Conflict(Some(id)),
                (None, Some(key))
                    if *batch.entry(key).or_insert(task.fingerprint) != task.fingerprint =>
                {
                    Enqueued::Conflict(None)
                }
                (None, _) => Enqueued::Withheld,
            });
        }
        answers.iter().any(|answer| matches!(answer, Enqueued::Conflict(_))).then_some(answers)
    }

    /// Stores a task that conflicts with none.
    fn take(&mut self, tenant: &TenantId, task: NewTask, now: Timestamp) -> Enqueued {
        if let Some(id) = task.key.as_ref().and_then(|key| self.task_by_key(tenant, key)) {
            return Enqueued::Existing(id);
        }
        let id = TaskId::next(self.last_task, now);
        self.last_task = Some(id);
        if let Some(key) = &task.key {
            self.keys.insert((tenant.clone(), key.clone()), id);
        }
        let row = new_row(tenant, id, task, now);
        self.note_due(row.line());
        self.tasks.insert(id, row);
        Enqueued::Created(id)
    }
}

fn new_row(tenant: &TenantId, id: TaskId, new: NewTask, now: Timestamp) -> Row {
    let due_at = match new.first {
        FirstAttempt::Now => now,
        FirstAttempt::After(wait) => now + wait,
        FirstAttempt::NotBefore(at) => at.max(now),
    };
    Row {
        tenant: tenant.clone(),
        repeatable: new.repeatable,
        history: None,
        hold: None,
        attempts: Vec::new(),
        task: TaskRecord {
            id,
            lane: new.lane,
            policy: new.policy,
            state: TaskState::Pending,
            generation: 0,
            attempts: 0,
            due_at,
            waiting: Waiting::Scheduled,
            started_at: due_at,
            deadline_at: due_at + new.lifetime,
            cancel_requested: false,
            ended_at: None,
            because: None,
            last_status: None,
            key: new.key,
            fingerprint: new.fingerprint,
            body_bytes: new.request.body.len() as u64,
            request: new.request,
        },
    }
}
