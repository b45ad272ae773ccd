//! Lanes: what people set, and what budget and breaker remember.
//!
//! A breaker is one for all nodes: it is changed only by who has seen its last change. What budgets
//! remember is written by whoever writes last, and read by a node that starts alone. REQ-G2, REQ-G4,
//! REQ-K2, REQ-L6.

use std::collections::HashMap;

use relent_policy::BudgetSnapshot;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::failure::Failure;
use super::link::{Link, Value};
use super::node::Node;
use super::rows::{column, to_policy, to_u32};
use crate::error::Error;
use crate::id::{LaneId, PolicyKey, TenantId};
use crate::lane::{BreakerSwap, BreakerSwapped, LaneChange, LaneRecord, LaneSettings};

const FIND: &str = "SELECT id, tenant, dependency, policy, paused, in_flight_max,
    retries_in_flight_max, rate_per_second, budget, breaker, breaker_revision
FROM relent.lanes WHERE tenant = $1 AND dependency = $2";
const COUNT: &str = "SELECT count(*) FROM relent.lanes";
const INSERT: &str = "INSERT INTO relent.lanes (tenant, dependency, policy, changed_at)
VALUES ($1, $2, $3, coalesce($4, relent.now_nanos()))
ON CONFLICT (tenant, dependency) DO NOTHING
RETURNING id, tenant, dependency, policy, paused, in_flight_max, retries_in_flight_max,
    rate_per_second, budget, breaker, breaker_revision";
const ALL: &str = "SELECT id, tenant, dependency, policy, paused, in_flight_max,
    retries_in_flight_max, rate_per_second, budget, breaker, breaker_revision
FROM relent.lanes ORDER BY id";
/// Either whether it is paused or all of its limits: two people who set one each do not undo each other.
const CHANGE: &str = "UPDATE relent.lanes SET paused = coalesce($3, paused),
    in_flight_max = CASE WHEN $3 IS NULL THEN $4 ELSE in_flight_max END,
    retries_in_flight_max = CASE WHEN $3 IS NULL THEN $5 ELSE retries_in_flight_max END,
    rate_per_second = CASE WHEN $3 IS NULL THEN $6 ELSE rate_per_second END,
    changed_at = coalesce($7, relent.now_nanos())
WHERE id = $1 AND tenant = $2
RETURNING id, tenant, dependency, policy, paused, in_flight_max, retries_in_flight_max,
    rate_per_second, budget, breaker, breaker_revision";
/// In the order of their ids, so that two nodes never wait for each other.
const SAVE_BUDGETS: &str = "
WITH input AS MATERIALIZED (
    SELECT i.id, i.budget FROM unnest($1, $2) AS i(id, budget)
    JOIN relent.lanes l ON l.id = i.id ORDER BY l.id FOR UPDATE OF l
)
UPDATE relent.lanes l SET budget = i.budget FROM input i WHERE l.id = i.id";
/// Those that another has changed since are left as they are.
const SWAP_BREAKERS: &str = "
WITH input AS MATERIALIZED (
    SELECT i.id, i.breaker FROM unnest($1, $2, $3) AS i(id, seen, breaker)
    JOIN relent.lanes l ON l.id = i.id AND l.breaker_revision = i.seen
    ORDER BY l.id FOR UPDATE OF l
)
UPDATE relent.lanes l SET breaker = i.breaker, breaker_revision = l.breaker_revision + 1,
    changed_at = coalesce($4, relent.now_nanos())
FROM input i WHERE l.id = i.id RETURNING l.id, l.breaker_revision";
const SOME: &str = "SELECT id, tenant, dependency, policy, paused, in_flight_max,
    retries_in_flight_max, rate_per_second, budget, breaker, breaker_revision
FROM relent.lanes WHERE id = ANY($1)";

impl Node {
    pub(super) async fn open_lane(
        &self,
        tenant: &TenantId,
        dependency: &str,
        policy: PolicyKey,
    ) -> Result<LaneRecord, Failure> {
        let mut link = self.link().await;
        let (owner, policy) = (tenant.as_str(), i64::from(policy.as_u32()));
        let now = self.clock.given();
        let values = [
            (&owner as _, Type::TEXT),
            (&dependency as _, Type::TEXT),
            (&policy as _, Type::INT8),
            (&now as _, Type::INT8),
        ];
        let lane = match find(&mut link, &values[..2]).await? {
            Some(lane) => lane,
            None => self.new_lane(&mut link, &values).await?,
        };
        self.learn_lane(lane.id, tenant);
        Ok(lane)
    }

