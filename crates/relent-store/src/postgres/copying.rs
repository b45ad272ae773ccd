//! Everything, out and in.
//!
//! What is there is compared first, and then a batch goes in with one statement: it is all there, or
//! not at all. Whoever puts something in its way in between makes the statement fail. REQ-S7.

mod tasks;

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::PostgresStore;
use super::failure::Failure;
use super::node::Node;
use super::rows::{
    column, from_duration, from_time, to_duration, to_policy, to_state, to_time, to_u32,
};
use crate::contract::{Answer, Copying};
use crate::error::Error;
use crate::id::{TaskId, TenantId};
use crate::lane::LaneRecord;
use crate::member::NODE_TTL;
use crate::policy::PolicyRecord;
use crate::whole::{Extent, WholeTask, new_lanes, new_policies};

const MEMBERS: &str = "SELECT count(*) FROM relent.members
WHERE seen_at > coalesce($1, relent.now_nanos()) - $2";
const STATES: &str = "SELECT state, count(*) FROM relent.tasks GROUP BY state";
const COUNTS: &str =
    "SELECT (SELECT count(*) FROM relent.policies), (SELECT count(*) FROM relent.lanes)";
const POLICIES: &str =
    "SELECT tenant, key, policy_id, version, document, lease, created_at, deleted
FROM relent.policies ORDER BY key";
const INSERT_POLICIES: &str = "
WITH new AS (
    INSERT INTO relent.policies
        (key, tenant, policy_id, version, document, lease, created_at, deleted)
    OVERRIDING SYSTEM VALUE
    SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7, $8)
    RETURNING key
)
SELECT count(*), setval(pg_get_serial_sequence('relent.policies', 'key'),
    greatest(max(key), (SELECT max(key) FROM relent.policies), 1))
FROM new";
const INSERT_LANES: &str = "
WITH new AS (
    INSERT INTO relent.lanes (id, tenant, dependency, policy, paused, in_flight_max,
        retries_in_flight_max, rate_per_second, budget, breaker, breaker_revision)
    OVERRIDING SYSTEM VALUE
    SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
    RETURNING id
)
SELECT count(*), setval(pg_get_serial_sequence('relent.lanes', 'id'),
    greatest(max(id), (SELECT max(id) FROM relent.lanes), 1))
FROM new";

