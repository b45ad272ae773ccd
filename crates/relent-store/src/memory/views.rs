//! Looking at tasks. REQ-S2, REQ-O1, REQ-D3.

use std::collections::BTreeMap;

use bytes::Bytes;
use relent_policy::{IdempotencyKey, Timestamp, Turn};

use super::state::{Row, State, earliest};
use crate::attempt::AttemptRecord;
use crate::contract::Counts;
use crate::id::{LaneId, TaskId, TenantId};
use crate::lane::LaneDue;
use crate::page::{Cursor, Page, TaskFilter};
use crate::task::{State as TaskState, TaskRecord};

impl State {
    pub(super) fn task(&self, tenant: &TenantId, id: TaskId) -> Option<TaskRecord> {
        Some(self.row(tenant, id)?.task.clone())
    }

    pub(super) fn task_by_key(&self, tenant: &TenantId, key: &IdempotencyKey) -> Option<TaskId> {
        self.keys.get(&(tenant.clone(), key.clone())).copied()
    }

    pub(super) fn attempts(&self, tenant: &TenantId, id: TaskId) -> Option<Vec<AttemptRecord>> {
        Some(self.row(tenant, id)?.attempts.clone())
    }

    pub(super) fn list(
        &self,
        tenant: &TenantId,
        filter: &TaskFilter,
        after: Option<Cursor>,
        max: u32,
    ) -> Page<TaskRecord> {
        let max = max.max(1) as usize;
        let below = |row: &&Row| after.is_none_or(|Cursor(id)| row.task.id < id);
        let latest_first = self.tasks.values().rev();
        let mut found =
            latest_first.filter(below).filter(|row| row.tenant == *tenant && fits(filter, row));
        let items: Vec<TaskRecord> = found.by_ref().take(max).map(without_body).collect();
        let next = found.next().and(items.last()).map(|last| Cursor(last.id));
        Page { items, next }
    }

    pub(super) fn lines(&self, now: Timestamp) -> Vec<LaneDue> {
        let mut lines = Vec::new();
        for line in self.tasks.values().filter_map(|row| row.waits_in(now)) {
            earliest(&mut lines, line);
        }
        lines
    }

    pub(super) fn counts(&self) -> Vec<(LaneId, Counts)> {
        let mut lanes = BTreeMap::<LaneId, Counts>::new();
        for row in self.tasks.values() {
            let counts = lanes.entry(row.task.lane).or_default();
            match (row.task.state, row.line().turn) {
                (TaskState::Pending, Turn::First) => counts.first += 1,
                (TaskState::Pending, Turn::Retry) => counts.retries += 1,
                (TaskState::InFlight, _) => counts.in_flight += 1,
                (TaskState::Exhausted, _) => counts.dead_letters += 1,
                (TaskState::Succeeded | TaskState::Cancelled, _) => {}
            }
        }
        lanes.into_iter().collect()
    }
}

fn fits(filter: &TaskFilter, row: &Row) -> bool {
    let task = &row.task;
    (filter.states.is_empty() || filter.states.contains(&task.state))
        && filter.lanes.as_ref().is_none_or(|lanes| lanes.contains(&task.lane))
        && filter.policies.as_ref().is_none_or(|policies| policies.contains(&task.policy))
        && filter.created_after.is_none_or(|at| task.id >= TaskId::first_at(at))
        && filter.created_before.is_none_or(|at| task.id < TaskId::first_at(at))
        && filter.because.is_none_or(|because| task.because == Some(because))
}

fn without_body(row: &Row) -> TaskRecord {
    let mut task = row.task.clone();
    task.request.body = Bytes::new();
    task
}
