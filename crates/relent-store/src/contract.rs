//! The contract: what every store does, by role.
//!
//! Methods return boxed futures so that a store is one object behind an `Arc`: the service is not
//! compiled once for each backend, and a call costs one small allocation beside a disk write.
//! Futures are safe to drop: an operation that was handed over runs to its end.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use relent_policy::{BudgetSnapshot, IdempotencyKey, Timestamp};

use crate::attempt::{AttemptRecord, Record, Recorded};
use crate::error::Error;
use crate::id::{LaneId, PolicyKey, TaskId, TenantId};
use crate::lane::{BreakerSwap, BreakerSwapped, LaneChange, LaneDue, LaneRecord, LaneSettings};
use crate::lease::{Claims, Swept, Want};
use crate::member::Beat;
use crate::page::{Cursor, Page, TaskFilter};
use crate::policy::{NewPolicy, PolicyRecord};
use crate::task::{Cancelled, Enqueued, NewTask, Redrive, Redriven, Retention, TaskRecord};
use crate::whole::{Extent, WholeTask};

/// What a store answers.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// A place where tasks wait.
pub trait Store: Tasks + Policies + Lanes + Nodes + Upkeep {
    /// The time that due times and leases are read by. It never goes back.
    fn now(&self) -> Timestamp;

    /// Who is told when something becomes due earlier than was known. One listener; told after the
    /// commit, never under a lock it could need.
    fn listen(&self, listener: Arc<dyn DueListener>);
}

/// Is told that a line of a lane has something due at a time. A hint: it may come more than once and
/// for something that is gone again. One that comes while a claim is under way may be newer than the
/// claim's [`next`](Claims::next): whoever takes that for the truth must not forget the hint.
pub trait DueListener: Send + Sync {
    /// The earliest of these lines may now be due at these times.
    fn due(&self, dues: &[LaneDue]);
}

/// Tasks and their attempts.
pub trait Tasks: Send + Sync {
    /// Stores tasks of one tenant: all of them, or none if one conflicts. An answer for each, in
    /// order: with a conflict among them, those that would have been created are
    /// [`Withheld`](Enqueued::Withheld). Repetitions within the batch count as repetitions.
    fn enqueue(&self, tenant: &TenantId, tasks: Vec<NewTask>) -> Answer<'_, Vec<Enqueued>>;

    /// Claims due tasks, counting their attempts. Each want is answered in order. A task is claimed
    /// from its due time on, or [ahead](Want::ahead) of it if that is wanted, and before its deadline;
    /// what is past that is left to [`sweep`].
    ///
    /// [`sweep`]: Tasks::sweep
    fn claim(&self, wants: Vec<Want>) -> Answer<'_, Claims>;

    /// Writes what came of attempts: row and task in one commit, fenced by the lease. The token
    /// decides, not the time: a lease that ran out still writes until somebody has taken over.
    fn record(&self, records: Vec<Record>) -> Answer<'_, Vec<Recorded>>;

    /// Takes over what nobody else will end, at most so much of it: tasks whose lease has reached
    /// its end, then waiting ones that have reached their deadline. They are in flight under a new
    /// token for [`SWEEP_LEASE`](crate::SWEEP_LEASE); whoever dies over one leaves it to the next
    /// sweep, for the same reason as before. A deadline may be found a little late: milliseconds,
    /// and more in a long line.
    fn sweep(&self, max: u32) -> Answer<'_, Vec<Swept>>;

    /// When something of each line is due, for a service that starts and listens already. Lines with
    /// nothing waiting are left out. A store that was just opened may know of nothing yet that is due
    /// much later; it tells the listener.
    fn lines(&self) -> Answer<'_, Vec<LaneDue>>;

    /// Calls a task off.
    fn cancel(&self, tenant: &TenantId, task: TaskId) -> Answer<'_, Cancelled>;

    /// Tries dead letters again. An answer for each, in order.
    fn redrive(&self, tenant: &TenantId, redrives: Vec<Redrive>) -> Answer<'_, Vec<Redriven>>;

    /// Deletes dead letters and other ended tasks, with their attempts' rows. Returns how many were
    /// there and had ended.
    fn purge(&self, tenant: &TenantId, tasks: Vec<TaskId>) -> Answer<'_, u64>;

    /// A task with its body; `None` if the tenant has none of this id.
    fn task(&self, tenant: &TenantId, task: TaskId) -> Answer<'_, Option<TaskRecord>>;

    /// The task with this key.
    fn task_by_key(&self, tenant: &TenantId, key: &IdempotencyKey) -> Answer<'_, Option<TaskId>>;

    /// A task's attempts, in order; `None` if the tenant has no such task. Rows older than the
    /// retention are gone.
    fn attempts(&self, tenant: &TenantId, task: TaskId) -> Answer<'_, Option<Vec<AttemptRecord>>>;

    /// Tasks, without their bodies, latest first.
    fn list(
        &self,
        tenant: &TenantId,
        filter: TaskFilter,
        after: Option<Cursor>,
        max: u32,
    ) -> Answer<'_, Page<TaskRecord>>;
}

