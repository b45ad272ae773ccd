//! Nodes that work on the same store: who they are, and what they tell each other through it. REQ-G4,
//! REQ-S7.

use std::time::Duration;

use relent_policy::Share;

use crate::id::TenantId;
use crate::lane::LaneRecord;
use crate::policy::PolicyRecord;

/// A node that has not been heard of for so long is not counted.
pub const NODE_TTL: Duration = Duration::from_secs(2);

/// What a node hears with its beat.
#[derive(Clone, Debug, PartialEq)]
pub struct Beat {
    /// This node's part among those that work; `None` if it does not.
    pub share: Option<Share>,
    /// Lanes that were opened or changed since its last beat, by whomever. Some may come again.
    pub lanes: Vec<LaneRecord>,
    /// Policies that were stored or deleted since its last beat, by whomever, each with its tenant.
    /// Some may come again.
    pub policies: Vec<(TenantId, PolicyRecord)>,
}

impl Beat {
    /// What the only node of a store hears.
    pub(crate) fn alone(works: bool) -> Beat {
        let share = works.then_some(Share::WHOLE);
        Beat { share, lanes: Vec::new(), policies: Vec::new() }
    }
}
