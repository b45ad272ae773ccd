//! Lanes: what people set, and what budget and breaker remember. REQ-G2, REQ-K2, REQ-L6.

use relent_policy::BudgetSnapshot;

use super::state::State;
use crate::id::{LaneId, PolicyKey, TenantId};
use crate::lane::{BreakerSwap, BreakerSwapped, LaneChange, LaneRecord, LaneSettings};

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
            breaker_revision: 0,
        };
        self.lanes.insert(lane.id, lane.clone());
        lane
    }

    pub(super) fn all_lanes(&self) -> Vec<LaneRecord> {
        self.lanes.values().cloned().collect()
    }

    pub(super) fn change_lane(
        &mut self,
        tenant: &TenantId,
        lane: LaneId,
        change: LaneChange,
    ) -> Option<LaneSettings> {
        let lane = self.lanes.get_mut(&lane).filter(|lane| lane.tenant == *tenant);
        let lane = lane?;
        lane.settings = lane.settings.with(change);
        Some(lane.settings)
    }

    pub(super) fn save_budgets(&mut self, budgets: Vec<(LaneId, BudgetSnapshot)>) {
        for (id, budget) in budgets {
            if let Some(lane) = self.lanes.get_mut(&id) {
                lane.budget = Some(budget);
            }
        }
    }

    pub(super) fn swap_breaker(&mut self, swap: BreakerSwap) -> BreakerSwapped {
        let Some(lane) = self.lanes.get_mut(&swap.lane) else { return BreakerSwapped::Unknown };
        let revision = lane.breaker_revision;
        if revision != swap.seen {
            return BreakerSwapped::Lost { revision, breaker: lane.breaker };
        }
        lane.breaker = Some(swap.breaker);
        lane.breaker_revision += 1;
        BreakerSwapped::Done { revision: lane.breaker_revision }
    }
}
