//! Everything, out and in.
//!
//! Out beside the writer, in through it. A batch is compared with what is there before its first row
//! is written, as with new tasks. The number of an attempt's row says when the attempt was, as that is
//! what retention goes by; it is the next that is free from there on. REQ-S7.

use bytes::Bytes;
use relent_policy::{GiveUpReason, IdempotencyKey, Timestamp};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::SqliteStore;
use super::due::{self, LineId};
use super::keys::KeyHash;
use super::queue::{Failure, Kind, Size};
use super::reads::{chain, task_columns, task_record};
use super::rows::{
    CANCELLED, EXHAUSTED, HELD, IN_FLIGHT, PENDING, SUCCEEDED, from_duration, from_failure,
    from_headers, from_history, from_id, from_repeatable, from_time, from_waiting, nanos,
    to_duration, to_repeatable, to_state, to_time,
};
use super::state::{Desk, Flight, Hot};
use super::{lanes, policies};
use crate::attempt::AttemptRecord;
use crate::contract::{Answer, Copying};
use crate::error::Error;
use crate::id::{TaskId, TenantId};
use crate::lane::LaneRecord;
use crate::lease::SWEEP_LEASE;
use crate::policy::PolicyRecord;
use crate::task::State;
use crate::whole::{
    EXPORT_BYTES, Extent, Held, Likeness, WholeTask, in_the_way, new_lanes, new_policies,
};

const STATES: &str = "SELECT state, count(*) FROM tasks GROUP BY state";
const COUNTS: &str = "SELECT (SELECT count(*) FROM policies), (SELECT count(*) FROM lanes)";
const POLICIES: &str = "SELECT key, policy_id, version, document, lease, created_at, deleted, tenant \
     FROM policies ORDER BY key";
const INSERT_POLICY: &str = "INSERT INTO policies (key, policy_id, version, document, lease, \
     created_at, deleted, tenant) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
const INSERT_LANE: &str = "INSERT INTO lanes (id, tenant, dependency, policy, paused, in_flight_max, \
     retries_in_flight_max, rate_per_second, budget, breaker, breaker_revision) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
const TASKS: &str = concat!(
    "SELECT ",
    task_columns!(),
    ", body, lanes.tenant, repeatable, history, tasks.last_attempt, policies.lease \
     FROM tasks JOIN payloads USING (id) JOIN lanes ON lanes.id = tasks.lane \
     LEFT JOIN policies ON policies.key = tasks.policy \
     WHERE tasks.id > ?1 ORDER BY tasks.id LIMIT ?2"
);
const LIKENESS: &str = "SELECT fingerprint, state, generation, attempts FROM tasks \
     JOIN payloads USING (id) WHERE id = ?1";
const INSERT_TASK: &str = "INSERT INTO tasks (id, lane, state, attempts, due_at, deadline_at, shelf, \
     policy, generation, started_at, waiting, repeatable, cancel_requested, token, since, \
     last_status, last_attempt, because, key_hash, history) VALUES \
     (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20)";
const NEXT_ATTEMPT: &str =
    "SELECT coalesce(max(id) + 1, ?1) FROM attempts WHERE id >= ?1 AND id < ?2";

impl Copying for SqliteStore {
    fn nodes(&self) -> Answer<'_, u64> {
        // The lock says that there is none but this.
        Box::pin(std::future::ready(Ok(0)))
    }

    fn extent(&self) -> Answer<'_, Extent> {
        self.reads.ask(extent)
    }

    fn export_policies(&self) -> Answer<'_, Vec<(TenantId, PolicyRecord)>> {
        self.reads.ask(export_policies)
    }

    fn export(&self, after: Option<TaskId>, max: u32) -> Answer<'_, Vec<WholeTask>> {
        self.reads.ask(move |connection| export(connection, after, max))
    }

    fn import_policies(&self, policies: Vec<(TenantId, PolicyRecord)>) -> Answer<'_, u64> {
        self.queue.ask(rows(policies.len()), move |desk| desk.import_policies(&policies))
    }

    fn import_lanes(&self, lanes: Vec<LaneRecord>) -> Answer<'_, u64> {
        self.queue.ask(rows(lanes.len()), move |desk| desk.import_lanes(&lanes))
    }

    fn import(&self, tasks: Vec<WholeTask>) -> Answer<'_, u64> {
        let bytes = tasks.iter().map(|whole| whole.task.request.body.len() + 1_024).sum();
        let size = Size { bytes, kind: Kind::NewWithKeys, ..rows(3 * tasks.len()) };
        self.queue.ask(size, move |desk| desk.import(&tasks))
    }
}

fn rows(rows: usize) -> Size {
    Size { rows, ..Size::default() }
}

fn extent(connection: &Connection) -> Result<Extent, Failure> {
    let look = connection.unchecked_transaction()?;
    let number = |count: i64| u64::try_from(count).unwrap_or_default();
    let (policies, lanes) = look.query_row(COUNTS, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let (policies, lanes) = (number(policies), number(lanes));
    let mut extent = Extent { policies, lanes, ..Extent::default() };
    let mut select = look.prepare_cached(STATES)?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        extent.add(to_state(row.get(0)?)?, number(row.get(1)?));
    }
    Ok(extent)
}

