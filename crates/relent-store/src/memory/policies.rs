//! Policies, under versions. REQ-S1, REQ-E1.

use relent_policy::Timestamp;

use super::state::State;
use crate::id::{PolicyKey, TenantId};
use crate::policy::{NewPolicy, PolicyRecord};

impl State {
    pub(super) fn put_policy(
        &mut self,
        tenant: &TenantId,
        new: NewPolicy,
        now: Timestamp,
    ) -> PolicyRecord {
        let same_id = |policy: &PolicyRecord| policy.policy_id == new.policy_id;
        let latest = self.policies_of(tenant).into_iter().rfind(same_id);
        if let Some(latest) = &latest
            && latest.document == new.document
            && !latest.deleted
        {
            return latest.clone();
        }
        let key = self.policies.last_key_value().map_or(1, |(last, _)| last.as_u32() + 1);
        let record = PolicyRecord {
            key: PolicyKey::from_u32(key),
            policy_id: new.policy_id,
            version: latest.map_or(1, |latest| latest.version + 1),
            document: new.document,
            lease: new.lease,
            created_at: now,
            deleted: false,
        };
        self.policies.insert(record.key, (tenant.clone(), record.clone()));
        record
    }

    pub(super) fn policies_of(&self, tenant: &TenantId) -> Vec<PolicyRecord> {
        let own = self.policies.values().filter(|(owner, _)| owner == tenant);
        let mut own: Vec<PolicyRecord> = own.map(|(_, policy)| policy.clone()).collect();
        own.sort_by(|a, b| (&a.policy_id, a.version).cmp(&(&b.policy_id, b.version)));
        own
    }

    pub(super) fn policy(&self, key: PolicyKey) -> Option<PolicyRecord> {
        self.policies.get(&key).map(|(_, policy)| policy.clone())
    }

    pub(super) fn delete_policy(&mut self, tenant: &TenantId, policy_id: &str) -> bool {
        let mut deleted = false;
        for (owner, policy) in self.policies.values_mut() {
            if owner == tenant && policy.policy_id == policy_id && !policy.deleted {
                policy.deleted = true;
                deleted = true;
            }
        }
        deleted
    }
}
