//! Lanes: what people set, and what budget and breaker remember.
//!
//! A breaker is one for all nodes: it is changed only by who has seen its last change. What budgets
//! remember is written by whoever writes last, and read by a node that starts alone. Lanes are few
//! beside tasks, and all in the first shard. REQ-G2, REQ-G4, REQ-K2, REQ-L6.

use redis::{Value, cmd};
use relent_policy::BudgetSnapshot;

use super::failure::Failure;
use super::link::Role;
use super::node::Node;
use super::pack::{Reader, damaged, put_name, text};
use super::script::REGISTRY;
use super::values::{array, bytes, int, some_bytes};
use crate::error::Error;
use crate::id::{LaneId, PolicyKey, TenantId};
use crate::lane::{BreakerSwap, BreakerSwapped, LaneChange, LaneRecord, LaneSettings};

/// How many lanes are read at once.
const PART: usize = 500;

impl Node {
    pub(super) async fn open_lane(
        &self,
        tenant: &TenantId,
        dependency: &str,
        policy: PolicyKey,
    ) -> Result<LaneRecord, Failure> {
        let (name, record) = from_lane(tenant, dependency, policy);
        let max = self.lanes_max.to_string();
        let args: [&[u8]; 4] = [b"open_lane", &name, max.as_bytes(), &record];
        let opened = array(self.run(0, Role::Plain, &REGISTRY, &args).await?)?;
        if opened.len() < 5 {
            return Err(Error::TooManyLanes { max: self.lanes_max }.into());
        }
        Ok(self.read_lane(Value::Array(opened))?)
    }

    pub(super) async fn lanes(&self) -> Result<Vec<LaneRecord>, Failure> {
        let base = self.routes.place.base(0);
        let all: Vec<(Vec<u8>, Vec<u8>)> =
            self.scan(0, &format!("{base}v"), PART).await?.into_iter().collect();
        let mut lanes = Vec::with_capacity(all.len());
        for part in all.chunks(PART) {
            let mut rest = Vec::new();
            for kind in ["vs", "vb", "vk"] {
                let mut command = cmd("HMGET");
                command.arg(format!("{base}{kind}"));
                for (id, _) in part {
                    command.arg(id);
                }
                rest.push(array(self.look(0, &command).await?)?.into_iter());
            }
            for (id, record) in part {
                let mut lane = vec![id.clone(), record.clone()].into_iter().map(Value::BulkString);
                let mut values: Vec<Value> = lane.by_ref().collect();
                values.extend(rest.iter_mut().map(|kind| kind.next().unwrap_or_default()));
                lanes.push(self.read_lane(Value::Array(values))?);
            }
        }
        lanes.sort_unstable_by_key(|lane| lane.id);
        Ok(lanes)
    }

    pub(super) async fn change_lane(
        &self,
        tenant: &TenantId,
        lane: LaneId,
        change: LaneChange,
    ) -> Result<Option<LaneSettings>, Failure> {
        let (id, mut owner) = (lane.as_u32().to_string(), Vec::new());
        put_name(&mut owner, tenant.as_str());
        let settings = from_settings(LaneSettings::default().with(change));
        let changed = match change {
            LaneChange::Paused(_) => &settings[..1],
            LaneChange::Limits { .. } => &settings[1..],
        };
        let args: [&[u8]; 4] = [b"change_lane", id.as_bytes(), &owner, changed];
        let settings = bytes(self.run(0, Role::Plain, &REGISTRY, &args).await?)?;
        Ok((!settings.is_empty()).then(|| to_settings(&settings)).transpose()?)
    }

    pub(super) async fn save_budgets(
        &self,
        budgets: &[(LaneId, BudgetSnapshot)],
    ) -> Result<(), Failure> {
        let written = |(lane, budget): &(LaneId, BudgetSnapshot)| {
            Some((lane.as_u32().to_string(), serde_json::to_string(budget).ok()?))
        };
        let written: Vec<(String, String)> = budgets.iter().filter_map(written).collect();
        for part in written.chunks(PART) {
            let mut args: Vec<&[u8]> = vec![b"save_budgets"];
            args.extend(part.iter().flat_map(|(lane, json)| [lane.as_bytes(), json.as_bytes()]));
            self.run(0, Role::Plain, &REGISTRY, &args).await?;
        }
        Ok(())
    }

    pub(super) async fn swap_breakers(
        &self,
        swaps: &[BreakerSwap],
    ) -> Result<Vec<BreakerSwapped>, Failure> {
        let mut answers = Vec::with_capacity(swaps.len());
        for part in swaps.chunks(PART) {
            let mut texts = Vec::with_capacity(3 * part.len());
            for swap in part {
                texts.push(swap.lane.as_u32().to_string().into_bytes());
                texts.push(swap.seen.to_be_bytes().to_vec());
                let json = serde_json::to_vec(&swap.breaker);
                texts.push(json.map_err(|error| Error::Damaged(error.to_string()))?);
            }
            let mut args: Vec<&[u8]> = vec![b"swap_breakers"];
            args.extend(texts.iter().map(Vec::as_slice));
            let swapped = array(self.run(0, Role::Plain, &REGISTRY, &args).await?)?;
            for (swap, swapped) in part.iter().zip(swapped) {
                let mut swapped = array(swapped)?.into_iter();
                let kind = int(swapped.next().unwrap_or_default())?;
                let held = bytes(swapped.next().unwrap_or_default())?;
                let (revision, breaker) = to_breaker(swap.lane.as_u32(), &held)?;
                answers.push(match kind {
                    0 => BreakerSwapped::Unknown,
                    1 => BreakerSwapped::Done { revision },
                    _ => BreakerSwapped::Lost { revision, breaker },
                });
            }
        }
        Ok(answers)
    }

