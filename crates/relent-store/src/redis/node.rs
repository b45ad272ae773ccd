//! What the parts of a store on Redis share: its shards, its connections, its clock, and who is told.
//!
//! A node needs nothing from other nodes, and nothing of it is needed by them: what it knows of lanes
//! and policies never changes once it is there, and everything else is asked of Redis. REQ-S3, REQ-S4,
//! REQ-S7.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use redis::{Cmd, Value, cmd};
use sha2::{Digest, Sha256};

use super::RedisOptions;
use super::claim::{Taken, Taking, to_token};
use super::clock::Clock;
use super::enqueue::NewTasks;
use super::failure::Failure;
use super::link::Role;
use super::members::Heard;
use super::routes::{Copies, Routes};
use super::script::Script;
use super::values::some_bytes;
use crate::attempt::{Record, Recorded};
use crate::error::Error;
use crate::hints::Hints;
use crate::id::{LaneId, PolicyKey, TaskId, TenantId};
use crate::lease::Lease;
use crate::operations::Operations;
use crate::queue::Queue;
use crate::task::Enqueued;

pub(super) struct Node {
    pub(super) routes: Routes,
    /// Among all that ever used this prefix.
    pub(super) number: u32,
    pub(super) clock: Clock,
    pub(super) lanes_max: u32,
    pub(super) copies: Option<(Copies, i64)>,
    pub(super) shards: Vec<Shard>,
    pub(super) hints: Hints,
    pub(super) operations: Operations,
    /// The last change of lanes and policies that was heard of.
    pub(super) heard: Mutex<Option<Heard>>,
    /// The highest id of a task that is known here: the next one is higher.
    pub(super) last_task: AtomicU64,
    epoch: RwLock<String>,
    lanes: RwLock<HashMap<LaneId, TenantId>>,
    /// How long the leases of policies are.
    policies: RwLock<HashMap<PolicyKey, u64>>,
}

/// What waits to be sent to one shard.
pub(super) struct Shard {
    pub(super) enqueues: Queue<NewTasks, Vec<Enqueued>>,
    pub(super) records: Queue<Vec<Record>, Vec<Recorded>>,
    pub(super) claims: Queue<Taking, Taken>,
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

impl Node {
    pub(super) fn new(
        routes: Routes,
        number: u32,
        clock: Clock,
        epoch: String,
        options: &RedisOptions,
    ) -> Node {
        let (jobs_max, bytes_max) = (options.queue_max, options.queue_bytes_max);
        let shard = |_| Shard {
            enqueues: Queue::new(jobs_max, bytes_max),
            records: Queue::new(jobs_max, bytes_max),
            claims: Queue::new(jobs_max, bytes_max),
        };
        let shards = (0..routes.shards()).map(shard).collect();
        Node {
            routes,
            number,
            clock,
            lanes_max: options.lanes_max,
            copies: options.copies(),
            shards,
            hints: Hints::new(options.listen),
            operations: Operations::default(),
            heard: Mutex::default(),
            last_task: AtomicU64::new(0),
            epoch: RwLock::new(epoch),
            lanes: RwLock::default(),
            policies: RwLock::default(),
        }
    }

    /// Runs a script on a shard, with what every script is given first.
    pub(super) async fn run(
        &self,
        shard: usize,
        role: Role,
        script: &'static Script,
        args: &[&[u8]],
    ) -> Result<Value, Failure> {
        Ok(self.run_copied(shard, role, script, args, None).await?.0)
    }

    /// The same, and says how many copies there are of what it wrote.
    pub(super) async fn run_copied(
        &self,
        shard: usize,
        role: Role,
        script: &'static Script,
        args: &[&[u8]],
        copies: Option<&Copies>,
    ) -> Result<(Value, Option<Value>), Failure> {
        let (epoch, now) = (self.epoch(), self.clock.given());
        let number = self.number.to_be_bytes();
        let mut all: Vec<&[u8]> = Vec::with_capacity(args.len() + 3);
        all.extend([epoch.as_bytes(), &now, &number]);
        all.extend(args);
        let ran = self.routes.run(shard, role, script, &all, copies).await;
        if let Err(failure) = &ran
            && failure.is_reset()
        {
            tracing::error!(shard, "the data in Redis was deleted or replaced; refusing to go on");
        }
        ran
    }

