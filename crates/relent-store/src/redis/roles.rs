//! The contract, operation by operation: what goes into which queue, and what is asked directly.
//! REQ-S3, REQ-S4, REQ-S7.

use std::sync::Arc;
use std::time::Duration;

use relent_policy::{BudgetSnapshot, IdempotencyKey};

use super::RedisStore;
use super::claim::{Taken, Taking};
use super::enqueue::NewTasks;
use super::failure::Failure;
use super::node::Node;
use super::record;
use crate::attempt::{AttemptRecord, Record, Recorded};
use crate::contract::{Answer, Counts, Lanes, Nodes, Policies, Tasks, Upkeep};
use crate::error::Error;
use crate::id::{LaneId, PolicyKey, TaskId, TenantId};
use crate::lane::{BreakerSwap, BreakerSwapped, LaneChange, LaneDue, LaneRecord, LaneSettings};
use crate::lease::{Claims, Swept, Want};
use crate::member::Beat;
use crate::page::{Cursor, Page, TaskFilter};
use crate::policy::{NewPolicy, PolicyRecord};
use crate::queue::stopped;
use crate::task::{Cancelled, Enqueued, NewTask, Redrive, Redriven, Retention, TaskRecord};

fn refused<T: Send + 'static>(error: Error) -> Answer<'static, T> {
    Box::pin(std::future::ready(Err(error)))
}

impl Node {
    fn enqueue(&self, tenant: &TenantId, tasks: &[NewTask]) -> Answer<'static, Vec<Enqueued>> {
        match NewTasks::new(self, tenant, tasks) {
            Ok(tasks) => {
                let (rows, bytes) = (tasks.rows(), tasks.bytes());
                self.shards[self.shard_of(tenant)].enqueues.ask(tasks, rows, bytes)
            }
            Err(error) => refused(error),
        }
    }

    /// Claims what is wanted, each want where its lane is; unknown lanes have nothing.
    async fn claim(&self, wants: &[Want]) -> Result<Claims, Failure> {
        let mut asked: Vec<(Vec<usize>, Answer<'static, Taken>)> = Vec::new();
        for shard in 0..self.shards.len() {
            let here = |n: &usize| self.shard_of_lane(wants[*n].lane) == Some(shard);
            let here: Vec<usize> = (0..wants.len()).filter(here).collect();
            if !here.is_empty() {
                let wants = here.iter().map(|n| wants[*n]).collect();
                let taken = self.shards[shard].claims.ask(Taking::Due(wants), 1, 0);
                asked.push((here, taken));
            }
        }
        let mut found = vec![(Vec::new(), None); wants.len()];
        let (mut failed, mut is_any) = (None, false);
        for (here, taken) in asked {
            match taken.await {
                Ok(Taken::Due(taken)) => {
                    is_any |= taken.iter().any(|(claimed, _)| !claimed.is_empty());
                    here.into_iter().zip(taken).for_each(|(n, taken)| found[n] = taken);
                }
                Ok(Taken::Lost(_)) => return Err(stopped().into()),
                Err(error) => failed = Some(error),
            }
        }
        // What was claimed is not left to its lease because another shard is down.
        if let Some(error) = failed.filter(|_| !is_any) {
            return Err(error.into());
        }
        let (claimed, next): (Vec<_>, Vec<_>) = found.into_iter().unzip();
        Ok(Claims { claimed: claimed.into_iter().flatten().collect(), next })
    }

    async fn record(&self, mut records: Vec<Record>) -> Result<Vec<Recorded>, Failure> {
        let shards: Vec<Option<usize>> =
            records.iter().map(|record| self.shard_of_lease(&record.lease)).collect();
        let mut asked = Vec::new();
        for shard in 0..self.shards.len() {
            let here: Vec<usize> =
                (0..shards.len()).filter(|n| shards[*n] == Some(shard)).collect();
            if !here.is_empty() {
                let some: Vec<Record> = here.iter().map(|n| records[*n].clone()).collect();
                let (rows, bytes) = (some.len(), record::size(&some));
                asked.push((here, self.shards[shard].records.ask(some, rows, bytes)));
            }
        }
        records.clear();
        let mut answers = vec![Recorded::Stale; shards.len()];
        let mut failed = None;
        for (here, written) in asked {
            match written.await {
                Ok(written) => here.into_iter().zip(written).for_each(|(n, one)| answers[n] = one),
                Err(error) => failed = Some(error),
            }
        }
        match failed {
            Some(error) => Err(error.into()),
            None => Ok(answers),
        }
    }

    async fn sweep(&self, max: u32) -> Result<Vec<Swept>, Failure> {
        // Each time from another shard on, so that none is always the last.
        let (shards, mut swept, mut failed) = (self.shards.len(), Vec::new(), None);
        let first = fastrand::usize(..shards);
        for shard in (0..shards).map(|n| (first + n) % shards) {
            let left = max.saturating_sub(u32::try_from(swept.len()).unwrap_or(u32::MAX));
            if left == 0 {
                break;
            }
            match self.shards[shard].claims.ask(Taking::Lost(left), 1, 0).await {
                Ok(Taken::Lost(some)) => swept.extend(some),
                Ok(Taken::Due(_)) => return Err(stopped().into()),
                Err(error) => failed = Some(error),
            }
        }
        match failed.filter(|_| swept.is_empty()) {
            Some(error) => Err(error.into()),
            None => Ok(swept),
        }
    }
}