    /// Looks up what is not known here: another node may have made it.
    pub(super) async fn look_up(
        &self,
        lanes: Vec<LaneId>,
        policies: Vec<PolicyKey>,
    ) -> Result<(), Failure> {
        if !lanes.is_empty() {
            let ids: Vec<u32> = lanes.iter().map(|lane| lane.as_u32()).collect();
            let mut command = cmd("HMGET");
            command.arg(format!("{}v", self.routes.place.base(0))).arg(&ids);
            let found = array(self.look(0, &command).await?)?;
            for (lane, found) in lanes.iter().zip(found) {
                if let Some(record) = some_bytes(found)? {
                    self.learn_lane(*lane, &owner(&mut Reader::new(&record))?);
                }
            }
        }
        if !policies.is_empty() {
            let keys: Vec<i64> = policies.iter().map(|key| i64::from(key.as_u32())).collect();
            self.some_policies(&keys).await?;
        }
        Ok(())
    }

    /// A lane as scripts answer with it: id, record, settings, budget and breaker.
    pub(super) fn read_lane(&self, stored: Value) -> Result<LaneRecord, Error> {
        let mut stored = array(stored)?.into_iter();
        let mut next = || stored.next().unwrap_or_default();
        let id = u32::try_from(int(next())?).map_err(|_| damaged("is no lane"))?;
        let (record, settings) = (bytes(next())?, some_bytes(next())?);
        let (budget, breaker) = (some_bytes(next())?, some_bytes(next())?);
        let mut record = Reader::new(&record);
        let tenant = owner(&mut record)?;
        let policy = PolicyKey::from_u32(record.u32()?);
        let (breaker_revision, breaker) = to_breaker(id, &breaker.unwrap_or_default())?;
        self.learn_lane(LaneId::from_u32(id), &tenant);
        Ok(LaneRecord {
            id: LaneId::from_u32(id),
            tenant,
            dependency: text(record.rest())?,
            policy,
            settings: settings
                .map_or(Ok(LaneSettings::default()), |settings| to_settings(&settings))?,
            budget: budget.and_then(|json| remembered(id, serde_json::from_slice(&json))),
            breaker,
            breaker_revision,
        })
    }
}

/// What a lane is found by, and what is kept of it.
pub(super) fn from_lane(
    tenant: &TenantId,
    dependency: &str,
    policy: PolicyKey,
) -> (Vec<u8>, Vec<u8>) {
    let mut owner = Vec::new();
    put_name(&mut owner, tenant.as_str());
    let name = [&owner, dependency.as_bytes()].concat();
    (name, [&owner, &policy.as_u32().to_be_bytes()[..], dependency.as_bytes()].concat())
}

fn owner(record: &mut Reader<'_>) -> Result<TenantId, Error> {
    TenantId::try_new(&record.name()?).map_err(|_| damaged("is a lane without a tenant"))
}

fn to_breaker(
    lane: u32,
    held: &[u8],
) -> Result<(u64, Option<relent_policy::BreakerSnapshot>), Error> {
    if held.is_empty() {
        return Ok((0, None));
    }
    let mut held = Reader::new(held);
    let revision = held.u64()?;
    let json = held.rest();
    let breaker = if json.is_empty() { None } else { Some(serde_json::from_slice(json)) };
    Ok((revision, breaker.and_then(|breaker| remembered(lane, breaker))))
}

/// What cannot be read is as good as not remembered: budgets and breakers start afresh.
fn remembered<T>(lane: u32, read: serde_json::Result<T>) -> Option<T> {
    if let Err(error) = &read {
        tracing::warn!(lane, %error, "what a lane remembers cannot be read; it starts afresh");
    }
    read.ok()
}

pub(super) fn from_settings(settings: LaneSettings) -> Vec<u8> {
    let mut out = vec![u8::from(settings.paused)];
    let limits = [settings.in_flight_max, settings.retries_in_flight_max, settings.rate_per_second];
    for limit in limits {
        out.push(u8::from(limit.is_some()));
        out.extend(limit.unwrap_or_default().to_be_bytes());
    }
    out
}

fn to_settings(bytes: &[u8]) -> Result<LaneSettings, Error> {
    let mut settings = Reader::new(bytes);
    let paused = settings.u8()? == 1;
    let mut limit = || {
        let is_set = settings.u8()? == 1;
        settings.u32().map(|limit| is_set.then_some(limit))
    };
    Ok(LaneSettings {
        paused,
        in_flight_max: limit()?,
        retries_in_flight_max: limit()?,
        rate_per_second: limit()?,
    })
}