    /// Sends a command that only looks. If the data was replaced before, that is the answer.
    pub(super) async fn look(&self, shard: usize, command: &Cmd) -> Result<Value, Failure> {
        let answer = self.routes.send(shard, Role::Plain, command).await?;
        let key = format!("{}e", self.routes.place.base(shard));
        let epoch = self.routes.send(shard, Role::Plain, cmd("GET").arg(key)).await?;
        if some_bytes(epoch)?.as_deref() == Some(self.epoch().as_bytes()) {
            return Ok(answer);
        }
        let text = "the data in Redis was deleted or replaced while this node worked with it; \
                    accept the loss to go on";
        Err(Error::Unavailable(text.to_owned()).into())
    }

    fn epoch(&self) -> String {
        self.epoch.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Goes on with other data.
    pub(super) fn begin_epoch(&self, epoch: String) {
        *self.epoch.write().unwrap_or_else(PoisonError::into_inner) = epoch;
        self.lanes.write().unwrap_or_else(PoisonError::into_inner).clear();
        self.policies.write().unwrap_or_else(PoisonError::into_inner).clear();
        self.hear(None);
    }

    /// Nothing new is taken.
    pub(super) fn close(&self) {
        self.operations.close();
        for shard in &self.shards {
            shard.enqueues.close();
            shard.records.close();
            shard.claims.close();
        }
    }

    /// Nothing more is done, and nobody waits for it.
    pub(super) fn abandon(&self) {
        self.close();
        for shard in &self.shards {
            shard.enqueues.abandon();
            shard.records.abandon();
            shard.claims.abandon();
        }
    }

    /// Where everything of a tenant is.
    pub(super) fn shard_of(&self, tenant: &TenantId) -> usize {
        if self.shards.len() == 1 {
            return 0;
        }
        let digest = Sha256::digest(tenant.as_str());
        usize::from(u16::from_be_bytes([digest[0], digest[1]])) % self.shards.len()
    }

    /// Where a lane is, if that is known here.
    pub(super) fn shard_of_lane(&self, lane: LaneId) -> Option<usize> {
        if self.shards.len() == 1 {
            return Some(0);
        }
        let lanes = self.lanes.read().unwrap_or_else(PoisonError::into_inner);
        lanes.get(&lane).map(|tenant| self.shard_of(tenant))
    }

    /// Where the task of a lease is, as its token says; `None` if there is no such shard.
    pub(super) fn shard_of_lease(&self, lease: &Lease) -> Option<usize> {
        Some(to_token(lease.token).1).filter(|shard| *shard < self.shards.len())
    }

    /// The lanes that are known here, and whose they are.
    pub(super) fn known_lanes(&self) -> HashMap<LaneId, TenantId> {
        self.lanes.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn learn_lane(&self, lane: LaneId, tenant: &TenantId) {
        let mut lanes = self.lanes.write().unwrap_or_else(PoisonError::into_inner);
        lanes.entry(lane).or_insert_with(|| tenant.clone());
    }

    pub(super) fn learn_policy(&self, policy: PolicyKey, lease: u64) {
        self.policies.write().unwrap_or_else(PoisonError::into_inner).insert(policy, lease);
    }

    pub(super) fn learn_task(&self, task: TaskId) {
        self.last_task.fetch_max(task.as_u64(), Ordering::SeqCst);
    }

    /// Whether this lane is the tenant's, if that is known here.
    pub(super) fn owns(&self, tenant: &TenantId, lane: LaneId) -> Option<bool> {
        let lanes = self.lanes.read().unwrap_or_else(PoisonError::into_inner);
        lanes.get(&lane).map(|owner| owner == tenant)
    }

    /// How long the leases of a policy are, if it is known here.
    pub(super) fn lease_of(&self, policy: PolicyKey) -> Option<u64> {
        self.policies.read().unwrap_or_else(PoisonError::into_inner).get(&policy).copied()
    }
}
