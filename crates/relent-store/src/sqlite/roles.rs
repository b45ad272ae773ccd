//! The contract's roles: what is handed to the writer, and what to a reader. REQ-S7.

use std::time::{Duration, Instant};

use relent_policy::{BudgetSnapshot, IdempotencyKey};
use rusqlite::params;
use tokio::sync::oneshot;

use super::keys::KeyHash;
use super::queue::{End, Failure, Kind, Size, stopped};
use super::rows::from_time;
use super::state::Desk;
use super::{SqliteStore, enqueue, lanes, list, policies, reads, record};
use crate::attempt::{AttemptRecord, Record, Recorded};
use crate::contract::{Answer, Counts, Lanes, Nodes, Policies, Tasks, Upkeep};
use crate::error::Error;
use crate::id::{LaneId, PolicyKey, TaskId, TenantId};
use crate::lane::{BreakerSwap, BreakerSwapped, LaneChange, LaneDue, LaneRecord, LaneSettings};
use crate::lease::{Claims, Swept, Want};
use crate::member::Beat;
use crate::page::{Cursor, Page, TaskFilter};
use crate::policy::{NewPolicy, PolicyRecord};
use crate::task::{Cancelled, Enqueued, NewTask, Redrive, Redriven, Retention, TaskRecord};

const WRITE_CHECK: &str = "INSERT OR REPLACE INTO meta (name, value) VALUES ('checked_at', ?1)";
const READ_CHECK: &str = "SELECT value FROM meta WHERE name = 'checked_at'";

const ONE: Size = Size { rows: 1, bytes: 0, kind: Kind::Ordinary };

fn rows(rows: usize) -> Size {
    Size { rows, ..ONE }
}

impl Tasks for SqliteStore {
    fn enqueue(&self, tenant: &TenantId, tasks: Vec<NewTask>) -> Answer<'_, Vec<Enqueued>> {
        let tenant = tenant.clone();
        let tasks = enqueue::prepare(&tenant, tasks);
        self.queue.ask(enqueue::size(&tasks), move |desk| desk.enqueue(&tenant, &tasks))
    }

    fn claim(&self, wants: Vec<Want>) -> Answer<'_, Claims> {
        let wanted = wants.iter().map(|want| want.max as usize).fold(0, usize::saturating_add);
        let size = Size { kind: Kind::Claim, ..rows(wanted.clamp(1, 256)) };
        let claims = self.queue.ask(size, move |desk| desk.claim(&wants));
        Box::pin(async { Ok(claims.await?.read()) })
    }

    fn record(&self, records: Vec<Record>) -> Answer<'_, Vec<Recorded>> {
        let records = record::prepare(records);
        self.queue.ask(record::size(&records), move |desk| desk.record(&records))
    }

    fn sweep(&self, max: u32) -> Answer<'_, Vec<Swept>> {
        self.queue.ask(ONE, move |desk| desk.sweep(max))
    }

    fn lines(&self) -> Answer<'_, Vec<LaneDue>> {
        self.queue.ask(ONE, |desk: &mut Desk<'_>| desk.lines())
    }

    fn cancel(&self, tenant: &TenantId, task: TaskId) -> Answer<'_, Cancelled> {
        let tenant = tenant.clone();
        self.queue.ask(ONE, move |desk| desk.cancel(&tenant, task))
    }

    fn redrive(&self, tenant: &TenantId, redrives: Vec<Redrive>) -> Answer<'_, Vec<Redriven>> {
        let tenant = tenant.clone();
        self.queue.ask(rows(redrives.len()), move |desk| desk.redrive(&tenant, &redrives))
    }

    fn purge(&self, tenant: &TenantId, tasks: Vec<TaskId>) -> Answer<'_, u64> {
        let tenant = tenant.clone();
        self.queue.ask(rows(3 * tasks.len()), move |desk| desk.purge(&tenant, &tasks))
    }

    fn task(&self, tenant: &TenantId, task: TaskId) -> Answer<'_, Option<TaskRecord>> {
        let tenant = tenant.clone();
        self.reads.ask(move |connection| reads::task(connection, &tenant, task))
    }

    fn task_by_key(&self, tenant: &TenantId, key: &IdempotencyKey) -> Answer<'_, Option<TaskId>> {
        let hash = KeyHash::of(tenant, key);
        let size = Size { kind: Kind::Whole, ..ONE };
        self.queue.ask(size, move |desk| Ok(desk.find_key(hash)?.map(|(task, _)| task)))
    }

    fn attempts(&self, tenant: &TenantId, task: TaskId) -> Answer<'_, Option<Vec<AttemptRecord>>> {
        let tenant = tenant.clone();
        self.reads.ask(move |connection| reads::attempts(connection, &tenant, task))
    }

    fn list(
        &self,
        tenant: &TenantId,
        filter: TaskFilter,
        after: Option<Cursor>,
        max: u32,
    ) -> Answer<'_, Page<TaskRecord>> {
        let tenant = tenant.clone();
        self.reads.ask(move |connection| list::list(connection, &tenant, &filter, after, max))
    }
}

