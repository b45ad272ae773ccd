//! Policies, under versions. A script stores one, so that versions have no gaps and the same document is
//! stored once. REQ-S1, REQ-E1.

use std::time::Duration;

use redis::{Value, cmd};

use super::failure::Failure;
use super::link::Role;
use super::node::Node;
use super::pack::{Reader, damaged, nanos, put_name, put_text, text};
use super::script::REGISTRY;
use super::values::{array, bytes, int, some_bytes};
use crate::error::Error;
use crate::id::{PolicyKey, TenantId};
use crate::policy::{NewPolicy, PolicyRecord};

impl Node {
    pub(super) async fn put_policy(
        &self,
        tenant: &TenantId,
        new: &NewPolicy,
    ) -> Result<PolicyRecord, Failure> {
        let names = names(tenant, &new.policy_id);
        let head = [&nanos(new.lease).to_be_bytes(), &names[..]].concat();
        let args: [&[u8]; 5] =
            [b"put_policy", &names, tenant.as_str().as_bytes(), &head, new.document.as_bytes()];
        let stored = self.run(0, Role::Plain, &REGISTRY, &args).await?;
        Ok(self.read_policy(stored)?.1)
    }

    pub(super) async fn policies(&self, tenant: &TenantId) -> Result<Vec<PolicyRecord>, Failure> {
        let key = format!("{}pt{tenant}", self.routes.place.base(0));
        let keys = array(self.look(0, cmd("LRANGE").arg(key).arg(0).arg(-1)).await?)?;
        let keys = keys.into_iter().map(int).collect::<Result<Vec<i64>, Error>>()?;
        let mut policies = self.some_policies(&keys).await?;
        policies.sort_unstable_by(|a, b| (&a.policy_id, a.version).cmp(&(&b.policy_id, b.version)));
        Ok(policies)
    }

    pub(super) async fn policy(&self, key: PolicyKey) -> Result<Option<PolicyRecord>, Failure> {
        Ok(self.some_policies(&[i64::from(key.as_u32())]).await?.pop())
    }

    /// Those of these policies that there are.
    pub(super) async fn some_policies(&self, keys: &[i64]) -> Result<Vec<PolicyRecord>, Failure> {
        let mut policies = Vec::with_capacity(keys.len());
        for keys in keys.chunks(500) {
            let mut command = cmd("HMGET");
            command.arg(format!("{}p", self.routes.place.base(0))).arg(keys);
            let found = array(self.look(0, &command).await?)?;
            for (key, found) in keys.iter().zip(found) {
                if let Some(record) = some_bytes(found)? {
                    policies.push(self.to_policy(*key, &record)?.1);
                }
            }
        }
        Ok(policies)
    }

    pub(super) async fn delete_policy(
        &self,
        tenant: &TenantId,
        policy_id: &str,
    ) -> Result<bool, Failure> {
        let names = names(tenant, policy_id);
        let args: [&[u8]; 4] = [b"delete_policy", &names, tenant.as_str().as_bytes(), &names];
        Ok(int(self.run(0, Role::Plain, &REGISTRY, &args).await?)? == 1)
    }

    /// A policy as scripts answer with it: key and record.
    pub(super) fn read_policy(&self, stored: Value) -> Result<(TenantId, PolicyRecord), Error> {
        let mut stored = array(stored)?.into_iter();
        let key = int(stored.next().unwrap_or_default())?;
        self.to_policy(key, &bytes(stored.next().unwrap_or_default())?)
    }

    pub(super) fn to_policy(
        &self,
        key: i64,
        bytes: &[u8],
    ) -> Result<(TenantId, PolicyRecord), Error> {
        let key = u32::try_from(key).map_err(|_| damaged("is no policy's key"))?;
        let mut record = Reader::new(bytes);
        let (deleted, version) = (record.u8()? == 1, record.u32()?);
        let (created_at, lease) = (record.time()?, record.u64()?);
        let tenant = TenantId::try_new(&record.name()?);
        let tenant = tenant.map_err(|_| damaged("has no tenant"))?;
        let policy_id = record.text()?;
        let record = PolicyRecord {
            key: PolicyKey::from_u32(key),
            policy_id,
            version,
            document: text(record.rest())?,
            lease: Duration::from_nanos(lease),
            created_at,
            deleted,
        };
        self.learn_policy(record.key, lease);
        Ok((tenant, record))
    }
}

/// A policy as it is kept.
pub(super) fn from_policy(tenant: &TenantId, policy: &PolicyRecord) -> Vec<u8> {
    let mut record = vec![u8::from(policy.deleted)];
    record.extend(policy.version.to_be_bytes());
    record.extend(policy.created_at.as_nanos().to_be_bytes());
    record.extend(nanos(policy.lease).to_be_bytes());
    record.extend(names(tenant, &policy.policy_id));
    record.extend(policy.document.as_bytes());
    record
}

/// A tenant's policy, as records name it.
pub(super) fn names(tenant: &TenantId, policy_id: &str) -> Vec<u8> {
    let mut names = Vec::new();
    put_name(&mut names, tenant.as_str());
    put_text(&mut names, policy_id);
    names
}