fn export_policies(connection: &Connection) -> Result<Vec<(TenantId, PolicyRecord)>, Failure> {
    let mut select = connection.prepare_cached(POLICIES)?;
    let mut rows = select.query([])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(policy(row)?);
    }
    Ok(found)
}

fn policy(row: &Row<'_>) -> Result<(TenantId, PolicyRecord), Failure> {
    Ok((tenant(&row.get::<_, String>(7)?)?, policies::record(row)?))
}

fn tenant(name: &str) -> Result<TenantId, Error> {
    TenantId::try_new(name).map_err(|_| Error::Damaged("something belongs to no tenant".to_owned()))
}

fn export(
    connection: &Connection,
    after: Option<TaskId>,
    max: u32,
) -> Result<Vec<WholeTask>, Failure> {
    let look = connection.unchecked_transaction()?;
    let mut select = look.prepare_cached(TASKS)?;
    let mut rows = select.query(params![after.map_or(-1, from_id), max])?;
    let (mut found, mut bytes) = (Vec::new(), 0);
    while bytes < EXPORT_BYTES
        && let Some(row) = rows.next()?
    {
        let whole = whole(&look, row)?;
        bytes += whole.task.request.body.len();
        found.push(whole);
    }
    Ok(found)
}

fn whole(look: &Connection, row: &Row<'_>) -> Result<WholeTask, Failure> {
    let mut task = task_record(row)?;
    task.request.body = Bytes::from(row.get::<_, Vec<u8>>(21)?);
    let history: Option<String> = row.get(24)?;
    let history = history.map(|text| serde_json::from_str(&text)).transpose();
    let lease = row.get::<_, Option<i64>>(26)?.map_or(SWEEP_LEASE, to_duration);
    let since = to_time(row.get(11)?);
    let held = match row.get::<_, i64>(3)? {
        IN_FLIGHT => Some(Held { until: since + lease, claimed_at: Some(since) }),
        HELD => Some(Held { until: since + SWEEP_LEASE, claimed_at: None }),
        _ => None,
    };
    Ok(WholeTask {
        tenant: tenant(&row.get::<_, String>(22)?)?,
        repeatable: to_repeatable(row.get(23)?),
        history: history
            .map_err(|_| Error::Damaged(format!("the history of {} cannot be read", task.id)))?,
        held,
        attempts: chain(look, from_id(task.id), row.get(25)?)?,
        task,
    })
}