impl Copying for PostgresStore {
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
        let (now, within) = (self.clock.given(), from_duration(NODE_TTL));
        let values = [(&now as _, Type::INT8), (&within as _, Type::INT8)];
        Ok(count(&self.link().await.look(MEMBERS, &values).await?, 0)?)
    }

    async fn extent(&self) -> Result<Extent, Failure> {
        let mut link = self.link().await;
        let rows = link.look(COUNTS, &[]).await?;
        let (policies, lanes) = (count(&rows, 0)?, count(&rows, 1)?);
        let mut extent = Extent { policies, lanes, ..Extent::default() };
        for row in link.look(STATES, &[]).await? {
            let count: i64 = column(&row, 1)?;
            extent.add(to_state(column(&row, 0)?)?, count.cast_unsigned());
        }
        Ok(extent)
    }

    async fn all_policies(&self) -> Result<Vec<(TenantId, PolicyRecord)>, Failure> {
        let rows = self.link().await.look(POLICIES, &[]).await?;
        Ok(rows.iter().map(to_policy_of_tenant).collect::<Result<_, Error>>()?)
    }

    async fn import_policies(&self, all: &[(TenantId, PolicyRecord)]) -> Result<u64, Failure> {
        let there = self.all_policies().await?;
        let all = new_policies(&there, all)?;
        let each = |get: &dyn Fn(&PolicyRecord) -> i64| -> Vec<i64> {
            all.iter().map(|(_, policy)| get(policy)).collect()
        };
        let keys = each(&|policy| i64::from(policy.key.as_u32()));
        let tenants: Vec<&str> = all.iter().map(|(tenant, _)| tenant.as_str()).collect();
        let ids: Vec<&str> = all.iter().map(|(_, policy)| &*policy.policy_id).collect();
        let versions = each(&|policy| i64::from(policy.version));
        let documents: Vec<&str> = all.iter().map(|(_, policy)| &*policy.document).collect();
        let leases = each(&|policy| from_duration(policy.lease));
        let created = each(&|policy| from_time(policy.created_at));
        let deleted: Vec<bool> = all.iter().map(|(_, policy)| policy.deleted).collect();
        let values = [
            (&keys as _, Type::INT8_ARRAY),
            (&tenants as _, Type::TEXT_ARRAY),
            (&ids as _, Type::TEXT_ARRAY),
            (&versions as _, Type::INT8_ARRAY),
            (&documents as _, Type::TEXT_ARRAY),
            (&leases as _, Type::INT8_ARRAY),
            (&created as _, Type::INT8_ARRAY),
            (&deleted as _, Type::BOOL_ARRAY),
        ];
        let new = count(&self.link().await.query(INSERT_POLICIES, &values).await?, 0)?;
        all.iter().for_each(|(_, policy)| self.learn_policy(policy.key));
        Ok(new)
    }

    async fn import_lanes(&self, all: &[LaneRecord]) -> Result<u64, Failure> {
        fn each<'a, T>(all: &[&'a LaneRecord], get: impl Fn(&'a LaneRecord) -> T) -> Vec<T> {
            all.iter().map(|lane| get(lane)).collect()
        }
        let there = self.lanes().await?;
        let all = &new_lanes(&there, all)?[..];
        let ids = each(all, |lane| i64::from(lane.id.as_u32()));
        let tenants = each(all, |lane| lane.tenant.as_str());
        let dependencies = each(all, |lane| &*lane.dependency);
        let policies = each(all, |lane| i64::from(lane.policy.as_u32()));
        let paused = each(all, |lane| lane.settings.paused);
        let in_flight_max = each(all, |lane| lane.settings.in_flight_max.map(i64::from));
        let retries_max = each(all, |lane| lane.settings.retries_in_flight_max.map(i64::from));
        let rates = each(all, |lane| lane.settings.rate_per_second.map(i64::from));
        let budgets = each(all, |lane| serde_json::to_string(&lane.budget.as_ref()?).ok());
        let breakers = each(all, |lane| serde_json::to_string(&lane.breaker.as_ref()?).ok());
        let revisions = each(all, |lane| i64::try_from(lane.breaker_revision).unwrap_or(i64::MAX));
        let values = [
            (&ids as _, Type::INT8_ARRAY),
            (&tenants as _, Type::TEXT_ARRAY),
            (&dependencies as _, Type::TEXT_ARRAY),
            (&policies as _, Type::INT8_ARRAY),
            (&paused as _, Type::BOOL_ARRAY),
            (&in_flight_max as _, Type::INT8_ARRAY),
            (&retries_max as _, Type::INT8_ARRAY),
            (&rates as _, Type::INT8_ARRAY),
            (&budgets as _, Type::TEXT_ARRAY),
            (&breakers as _, Type::TEXT_ARRAY),
            (&revisions as _, Type::INT8_ARRAY),
        ];
        let new = count(&self.link().await.query(INSERT_LANES, &values).await?, 0)?;
        all.iter().for_each(|lane| self.learn_lane(lane.id, &lane.tenant));
        Ok(new)
    }
}

fn count(rows: &[Row], index: usize) -> Result<u64, Error> {
    let count: i64 = rows.first().map_or(Ok(0), |row| column(row, index))?;
    Ok(count.cast_unsigned())
}

fn to_policy_of_tenant(row: &Row) -> Result<(TenantId, PolicyRecord), Error> {
    Ok((
        to_tenant(column(row, 0)?)?,
        PolicyRecord {
            key: to_policy(column(row, 1)?)?,
            policy_id: column(row, 2)?,
            version: to_u32(column(row, 3)?)?,
            document: column(row, 4)?,
            lease: to_duration(column(row, 5)?),
            created_at: to_time(column(row, 6)?),
            deleted: column(row, 7)?,
        },
    ))
}

fn to_tenant(name: &str) -> Result<TenantId, Error> {
    TenantId::try_new(name).map_err(|_| Error::Damaged("something belongs to no tenant".to_owned()))
}
