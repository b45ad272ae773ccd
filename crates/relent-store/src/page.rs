//! Looking for tasks, a page at a time. REQ-S2, REQ-D3.

use relent_policy::{GiveUpReason, Timestamp};

use crate::id::{LaneId, PolicyKey, TaskId};
use crate::task::State;

/// Which tasks are looked for; what is left out does not matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskFilter {
    /// Those in one of these states; empty means any.
    pub states: Vec<State>,
    /// Those in one of these lanes.
    pub lanes: Option<Vec<LaneId>>,
    /// Those held to one of these versions of policies.
    pub policies: Option<Vec<PolicyKey>>,
    /// Those stored at this time or later.
    pub created_after: Option<Timestamp>,
    /// Those stored before this time.
    pub created_before: Option<Timestamp>,
    /// Those given up for this reason.
    pub because: Option<GiveUpReason>,
}

/// Where a page goes on: tasks with lower ids than this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor(pub TaskId);

/// Some of what was looked for, latest first. A page may be short, even empty, and still have a
/// next one: a store looks at a bounded number of rows for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    /// What was found.
    pub items: Vec<T>,
    /// Where to go on; `None` at the end.
    pub next: Option<Cursor>,
}
