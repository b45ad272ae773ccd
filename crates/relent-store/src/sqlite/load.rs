//! Reading what memory has to know, at the start and after a failure.
//!
//! In two parts. The first is what claims and records need, and is read before anything else
//! happens: lanes, policies, what is in flight, what is due within the horizon. The second is read
//! beside the writer from a snapshot taken before its first write; what the writer does meanwhile is
//! added to it. It comes in two steps, and whoever needs one waits for it: the keys, which new tasks
//! need and which are read in the order they lie in, and then the counts of what is not in memory,
//! which take ten times as long. When far tasks are due is part of the first if they are few;
//! otherwise a line may seem empty until the counts are there, and the listener is told then.
//! REQ-S3, REQ-S4.

use relent_policy::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use super::due::{self, DueIndex, Entry, LineId};
use super::keys::{KeyHash, Recent};
use super::rows::{EXHAUSTED, HELD, IN_FLIGHT, PENDING, nanos, to_nanos};
use super::state::{Flight, State};
use crate::id::{TaskId, TenantId};
use crate::lease::SWEEP_LEASE;

const LANES: &str = "SELECT id, tenant, dependency FROM lanes";
const POLICIES: &str = "SELECT key, lease FROM policies";
const NEAR: &str = "SELECT state, id, lane, attempts, due_at, deadline_at FROM tasks \
     WHERE shelf BETWEEN 0 AND ?1";
const FLIGHT: &str = "SELECT lane, state, attempts, deadline_at, shelf, policy, token, since, \
     last_attempt, cancel_requested FROM tasks WHERE id = ?1";
const BUCKET: &str = "SELECT id, lane, attempts, due_at, deadline_at FROM tasks \
     WHERE shelf = ?1 AND id > ?2 AND state = 0 ORDER BY id LIMIT ?3";
const FAR: &str = "SELECT lane, attempts > 0, shelf, count(*), min(due_at) FROM tasks \
     WHERE shelf > ?1 AND shelf <= ?2 AND state = 0 GROUP BY 1, 2, 3";
const COUNT_FAR: &str = "SELECT count(*) FROM \
     (SELECT 1 FROM tasks WHERE shelf > ?1 AND shelf <= ?2 LIMIT ?3)";
const DEAD_LETTERS: &str =
    "SELECT lane, count(*) FROM tasks WHERE shelf BETWEEN ?1 AND ?2 GROUP BY lane";
const KEYS: &str = "SELECT id, key_hash FROM tasks WHERE id > ?1 AND key_hash IS NOT NULL";
const META: &str = "SELECT value FROM meta WHERE name = ?1";
const LAST_TASK: &str = "SELECT max(id) FROM tasks";
const LAST_ATTEMPT: &str = "SELECT max(id) FROM attempts";

/// The latest time that the file knows of is kept in `meta` under this name.
pub(super) const LATEST_AT: &str = "latest_at";
/// Numbers up to this one may have been used and deleted.
pub(super) const IDS_THROUGH: &str = "ids_through";

/// So many far tasks can be looked through without keeping anybody waiting.
const FEW_FAR_TASKS: i64 = 10_000;

/// What becomes of the tasks that were in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owners {
    /// They died with the process before: the next sweep takes their tasks over.
    AreGone,
    /// They are at work: only memory is read again.
    AreHere,
}

/// What is loaded beside the writer, in this order.
pub(super) enum Rest {
    Keys { recent: Recent, flushed_through: u64 },
    Counts { far: Vec<FarTasks>, dead_letters: Vec<(u32, i64)> },
}

/// The tasks of one line in one bucket.
pub(super) struct FarTasks {
    pub(super) line: LineId,
    pub(super) bucket: u64,
    pub(super) count: i64,
    pub(super) earliest: u64,
}

fn meta(connection: &Connection, name: &str) -> rusqlite::Result<Option<u64>> {
    let value = connection.query_row(META, [name], |row| row.get::<_, i64>(0)).optional()?;
    Ok(value.map(|value| u64::try_from(value).unwrap_or_default()))
}