impl Tasks for RedisStore {
    fn enqueue(&self, tenant: &TenantId, tasks: Vec<NewTask>) -> Answer<'_, Vec<Enqueued>> {
        let (lanes, policies) = self.node.unknown(tenant, &tasks);
        if lanes.is_empty() && policies.is_empty() {
            return self.node.enqueue(tenant, &tasks);
        }
        let tenant = tenant.clone();
        self.ask(async move |node: Arc<Node>| {
            node.look_up(lanes, policies).await?;
            Ok(node.enqueue(&tenant, &tasks).await?)
        })
    }

    fn claim(&self, wants: Vec<Want>) -> Answer<'_, Claims> {
        self.ask(async move |node: Arc<Node>| {
            let unknown = wants.iter().map(|want| want.lane);
            let unknown = unknown.filter(|lane| node.shard_of_lane(*lane).is_none()).collect();
            node.look_up(unknown, Vec::new()).await?;
            node.claim(&wants).await
        })
    }

    fn record(&self, records: Vec<Record>) -> Answer<'_, Vec<Recorded>> {
        if let [shard] = &self.node.shards[..]
            && records.iter().all(|record| self.node.shard_of_lease(&record.lease).is_some())
        {
            let (rows, bytes) = (records.len(), record::size(&records));
            return shard.records.ask(records, rows, bytes);
        }
        self.ask(async move |node: Arc<Node>| node.record(records).await)
    }

    fn sweep(&self, max: u32) -> Answer<'_, Vec<Swept>> {
        self.ask(async move |node: Arc<Node>| node.sweep(max).await)
    }

    fn lines(&self) -> Answer<'_, Vec<LaneDue>> {
        self.ask(async |node: Arc<Node>| node.lines().await)
    }

    fn cancel(&self, tenant: &TenantId, task: TaskId) -> Answer<'_, Cancelled> {
        let tenant = tenant.clone();
        self.ask(async move |node: Arc<Node>| node.cancel(&tenant, task).await)
    }

    fn redrive(&self, tenant: &TenantId, redrives: Vec<Redrive>) -> Answer<'_, Vec<Redriven>> {
        let tenant = tenant.clone();
        self.ask(async move |node: Arc<Node>| node.redrive(&tenant, &redrives).await)
    }

    fn purge(&self, tenant: &TenantId, tasks: Vec<TaskId>) -> Answer<'_, u64> {
        let tenant = tenant.clone();
        self.ask(async move |node: Arc<Node>| node.purge(&tenant, &tasks).await)
    }

    fn task(&self, tenant: &TenantId, task: TaskId) -> Answer<'_, Option<TaskRecord>> {
        let tenant = tenant.clone();
        self.ask(async move |node: Arc<Node>| node.task(&tenant, task).await)
    }

    fn task_by_key(&self, tenant: &TenantId, key: &IdempotencyKey) -> Answer<'_, Option<TaskId>> {
        let (tenant, key) = (tenant.clone(), key.clone());
        self.ask(async move |node: Arc<Node>| node.task_by_key(&tenant, &key).await)
    }

    fn attempts(&self, tenant: &TenantId, task: TaskId) -> Answer<'_, Option<Vec<AttemptRecord>>> {
        let tenant = tenant.clone();
        self.ask(async move |node: Arc<Node>| node.attempts(&tenant, task).await)
    }

    fn list(
        &self,
        tenant: &TenantId,
        filter: TaskFilter,
        after: Option<Cursor>,
        max: u32,
    ) -> Answer<'_, Page<TaskRecord>> {
        let tenant = tenant.clone();
        self.ask(async move |node: Arc<Node>| node.list(&tenant, &filter, after, max).await)
    }
}

