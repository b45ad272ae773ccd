//! Lanes as a store keeps them: what people set, and what budget and breaker remember. REQ-G2, REQ-K2,
//! REQ-L6.

use relent_policy::{BreakerSnapshot, BudgetSnapshot, Timestamp, Turn};

use crate::id::{LaneId, PolicyKey, TenantId};

/// A lane as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneRecord {
    /// Its id.
    pub id: LaneId,
    /// Whose traffic.
    pub tenant: TenantId,
    /// To what.
    pub dependency: String,
    /// The policy that opened it, whose budget, breaker and limits it is held to.
    pub policy: PolicyKey,
    /// What people have set.
    pub settings: LaneSettings,
    /// What its budget remembers.
    pub budget: Option<BudgetSnapshot>,
    /// What its breaker remembers.
    pub breaker: Option<BreakerSnapshot>,
    /// How often that was changed.
    pub breaker_revision: u64,
}

/// What a lane's breaker has become, for all nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerSwap {
    /// Whose breaker.
    pub lane: LaneId,
    /// The revision that this follows.
    pub seen: u64,
    /// What it is from now on.
    pub breaker: BreakerSnapshot,
}

/// What came of a [`BreakerSwap`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerSwapped {
    /// It is in force, under this revision.
    Done {
        /// The revision.
        revision: u64,
    },
    /// Another was faster: this is in force, and nothing has changed.
    Lost {
        /// Its revision.
        revision: u64,
        /// `None` if it was never set, and the revision that was seen has never been.
        breaker: Option<BreakerSnapshot>,
    },
    /// There is no such lane.
    Unknown,
}

/// What people set on a lane; `None` leaves the policy's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneSettings {
    /// Whether it is held.
    pub paused: bool,
    /// Attempts in flight, retries included.
    pub in_flight_max: Option<u32>,
    /// Retries in flight.
    pub retries_in_flight_max: Option<u32>,
    /// Attempts started in a second.
    pub rate_per_second: Option<u32>,
}

/// What somebody sets on a lane. The rest stays as it is, whoever set that last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneChange {
    /// Whether it is held.
    Paused(bool),
    /// All of its limits; `None` makes it the policy's again.
    Limits {
        /// Attempts in flight, retries included.
        in_flight_max: Option<u32>,
        /// Retries in flight.
        retries_in_flight_max: Option<u32>,
        /// Attempts started in a second.
        rate_per_second: Option<u32>,
    },
}

impl LaneSettings {
    /// These, with the change.
    pub(crate) fn with(self, change: LaneChange) -> LaneSettings {
        match change {
            LaneChange::Paused(paused) => LaneSettings { paused, ..self },
            LaneChange::Limits { in_flight_max, retries_in_flight_max, rate_per_second } => {
                let paused = self.paused;
                LaneSettings { paused, in_flight_max, retries_in_flight_max, rate_per_second }
            }
        }
    }
}

/// When something of a lane is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneDue {
    /// Which lane.
    pub lane: LaneId,
    /// Which of its two lines.
    pub turn: Turn,
    /// When the earliest in that line is due.
    pub at: Timestamp,
}
