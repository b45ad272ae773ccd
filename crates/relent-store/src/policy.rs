//! Policies as a store keeps them: documents under a version, never changed. REQ-S1, REQ-E1.

use std::time::Duration;

use relent_policy::Timestamp;

use crate::id::PolicyKey;

/// A policy that is to be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPolicy {
    /// Its id among its tenant's policies.
    pub policy_id: String,
    /// The whole document, as JSON.
    pub document: String,
    /// How long the lease of an attempt under it is: longer than its attempt can take.
    pub lease: Duration,
}

/// One version of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyRecord {
    /// What tasks refer to it by.
    pub key: PolicyKey,
    /// Its id among its tenant's policies.
    pub policy_id: String,
    /// Its version, from 1.
    pub version: u32,
    /// The whole document, as JSON.
    pub document: String,
    /// How long the lease of an attempt under it is.
    pub lease: Duration,
    /// When it was stored.
    pub created_at: Timestamp,
    /// Whether it was deleted: it takes no new tasks, and those it has keep it.
    pub deleted: bool,
}
