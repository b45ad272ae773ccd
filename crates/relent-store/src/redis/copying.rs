//! Everything, out and in.
//!
//! Out in the order of ids, over all tenants: the next few ids of each are asked for and joined. In by one
//! script, which compares a batch with what is there and stores it whole or not at all. Where a batch
//! belongs in several shards, all of them compare before the first stores, so that what is in the way is
//! found while nothing is stored; what a crash in between leaves is completed by the next run.
//!
//! **Ids.** A task keeps the id it had, whatever its lowest byte says: it is where its tenant is. Every
//! shard is told the highest id of a batch first, so that none gives one of them to a new task.
//!
//! **Time.** What ended comes in the order of ids and not of ends, and so cannot be added to the lists that
//! retention reads from their beginnings. It is in sets beside them, sorted by time. REQ-S7.

mod tasks;

use redis::cmd;

use super::RedisStore;
use super::failure::Failure;
use super::lanes::{from_lane, from_settings};
use super::link::Role;
use super::node::Node;
use super::policies::{from_policy, names};
use super::script::REGISTRY;
use super::values::{bytes, int};
use crate::contract::{Answer, Copying};
use crate::error::Error;
use crate::id::{TaskId, TenantId};
use crate::lane::{LaneRecord, LaneSettings};
use crate::member::NODE_TTL;
use crate::policy::PolicyRecord;
use crate::whole::{Extent, WholeTask, in_the_way, new_lanes, new_policies};

/// How many policies are read at once.
const PART: usize = 500;

impl Copying for RedisStore {
    fn nodes(&self) -> Answer<'_, u64> {
        self.ask(async |node| node.nodes_heard().await)
    }

    fn extent(&self) -> Answer<'_, Extent> {
        self.ask(async |node| node.extent().await)
    }

    fn export_policies(&self) -> Answer<'_, Vec<(TenantId, PolicyRecord)>> {
        self.ask(async |node| node.all_policies().await)
    }

    fn export(&self, after: Option<TaskId>, max: u32) -> Answer<'_, Vec<WholeTask>> {
        self.ask(async move |node| node.export(after, max).await)
    }

    fn import_policies(&self, policies: Vec<(TenantId, PolicyRecord)>) -> Answer<'_, u64> {
        self.ask(async move |node| node.import_policies(&policies).await)
    }

    fn import_lanes(&self, lanes: Vec<LaneRecord>) -> Answer<'_, u64> {
        self.ask(async move |node| node.import_lanes(&lanes).await)
    }

    fn import(&self, tasks: Vec<WholeTask>) -> Answer<'_, u64> {
        self.ask(async move |node| node.import(&tasks).await)
    }
}

impl Node {
    async fn nodes_heard(&self) -> Result<u64, Failure> {
        let ttl = NODE_TTL.as_micros().to_string();
        let args: [&[u8]; 2] = [b"nodes", ttl.as_bytes()];
        Ok(int(self.run(0, Role::Plain, &REGISTRY, &args).await?)?.unsigned_abs())
    }

    async fn extent(&self) -> Result<Extent, Failure> {
        let mut extent = self.tally().await?;
        extent.policies = self.length_of("p").await?;
        extent.lanes = self.length_of("v").await?;
        Ok(extent)
    }

    /// How many there are in a hash of the registry.
    async fn length_of(&self, hash: &str) -> Result<u64, Failure> {
        let key = format!("{}{hash}", self.routes.place.base(0));
        Ok(int(self.look(0, cmd("HLEN").arg(key)).await?)?.unsigned_abs())
    }

    async fn all_policies(&self) -> Result<Vec<(TenantId, PolicyRecord)>, Failure> {
        let all = self.scan(0, &format!("{}p", self.routes.place.base(0)), PART).await?;
        let mut policies = Vec::with_capacity(all.len());
        for (key, record) in all {
            policies.push(self.to_policy(int(redis::Value::BulkString(key))?, &record)?);
        }
        policies.sort_unstable_by_key(|(_, policy)| policy.key);
        Ok(policies)
    }

    async fn import_policies(&self, all: &[(TenantId, PolicyRecord)]) -> Result<u64, Failure> {
        let there = self.all_policies().await?;
        let new = new_policies(&there, all)?;
        let mut values = Vec::with_capacity(4 * new.len());
        for (tenant, policy) in &new {
            values.push(policy.key.as_u32().to_string().into_bytes());
            values.push(names(tenant, &policy.policy_id));
            values.push(tenant.as_str().as_bytes().to_vec());
            values.push(from_policy(tenant, policy));
        }
        self.register(b"import_policies", &values).await?;
        Ok(new.len() as u64)
    }

    async fn import_lanes(&self, all: &[LaneRecord]) -> Result<u64, Failure> {
        let there = self.lanes().await?;
        let new = new_lanes(&there, all)?;
        let mut values = Vec::with_capacity(6 * new.len());
        for lane in &new {
            let (name, record) = from_lane(&lane.tenant, &lane.dependency, lane.policy);
            let is_set = lane.settings != LaneSettings::default();
            values.push(lane.id.as_u32().to_string().into_bytes());
            values.extend([name, record]);
            values.push(if is_set { from_settings(lane.settings) } else { Vec::new() });
            values.push(to_json(lane.budget.as_ref())?);
            let mut breaker = to_json(lane.breaker.as_ref())?;
            if lane.breaker_revision > 0 || !breaker.is_empty() {
                breaker.splice(0..0, lane.breaker_revision.to_be_bytes());
            }
            values.push(breaker);
        }
        self.register(b"import_lanes", &values).await?;
        Ok(new.len() as u64)
    }

    /// Puts what was found to be new into the registry, all of it or nothing.
    async fn register(&self, what: &[u8], values: &[Vec<u8>]) -> Result<(), Failure> {
        if values.is_empty() {
            return Ok(());
        }
        let mut args = vec![what];
        args.extend(values.iter().map(Vec::as_slice));
        let other = bytes(self.run(0, Role::Plain, &REGISTRY, &args).await?)?;
        match String::from_utf8_lossy(&other) {
            none if none.is_empty() => Ok(()),
            number => Err(in_the_way(format_args!("number {number}")).into()),
        }
    }
}

fn to_json<T: serde::Serialize>(value: Option<&T>) -> Result<Vec<u8>, Error> {
    let json = value.map(serde_json::to_vec).transpose();
    json.map(Option::unwrap_or_default).map_err(|error| Error::Damaged(error.to_string()))
}
