//! The policies a service knows, compiled once.
//!
//! A task refers to one version of one policy and keeps it. Presets are stored like any other
//! policy, under a tenant of their own, so that a task keeps the version it was created with also
//! when a later relent ships another one. REQ-E1, REQ-S1.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use relent_policy::{Document, Policy, PolicySpec, Rejected, Timestamp};
use relent_store::{Error, NewPolicy, PolicyKey, PolicyRecord, Store, TenantId};

/// What an attempt may take beyond its own timeouts before its lease ends: writing down what came.
const LEASE_SLACK: Duration = Duration::from_secs(15);

/// One version of a policy, ready for use.
#[derive(Debug)]
pub(crate) struct KnownPolicy {
    pub(crate) key: PolicyKey,
    pub(crate) policy_id: String,
    pub(crate) version: u32,
    pub(crate) created_at: Timestamp,
    pub(crate) built_in: bool,
    pub(crate) policy: Policy,
}

/// The versions of policies, by their id.
type Versions = HashMap<String, Vec<Arc<KnownPolicy>>>;

/// Every policy of the service.
#[derive(Debug, Default)]
pub(crate) struct PolicyBook {
    by_key: RwLock<HashMap<PolicyKey, Arc<KnownPolicy>>>,
    /// The versions of each id that take new tasks, latest last.
    by_id: RwLock<HashMap<TenantId, Versions>>,
    /// Versions that were deleted; they are never taken back.
    deleted: RwLock<HashSet<PolicyKey>>,
}

/// The tenant that the presets belong to.
pub(crate) fn built_in_tenant() -> &'static TenantId {
    static BUILT_IN: OnceLock<TenantId> = OnceLock::new();
    BUILT_IN.get_or_init(|| {
        TenantId::try_new("built-in").unwrap_or_else(|_| TenantId::default_tenant())
    })
}

impl PolicyBook {
    /// Stores the presets and takes up everything that the store has.
    pub(crate) async fn load(&self, store: &dyn Store, tenants: &[TenantId]) -> Result<(), Error> {
        for spec in PolicySpec::presets() {
            store.put_policy(built_in_tenant(), new_policy(&spec)).await?;
        }
        for tenant in [built_in_tenant()].into_iter().chain(tenants) {
            for record in store.policies(tenant).await? {
                self.add(tenant, &record)?;
            }
        }
        Ok(())
    }

    /// The version of this id that new tasks get: the tenant's own or a preset.
    pub(crate) fn latest(&self, tenant: &TenantId, policy_id: &str) -> Option<Arc<KnownPolicy>> {
        let by_id = self.by_id.read().unwrap_or_else(PoisonError::into_inner);
        let of = |tenant| by_id.get(tenant)?.get(policy_id)?.last().cloned();
        of(tenant).or_else(|| of(built_in_tenant()))
    }

    /// One version of an id, deleted ones left out.
    pub(crate) fn version(
        &self,
        tenant: &TenantId,
        policy_id: &str,
        version: u32,
    ) -> Option<Arc<KnownPolicy>> {
        self.versions(tenant, policy_id).into_iter().find(|known| known.version == version)
    }

    /// Every version of an id that is not deleted.
    pub(crate) fn versions(&self, tenant: &TenantId, policy_id: &str) -> Vec<Arc<KnownPolicy>> {
        let by_id = self.by_id.read().unwrap_or_else(PoisonError::into_inner);
        let of = |tenant| by_id.get(tenant)?.get(policy_id).cloned();
        of(tenant).or_else(|| of(built_in_tenant())).unwrap_or_default()
    }

    /// The latest version of every policy a tenant can use, by id.
    pub(crate) fn all(&self, tenant: &TenantId) -> Vec<Arc<KnownPolicy>> {
        let by_id = self.by_id.read().unwrap_or_else(PoisonError::into_inner);
        let tenants = [built_in_tenant(), tenant];
        let mut all: Vec<_> = tenants
            .into_iter()
            .filter_map(|tenant| by_id.get(tenant))
            .flat_map(|ids| ids.values().filter_map(|versions| versions.last().cloned()))
            .collect();
        all.sort_unstable_by(|a, b| a.policy_id.cmp(&b.policy_id));
        all
    }

