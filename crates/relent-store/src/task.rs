//! A task, from the request to keep it to the row that says how it ended. REQ-S1, REQ-S4.

use std::time::Duration;

use bytes::Bytes;
use relent_policy::{GiveUpReason, IdempotencyKey, Repeatable, Timestamp, WaitReason};

use crate::id::{LaneId, PolicyKey, TaskId};

/// A request that is to be kept until it is delivered or given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewTask {
    /// Its tenant's traffic to its dependency. The lane's tenant is the task's.
    pub lane: LaneId,
    /// The version of the policy that it is held to.
    pub policy: PolicyKey,
    /// What makes it the same task when it comes again.
    pub key: Option<IdempotencyKey>,
    /// A digest of everything that the caller asked for: the same key with another one is refused.
    pub fingerprint: [u8; 16],
    /// When its first attempt is due.
    pub first: FirstAttempt,
    /// How long after it became due it may still be tried: the policy's total budget.
    pub lifetime: Duration,
    /// Whether a second attempt is safe, and why.
    pub repeatable: Repeatable,
    /// What is sent.
    pub request: StoredRequest,
}

/// What is sent on each attempt: the same bytes every time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRequest {
    /// The HTTP method.
    pub method: String,
    /// The target.
    pub url: String,
    /// The caller's headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Bytes,
    /// The caller's own name for what this belongs to.
    pub correlation_id: Option<String>,
}

/// When a first attempt is due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FirstAttempt {
    /// As soon as the task is stored.
    #[default]
    Now,
    /// So long after it is stored.
    After(Duration),
    /// Not before this time.
    NotBefore(Timestamp),
}

/// What became of a task that was to be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enqueued {
    /// It is stored, under a new id.
    Created(TaskId),
    /// A task with this key and this content is there already.
    Existing(TaskId),
    /// A task with this key and other content is there already; `None`: earlier in the same batch.
    Conflict(Option<TaskId>),
    /// It would be new, but another of the batch conflicts, and so nothing was stored.
    Withheld,
}

/// Where a task stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// It waits for its next attempt.
    Pending,
    /// An attempt is under way.
    InFlight,
    /// It was delivered.
    Succeeded,
    /// It was given up and is kept as a dead letter.
    Exhausted,
    /// It was called off.
    Cancelled,
}

impl State {
    /// Whether nothing more will happen to it by itself.
    pub const fn is_final(self) -> bool {
        matches!(self, State::Succeeded | State::Exhausted | State::Cancelled)
    }
}

/// What a pending task waits for, as far as the task itself knows. What its lane holds it back for
/// is the lane's to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// The time of its first attempt.
    Scheduled,
    /// The policy's backoff.
    Backoff,
    /// The time that the target asked for.
    RetryAfter,
}

impl From<WaitReason> for Waiting {
    fn from(reason: WaitReason) -> Waiting {
        match reason {
            WaitReason::Backoff => Waiting::Backoff,
            WaitReason::RetryAfter => Waiting::RetryAfter,
        }
    }
}

/// A task as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskRecord {
    /// Its id, which says when it was stored.
    pub id: TaskId,
    /// Its lane.
    pub lane: LaneId,
    /// The version of the policy that it is held to.
    pub policy: PolicyKey,
    /// Where it stands.
    pub state: State,
    /// How often it was redriven.
    pub generation: u32,
    /// Attempts begun in this generation.
    pub attempts: u32,
    /// When the next attempt is due, or the last one was.
    pub due_at: Timestamp,
    /// What it waits for until then.
    pub waiting: Waiting,
    /// When this generation's first attempt was due: its deadline counts from here.
    pub started_at: Timestamp,
    /// When it must have ended.
    pub deadline_at: Timestamp,
    /// Whether it is to be called off as soon as the attempt under way has ended.
    pub cancel_requested: bool,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// Why it was given up.
    pub because: Option<GiveUpReason>,
    /// The last answer's status in this generation. An attempt without an answer leaves it.
    pub last_status: Option<u16>,
    /// What makes it the same task when it comes again.
    pub key: Option<IdempotencyKey>,
    /// The digest of what the caller asked for.
    pub fingerprint: [u8; 16],
    /// What is sent. The body is empty unless it was asked for.
    pub request: StoredRequest,
    /// The body's size.
    pub body_bytes: u64,
}

/// What became of a wish to call a task off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancelled {
    /// It is cancelled; no attempt will start.
    Now,
    /// An attempt is under way. Should that have to be repeated, it is cancelled instead.
    AfterAttempt,
    /// It had ended already.
    Ended(State),
    /// There is no such task.
    NotFound,
}

/// A dead letter that is to be tried again, as a first attempt of a new generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Redrive {
    /// Which.
    pub task: TaskId,
    /// How long from now.
    pub after: Duration,
    /// Under which policy, and with how much time; `None` keeps what it had.
    pub policy: Option<(PolicyKey, Duration)>,
}

/// What became of a wish to redrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Redriven {
    /// It waits for its new first attempt.
    Pending,
    /// It is no dead letter.
    NotDead(State),
    /// There is no such task.
    NotFound,
}

/// How long what has ended is kept.
///
/// # Default
///
/// - delivered and cancelled tasks 7 days
/// - attempts 7 days
/// - dead letters 30 days
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Delivered and cancelled tasks, after they ended.
    pub ended: Duration,
    /// Dead letters, after they were given up.
    pub dead_letters: Duration,
    /// Rows of the attempt log, after the attempt.
    pub attempts: Duration,
}

impl Default for Retention {
    fn default() -> Retention {
        let days = |days: u64| Duration::from_secs(days * 86_400);
        Retention { ended: days(7), dead_letters: days(30), attempts: days(7) }
    }
}