/// The last number that was given out.
fn last_id(connection: &Connection) -> rusqlite::Result<Option<TaskId>> {
    let max = |sql| connection.query_row(sql, [], |row| row.get::<_, Option<i64>>(0));
    let (task, attempt) = (max(LAST_TASK)?, max(LAST_ATTEMPT)?);
    let highest = task.max(attempt).map(i64::cast_unsigned);
    Ok(highest.max(meta(connection, IDS_THROUGH)?).and_then(TaskId::from_u64))
}

/// The latest time found in the file.
pub(super) fn latest_at(connection: &Connection) -> rusqlite::Result<Timestamp> {
    let saved = Timestamp::from_nanos(meta(connection, LATEST_AT)?.unwrap_or_default());
    let last = last_id(connection)?.map_or(Timestamp::ZERO, TaskId::created_at);
    Ok(saved.max(last))
}

/// Everything that claims and records need.
pub(super) fn first_part(
    connection: &Connection,
    (horizon, keys_max): (u64, usize),
    owners: Owners,
    now: Timestamp,
) -> rusqlite::Result<State> {
    let due = DueIndex::new(horizon, now.as_nanos());
    let mut state = State::new(due, keys_max, last_id(connection)?);
    state.saved_at = Timestamp::from_nanos(meta(connection, LATEST_AT)?.unwrap_or_default());
    lanes_and_policies(connection, &mut state)?;
    let mut near = connection.prepare(NEAR)?;
    let mut rows = near.query([state.due.near_shelf_max()])?;
    let mut in_flight = Vec::new();
    while let Some(row) = rows.next()? {
        let code: i64 = row.get(0)?;
        let id = row.get::<_, i64>(1)?.cast_unsigned();
        if code != PENDING {
            in_flight.push(id);
            continue;
        }
        let line = LineId::of_waiting(row.get(2)?, row.get(3)?);
        let entry = Entry::new(id, to_nanos(row.get(4)?), to_nanos(row.get(5)?));
        state.due.add_near(line, entry);
        *state.tally(line.lane).waiting(line) += 1;
    }
    for task in in_flight {
        flight(connection, &mut state, task, owners, now)?;
    }
    let near = state.due.near_shelf_max();
    let values = [near, due::LIVE_SHELVES.1, FEW_FAR_TASKS];
    let far_tasks: i64 = connection.query_row(COUNT_FAR, values, |row| row.get(0))?;
    if far_tasks < FEW_FAR_TASKS {
        state.add_far(far(connection, near)?);
        state.knows_far = true;
    }
    Ok(state)
}

fn far(connection: &Connection, near_shelf_max: i64) -> rusqlite::Result<Vec<FarTasks>> {
    let mut select = connection.prepare(FAR)?;
    let far = select.query_map([near_shelf_max, due::LIVE_SHELVES.1], |row| {
        Ok(FarTasks {
            line: LineId::of_waiting(row.get(0)?, row.get(1)?),
            bucket: due::shelf_bucket(row.get(2)?).unwrap_or_default(),
            count: row.get(3)?,
            earliest: to_nanos(row.get(4)?),
        })
    })?;
    far.collect()
}

fn lanes_and_policies(connection: &Connection, state: &mut State) -> rusqlite::Result<()> {
    let mut lanes = connection.prepare(LANES)?;
    let mut rows = lanes.query([])?;
    while let Some(row) = rows.next()? {
        let tenant: String = row.get(1)?;
        match TenantId::try_new(&tenant) {
            Ok(tenant) => state.lanes.insert(row.get(0)?, tenant, row.get(2)?),
            Err(_) => tracing::error!("a lane belongs to something that is no tenant"),
        }
    }
    let mut policies = connection.prepare(POLICIES)?;
    let mut rows = policies.query([])?;
    while let Some(row) = rows.next()? {
        let lease = u64::try_from(row.get::<_, i64>(1)?).unwrap_or_default();
        state.leases.insert(row.get(0)?, lease);
    }
    Ok(())
}

