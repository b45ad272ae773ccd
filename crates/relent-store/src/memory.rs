//! The model: a store in memory, as plain as it can be.
//!
//! It is what the other backends are compared with, and so it has one lock, one map for each kind of
//! thing, and no index that could disagree with them: what is due is found by looking at every task.
//! That makes it right rather than fast; it serves tests, trials and small loads. Nothing in it
//! survives its process, and so it promises nothing about crashes. REQ-S3, REQ-S4, REQ-S7, REQ-D1.

mod copying;
mod ending;
mod lanes;
mod policies;
mod state;
mod taking;
mod views;
mod work;

use std::fmt;
use std::future::ready;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use relent_policy::{BudgetSnapshot, IdempotencyKey, Timestamp};

use self::state::State;
use crate::assurance::{Assurance, Finding, Survival, Survives};
use crate::attempt::{AttemptRecord, Record, Recorded};
use crate::clock::StoreClock;
use crate::contract::{Answer, Counts, DueListener, Lanes, Nodes, Policies, Store, Tasks, Upkeep};
use crate::error::Error;
use crate::id::{LaneId, PolicyKey, TaskId, TenantId};
use crate::lane::{BreakerSwap, BreakerSwapped, LaneChange, LaneDue, LaneRecord, LaneSettings};
use crate::lease::{Claims, Swept, Want};
use crate::member::Beat;
use crate::page::{Cursor, Page, TaskFilter};
use crate::policy::{NewPolicy, PolicyRecord};
use crate::task::{Cancelled, Enqueued, NewTask, Redrive, Redriven, Retention, TaskRecord};

/// A store that keeps everything in memory. See the module's head.
///
/// ```
/// use relent_store::{MemoryStore, Store};
///
/// let store = MemoryStore::new();
/// assert!(store.now() <= store.now());
/// ```
pub struct MemoryStore {
    state: Mutex<State>,
    listener: Mutex<Option<Arc<dyn DueListener>>>,
    clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    /// The latest time shown, in nanoseconds: a clock that goes back is not followed.
    latest: AtomicU64,
}

impl MemoryStore {
    /// An empty store on the clock of an embedded one.
    pub fn new() -> MemoryStore {
        let clock = StoreClock::start(Timestamp::ZERO);
        MemoryStore::with_clock(Arc::new(move || clock.now()))
    }

    /// An empty store on a clock of one's own.
    pub fn with_clock(clock: Arc<dyn Fn() -> Timestamp + Send + Sync>) -> MemoryStore {
        MemoryStore {
            state: Mutex::default(),
            listener: Mutex::default(),
            clock,
            latest: AtomicU64::new(0),
        }
    }

    /// What a store in memory guarantees.
    pub fn examine() -> Assurance {
        let gone = || Survives::No("nothing is kept".to_owned());
        let finding = Finding::caution(
            "memory",
            "only",
            "everything is gone when the process ends",
            "use `sqlite:` or another store, unless this is a trial",
        );
        let survives = Survival {
            our_crash: gone(),
            store_crash: gone(),
            power_loss: gone(),
            failover: gone(),
        };
        Assurance { store: "memory", findings: vec![finding], survives }
    }

    /// Does what the end of the process and the opening of the store by another would do to an
    /// embedded one: leases are over, nobody listens, and what was closed is open.
    pub fn restart(&self) {
        let now = self.now();
        *self.listener.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.state.lock().unwrap_or_else(PoisonError::into_inner).restart(now);
    }

    /// Does one operation under the lock, and tells what became due by it after that.
    fn run<T: Send + 'static>(
        &self,
        operation: impl FnOnce(&mut State, Timestamp) -> Result<T, Error>,
    ) -> Answer<'_, T> {
        let (answer, dues) = match self.state.lock() {
            Ok(mut state) if state.open() => {
                let now = self.now();
                (operation(&mut state, now), state.take_dues())
            }
            Ok(_) => (Err(Error::Unavailable("it is closed".to_owned())), Vec::new()),
            Err(_) => {
                (Err(Error::Unavailable("a panic left it half changed".to_owned())), Vec::new())
            }
        };
        if !dues.is_empty() {
            self.tell(&dues);
        }
        Box::pin(ready(answer))
    }

    fn tell(&self, dues: &[LaneDue]) {
        let listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(listener) = listener {
            listener.due(dues);
        }
    }
}

impl Default for MemoryStore {
    fn default() -> MemoryStore {
        MemoryStore::new()
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").finish_non_exhaustive()
    }
}

impl Store for MemoryStore {
    fn now(&self) -> Timestamp {
        let shown = (self.clock)().as_nanos();
        Timestamp::from_nanos(self.latest.fetch_max(shown, Ordering::SeqCst).max(shown))
    }

    fn listen(&self, listener: Arc<dyn DueListener>) {
        *self.listener.lock().unwrap_or_else(PoisonError::into_inner) = Some(listener);
    }
}