/// Policies, under versions.
pub trait Policies: Send + Sync {
    /// Stores a policy as the next version of its id. The same document as the latest version is
    /// that version, unless it was deleted.
    fn put_policy(&self, tenant: &TenantId, policy: NewPolicy) -> Answer<'_, PolicyRecord>;

    /// All versions of a tenant's policies, ordered by id and version.
    fn policies(&self, tenant: &TenantId) -> Answer<'_, Vec<PolicyRecord>>;

    /// One version, whosever it is.
    fn policy(&self, key: PolicyKey) -> Answer<'_, Option<PolicyRecord>>;

    /// Marks all versions of a policy as deleted; `false` if there is none that was not.
    fn delete_policy(&self, tenant: &TenantId, policy_id: &str) -> Answer<'_, bool>;
}

/// Lanes.
pub trait Lanes: Send + Sync {
    /// The tenant's lane to this dependency, opened under this policy if it is new.
    fn open_lane(
        &self,
        tenant: &TenantId,
        dependency: &str,
        policy: PolicyKey,
    ) -> Answer<'_, LaneRecord>;

    /// Every lane of every tenant.
    fn lanes(&self) -> Answer<'_, Vec<LaneRecord>>;

    /// Changes what people set, and says what is set now; `None` if the tenant has no such lane.
    fn change_lane(
        &self,
        tenant: &TenantId,
        lane: LaneId,
        change: LaneChange,
    ) -> Answer<'_, Option<LaneSettings>>;

    /// Keeps what budgets remember. Of several nodes, the last one's stays.
    fn save_budgets(&self, budgets: Vec<(LaneId, BudgetSnapshot)>) -> Answer<'_, ()>;

    /// Changes breakers for all nodes, each only if nobody else has since it was seen. An answer for
    /// each, in order; a lane is there at most once. Whoever wants to send the one probe of an open
    /// breaker says so by this, and of several nodes one may.
    fn swap_breakers(&self, swaps: Vec<BreakerSwap>) -> Answer<'_, Vec<BreakerSwapped>>;
}

/// Nodes that share a store. An embedded store has one.
pub trait Nodes: Send + Sync {
    /// Whether there may be others. If not, nobody need beat, and whoever has the store has all of it.
    fn is_shared(&self) -> bool {
        true
    }

    /// Says that this node is there and whether it sends, and hears who else is and what has changed.
    /// A node is counted from its first beat until it closes its store or is silent for
    /// [`NODE_TTL`](crate::NODE_TTL).
    fn beat(&self, works: bool) -> Answer<'_, Beat>;
}

/// What keeps a store small and sound.
pub trait Upkeep: Send + Sync {
    /// Deletes some of what is older than it need be: tasks by when they ended, with the rows of
    /// their attempts, and rows of the attempt log by the time of the attempt. Returns how many rows;
    /// 0 when nothing is left to delete.
    fn prune(&self, retention: Retention, max: u32) -> Answer<'_, u64>;

    /// How many tasks wait, are under way and are dead letters, by lane.
    fn counts(&self) -> Answer<'_, Vec<(LaneId, Counts)>>;

    /// Whether it can take and give back data at all.
    fn check(&self) -> Answer<'_, ()>;

    /// Finishes what was handed over and closes, within this time. Afterwards the store answers
    /// [`Unavailable`](Error::Unavailable).
    fn close(&self, within: Duration) -> Answer<'_, ()>;
}

/// Moving everything to another store. Meanwhile nobody else may be at work on either of the two.
///
/// What is imported is there afterwards as it was: ids, keys and times included. It may be imported
/// again: what is there already, and is the same, is left alone. Something else in its place is
/// [`Damaged`](Error::Damaged), and then nothing of the batch is stored.
pub trait Copying: Store {
    /// How many nodes have been heard of lately.
    fn nodes(&self) -> Answer<'_, u64>;

    /// How much there is.
    fn extent(&self) -> Answer<'_, Extent>;

    /// Every version of every policy of every tenant, by key.
    fn export_policies(&self) -> Answer<'_, Vec<(TenantId, PolicyRecord)>>;

    /// Tasks with ids above this one, lowest first: as many as are wanted, or fewer if their bodies
    /// are large. None only at the end.
    fn export(&self, after: Option<TaskId>, max: u32) -> Answer<'_, Vec<WholeTask>>;

    /// Stores policies under the keys they have. Returns how many were new.
    fn import_policies(&self, policies: Vec<(TenantId, PolicyRecord)>) -> Answer<'_, u64>;

    /// Stores lanes under the ids they have. Returns how many were new.
    fn import_lanes(&self, lanes: Vec<LaneRecord>) -> Answer<'_, u64>;

    /// Stores tasks under the ids they have, whose policies and lanes are there. Returns how many were
    /// new. In the order of ids, from batch to batch too.
    fn import(&self, tasks: Vec<WholeTask>) -> Answer<'_, u64>;
}

/// How many tasks of a lane are where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// First attempts that wait.
    pub first: u64,
    /// Retries that wait.
    pub retries: u64,
    /// Attempts under way.
    pub in_flight: u64,
    /// Dead letters.
    pub dead_letters: u64,
}