fn flight(
    connection: &Connection,
    state: &mut State,
    task: u64,
    owners: Owners,
    now: Timestamp,
) -> rusqlite::Result<()> {
    let mut select = connection.prepare_cached(FLIGHT)?;
    let (code, policy, flight) = select.query_row([task.cast_signed()], |row| {
        let code: i64 = row.get(1)?;
        let flight = Flight {
            token: row.get::<_, i64>(6)?.cast_unsigned(),
            until: now.as_nanos(),
            claimed_at: (code == IN_FLIGHT).then_some(to_nanos(row.get(7)?)),
            lane: row.get(0)?,
            attempts: row.get(2)?,
            last_attempt: row.get(8)?,
            shelf: row.get(4)?,
            deadline_at: to_nanos(row.get(3)?),
            cancel_requested: row.get(9)?,
        };
        Ok((code, row.get::<_, u32>(5)?, flight))
    })?;
    if code != IN_FLIGHT && code != HELD {
        tracing::error!(task, "a task that has ended lies among those that have not");
        return Ok(());
    }
    let lease = state.leases.get(&policy).copied().unwrap_or_else(|| nanos(SWEEP_LEASE));
    let until = match (owners, flight.claimed_at) {
        (Owners::AreGone, _) => now.as_nanos(),
        (Owners::AreHere, Some(claimed_at)) => claimed_at.saturating_add(lease),
        (Owners::AreHere, None) => now.as_nanos().saturating_add(nanos(SWEEP_LEASE)),
    };
    if let Some(token) = TaskId::from_u64(flight.token) {
        state.skip_ids(token);
    }
    state.tally(flight.lane).in_flight += 1;
    state.flights.insert(task, Flight { until, ..flight });
    Ok(())
}

/// Where the first part ended.
#[derive(Clone, Copy)]
pub(super) struct Mark {
    near_shelf_max: i64,
    knows_far: bool,
}

impl Mark {
    pub(super) fn of(state: &State) -> Mark {
        Mark { near_shelf_max: state.due.near_shelf_max(), knows_far: state.knows_far }
    }
}

/// The keys that are not on disk in an order of their own.
pub(super) fn keys(connection: &Connection) -> rusqlite::Result<Rest> {
    let flushed_through = meta(connection, "keys_flushed_through")?.unwrap_or_default();
    let mut select = connection.prepare(KEYS)?;
    let mut rows = select.query([flushed_through.cast_signed()])?;
    let mut recent = Recent::default();
    while let Some(row) = rows.next()? {
        recent.insert(KeyHash(row.get(1)?), row.get::<_, i64>(0)?.cast_unsigned());
    }
    Ok(Rest::Keys { recent, flushed_through })
}

/// Everything else.
pub(super) fn counts(connection: &Connection, mark: Mark) -> rusqlite::Result<Rest> {
    let far = if mark.knows_far { Vec::new() } else { far(connection, mark.near_shelf_max)? };
    let (first, last) = due::ended_shelves(EXHAUSTED);
    let mut select = connection.prepare(DEAD_LETTERS)?;
    let dead_letters = select.query_map([first, last], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let dead_letters = dead_letters.collect::<rusqlite::Result<_>>()?;
    Ok(Rest::Counts { far, dead_letters })
}

/// What was put in line.
pub(super) struct Part {
    pub(super) count: usize,
    pub(super) last: Option<i64>,
}

/// Puts some tasks of a bucket in line: those after a task, so many at most.
pub(super) fn bucket(
    connection: &Connection,
    state: &mut State,
    bucket: u64,
    after: i64,
    max: usize,
) -> rusqlite::Result<Part> {
    let mut select = connection.prepare_cached(BUCKET)?;
    let limit = i64::try_from(max).unwrap_or(i64::MAX);
    let mut rows = select.query(params![due::far_shelf(bucket), after, limit])?;
    let mut part = Part { count: 0, last: None };
    while let Some(row) = rows.next()? {
        let id: i64 = row.get(0)?;
        let line = LineId::of_waiting(row.get(1)?, row.get(2)?);
        let due_at = to_nanos(row.get(3)?);
        let known = state.due.earliest(line);
        let entry = Entry::new(id.cast_unsigned(), due_at, to_nanos(row.get(4)?));
        state.due.add_near(line, entry);
        if known.is_none_or(|known| due_at < known) {
            state.announce(line, due_at);
        }
        part.last = Some(id);
        part.count += 1;
    }
    Ok(part)
}