    /// The keys of all versions of an id, also of those before a deletion.
    pub(crate) fn keys_of(&self, policy_id: &str) -> Vec<PolicyKey> {
        let by_key = self.by_key.read().unwrap_or_else(PoisonError::into_inner);
        by_key
            .values()
            .filter(|known| known.policy_id == policy_id)
            .map(|known| known.key)
            .collect()
    }

    pub(crate) fn get(&self, key: PolicyKey) -> Option<Arc<KnownPolicy>> {
        self.by_key.read().unwrap_or_else(PoisonError::into_inner).get(&key).cloned()
    }

    /// Takes a stored version up.
    pub(crate) fn add(
        &self,
        tenant: &TenantId,
        record: &PolicyRecord,
    ) -> Result<Arc<KnownPolicy>, Error> {
        let known = Arc::new(compile(tenant, record)?);
        let mut by_key = self.by_key.write().unwrap_or_else(PoisonError::into_inner);
        let known = Arc::clone(by_key.entry(known.key).or_insert(known));
        let mut by_id = self.by_id.write().unwrap_or_else(PoisonError::into_inner);
        if !record.deleted && !self.is_deleted(known.key) {
            let versions = by_id.entry(tenant.clone()).or_default();
            let versions = versions.entry(known.policy_id.clone()).or_default();
            if versions.iter().all(|version| version.key != known.key) {
                versions.push(Arc::clone(&known));
                versions.sort_unstable_by_key(|known| known.version);
            }
        }
        Ok(known)
    }

    /// Takes a version up, or out, that another node has stored or deleted.
    pub(crate) fn hear(&self, tenant: &TenantId, record: &PolicyRecord) -> Result<(), Error> {
        if record.deleted {
            self.forget(tenant, &record.policy_id, |known| known.key == record.key);
        }
        if self.get(record.key).is_none() || !record.deleted {
            self.add(tenant, record)?;
        }
        Ok(())
    }

    /// Takes an id out: it takes no new tasks.
    pub(crate) fn remove(&self, tenant: &TenantId, policy_id: &str) {
        self.forget(tenant, policy_id, |_| true);
    }

    fn forget(&self, tenant: &TenantId, policy_id: &str, which: impl Fn(&KnownPolicy) -> bool) {
        let mut by_id = self.by_id.write().unwrap_or_else(PoisonError::into_inner);
        let Some(ids) = by_id.get_mut(tenant) else { return };
        let Some(versions) = ids.get_mut(policy_id) else { return };
        let mut deleted = self.deleted.write().unwrap_or_else(PoisonError::into_inner);
        deleted.extend(versions.iter().filter(|known| which(known)).map(|known| known.key));
        versions.retain(|known| !which(known));
        if versions.is_empty() {
            ids.remove(policy_id);
        }
    }

    fn is_deleted(&self, key: PolicyKey) -> bool {
        self.deleted.read().unwrap_or_else(PoisonError::into_inner).contains(&key)
    }
}

/// A policy as a store takes it.
pub(crate) fn new_policy(spec: &PolicySpec) -> NewPolicy {
    NewPolicy {
        policy_id: spec.policy_id.clone(),
        document: serde_json::to_string(spec).unwrap_or_default(),
        lease: spec.attempt_timeout + LEASE_SLACK,
    }
}

/// A waiver that has run out since must not keep the tasks of the policy from being delivered: a
/// stored policy is judged as of the day it was registered.
fn compile(tenant: &TenantId, record: &PolicyRecord) -> Result<KnownPolicy, Error> {
    let damaged = |text: String| {
        Error::Damaged(format!("policy `{}` version {}: {text}", record.policy_id, record.version))
    };
    let document: Document =
        serde_json::from_str(&record.document).map_err(|error| damaged(error.to_string()))?;
    let policy = Policy::from_document(&document, record.created_at)
        .map_err(|rejected: Rejected| damaged(rejected.to_string()))?;
    Ok(KnownPolicy {
        key: record.key,
        policy_id: record.policy_id.clone(),
        version: record.version,
        created_at: record.created_at,
        built_in: tenant == built_in_tenant(),
        policy,
    })
}