impl Desk<'_> {
    fn import_policies(&mut self, all: &[(TenantId, PolicyRecord)]) -> Result<u64, Failure> {
        let there = export_policies(self.connection)?;
        let new = new_policies(&there, all)?;
        let mut insert = self.connection.prepare_cached(INSERT_POLICY)?;
        for (tenant, policy) in &new {
            insert.execute(params![
                policy.key.as_u32(),
                policy.policy_id,
                policy.version,
                policy.document,
                from_duration(policy.lease),
                from_time(policy.created_at),
                policy.deleted,
                tenant.as_str(),
            ])?;
            self.state.leases.insert(policy.key.as_u32(), nanos(policy.lease));
        }
        Ok(new.len() as u64)
    }

    fn import_lanes(&mut self, all: &[LaneRecord]) -> Result<u64, Failure> {
        let there = lanes::all(self.connection)?;
        let new = new_lanes(&there, all)?;
        let mut insert = self.connection.prepare_cached(INSERT_LANE)?;
        for lane in &new {
            let LaneRecord { id, tenant, dependency, settings, .. } = lane;
            insert.execute(params![
                id.as_u32(),
                tenant.as_str(),
                dependency,
                lane.policy.as_u32(),
                settings.paused,
                settings.in_flight_max,
                settings.retries_in_flight_max,
                settings.rate_per_second,
                lane.budget.and_then(|budget| serde_json::to_string(&budget).ok()),
                lane.breaker.and_then(|breaker| serde_json::to_string(&breaker).ok()),
                i64::try_from(lane.breaker_revision).unwrap_or(i64::MAX),
            ])?;
            self.state.lanes.insert(id.as_u32(), tenant.clone(), dependency.clone());
        }
        Ok(new.len() as u64)
    }

    fn import(&mut self, tasks: &[WholeTask]) -> Result<u64, Failure> {
        let mut new = Vec::with_capacity(tasks.len());
        for whole in tasks {
            self.state.expect_lane(&whole.tenant, whole.task.lane)?;
            self.state.expect_policy(whole.task.policy)?;
            match self.likeness(whole.task.id)? {
                None => {}
                Some(there) if there == Likeness::of(&whole.task) => continue,
                Some(_) => return Err(in_the_way(whole.task.id).into()),
            }
            let hash = whole.task.key.as_ref().map(|key| KeyHash::of(&whole.tenant, key));
            let taken = hash.map(|hash| self.find_key(hash)).transpose()?.flatten();
            if let Some((other, _)) = taken {
                return Err(in_the_way(format_args!("{other} with the same key")).into());
            }
            new.push((whole, hash));
        }
        for (whole, hash) in &new {
            self.take_in(whole, *hash)?;
        }
        Ok(new.len() as u64)
    }

    fn likeness(&self, task: TaskId) -> Result<Option<Likeness>, Failure> {
        let mut select = self.connection.prepare_cached(LIKENESS)?;
        let found = select.query_row([from_id(task)], |row| {
            Ok((row.get(0)?, row.get::<_, i64>(1)?, row.get(2)?, row.get(3)?))
        });
        let Some((fingerprint, state, generation, attempts)) = found.optional()? else {
            return Ok(None);
        };
        Ok(Some(Likeness { fingerprint, state: to_state(state)?, generation, attempts }))
    }

    fn take_in(&mut self, whole: &WholeTask, hash: Option<KeyHash>) -> Result<(), Failure> {
        let WholeTask { task, held, .. } = whole;
        let (id, lane) = (task.id, task.lane.as_u32());
        let mut last_attempt = from_id(id);
        for attempt in &whole.attempts {
            last_attempt = self.log_past(id, last_attempt, attempt)?;
        }
        let line = LineId::of_waiting(lane, task.attempts);
        let (due_at, deadline_at) = (task.due_at.as_nanos(), task.deadline_at.as_nanos());
        let ended_at = task.ended_at.unwrap_or(task.due_at);
        let code = code(task.state, *held);
        let (token, since, shelf) = match task.state {
            State::Pending => {
                let shelf = self.state.wait(line, id.as_u64(), due_at, deadline_at);
                (id.as_u64(), task.due_at, shelf)
            }
            // Near, whatever its time was by the other store's clock: a restart looks there.
            State::InFlight => {
                let until = held.map_or(self.now, |held| held.until).as_nanos();
                let taken_over_at = Timestamp::from_nanos(until.saturating_sub(nanos(SWEEP_LEASE)));
                let since = held.and_then(|held| held.claimed_at).unwrap_or(taken_over_at);
                (self.state.next_id(self.now).as_u64(), since, 0)
            }
            _ => (0, ended_at, due::ended_shelf(code, ended_at.as_nanos())),
        };
        let insert_task = params![
            from_id(id),
            lane,
            code,
            task.attempts,
            from_time(task.due_at),
            from_time(task.deadline_at),
            shelf,
            task.policy.as_u32(),
            task.generation,
            from_time(task.started_at),
            from_waiting(task.waiting),
            from_repeatable(whole.repeatable),
            task.cancel_requested,
            token.cast_signed(),
            from_time(since),
            task.last_status,
            last_attempt,
            task.because.map(GiveUpReason::name),
            hash.as_ref().map(|hash| &hash.0[..]),
            whole.history.as_ref().map(from_history),
        ];
        self.connection.prepare_cached(INSERT_TASK)?.execute(insert_task)?;
        let request = &task.request;
        self.hot(Hot::InsertPayload)?.execute(params![
            from_id(id),
            request.method,
            request.url,
            from_headers(&request.headers),
            task.key.as_ref().map(IdempotencyKey::as_str),
            &task.fingerprint[..],
            request.correlation_id,
            &request.body[..],
        ])?;
        if let Some(hash) = hash {
            self.state.keys.insert(hash, id.as_u64());
        }
        if let Some(Held { until, claimed_at }) = held {
            let flight = Flight {
                token,
                until: until.as_nanos(),
                claimed_at: claimed_at.map(Timestamp::as_nanos),
                lane,
                attempts: task.attempts,
                last_attempt,
                shelf,
                deadline_at,
                cancel_requested: task.cancel_requested,
            };
            self.state.flights.insert(id.as_u64(), flight);
            self.state.tally(lane).in_flight += 1;
        }
        if task.state == State::Exhausted {
            self.state.tally(lane).dead_letters += 1;
        }
        self.state.skip_ids(id);
        Ok(())
    }

    /// The row of an attempt of earlier times. Returns its number.
    fn log_past(
        &mut self,
        task: TaskId,
        previous: i64,
        attempt: &AttemptRecord,
    ) -> Result<i64, Failure> {
        let first = from_id(TaskId::first_at(attempt.started_at + attempt.took));
        let mut select = self.connection.prepare_cached(NEXT_ATTEMPT)?;
        let mut id: i64 = select.query_row([first, first + IDS_PER_MILLI], |row| row.get(0))?;
        if id == from_id(task) {
            id += 1;
        }
        let failure = attempt.failure.map(from_failure);
        self.log(id, task, previous, attempt, failure.as_deref())?;
        Ok(id)
    }
}

/// How many numbers there are in a millisecond.
const IDS_PER_MILLI: i64 = 1 << 22;

fn code(state: State, held: Option<Held>) -> i64 {
    match state {
        State::Pending => PENDING,
        State::InFlight if held.is_some_and(|held| held.claimed_at.is_none()) => HELD,
        State::InFlight => IN_FLIGHT,
        State::Succeeded => SUCCEEDED,
        State::Exhausted => EXHAUSTED,
        State::Cancelled => CANCELLED,
    }
}
