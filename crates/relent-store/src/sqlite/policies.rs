//! Policies, under versions. REQ-S1, REQ-E1.

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::queue::Failure;
use super::rows::{from_duration, from_time, nanos, to_duration, to_time};
use super::state::Desk;
use crate::id::{PolicyKey, TenantId};
use crate::policy::{NewPolicy, PolicyRecord};

const LATEST: &str = "SELECT key, policy_id, version, document, lease, created_at, deleted \
     FROM policies WHERE tenant = ?1 AND policy_id = ?2 ORDER BY version DESC LIMIT 1";
const ONE: &str = "SELECT key, policy_id, version, document, lease, created_at, deleted \
     FROM policies WHERE key = ?1";
const OF_TENANT: &str = "SELECT key, policy_id, version, document, lease, created_at, deleted \
     FROM policies WHERE tenant = ?1 ORDER BY policy_id, version";
const INSERT: &str = "INSERT INTO policies \
     (tenant, policy_id, version, document, lease, created_at, deleted) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0)";
const DELETE: &str =
    "UPDATE policies SET deleted = 1 WHERE tenant = ?1 AND policy_id = ?2 AND deleted = 0";

impl Desk<'_> {
    pub(super) fn put_policy(
        &mut self,
        tenant: &TenantId,
        new: NewPolicy,
    ) -> Result<PolicyRecord, Failure> {
        let mut select = self.connection.prepare_cached(LATEST)?;
        let latest = select.query_row([tenant.as_str(), &new.policy_id], record).optional()?;
        if let Some(latest) = &latest
            && latest.document == new.document
            && !latest.deleted
        {
            return Ok(latest.clone());
        }
        let version = latest.map_or(1, |latest| latest.version.saturating_add(1));
        self.connection.prepare_cached(INSERT)?.execute(params![
            tenant.as_str(),
            new.policy_id,
            version,
            new.document,
            from_duration(new.lease),
            from_time(self.now),
        ])?;
        let key = u32::try_from(self.connection.last_insert_rowid()).unwrap_or(u32::MAX);
        self.state.leases.insert(key, nanos(new.lease));
        Ok(PolicyRecord {
            key: PolicyKey::from_u32(key),
            policy_id: new.policy_id,
            version,
            document: new.document,
            lease: new.lease,
            created_at: self.now,
            deleted: false,
        })
    }

    pub(super) fn delete_policy(
        &mut self,
        tenant: &TenantId,
        policy_id: &str,
    ) -> Result<bool, Failure> {
        let mut delete = self.connection.prepare_cached(DELETE)?;
        Ok(delete.execute([tenant.as_str(), policy_id])? > 0)
    }
}

pub(super) fn of_tenant(
    connection: &Connection,
    tenant: &TenantId,
) -> Result<Vec<PolicyRecord>, Failure> {
    let mut select = connection.prepare_cached(OF_TENANT)?;
    let policies = select.query_map([tenant.as_str()], record)?;
    Ok(policies.collect::<rusqlite::Result<_>>()?)
}

pub(super) fn one(
    connection: &Connection,
    key: PolicyKey,
) -> Result<Option<PolicyRecord>, Failure> {
    let mut select = connection.prepare_cached(ONE)?;
    Ok(select.query_row([key.as_u32()], record).optional()?)
}

pub(super) fn record(row: &Row<'_>) -> rusqlite::Result<PolicyRecord> {
    Ok(PolicyRecord {
        key: PolicyKey::from_u32(row.get(0)?),
        policy_id: row.get(1)?,
        version: row.get(2)?,
        document: row.get(3)?,
        lease: to_duration(row.get(4)?),
        created_at: to_time(row.get(5)?),
        deleted: row.get(6)?,
    })
}
