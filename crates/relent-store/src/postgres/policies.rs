//! Policies, under versions. Who stores one holds a lock on all of them until the commit, so that
//! versions have no gaps and the same document is stored once. REQ-S1, REQ-E1.

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::failure::Failure;
use super::link::Link;
use super::node::Node;
use super::rows::{column, from_duration, to_duration, to_policy, to_time, to_u32};
use crate::error::Error;
use crate::id::{PolicyKey, TenantId};
use crate::policy::{NewPolicy, PolicyRecord};

const LOCK: &str = "LOCK TABLE relent.policies IN SHARE ROW EXCLUSIVE MODE";
const LATEST: &str = "SELECT key, policy_id, version, document, lease, created_at, deleted
FROM relent.policies WHERE tenant = $1 AND policy_id = $2 ORDER BY version DESC LIMIT 1";
const INSERT: &str = "INSERT INTO relent.policies
    (tenant, policy_id, version, document, lease, created_at, changed_at)
VALUES ($1, $2, $3, $4, $5, coalesce($6, relent.now_nanos()), coalesce($6, relent.now_nanos()))
RETURNING key, policy_id, version, document, lease, created_at, deleted";
const ONE: &str = "SELECT key, policy_id, version, document, lease, created_at, deleted
FROM relent.policies WHERE key = $1";
const OF_TENANT: &str = "SELECT key, policy_id, version, document, lease, created_at, deleted
FROM relent.policies WHERE tenant = $1 ORDER BY policy_id, version";
const DELETE: &str = "UPDATE relent.policies SET deleted = true,
    changed_at = coalesce($3, relent.now_nanos())
WHERE tenant = $1 AND policy_id = $2 AND NOT deleted RETURNING key";

impl Node {
    pub(super) async fn put_policy(
        &self,
        tenant: &TenantId,
        new: &NewPolicy,
    ) -> Result<PolicyRecord, Failure> {
        let mut link = self.link().await;
        let put = self.put_policy_with(&mut link, tenant, new).await;
        link.settle().await;
        let record = put?;
        self.learn_policy(record.key);
        Ok(record)
    }

    async fn put_policy_with(
        &self,
        link: &mut Link,
        tenant: &TenantId,
        new: &NewPolicy,
    ) -> Result<PolicyRecord, Failure> {
        let (owner, id, now) = (tenant.as_str(), &new.policy_id, self.clock.given());
        let named = [(&owner as _, Type::TEXT), (id as _, Type::TEXT)];
        let is_same = |latest: &PolicyRecord| latest.document == new.document && !latest.deleted;
        if let Some(latest) = latest(link, &named).await?.filter(is_same) {
            return Ok(latest);
        }
        link.begin().await?;
        link.query(LOCK, &[]).await?;
        let latest = latest(link, &named).await?;
        if let Some(latest) = latest.clone().filter(is_same) {
            return Ok(latest);
        }
        let version = latest.map_or(1, |latest| i64::from(latest.version) + 1);
        let lease = from_duration(new.lease);
        let values = [
            (&owner as _, Type::TEXT),
            (id as _, Type::TEXT),
            (&version as _, Type::INT8),
            (&new.document as _, Type::TEXT),
            (&lease as _, Type::INT8),
            (&now as _, Type::INT8),
        ];
        let rows = link.query(INSERT, &values).await?;
        link.commit().await?;
        let row = rows.first().ok_or_else(|| Error::Damaged("nothing was stored".to_owned()))?;
        Ok(to_record(row)?)
    }

    pub(super) async fn policies(&self, tenant: &TenantId) -> Result<Vec<PolicyRecord>, Failure> {
        let owner = tenant.as_str();
        let rows = self.long_link().await.look(OF_TENANT, &[(&owner, Type::TEXT)]).await?;
        Ok(rows.iter().map(to_record).collect::<Result<_, Error>>()?)
    }

    pub(super) async fn policy(&self, key: PolicyKey) -> Result<Option<PolicyRecord>, Failure> {
        let key = i64::from(key.as_u32());
        let rows = self.link().await.look(ONE, &[(&key, Type::INT8)]).await?;
        Ok(rows.first().map(to_record).transpose()?)
    }

    pub(super) async fn delete_policy(
        &self,
        tenant: &TenantId,
        policy_id: &str,
    ) -> Result<bool, Failure> {
        let (owner, now) = (tenant.as_str(), self.clock.given());
        let values =
            [(&owner as _, Type::TEXT), (&policy_id as _, Type::TEXT), (&now as _, Type::INT8)];
        Ok(!self.link().await.query(DELETE, &values).await?.is_empty())
    }
}

async fn latest(
    link: &mut Link,
    named: &[super::link::Value<'_>],
) -> Result<Option<PolicyRecord>, Failure> {
    let rows = link.look(LATEST, named).await?;
    Ok(rows.first().map(to_record).transpose()?)
}

pub(super) fn to_record(row: &Row) -> Result<PolicyRecord, Error> {
    Ok(PolicyRecord {
        key: to_policy(column(row, 0)?)?,
        policy_id: column(row, 1)?,
        version: to_u32(column(row, 2)?)?,
        document: column(row, 3)?,
        lease: to_duration(column(row, 4)?),
        created_at: to_time(column(row, 5)?),
        deleted: column(row, 6)?,
    })
}
