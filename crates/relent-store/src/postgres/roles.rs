//! The contract, operation by operation: what goes into which queue, and what is asked directly.
//! REQ-S3, REQ-S4, REQ-S7.

use std::time::Duration;

use relent_policy::{BudgetSnapshot, IdempotencyKey};

use super::PostgresStore;
use super::claim::{Taken, Taking};
use super::enqueue::NewTasks;
use super::queue::stopped;
use super::record;
use crate::attempt::{AttemptRecord, Record, Recorded};
use crate::contract::{Answer, Counts, Lanes, Nodes, Policies, Tasks, Upkeep};
use crate::id::{LaneId, PolicyKey, TaskId, TenantId};
use crate::lane::{BreakerSwap, BreakerSwapped, LaneChange, LaneDue, LaneRecord, LaneSettings};
use crate::lease::{Claims, Swept, Want};
use crate::member::Beat;
use crate::page::{Cursor, Page, TaskFilter};
use crate::policy::{NewPolicy, PolicyRecord};
use crate::task::{Cancelled, Enqueued, NewTask, Redrive, Redriven, Retention, TaskRecord};

impl Tasks for PostgresStore {
    fn enqueue(&self, tenant: &TenantId, tasks: Vec<NewTask>) -> Answer<'_, Vec<Enqueued>> {
        let (lanes, policies) = self.node.unknown(tenant, &tasks);
        if lanes.is_empty() && policies.is_empty() {
            return match self.node.expect_known(tenant, &tasks) {
                Ok(()) => {
                    let tasks = NewTasks::new(tenant, tasks);
                    let (rows, bytes) = (tasks.rows(), tasks.bytes());
                    self.node.enqueues.ask(tasks, rows, bytes)
                }
                Err(error) => Box::pin(std::future::ready(Err(error))),
            };
        }
        let tenant = tenant.clone();
        self.ask(async move |node| {
            node.look_up(&mut *node.link().await, lanes, policies).await?;
            node.expect_known(&tenant, &tasks)?;
            let tasks = NewTasks::new(&tenant, tasks);
            let (rows, bytes) = (tasks.rows(), tasks.bytes());
            Ok(node.enqueues.ask(tasks, rows, bytes).await?)
        })
    }

    fn claim(&self, wants: Vec<Want>) -> Answer<'_, Claims> {
        let taken = self.node.claims.ask(Taking::Due(wants), 1, 0);
        Box::pin(async {
            match taken.await? {
                Taken::Due(claims) => Ok(claims),
                Taken::Lost(_) => Err(stopped()),
            }
        })
    }

    fn record(&self, records: Vec<Record>) -> Answer<'_, Vec<Recorded>> {
        let (rows, bytes) = (records.len(), record::bytes(&records));
        self.node.records.ask(records, rows, bytes)
    }

    fn sweep(&self, max: u32) -> Answer<'_, Vec<Swept>> {
        let taken = self.node.claims.ask(Taking::Lost(max), 1, 0);
        Box::pin(async {
            match taken.await? {
                Taken::Lost(swept) => Ok(swept),
                Taken::Due(_) => Err(stopped()),
            }
        })
    }

    fn lines(&self) -> Answer<'_, Vec<LaneDue>> {
        self.ask(async |node| node.lines().await)
    }

    fn cancel(&self, tenant: &TenantId, task: TaskId) -> Answer<'_, Cancelled> {
        let tenant = tenant.clone();
        self.ask(async move |node| node.cancel(&tenant, task).await)
    }

    fn redrive(&self, tenant: &TenantId, redrives: Vec<Redrive>) -> Answer<'_, Vec<Redriven>> {
        let tenant = tenant.clone();
        self.ask(async move |node| node.redrive(&tenant, &redrives).await)
    }

    fn purge(&self, tenant: &TenantId, tasks: Vec<TaskId>) -> Answer<'_, u64> {
        let tenant = tenant.clone();
        self.ask(async move |node| node.purge(&tenant, &tasks).await)
    }

    fn task(&self, tenant: &TenantId, task: TaskId) -> Answer<'_, Option<TaskRecord>> {
        let tenant = tenant.clone();
        self.ask(async move |node| node.task(&tenant, task).await)
    }

    fn task_by_key(&self, tenant: &TenantId, key: &IdempotencyKey) -> Answer<'_, Option<TaskId>> {
        let (tenant, key) = (tenant.clone(), key.clone());
        self.ask(async move |node| node.task_by_key(&tenant, &key).await)
    }

    fn attempts(&self, tenant: &TenantId, task: TaskId) -> Answer<'_, Option<Vec<AttemptRecord>>> {
        let tenant = tenant.clone();
        self.ask(async move |node| node.attempts(&tenant, task).await)
    }

    fn list(
        &self,
        tenant: &TenantId,
        filter: TaskFilter,
        after: Option<Cursor>,
        max: u32,
    ) -> Answer<'_, Page<TaskRecord>> {
        let tenant = tenant.clone();
        self.ask(async move |node| node.list(&tenant, &filter, after, max).await)
    }
}

