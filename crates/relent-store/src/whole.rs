//! A task with everything that belongs to it: what is carried from one store to another. REQ-S7.

use std::collections::{HashMap, HashSet};

use relent_policy::{History, Repeatable, Timestamp};

use crate::attempt::AttemptRecord;
use crate::error::Error;
use crate::id::TenantId;
use crate::lane::LaneRecord;
use crate::policy::PolicyRecord;
use crate::task::{State, TaskRecord};

/// One batch holds no more than this of bodies, and one task.
pub(crate) const EXPORT_BYTES: usize = 8 << 20;

/// A task as a store keeps it, in no store's own words. The token of its lease is not part of it:
/// whoever held it holds nothing in another store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WholeTask {
    /// Whose it is.
    pub tenant: TenantId,
    /// What is shown of it, with its body.
    pub task: TaskRecord,
    /// Whether a second attempt is safe, and why.
    pub repeatable: Repeatable,
    /// What it remembered when its last retry was decided.
    pub history: Option<History>,
    /// Present exactly while it is in flight.
    pub held: Option<Held>,
    /// The rows of its attempts that are kept, in order.
    pub attempts: Vec<AttemptRecord>,
}

/// Until when an attempt under way has its task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// From here on anybody may take it over.
    pub until: Timestamp,
    /// When the attempt was claimed; `None` if the task was taken over without one.
    pub claimed_at: Option<Timestamp>,
}

/// How much a store holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// Versions of policies.
    pub policies: u64,
    /// Lanes.
    pub lanes: u64,
    /// Tasks that wait.
    pub pending: u64,
    /// Tasks with an attempt under way.
    pub in_flight: u64,
    /// Tasks that were delivered.
    pub succeeded: u64,
    /// Dead letters.
    pub exhausted: u64,
    /// Tasks that were called off.
    pub cancelled: u64,
}

impl Extent {
    /// Tasks in any state.
    pub fn tasks(&self) -> u64 {
        self.pending + self.in_flight + self.succeeded + self.exhausted + self.cancelled
    }

    /// Whether there is nothing at all.
    pub fn is_empty(&self) -> bool {
        *self == Extent::default()
    }

    /// Counts tasks in a state.
    pub(crate) fn add(&mut self, state: State, count: u64) {
        *match state {
            State::Pending => &mut self.pending,
            State::InFlight => &mut self.in_flight,
            State::Succeeded => &mut self.succeeded,
            State::Exhausted => &mut self.exhausted,
            State::Cancelled => &mut self.cancelled,
        } += count;
    }
}

/// What tells whether a task that is there already is the one that is to be copied, as it was then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Likeness {
    pub(crate) fingerprint: [u8; 16],
    pub(crate) state: State,
    pub(crate) generation: u32,
    pub(crate) attempts: u32,
}

impl Likeness {
    pub(crate) fn of(task: &TaskRecord) -> Likeness {
        Likeness {
            fingerprint: task.fingerprint,
            state: task.state,
            generation: task.generation,
            attempts: task.attempts,
        }
    }
}

/// Something else is where a copy should go.
pub(crate) fn in_the_way(what: impl std::fmt::Display) -> Error {
    Error::Damaged(format!("{what} is there already, and is not what is to be copied"))
}

/// Those of the policies that are not there yet. No key and no version may stand for something else.
pub(crate) fn new_policies<'a>(
    there: &[(TenantId, PolicyRecord)],
    all: &'a [(TenantId, PolicyRecord)],
) -> Result<Vec<&'a (TenantId, PolicyRecord)>, Error> {
    fn name((tenant, policy): &(TenantId, PolicyRecord)) -> (&TenantId, &str, u32) {
        (tenant, &policy.policy_id, policy.version)
    }
    let by_key: HashMap<_, _> = there.iter().map(|policy| (policy.1.key, policy)).collect();
    let names: HashSet<_> = there.iter().map(name).collect();
    let mut new = Vec::new();
    for policy in all {
        match by_key.get(&policy.1.key) {
            None if !names.contains(&name(policy)) => new.push(policy),
            Some(there) if *there == policy => {}
            _ => return Err(in_the_way(policy.1.key)),
        }
    }
    Ok(new)
}

/// Those of the lanes that are not there yet. No id and no name may stand for another.
pub(crate) fn new_lanes<'a>(
    there: &[LaneRecord],
    all: &'a [LaneRecord],
) -> Result<Vec<&'a LaneRecord>, Error> {
    fn name(lane: &LaneRecord) -> (&TenantId, &str) {
        (&lane.tenant, &lane.dependency)
    }
    let by_id: HashMap<_, _> = there.iter().map(|lane| (lane.id, name(lane))).collect();
    let names: HashSet<_> = there.iter().map(name).collect();
    let mut new = Vec::new();
    for lane in all {
        match by_id.get(&lane.id) {
            None if !names.contains(&name(lane)) => new.push(lane),
            Some(there) if *there == name(lane) => {}
            _ => return Err(in_the_way(lane.id)),
        }
    }
    Ok(new)
}
