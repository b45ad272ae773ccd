//! What is written down about an attempt, and what happens to its task in the same commit. REQ-O1,
//! REQ-S1.

use std::time::Duration;

use bytes::Bytes;
use relent_policy::{FailureKind, GiveUpReason, History, Timestamp};

use crate::lease::Lease;
use crate::task::Waiting;

/// One row of the attempt log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptRecord {
    /// The task's generation.
    pub generation: u32,
    /// Which attempt of that generation, from 1.
    pub number: u32,
    /// When it began.
    pub started_at: Timestamp,
    /// How long it took.
    pub took: Duration,
    /// The answer's status, if there was one.
    pub status: Option<u16>,
    /// What went wrong; `None` for a success.
    pub failure: Option<FailureKind>,
    /// What was decided then.
    pub ended: Ended,
    /// The chance that went into the decision, so that it can be replayed.
    pub roll: u64,
    /// Where the time went.
    pub phases: Phases,
    /// The beginning of the answer's body, if the policy asked for it.
    pub preview: Option<Bytes>,
}

/// What was decided after an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The task was delivered.
    Done,
    /// It is to be tried again.
    RetryAt {
        /// Not before.
        at: Timestamp,
        /// What the wait is for.
        waiting: Waiting,
    },
    /// It was given up.
    GaveUp {
        /// Why.
        because: GiveUpReason,
    },
}

/// How long the parts of an attempt took; `None` for those that did not happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Phases {
    /// Resolving the name.
    pub dns: Option<Duration>,
    /// Connecting.
    pub connect: Option<Duration>,
    /// The TLS handshake.
    pub tls: Option<Duration>,
    /// From the request to the first byte of the answer.
    pub first_byte: Option<Duration>,
}

/// What is to be written about a claimed task, in one commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Under which right.
    pub lease: Lease,
    /// The attempt's row; `None` if none was made (a deadline that passed while waiting).
    pub attempt: Option<AttemptRecord>,
    /// What becomes of the task.
    pub then: Then,
}

/// What becomes of a task after an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// It was delivered.
    Succeed,
    /// It waits for its next attempt; its past is this.
    RetryAt {
        /// Not before this time, which is before the task's deadline. If it is not, the task still
        /// ends, but maybe as late as this.
        at: Timestamp,
        /// What for.
        waiting: Waiting,
        /// What it remembers.
        history: History,
    },
    /// It is given up and kept as a dead letter.
    Exhaust {
        /// Why.
        because: GiveUpReason,
    },
}

/// What became of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// It is written.
    Applied,
    /// It is written, and the task is cancelled instead of tried again, as somebody had asked.
    Cancelled,
    /// The lease was not the task's any more: nothing was changed.
    Stale,
}