impl Policies for PostgresStore {
    fn put_policy(&self, tenant: &TenantId, policy: NewPolicy) -> Answer<'_, PolicyRecord> {
        let tenant = tenant.clone();
        self.ask(async move |node| node.put_policy(&tenant, &policy).await)
    }

    fn policies(&self, tenant: &TenantId) -> Answer<'_, Vec<PolicyRecord>> {
        let tenant = tenant.clone();
        self.ask(async move |node| node.policies(&tenant).await)
    }

    fn policy(&self, key: PolicyKey) -> Answer<'_, Option<PolicyRecord>> {
        self.ask(async move |node| node.policy(key).await)
    }

    fn delete_policy(&self, tenant: &TenantId, policy_id: &str) -> Answer<'_, bool> {
        let (tenant, policy_id) = (tenant.clone(), policy_id.to_owned());
        self.ask(async move |node| node.delete_policy(&tenant, &policy_id).await)
    }
}

impl Lanes for PostgresStore {
    fn open_lane(
        &self,
        tenant: &TenantId,
        dependency: &str,
        policy: PolicyKey,
    ) -> Answer<'_, LaneRecord> {
        let (tenant, dependency) = (tenant.clone(), dependency.to_owned());
        self.ask(async move |node| node.open_lane(&tenant, &dependency, policy).await)
    }

    fn lanes(&self) -> Answer<'_, Vec<LaneRecord>> {
        self.ask(async |node| node.lanes().await)
    }

    fn change_lane(
        &self,
        tenant: &TenantId,
        lane: LaneId,
        change: LaneChange,
    ) -> Answer<'_, Option<LaneSettings>> {
        let tenant = tenant.clone();
        self.ask(async move |node| node.change_lane(&tenant, lane, change).await)
    }

    fn save_budgets(&self, budgets: Vec<(LaneId, BudgetSnapshot)>) -> Answer<'_, ()> {
        self.ask(async move |node| node.save_budgets(&budgets).await)
    }

    fn swap_breakers(&self, swaps: Vec<BreakerSwap>) -> Answer<'_, Vec<BreakerSwapped>> {
        self.ask(async move |node| node.swap_breakers(&swaps).await)
    }
}

impl Nodes for PostgresStore {
    fn beat(&self, works: bool) -> Answer<'_, Beat> {
        self.ask(async move |node| node.beat(works).await)
    }
}

impl Upkeep for PostgresStore {
    fn prune(&self, retention: Retention, max: u32) -> Answer<'_, u64> {
        self.ask(async move |node| node.prune(retention, max).await)
    }

    fn counts(&self) -> Answer<'_, Vec<(LaneId, Counts)>> {
        self.ask(async |node| node.counts().await)
    }

    fn check(&self) -> Answer<'_, ()> {
        self.ask(async |node| node.check().await)
    }

    fn close(&self, within: Duration) -> Answer<'_, ()> {
        self.end_within(within);
        let mut ended = self.ended.clone();
        Box::pin(async move {
            match ended.wait_for(Option::is_some).await {
                Ok(how) => how.clone().unwrap_or(Ok(())),
                Err(_) => Ok(()),
            }
        })
    }
}
