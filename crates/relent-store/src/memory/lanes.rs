//! Lanes: what people set, and what budget and breaker remember. REQ-G2, REQ-K2, REQ-L6.

use relent_policy::{BreakerSnapshot, BudgetSnapshot};

use super::state::State;
use crate::id::{LaneId, PolicyKey, TenantId};
use crate::lane::{LaneRecord, LaneSettings};

impl State {
    pub(super) fn open_lane(
        &mut self,
        tenant: &TenantId,
        dependency: &str,
        policy: PolicyKey,
    ) -> LaneRecord {
        let known = |lane: &&LaneRecord| lane.tenant == *tenant && lane.dependency == dependency;
        if let Some(lane) = self.lanes.values().find(known) {
            return lane.clone();
        }
        let id = self.lanes.last_key_value().map_or(1, |(last, _)| last.as_u32() + 1);
        let lane = LaneRecord {
            id: LaneId::from_u32(id),
            tenant: tenant.clone(),
            dependency: dependency.to_owned(),
            policy,
            settings: LaneSettings::default(),
            budget: None,
            breaker: None,
        };
        self.lanes.insert(lane.id, lane.clone());
        lane
    }

    pub(super) fn all_lanes(&self) -> Vec<LaneRecord> {
        self.lanes.values().cloned().collect()
    }

    pub(super) fn set_lane(
        &mut self,
        tenant: &TenantId,
        lane: LaneId,
        settings: LaneSettings,
    ) -> bool {
        let lane = self.lanes.get_mut(&lane).filter(|lane| lane.tenant == *tenant);
        let Some(lane) = lane else { return false };
        lane.settings = settings;
        true
    }

    pub(super) fn save_lanes(
        &mut self,
        states: Vec<(LaneId, Option<BudgetSnapshot>, Option<BreakerSnapshot>)>,
    ) {
        for (id, budget, breaker) in states {
            if let Some(lane) = self.lanes.get_mut(&id) {
                (lane.budget, lane.breaker) = (budget, breaker);
            }
        }
    }
}