impl Tasks for MemoryStore {
    fn enqueue(&self, tenant: &TenantId, tasks: Vec<NewTask>) -> Answer<'_, Vec<Enqueued>> {
        self.run(|state, now| state.enqueue(tenant, tasks, now))
    }

    fn claim(&self, wants: Vec<Want>) -> Answer<'_, Claims> {
        self.run(|state, now| Ok(state.claim(&wants, now)))
    }

    fn record(&self, records: Vec<Record>) -> Answer<'_, Vec<Recorded>> {
        self.run(|state, now| Ok(records.into_iter().map(|r| state.record(r, now)).collect()))
    }

    fn sweep(&self, max: u32) -> Answer<'_, Vec<Swept>> {
        self.run(|state, now| Ok(state.sweep(max, now)))
    }

    fn lines(&self) -> Answer<'_, Vec<LaneDue>> {
        self.run(|state, now| Ok(state.lines(now)))
    }

    fn cancel(&self, tenant: &TenantId, task: TaskId) -> Answer<'_, Cancelled> {
        self.run(|state, now| Ok(state.cancel(tenant, task, now)))
    }

    fn redrive(&self, tenant: &TenantId, redrives: Vec<Redrive>) -> Answer<'_, Vec<Redriven>> {
        self.run(|state, now| state.redrive(tenant, &redrives, now))
    }

    fn purge(&self, tenant: &TenantId, tasks: Vec<TaskId>) -> Answer<'_, u64> {
        self.run(|state, _| Ok(state.purge(tenant, &tasks)))
    }

    fn task(&self, tenant: &TenantId, task: TaskId) -> Answer<'_, Option<TaskRecord>> {
        self.run(|state, _| Ok(state.task(tenant, task)))
    }

    fn task_by_key(&self, tenant: &TenantId, key: &IdempotencyKey) -> Answer<'_, Option<TaskId>> {
        self.run(|state, _| Ok(state.task_by_key(tenant, key)))
    }

    fn attempts(&self, tenant: &TenantId, task: TaskId) -> Answer<'_, Option<Vec<AttemptRecord>>> {
        self.run(|state, _| Ok(state.attempts(tenant, task)))
    }

    fn list(
        &self,
        tenant: &TenantId,
        filter: TaskFilter,
        after: Option<Cursor>,
        max: u32,
    ) -> Answer<'_, Page<TaskRecord>> {
        self.run(|state, _| Ok(state.list(tenant, &filter, after, max)))
    }
}

impl Policies for MemoryStore {
    fn put_policy(&self, tenant: &TenantId, policy: NewPolicy) -> Answer<'_, PolicyRecord> {
        self.run(|state, now| Ok(state.put_policy(tenant, policy, now)))
    }

    fn policies(&self, tenant: &TenantId) -> Answer<'_, Vec<PolicyRecord>> {
        self.run(|state, _| Ok(state.policies_of(tenant)))
    }

    fn policy(&self, key: PolicyKey) -> Answer<'_, Option<PolicyRecord>> {
        self.run(|state, _| Ok(state.policy(key)))
    }

    fn delete_policy(&self, tenant: &TenantId, policy_id: &str) -> Answer<'_, bool> {
        self.run(|state, _| Ok(state.delete_policy(tenant, policy_id)))
    }
}

impl Lanes for MemoryStore {
    fn open_lane(
        &self,
        tenant: &TenantId,
        dependency: &str,
        policy: PolicyKey,
    ) -> Answer<'_, LaneRecord> {
        self.run(|state, _| Ok(state.open_lane(tenant, dependency, policy)))
    }

    fn lanes(&self) -> Answer<'_, Vec<LaneRecord>> {
        self.run(|state, _| Ok(state.all_lanes()))
    }

    fn change_lane(
        &self,
        tenant: &TenantId,
        lane: LaneId,
        change: LaneChange,
    ) -> Answer<'_, Option<LaneSettings>> {
        self.run(|state, _| Ok(state.change_lane(tenant, lane, change)))
    }

    fn save_budgets(&self, budgets: Vec<(LaneId, BudgetSnapshot)>) -> Answer<'_, ()> {
        self.run(|state, _| {
            state.save_budgets(budgets);
            Ok(())
        })
    }

    fn swap_breakers(&self, swaps: Vec<BreakerSwap>) -> Answer<'_, Vec<BreakerSwapped>> {
        self.run(|state, _| Ok(swaps.into_iter().map(|swap| state.swap_breaker(swap)).collect()))
    }
}

impl Nodes for MemoryStore {
    fn is_shared(&self) -> bool {
        false
    }

    fn beat(&self, works: bool) -> Answer<'_, Beat> {
        self.run(|_, _| Ok(Beat::alone(works)))
    }
}

impl Upkeep for MemoryStore {
    fn prune(&self, retention: Retention, max: u32) -> Answer<'_, u64> {
        self.run(|state, now| Ok(state.prune(retention, max, now)))
    }

    fn counts(&self) -> Answer<'_, Vec<(LaneId, Counts)>> {
        self.run(|state, _| Ok(state.counts()))
    }

    fn check(&self) -> Answer<'_, ()> {
        self.run(|_, _| Ok(()))
    }

    fn close(&self, _within: Duration) -> Answer<'_, ()> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).close();
        Box::pin(ready(Ok(())))
    }
}
