//! What the parts of a store on PostgreSQL share: its queues, its connections, its clock, and who is
//! told.
//!
//! A node needs nothing from other nodes, and nothing of it is needed by them: what it knows of lanes
//! and policies never changes once it is there, and everything else is asked of the database.
//! REQ-S3, REQ-S4, REQ-S7.

use std::collections::{HashMap, HashSet};
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_postgres::types::Type;

use super::PostgresOptions;
use super::claim::{Taken, Taking};
use super::clock::Clock;
use super::enqueue::NewTasks;
use super::failure::Failure;
use super::floors::Floors;
use super::link::Link;
use super::members::LastBeat;
use super::place::{Place, Role};
use super::queue::Queue;
use super::rows::{column, from_time, to_u32};
use crate::attempt::{Record, Recorded};
use crate::error::Error;
use crate::hints::Hints;
use crate::id::{LaneId, PolicyKey, TenantId};
use crate::operations::Operations;
use crate::task::Enqueued;

const LANE_OWNERS: &str = "SELECT id, tenant FROM relent.lanes WHERE id = ANY($1)";
const POLICY_KEYS: &str = "SELECT key FROM relent.policies WHERE key = ANY($1)";

pub(super) struct Node {
    pub(super) place: Arc<Place>,
    /// Among all that ever used this schema.
    pub(super) number: i32,
    pub(super) clock: Clock,
    pub(super) lanes_max: u32,
    pub(super) enqueues: Queue<NewTasks, Vec<Enqueued>>,
    pub(super) records: Queue<Vec<Record>, Vec<Recorded>>,
    pub(super) claims: Queue<Taking, Taken>,
    pub(super) hints: Hints,
    pub(super) floors: Floors,
    pub(super) last_beat: LastBeat,
    pub(super) operations: Operations,
    lanes: RwLock<HashMap<LaneId, TenantId>>,
    policies: RwLock<HashSet<PolicyKey>>,
    pool: Arc<Pool>,
}

/// Connections for everything that has no queue.
struct Pool {
    free: Mutex<Vec<Link>>,
    permits: Arc<Semaphore>,
}

/// A worker that panics takes its node along: what waits for it would wait for ever.
pub(super) struct AtWork(pub(super) Arc<Node>);

impl Drop for AtWork {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.abandon();
        }
    }
}

/// One of them, until it is dropped.
pub(super) struct Borrowed {
    link: Option<Link>,
    pool: Arc<Pool>,
    _permit: OwnedSemaphorePermit,
}

impl Node {
    pub(super) fn new(
        place: Arc<Place>,
        number: i32,
        clock: Clock,
        options: &PostgresOptions,
    ) -> Node {
        let (jobs_max, bytes_max) = (options.queue_max, options.queue_bytes_max);
        let permits = Arc::new(Semaphore::new(options.connections_max.max(1)));
        Node {
            place,
            number,
            lanes_max: options.lanes_max,
            enqueues: Queue::new(jobs_max, bytes_max),
            records: Queue::new(jobs_max, bytes_max),
            claims: Queue::new(jobs_max, bytes_max),
            hints: Hints::new(options.listen),
            floors: Floors::default(),
            last_beat: LastBeat::new(from_time(clock.now())),
            operations: Operations::default(),
            lanes: RwLock::default(),
            policies: RwLock::default(),
            pool: Arc::new(Pool { free: Mutex::default(), permits }),
            clock,
        }
    }

    /// The same for what may take long.
    pub(super) async fn long_link(&self) -> Borrowed {
        let mut link = self.link().await;
        link.is_long = true;
        link
    }

    /// A connection for looking and for changing a little.
    pub(super) async fn link(&self) -> Borrowed {
        let permit = Arc::clone(&self.pool.permits).acquire_owned().await;
        let permit = permit.expect("the permits are never closed");
        let free = self.pool.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let link = free.unwrap_or_else(|| Link::new(Arc::clone(&self.place), Role::Plain));
        Borrowed { link: Some(link), pool: Arc::clone(&self.pool), _permit: permit }
    }

    /// Adds a connection to those that are free.
    pub(super) fn lend(&self, link: Link) {
        self.pool.free.lock().unwrap_or_else(PoisonError::into_inner).push(link);
    }

    /// Nothing new is taken.
    pub(super) fn close(&self) {
        self.operations.close();
        self.enqueues.close();
        self.records.close();
        self.claims.close();
    }

    /// Nothing more is done, and nobody waits for it.
    pub(super) fn abandon(&self) {
        self.close();
        self.enqueues.abandon();
        self.records.abandon();
        self.claims.abandon();
    }

    pub(super) fn learn_lane(&self, lane: LaneId, tenant: &TenantId) {
        let mut lanes = self.lanes.write().unwrap_or_else(PoisonError::into_inner);
        lanes.entry(lane).or_insert_with(|| tenant.clone());
    }

    pub(super) fn learn_policy(&self, policy: PolicyKey) {
        self.policies.write().unwrap_or_else(PoisonError::into_inner).insert(policy);
    }

    /// Whether this lane is the tenant's, if that is known here.
    pub(super) fn owns(&self, tenant: &TenantId, lane: LaneId) -> Option<bool> {
        let lanes = self.lanes.read().unwrap_or_else(PoisonError::into_inner);
        lanes.get(&lane).map(|owner| owner == tenant)
    }

    pub(super) fn knows_policy(&self, policy: PolicyKey) -> bool {
        self.policies.read().unwrap_or_else(PoisonError::into_inner).contains(&policy)
    }

    /// Looks up what is not known here: another node may have made it.
    pub(super) async fn look_up(
        &self,
        link: &mut Link,
        lanes: Vec<LaneId>,
        policies: Vec<PolicyKey>,
    ) -> Result<(), Failure> {
        if !lanes.is_empty() {
            let ids: Vec<i64> = lanes.iter().map(|lane| i64::from(lane.as_u32())).collect();
            for row in link.look(LANE_OWNERS, &[(&ids, Type::INT8_ARRAY)]).await? {
                let tenant: &str = column(&row, 1)?;
                let tenant = TenantId::try_new(tenant);
                let tenant = tenant.map_err(|error| Error::Damaged(error.to_string()))?;
                self.learn_lane(LaneId::from_u32(to_u32(column(&row, 0)?)?), &tenant);
            }
        }
        if !policies.is_empty() {
            let keys: Vec<i64> = policies.iter().map(|key| i64::from(key.as_u32())).collect();
            for row in link.look(POLICY_KEYS, &[(&keys, Type::INT8_ARRAY)]).await? {
                self.learn_policy(PolicyKey::from_u32(to_u32(column(&row, 0)?)?));
            }
        }
        Ok(())
    }
}

impl Deref for Borrowed {
    type Target = Link;

    fn deref(&self) -> &Link {
        self.link.as_ref().expect("it is there until it is dropped")
    }
}

impl DerefMut for Borrowed {
    fn deref_mut(&mut self) -> &mut Link {
        self.link.as_mut().expect("it is there until it is dropped")
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        // A transaction that was not ended ends with its connection.
        if let Some(mut link) = self.link.take().filter(|link| !link.is_in_transaction()) {
            link.is_long = false;
            self.pool.free.lock().unwrap_or_else(PoisonError::into_inner).push(link);
        }
    }
}