    async fn new_lane(&self, link: &mut Link, values: &[Value<'_>]) -> Result<LaneRecord, Failure> {
        let rows = link.look(COUNT, &[]).await?;
        let count: i64 = rows.first().map_or(Ok(0), |row| column(row, 0))?;
        // Nodes that open lanes at the same time may go a little beyond.
        if count >= i64::from(self.lanes_max) {
            return Err(Error::TooManyLanes { max: self.lanes_max }.into());
        }
        if let Some(row) = link.query(INSERT, values).await?.first() {
            return Ok(to_record(row)?);
        }
        // Another was faster.
        let lane = find(link, &values[..2]).await?;
        Ok(lane.ok_or_else(|| Error::Damaged("a lane is there and is not".to_owned()))?)
    }

    pub(super) async fn lanes(&self) -> Result<Vec<LaneRecord>, Failure> {
        let rows = self.long_link().await.look(ALL, &[]).await?;
        let lanes = rows.iter().map(to_record).collect::<Result<Vec<_>, Error>>()?;
        lanes.iter().for_each(|lane| self.learn_lane(lane.id, &lane.tenant));
        Ok(lanes)
    }

    pub(super) async fn change_lane(
        &self,
        tenant: &TenantId,
        lane: LaneId,
        change: LaneChange,
    ) -> Result<Option<LaneSettings>, Failure> {
        let (id, owner, now) = (i64::from(lane.as_u32()), tenant.as_str(), self.clock.given());
        let paused = match change {
            LaneChange::Paused(paused) => Some(paused),
            LaneChange::Limits { .. } => None,
        };
        let limits = LaneSettings::default().with(change);
        let in_flight_max = limits.in_flight_max.map(i64::from);
        let retries_in_flight_max = limits.retries_in_flight_max.map(i64::from);
        let rate_per_second = limits.rate_per_second.map(i64::from);
        let values = [
            (&id as _, Type::INT8),
            (&owner as _, Type::TEXT),
            (&paused as _, Type::BOOL),
            (&in_flight_max as _, Type::INT8),
            (&retries_in_flight_max as _, Type::INT8),
            (&rate_per_second as _, Type::INT8),
            (&now as _, Type::INT8),
        ];
        let rows = self.link().await.query(CHANGE, &values).await?;
        let changed = rows.first().map(to_record).transpose()?;
        Ok(changed.map(|lane| lane.settings))
    }

    pub(super) async fn save_budgets(
        &self,
        budgets: &[(LaneId, BudgetSnapshot)],
    ) -> Result<(), Failure> {
        let ids: Vec<i64> = budgets.iter().map(|(lane, _)| i64::from(lane.as_u32())).collect();
        let budgets: Vec<Option<String>> =
            budgets.iter().map(|(_, budget)| serde_json::to_string(budget).ok()).collect();
        let values = [(&ids as _, Type::INT8_ARRAY), (&budgets as _, Type::TEXT_ARRAY)];
        self.link().await.query(SAVE_BUDGETS, &values).await.map(drop)
    }

    pub(super) async fn swap_breakers(
        &self,
        swaps: &[BreakerSwap],
    ) -> Result<Vec<BreakerSwapped>, Failure> {
        let ids: Vec<i64> = swaps.iter().map(|swap| i64::from(swap.lane.as_u32())).collect();
        let seen: Vec<i64> =
            swaps.iter().map(|swap| i64::try_from(swap.seen).unwrap_or(-1)).collect();
        let breakers: Vec<Option<String>> =
            swaps.iter().map(|swap| serde_json::to_string(&swap.breaker).ok()).collect();
        let now = self.clock.given();
        let values = [
            (&ids as _, Type::INT8_ARRAY),
            (&seen as _, Type::INT8_ARRAY),
            (&breakers as _, Type::TEXT_ARRAY),
            (&now as _, Type::INT8),
        ];
        let mut link = self.link().await;
        let mut answers = HashMap::new();
        for row in link.query(SWAP_BREAKERS, &values).await? {
            let revision = to_revision(column(&row, 1)?);
            answers.insert(to_u32(column(&row, 0)?)?, BreakerSwapped::Done { revision });
        }
        if answers.len() < swaps.len() {
            for row in link.look(SOME, &[(&ids, Type::INT8_ARRAY)]).await? {
                let LaneRecord { id, breaker_revision: revision, breaker, .. } = to_record(&row)?;
                let lost = BreakerSwapped::Lost { revision, breaker };
                answers.entry(id.as_u32()).or_insert(lost);
            }
        }
        let answer = |swap: &BreakerSwap| answers.get(&swap.lane.as_u32()).copied();
        Ok(swaps.iter().map(|swap| answer(swap).unwrap_or(BreakerSwapped::Unknown)).collect())
    }
}

async fn find(link: &mut Link, named: &[Value<'_>]) -> Result<Option<LaneRecord>, Failure> {
    let rows = link.look(FIND, named).await?;
    Ok(rows.first().map(to_record).transpose()?)
}

pub(super) fn to_record(row: &Row) -> Result<LaneRecord, Error> {
    let lane = to_u32(column(row, 0)?)?;
    let tenant = TenantId::try_new(column(row, 1)?);
    let tenant = tenant.map_err(|_| Error::Damaged(format!("lane_{lane} has no tenant")))?;
    let number = |index| column::<Option<i64>>(row, index)?.map(to_u32).transpose();
    Ok(LaneRecord {
        id: LaneId::from_u32(lane),
        tenant,
        dependency: column(row, 2)?,
        policy: to_policy(column(row, 3)?)?,
        settings: LaneSettings {
            paused: column(row, 4)?,
            in_flight_max: number(5)?,
            retries_in_flight_max: number(6)?,
            rate_per_second: number(7)?,
        },
        budget: remembered(lane, column(row, 8)?, |text| serde_json::from_str(text)),
        breaker: remembered(lane, column(row, 9)?, |text| serde_json::from_str(text)),
        breaker_revision: to_revision(column(row, 10)?),
    })
}

fn to_revision(stored: i64) -> u64 {
    u64::try_from(stored).unwrap_or_default()
}

/// What cannot be read is as good as not remembered: budgets and breakers start afresh.
fn remembered<T>(
    lane: u32,
    text: Option<&str>,
    read: fn(&str) -> serde_json::Result<T>,
) -> Option<T> {
    let read = read(text?);
    if let Err(error) = &read {
        tracing::warn!(lane, %error, "what a lane remembers cannot be read; it starts afresh");
    }
    read.ok()
}