impl Policies for SqliteStore {
    fn put_policy(&self, tenant: &TenantId, policy: NewPolicy) -> Answer<'_, PolicyRecord> {
        let tenant = tenant.clone();
        self.queue.ask(ONE, move |desk| desk.put_policy(&tenant, policy))
    }

    fn policies(&self, tenant: &TenantId) -> Answer<'_, Vec<PolicyRecord>> {
        let tenant = tenant.clone();
        self.reads.ask(move |connection| policies::of_tenant(connection, &tenant))
    }

    fn policy(&self, key: PolicyKey) -> Answer<'_, Option<PolicyRecord>> {
        self.reads.ask(move |connection| policies::one(connection, key))
    }

    fn delete_policy(&self, tenant: &TenantId, policy_id: &str) -> Answer<'_, bool> {
        let (tenant, policy_id) = (tenant.clone(), policy_id.to_owned());
        self.queue.ask(ONE, move |desk| desk.delete_policy(&tenant, &policy_id))
    }
}

impl Lanes for SqliteStore {
    fn open_lane(
        &self,
        tenant: &TenantId,
        dependency: &str,
        policy: PolicyKey,
    ) -> Answer<'_, LaneRecord> {
        let (tenant, dependency) = (tenant.clone(), dependency.to_owned());
        let lanes_max = self.lanes_max;
        self.queue.ask(ONE, move |desk| desk.open_lane(&tenant, &dependency, policy, lanes_max))
    }

    fn lanes(&self) -> Answer<'_, Vec<LaneRecord>> {
        self.reads.ask(lanes::all)
    }

    fn change_lane(
        &self,
        tenant: &TenantId,
        lane: LaneId,
        change: LaneChange,
    ) -> Answer<'_, Option<LaneSettings>> {
        let tenant = tenant.clone();
        self.queue.ask(ONE, move |desk| desk.change_lane(&tenant, lane, change))
    }

    fn save_budgets(&self, budgets: Vec<(LaneId, BudgetSnapshot)>) -> Answer<'_, ()> {
        let budgets = lanes::written(budgets);
        self.queue.ask(rows(budgets.len()), move |desk| desk.save_budgets(&budgets))
    }

    fn swap_breakers(&self, swaps: Vec<BreakerSwap>) -> Answer<'_, Vec<BreakerSwapped>> {
        self.queue.ask(rows(swaps.len()), move |desk| desk.swap_breakers(&swaps))
    }
}

impl Nodes for SqliteStore {
    fn is_shared(&self) -> bool {
        false
    }

    fn beat(&self, works: bool) -> Answer<'_, Beat> {
        Box::pin(std::future::ready(Ok(Beat::alone(works))))
    }
}

impl Upkeep for SqliteStore {
    fn prune(&self, retention: Retention, max: u32) -> Answer<'_, u64> {
        self.queue.ask(rows(max.min(4_096) as usize), move |desk| desk.prune(retention, max))
    }

    fn counts(&self) -> Answer<'_, Vec<(LaneId, Counts)>> {
        self.queue.ask(Size { kind: Kind::Whole, ..ONE }, |desk| Ok(desk.state.counts()))
    }

    fn check(&self) -> Answer<'_, ()> {
        let written = self.queue.ask(Size { kind: Kind::Check, ..ONE }, |desk| {
            let now = from_time(desk.now);
            desk.connection.prepare_cached(WRITE_CHECK)?.execute(params![now])?;
            Ok(now)
        });
        Box::pin(async move {
            let written = written.await?;
            let read = self.reads.ask(|connection| {
                let mut select = connection.prepare_cached(READ_CHECK)?;
                Ok::<i64, Failure>(select.query_row([], |row| row.get(0))?)
            });
            match read.await? {
                read if read >= written => Ok(()),
                _ => Err(Error::Damaged("what was just written is not there".to_owned())),
            }
        })
    }

    fn close(&self, within: Duration) -> Answer<'_, ()> {
        let (asker, answer) = oneshot::channel();
        let is_first = self.queue.close(End { by: Instant::now() + within, asker: Some(asker) });
        Box::pin(async move {
            match is_first {
                true => answer.await.unwrap_or_else(|_| Err(stopped())),
                false => Ok(()),
            }
        })
    }
}
