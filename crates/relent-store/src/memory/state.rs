//! What the model remembers. REQ-S3, REQ-S4.

use std::collections::BTreeMap;
use std::mem;

use relent_policy::{History, IdempotencyKey, Repeatable, Timestamp, Turn};

use crate::attempt::AttemptRecord;
use crate::id::{LaneId, PolicyKey, TaskId, TenantId};
use crate::lane::{LaneDue, LaneRecord};
use crate::policy::PolicyRecord;
use crate::task::{State as TaskState, TaskRecord};

#[derive(Default)]
pub(super) struct State {
    pub(super) tasks: BTreeMap<TaskId, Row>,
    pub(super) keys: BTreeMap<(TenantId, IdempotencyKey), TaskId>,
    pub(super) policies: BTreeMap<PolicyKey, (TenantId, PolicyRecord)>,
    pub(super) lanes: BTreeMap<LaneId, LaneRecord>,
    pub(super) last_task: Option<TaskId>,
    last_token: u64,
    closed: bool,
    /// What became due in the operation under way.
    dues: Vec<LaneDue>,
}

/// One task with everything that belongs to it.
pub(super) struct Row {
    pub(super) tenant: TenantId,
    /// As it is shown, with its body.
    pub(super) task: TaskRecord,
    pub(super) repeatable: Repeatable,
    /// What it remembered when its last retry was decided.
    pub(super) history: Option<History>,
    /// Present exactly while the task is in flight.
    pub(super) hold: Option<Hold>,
    pub(super) attempts: Vec<AttemptRecord>,
}

/// Who may write about a task, and until when.
pub(super) struct Hold {
    pub(super) token: u64,
    pub(super) until: Timestamp,
    /// When the attempt was claimed; `None` if the task was taken over without one.
    pub(super) claimed_at: Option<Timestamp>,
}

impl State {
    pub(super) fn open(&self) -> bool {
        !self.closed
    }

    pub(super) fn close(&mut self) {
        self.closed = true;
    }

    pub(super) fn restart(&mut self, now: Timestamp) {
        self.closed = false;
        for hold in self.tasks.values_mut().filter_map(|row| row.hold.as_mut()) {
            hold.until = hold.until.min(now);
        }
    }

    pub(super) fn next_token(&mut self) -> u64 {
        self.last_token += 1;
        self.last_token
    }

    /// The tenant's task of this id.
    pub(super) fn row(&self, tenant: &TenantId, task: TaskId) -> Option<&Row> {
        self.tasks.get(&task).filter(|row| row.tenant == *tenant)
    }

    pub(super) fn row_mut(&mut self, tenant: &TenantId, task: TaskId) -> Option<&mut Row> {
        self.tasks.get_mut(&task).filter(|row| row.tenant == *tenant)
    }

    /// Forgets a task with its key and its attempts.
    pub(super) fn delete(&mut self, task: TaskId) {
        let Some(row) = self.tasks.remove(&task) else { return };
        if let Some(key) = row.task.key {
            self.keys.remove(&(row.tenant, key));
        }
    }

    /// Keeps the earliest due time of each line until the operation is over.
    pub(super) fn note_due(&mut self, due: LaneDue) {
        earliest(&mut self.dues, due);
    }

    pub(super) fn take_dues(&mut self) -> Vec<LaneDue> {
        mem::take(&mut self.dues)
    }
}

impl Row {
    /// Which line of its lane it waits in; `None` if it does not wait, or has reached its deadline
    /// and waits for nothing but the sweep.
    pub(super) fn waits_in(&self, now: Timestamp) -> Option<LaneDue> {
        let waits = self.task.state == TaskState::Pending && now < self.task.deadline_at;
        waits.then(|| self.line())
    }

    pub(super) fn line(&self) -> LaneDue {
        LaneDue {
            lane: self.task.lane,
            turn: Turn::of_attempt(self.task.attempts + 1),
            at: self.task.due_at,
        }
    }

    /// Its past, without the attempt under way.
    pub(super) fn past(&self) -> History {
        self.history.unwrap_or_else(|| History::start(self.task.started_at, self.repeatable))
    }

    /// Ends it.
    pub(super) fn end(&mut self, state: TaskState, now: Timestamp) {
        self.task.state = state;
        self.task.ended_at = Some(now);
        self.task.cancel_requested = false;
        self.hold = None;
    }
}

/// Adds a due time to a list that has one entry for each line.
pub(super) fn earliest(dues: &mut Vec<LaneDue>, due: LaneDue) {
    match dues.iter_mut().find(|known| known.lane == due.lane && known.turn == due.turn) {
        Some(known) => known.at = known.at.min(due.at),
        None => dues.push(due),
    }
}
