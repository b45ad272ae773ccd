//! What the parts of a running service share.

use std::collections::HashSet;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use relent_api::Limits;
use relent_policy::{BreakerState, IdempotencyKey};
use relent_store::{Error, Store, TenantId};

use crate::cluster::Cluster;
use crate::egress::Egress;
use crate::events::Events;
use crate::lanes::{Finished, Lane, LaneBook};
use crate::lookup::Looks;
use crate::metrics::Metrics;
use crate::policies::{KnownPolicy, PolicyBook};
use crate::scheduler::{Inbox, Places};
use crate::under_way::UnderWay;

/// See the module's head.
pub(crate) struct Service {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) cluster: Cluster,
    pub(crate) policies: PolicyBook,
    pub(crate) lanes: LaneBook,
    pub(crate) looks: Looks,
    pub(crate) egress: Egress,
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) places: Places,
    pub(crate) under_way: UnderWay,
    pub(crate) events: Events,
    pub(crate) metrics: Metrics,
    pub(crate) limits: Limits,
    pub(crate) being_stored: BeingStored,
    /// Whether the service is on its way out.
    pub(crate) draining: AtomicBool,
}

impl Service {
    /// The tenant's lane to this dependency.
    pub(crate) async fn lane(
        &self,
        tenant: &TenantId,
        dependency: &str,
        opened_by: &KnownPolicy,
    ) -> Result<Arc<Lane>, Error> {
        if let Some(lane) = self.lanes.named(tenant, dependency) {
            return Ok(lane);
        }
        let record = self.store.open_lane(tenant, dependency, opened_by.key).await?;
        self.take_lane(record).await
    }

    /// Tells of a breaker that an attempt has opened or closed.
    pub(crate) fn tell_breaker(&self, lane: &Lane, finished: &Finished) {
        let (Some(before), Some(after)) = (finished.breaker_before, finished.breaker_after) else {
            return;
        };
        if before == after {
            return;
        }
        let opened = after == BreakerState::Open;
        if opened || after == BreakerState::Closed {
            tracing::warn!(dependency = &*lane.dependency, state = ?after, "breaker changed");
            self.events.breaker(lane, opened, self.store.now());
        }
    }
}

/// The keys of tasks that are on their way into the store. REQ-I5.
#[derive(Debug, Default)]
pub(crate) struct BeingStored(Mutex<HashSet<(TenantId, IdempotencyKey)>>);

/// Takes its key out again when it is dropped.
#[derive(Debug)]
pub(crate) struct StoringKey<'s> {
    among: &'s BeingStored,
    key: (TenantId, IdempotencyKey),
}

impl BeingStored {
    /// `None` if a task with this key is on its way already.
    pub(crate) fn begin(&self, tenant: &TenantId, key: &IdempotencyKey) -> Option<StoringKey<'_>> {
        let key = (tenant.clone(), key.clone());
        let mut keys = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Not `then_some`: a key that is not begun must not be ended, least of all under its lock.
        keys.insert(key.clone()).then(|| StoringKey { among: self, key })
    }
}

impl Drop for StoringKey<'_> {
    fn drop(&mut self) {
        self.among.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.key);
    }
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Service").field("places", &self.places).finish_non_exhaustive()
    }
}
