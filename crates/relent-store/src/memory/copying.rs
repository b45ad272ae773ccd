//! Everything, out and in. REQ-S7.

use super::MemoryStore;
use super::state::{Hold, Row, State};
use crate::contract::{Answer, Copying};
use crate::error::Error;
use crate::id::{TaskId, TenantId};
use crate::lane::LaneRecord;
use crate::policy::PolicyRecord;
use crate::task::State as TaskState;
use crate::whole::{
    EXPORT_BYTES, Extent, Held, Likeness, WholeTask, in_the_way, new_lanes, new_policies,
};

impl Copying for MemoryStore {
    fn nodes(&self) -> Answer<'_, u64> {
        self.run(|_, _| Ok(0))
    }

    fn extent(&self) -> Answer<'_, Extent> {
        self.run(|state, _| Ok(state.extent()))
    }

    fn export_policies(&self) -> Answer<'_, Vec<(TenantId, PolicyRecord)>> {
        self.run(|state, _| Ok(state.policies.values().cloned().collect()))
    }

    fn export(&self, after: Option<TaskId>, max: u32) -> Answer<'_, Vec<WholeTask>> {
        self.run(move |state, _| Ok(state.export(after, max)))
    }

    fn import_policies(&self, policies: Vec<(TenantId, PolicyRecord)>) -> Answer<'_, u64> {
        self.run(move |state, _| state.import_policies(&policies))
    }

    fn import_lanes(&self, lanes: Vec<LaneRecord>) -> Answer<'_, u64> {
        self.run(move |state, _| state.import_lanes(&lanes))
    }

    fn import(&self, tasks: Vec<WholeTask>) -> Answer<'_, u64> {
        self.run(|state, _| state.import(tasks))
    }
}

impl State {
    fn extent(&self) -> Extent {
        let mut extent = Extent {
            policies: self.policies.len() as u64,
            lanes: self.lanes.len() as u64,
            ..Extent::default()
        };
        self.tasks.values().for_each(|row| extent.add(row.task.state, 1));
        extent
    }

    fn export(&self, after: Option<TaskId>, max: u32) -> Vec<WholeTask> {
        let mut bytes = 0;
        let later = self.tasks.values().filter(|row| after.is_none_or(|after| row.task.id > after));
        let fits = |row: &&Row| {
            let fits = bytes < EXPORT_BYTES;
            bytes += row.task.request.body.len();
            fits
        };
        later.take(max as usize).take_while(fits).map(Row::whole).collect()
    }

    fn import_policies(&mut self, all: &[(TenantId, PolicyRecord)]) -> Result<u64, Error> {
        let there: Vec<_> = self.policies.values().cloned().collect();
        let new = new_policies(&there, all)?;
        self.policies.extend(new.iter().map(|policy| (policy.1.key, (*policy).clone())));
        Ok(new.len() as u64)
    }

    fn import_lanes(&mut self, all: &[LaneRecord]) -> Result<u64, Error> {
        let there: Vec<_> = self.lanes.values().cloned().collect();
        let new = new_lanes(&there, all)?;
        self.lanes.extend(new.iter().map(|lane| (lane.id, (*lane).clone())));
        Ok(new.len() as u64)
    }

    fn import(&mut self, tasks: Vec<WholeTask>) -> Result<u64, Error> {
        let mut new = Vec::with_capacity(tasks.len());
        for whole in tasks {
            let task = &whole.task;
            let lane = self.lanes.get(&task.lane).filter(|lane| lane.tenant == whole.tenant);
            if lane.is_none() || !self.policies.contains_key(&task.policy) {
                return Err(Error::Damaged(format!("{} has no lane or no policy", task.id)));
            }
            let key = task.key.as_ref().map(|key| (whole.tenant.clone(), key.clone()));
            let with_key = key.and_then(|key| self.keys.get(&key));
            match self.tasks.get(&task.id) {
                Some(row) if Likeness::of(&row.task) == Likeness::of(task) => {}
                None if with_key.is_none() => new.push(whole),
                _ => return Err(in_the_way(task.id)),
            }
        }
        let count = new.len() as u64;
        new.into_iter().for_each(|whole| self.take_in(whole));
        Ok(count)
    }

    fn take_in(&mut self, whole: WholeTask) {
        let WholeTask { tenant, task, repeatable, history, held, attempts } = whole;
        let id = task.id;
        self.last_task = self.last_task.max(Some(id));
        if let Some(key) = &task.key {
            self.keys.insert((tenant.clone(), key.clone()), id);
        }
        let hold = held.map(|Held { until, claimed_at }| Hold {
            token: self.next_token(),
            until,
            claimed_at,
        });
        let row = Row { tenant, task, repeatable, history, hold, attempts };
        if row.task.state == TaskState::Pending {
            self.note_due(row.line());
        }
        self.tasks.insert(id, row);
    }
}

impl Row {
    fn whole(&self) -> WholeTask {
        WholeTask {
            tenant: self.tenant.clone(),
            task: self.task.clone(),
            repeatable: self.repeatable,
            history: self.history,
            held: self
                .hold
                .as_ref()
                .map(|hold| Held { until: hold.until, claimed_at: hold.claimed_at }),
            attempts: self.attempts.clone(),
        }
    }
}
