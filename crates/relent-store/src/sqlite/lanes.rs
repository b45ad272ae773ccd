//! Lanes: what people set, and what budget and breaker remember. REQ-G2, REQ-K2, REQ-L6.

use relent_policy::BudgetSnapshot;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::queue::Failure;
use super::state::Desk;
use crate::error::Error;
use crate::id::{LaneId, PolicyKey, TenantId};
use crate::lane::{BreakerSwap, BreakerSwapped, LaneChange, LaneRecord, LaneSettings};

const INSERT: &str = "INSERT INTO lanes (id, tenant, dependency, policy) VALUES (?1, ?2, ?3, ?4)";
const ONE: &str = "SELECT id, tenant, dependency, policy, paused, in_flight_max, \
     retries_in_flight_max, rate_per_second, budget, breaker, \
     breaker_revision FROM lanes WHERE id = ?1";
const ALL: &str = "SELECT id, tenant, dependency, policy, paused, in_flight_max, \
     retries_in_flight_max, rate_per_second, budget, breaker, \
     breaker_revision FROM lanes ORDER BY id";
const SET: &str = "UPDATE lanes SET paused = ?2, in_flight_max = ?3, retries_in_flight_max = ?4, \
     rate_per_second = ?5 WHERE id = ?1";
const SAVE_BUDGET: &str = "UPDATE lanes SET budget = ?2 WHERE id = ?1";
const SWAP_BREAKER: &str = "UPDATE lanes SET breaker = ?3, breaker_revision = ?2 + 1 \
     WHERE id = ?1 AND breaker_revision = ?2";

/// Budgets as they are written.
pub(super) fn written(budgets: Vec<(LaneId, BudgetSnapshot)>) -> Vec<(LaneId, Option<String>)> {
    let written = |budget| serde_json::to_string(&budget).ok();
    budgets.into_iter().map(|(lane, budget)| (lane, written(budget))).collect()
}

impl Desk<'_> {
    pub(super) fn open_lane(
        &mut self,
        tenant: &TenantId,
        dependency: &str,
        policy: PolicyKey,
        lanes_max: u32,
    ) -> Result<LaneRecord, Failure> {
        let lane = match self.state.lanes.find(tenant, dependency) {
            Some(lane) => lane,
            None => self.new_lane(tenant, dependency, policy, lanes_max)?,
        };
        self.lane(lane)
    }

    fn lane(&self, lane: u32) -> Result<LaneRecord, Failure> {
        let mut select = self.connection.prepare_cached(ONE)?;
        select.query_row([lane], |row| Ok(record(row)))?
    }

    fn new_lane(
        &mut self,
        tenant: &TenantId,
        dependency: &str,
        policy: PolicyKey,
        lanes_max: u32,
    ) -> Result<u32, Failure> {
        let lane = self.state.lanes.next();
        if lane > lanes_max {
            return Err(Error::TooManyLanes { max: lanes_max }.into());
        }
        let mut insert = self.connection.prepare_cached(INSERT)?;
        insert.execute(params![lane, tenant.as_str(), dependency, policy.as_u32()])?;
        self.state.lanes.insert(lane, tenant.clone(), dependency.to_owned());
        Ok(lane)
    }

    pub(super) fn change_lane(
        &mut self,
        tenant: &TenantId,
        lane: LaneId,
        change: LaneChange,
    ) -> Result<Option<LaneSettings>, Failure> {
        if self.state.expect_lane(tenant, lane).is_err() {
            return Ok(None);
        }
        let settings = self.lane(lane.as_u32())?.settings.with(change);
        self.connection.prepare_cached(SET)?.execute(params![
            lane.as_u32(),
            settings.paused,
            settings.in_flight_max,
            settings.retries_in_flight_max,
            settings.rate_per_second,
        ])?;
        Ok(Some(settings))
    }

    pub(super) fn save_budgets(
        &mut self,
        budgets: &[(LaneId, Option<String>)],
    ) -> Result<(), Failure> {
        let mut save = self.connection.prepare_cached(SAVE_BUDGET)?;
        for (lane, budget) in budgets {
            save.execute(params![lane.as_u32(), budget])?;
        }
        Ok(())
    }

    pub(super) fn swap_breakers(
        &mut self,
        swaps: &[BreakerSwap],
    ) -> Result<Vec<BreakerSwapped>, Failure> {
        swaps.iter().map(|swap| self.swap_breaker(swap)).collect()
    }

    fn swap_breaker(&mut self, swap: &BreakerSwap) -> Result<BreakerSwapped, Failure> {
        let breaker = serde_json::to_string(&swap.breaker).ok();
        let seen = i64::try_from(swap.seen).unwrap_or(-1);
        let mut update = self.connection.prepare_cached(SWAP_BREAKER)?;
        if update.execute(params![swap.lane.as_u32(), seen, breaker])? > 0 {
            return Ok(BreakerSwapped::Done { revision: swap.seen + 1 });
        }
        let mut select = self.connection.prepare_cached(ONE)?;
        let found = select.query_row([swap.lane.as_u32()], |row| Ok(record(row))).optional()?;
        Ok(match found.transpose()? {
            Some(LaneRecord { breaker_revision: revision, breaker, .. }) => {
                BreakerSwapped::Lost { revision, breaker }
            }
            None => BreakerSwapped::Unknown,
        })
    }
}

pub(super) fn all(connection: &Connection) -> Result<Vec<LaneRecord>, Failure> {
    let mut select = connection.prepare_cached(ALL)?;
    let mut rows = select.query([])?;
    let mut lanes = Vec::new();
    while let Some(row) = rows.next()? {
        lanes.push(record(row)?);
    }
    Ok(lanes)
}

fn record(row: &Row<'_>) -> Result<LaneRecord, Failure> {
    let lane = row.get(0)?;
    let tenant: String = row.get(1)?;
    let tenant = TenantId::try_new(&tenant);
    let tenant = tenant.map_err(|_| Error::Damaged(format!("lane_{lane} has no tenant")))?;
    Ok(LaneRecord {
        id: LaneId::from_u32(lane),
        tenant,
        dependency: row.get(2)?,
        policy: PolicyKey::from_u32(row.get(3)?),
        settings: LaneSettings {
            paused: row.get(4)?,
            in_flight_max: row.get(5)?,
            retries_in_flight_max: row.get(6)?,
            rate_per_second: row.get(7)?,
        },
        budget: remembered(lane, row.get(8)?, |text| serde_json::from_str(text)),
        breaker: remembered(lane, row.get(9)?, |text| serde_json::from_str(text)),
        breaker_revision: u64::try_from(row.get::<_, i64>(10)?).unwrap_or(0),
    })
}

/// What cannot be read is as good as not remembered: budgets and breakers start afresh.
fn remembered<T>(
    lane: u32,
    text: Option<String>,
    read: fn(&str) -> serde_json::Result<T>,
) -> Option<T> {
    let read = read(&text?);
    if let Err(error) = &read {
        tracing::warn!(lane, %error, "what a lane remembers cannot be read; it starts afresh");
    }
    read.ok()
}
