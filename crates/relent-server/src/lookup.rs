//! Policies and lanes that another node has made, looked up when they are first met.
//!
//! What a node knows of policies and lanes it keeps; what others change reaches it soon. A task may
//! be sooner: it is claimed here a moment after its lane was opened there. Whoever meets something
//! unknown therefore asks the store before saying so. One look serves all who began to wait before
//! it began, so that a crowd of unknown names costs no more than two. REQ-S7.

use std::sync::Arc;
use std::time::Instant;

use relent_store::{Error, LaneId, LaneRecord, PolicyKey, TenantId};
use tokio::sync::Mutex;

use crate::lanes::Lane;
use crate::policies::{KnownPolicy, built_in_tenant};
use crate::service::Service;

/// When the last look of each kind began.
#[derive(Debug, Default)]
pub(crate) struct Looks {
    policies: Mutex<Option<Instant>>,
    lanes: Mutex<Option<Instant>>,
}

impl Service {
    /// The policy with this key, whoever made it.
    pub(crate) async fn policy(&self, key: PolicyKey) -> Result<Option<Arc<KnownPolicy>>, Error> {
        if let Some(known) = self.policies.get(key) {
            return Ok(Some(known));
        }
        self.look_for_policies().await?;
        Ok(self.policies.get(key))
    }

    /// The version of this id that new tasks get, whoever made it.
    pub(crate) async fn latest_policy(
        &self,
        tenant: &TenantId,
        policy_id: &str,
    ) -> Result<Option<Arc<KnownPolicy>>, Error> {
        if let Some(known) = self.policies.latest(tenant, policy_id) {
            return Ok(Some(known));
        }
        self.look_for_policies().await?;
        Ok(self.policies.latest(tenant, policy_id))
    }

    /// One version of an id, whoever made it.
    pub(crate) async fn policy_version(
        &self,
        tenant: &TenantId,
        policy_id: &str,
        version: u32,
    ) -> Result<Option<Arc<KnownPolicy>>, Error> {
        if let Some(known) = self.policies.version(tenant, policy_id, version) {
            return Ok(Some(known));
        }
        self.look_for_policies().await?;
        Ok(self.policies.version(tenant, policy_id, version))
    }

    /// The keys of all versions of an id, whoever made them.
    pub(crate) async fn keys_of_policy(&self, policy_id: &str) -> Result<Vec<PolicyKey>, Error> {
        let keys = self.policies.keys_of(policy_id);
        if !keys.is_empty() {
            return Ok(keys);
        }
        self.look_for_policies().await?;
        Ok(self.policies.keys_of(policy_id))
    }

    /// The lane with this id, whoever opened it.
    pub(crate) async fn lane_of_id(&self, id: LaneId) -> Result<Option<Arc<Lane>>, Error> {
        if let Some(lane) = self.lanes.get(id) {
            return Ok(Some(lane));
        }
        self.look_for_lanes().await?;
        Ok(self.lanes.get(id))
    }

    /// The lane of this name, whoever opened it.
    pub(crate) async fn lane_of_name(
        &self,
        tenant: &TenantId,
        dependency: &str,
    ) -> Result<Option<Arc<Lane>>, Error> {
        if let Some(lane) = self.lanes.named(tenant, dependency) {
            return Ok(Some(lane));
        }
        self.look_for_lanes().await?;
        Ok(self.lanes.named(tenant, dependency))
    }

    /// Takes a stored lane up, with the policy whose rules it has.
    pub(crate) async fn take_lane(&self, record: LaneRecord) -> Result<Arc<Lane>, Error> {
        let Some(rules) = self.policy(record.policy).await? else {
            return Err(Error::Damaged(format!(
                "{} refers to {}, which is not there",
                record.id, record.policy
            )));
        };
        let lane = self.lanes.add(record, &rules.policy);
        // Its first task may have become due before the lane was in the book.
        self.inbox.freed(lane.id);
        Ok(lane)
    }

    pub(crate) async fn look_for_policies(&self) -> Result<(), Error> {
        let asked_at = Instant::now();
        let mut last = self.looks.policies.lock().await;
        if last.is_some_and(|began_at| began_at > asked_at) {
            return Ok(());
        }
        let began_at = Instant::now();
        for tenant in [built_in_tenant(), &TenantId::default_tenant()] {
            for record in self.store.policies(tenant).await? {
                // One that only a later relent understands must not hide the others.
                if self.policies.get(record.key).is_none()
                    && let Err(error) = self.policies.add(tenant, &record)
                {
                    tracing::error!(%error, "a policy cannot be used");
                }
            }
        }
        *last = Some(began_at);
        Ok(())
    }

    pub(crate) async fn look_for_lanes(&self) -> Result<(), Error> {
        let asked_at = Instant::now();
        let mut last = self.looks.lanes.lock().await;
        if last.is_some_and(|began_at| began_at > asked_at) {
            return Ok(());
        }
        let began_at = Instant::now();
        for record in self.store.lanes().await? {
            if self.lanes.get(record.id).is_none()
                && let Err(error) = self.take_lane(record).await
            {
                tracing::error!(%error, "a lane cannot be used");
            }
        }
        *last = Some(began_at);
        Ok(())
    }
}