impl Policies for RedisStore {
    fn put_policy(&self, tenant: &TenantId, policy: NewPolicy) -> Answer<'_, PolicyRecord> {
        let tenant = tenant.clone();
        self.ask(async move |node: Arc<Node>| node.put_policy(&tenant, &policy).await)
    }

    fn policies(&self, tenant: &TenantId) -> Answer<'_, Vec<PolicyRecord>> {
        let tenant = tenant.clone();
        self.ask(async move |node: Arc<Node>| node.policies(&tenant).await)
    }

    fn policy(&self, key: PolicyKey) -> Answer<'_, Option<PolicyRecord>> {
        self.ask(async move |node: Arc<Node>| node.policy(key).await)
    }

    fn delete_policy(&self, tenant: &TenantId, policy_id: &str) -> Answer<'_, bool> {
        let (tenant, policy_id) = (tenant.clone(), policy_id.to_owned());
        self.ask(async move |node: Arc<Node>| node.delete_policy(&tenant, &policy_id).await)
    }
}

impl Lanes for RedisStore {
    fn open_lane(
        &self,
        tenant: &TenantId,
        dependency: &str,
        policy: PolicyKey,
    ) -> Answer<'_, LaneRecord> {
        let (tenant, dependency) = (tenant.clone(), dependency.to_owned());
        self.ask(async move |node: Arc<Node>| node.open_lane(&tenant, &dependency, policy).await)
    }

    fn lanes(&self) -> Answer<'_, Vec<LaneRecord>> {
        self.ask(async |node: Arc<Node>| node.lanes().await)
    }

    fn change_lane(
        &self,
        tenant: &TenantId,
        lane: LaneId,
        change: LaneChange,
    ) -> Answer<'_, Option<LaneSettings>> {
        let tenant = tenant.clone();
        self.ask(async move |node: Arc<Node>| node.change_lane(&tenant, lane, change).await)
    }

    fn save_budgets(&self, budgets: Vec<(LaneId, BudgetSnapshot)>) -> Answer<'_, ()> {
        self.ask(async move |node: Arc<Node>| node.save_budgets(&budgets).await)
    }

    fn swap_breakers(&self, swaps: Vec<BreakerSwap>) -> Answer<'_, Vec<BreakerSwapped>> {
        self.ask(async move |node: Arc<Node>| node.swap_breakers(&swaps).await)
    }
}

impl Nodes for RedisStore {
    fn beat(&self, works: bool) -> Answer<'_, Beat> {
        self.ask(async move |node: Arc<Node>| node.beat(works).await)
    }
}

impl Upkeep for RedisStore {
    fn prune(&self, retention: Retention, max: u32) -> Answer<'_, u64> {
        self.ask(async move |node: Arc<Node>| node.prune(retention, max).await)
    }

    fn counts(&self) -> Answer<'_, Vec<(LaneId, Counts)>> {
        self.ask(async |node: Arc<Node>| node.counts().await)
    }

    fn check(&self) -> Answer<'_, ()> {
        self.ask(async |node: Arc<Node>| node.check().await)
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
