//! Claiming: the right to make the next attempt, until a time, under a token.
//!
//! The token fences. It is new for each claim, and every later write about the task must carry it:
//! who was paused past the end of the lease writes with an old one, and changes nothing. The attempt
//! is counted in the same commit that grants the lease, before anything is sent; a worker that dies
//! with it has spent it. REQ-S3, REQ-S4.

use std::time::Duration;

use relent_policy::{History, IdempotencyKey, Timestamp, Turn};

use crate::id::{LaneId, PolicyKey, TaskId};
use crate::task::StoredRequest;

/// How many due tasks of a lane are wanted.
///
/// To claim is to write, which takes a while. Whoever claims ahead has that while behind them when
/// the task is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Want {
    /// Of which lane.
    pub lane: LaneId,
    /// First attempts or retries: each has its own line, in order of due time.
    pub turn: Turn,
    /// How many at most.
    pub max: u32,
    /// Also those that will be due within this time. Whoever claims them must not begin before
    /// [`due_at`](Claimed::due_at).
    pub ahead: Duration,
}

impl Want {
    /// What is due already.
    #[must_use]
    pub const fn due(lane: LaneId, turn: Turn, max: u32) -> Want {
        Want { lane, turn, max, ahead: Duration::ZERO }
    }
}

/// The right to make one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// At which task.
    pub task: TaskId,
    /// What every write about this attempt must carry.
    pub token: u64,
    /// Until when. Afterwards the task may be somebody else's.
    pub until: Timestamp,
}

/// A claimed task: everything that the attempt needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimed {
    /// The right to attempt it.
    pub lease: Lease,
    /// Its lane.
    pub lane: LaneId,
    /// Its policy.
    pub policy: PolicyKey,
    /// How often it was redriven.
    pub generation: u32,
    /// Its past with this attempt counted.
    pub history: History,
    /// When this attempt was due.
    pub due_at: Timestamp,
    /// The previous answer's status in this generation.
    pub previous_status: Option<u16>,
    /// Its key.
    pub key: Option<IdempotencyKey>,
    /// What to send.
    pub request: StoredRequest,
}

/// What a claim brought.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claims {
    /// The claimed tasks; within a want, in order of due time.
    pub claimed: Vec<Claimed>,
    /// For each want, in order: when the next task of that line is due, if one waits that has not
    /// reached its deadline. A time to come may be too early, if what was due then was called off.
    pub next: Vec<Option<Timestamp>>,
}

/// How long whoever takes a task over has to record what is decided about it. Nothing is sent in this
/// time; whoever dies in it keeps the task from everybody else for as long.
pub const SWEEP_LEASE: Duration = Duration::from_secs(15);

/// A task that was taken over because nobody else will end its present state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Swept {
    /// The right to record what is decided about it.
    pub lease: Lease,
    /// Its lane.
    pub lane: LaneId,
    /// Its policy.
    pub policy: PolicyKey,
    /// How often it was redriven.
    pub generation: u32,
    /// Its past; with the lost attempt counted, if one was lost.
    pub history: History,
    /// Why it was taken over.
    pub because: SweptBecause,
    /// Its key.
    pub key: Option<IdempotencyKey>,
}

/// Why a task was taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SweptBecause {
    /// The lease of its attempt ran out: the attempt is lost.
    LeaseExpired {
        /// When it may have begun: when it was claimed, or when it was due if that was later.
        began_at: Timestamp,
    },
    /// Its deadline passed while its lane held it back. No attempt was counted.
    DeadlinePassed,
}
