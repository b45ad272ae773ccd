//! Where tasks wait.
//!
//! One contract ([`Store`]), several backends. A store keeps tasks, the log of their attempts,
//! policies and lanes; it decides nothing. What it promises is the same everywhere, and the contract
//! suite in `tests/it` holds every backend to it:
//!
//! - **Batch first.** Enqueue, claim and record take batches, so that one durable commit serves many
//!   callers.
//! - **Recorded before told.** An answer comes after the durable commit, always.
//! - **Counted before sent.** A claim counts the attempt; a worker that dies has spent it.
//! - **Fenced.** Every write about a claimed task carries the lease's token. A stale owner's write
//!   changes nothing, and says so.
//! - **The store's clock schedules.** [`Store::now`] is the only clock that due times are read by.
//!
//! REQ-S3, REQ-S4, REQ-S7, REQ-D1.

mod assurance;
mod attempt;
mod clock;
mod contract;
mod error;
mod hints;
mod id;
mod lane;
mod lease;
mod member;
mod memory;
mod operations;
mod page;
mod policy;
mod postgres;
mod queue;
mod redis;
mod sqlite;
mod task;
mod trust;
mod version;
mod whole;

pub use assurance::{Assurance, Finding, Severity, Survival, Survives};
pub use attempt::{AttemptRecord, Ended, Phases, Record, Recorded, Then};
pub use clock::StoreClock;
pub use contract::{
    Answer, Copying, Counts, DueListener, Lanes, Nodes, Policies, Store, Tasks, Upkeep,
};
pub use error::Error;
pub use id::{BadId, LaneId, PolicyKey, TaskId, TenantId};
pub use lane::{BreakerSwap, BreakerSwapped, LaneChange, LaneDue, LaneRecord, LaneSettings};
pub use lease::{Claimed, Claims, Lease, SWEEP_LEASE, Swept, SweptBecause, Want};
pub use member::{Beat, NODE_TTL};
pub use memory::MemoryStore;
pub use page::{Cursor, Page, TaskFilter};
pub use policy::{NewPolicy, PolicyRecord};
pub use postgres::{ConnectError, PostgresOptions, PostgresStore};
pub use redis::{RedisConnectError, RedisOptions, RedisStore, WaitFor};
pub use sqlite::{OpenError, SqliteOptions, SqliteStore};
pub use task::{
    Cancelled, Enqueued, FirstAttempt, NewTask, Redrive, Redriven, Retention, State, StoredRequest,
    TaskRecord, Waiting,
};
pub use version::Migrated;
pub use whole::{Extent, Held, WholeTask};
