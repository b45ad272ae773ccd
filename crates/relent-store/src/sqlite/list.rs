//! Looking for tasks, beside the writer, a bounded number of rows at a time.
//!
//! Pages go from the latest id down, which is the order of the table itself. Where the states that
//! are looked for are rare, that would mean page after page of nothing: so the shelves of these
//! states are counted first, up to a limit, and if they hold fewer than that, their tasks are
//! taken from there and sorted. REQ-S2, REQ-D3.

use std::collections::HashSet;

use rusqlite::{Connection, OptionalExtension, params};

use super::due;
use super::queue::Failure;
use super::reads::{task_columns, task_record};
use super::rows::{CANCELLED, EXHAUSTED, SUCCEEDED, from_id, to_id, to_reason, to_state};
use crate::id::{TaskId, TenantId};
use crate::page::{Cursor, Page, TaskFilter};
use crate::task::{State, TaskRecord};

const TASK: &str =
    concat!("SELECT ", task_columns!(), " FROM tasks JOIN payloads USING (id) WHERE tasks.id = ?1");
const TRAITS: &str = "SELECT lane, policy, state, because FROM tasks WHERE id = ?1";
const LATEST_FIRST: &str = "SELECT id, lane, policy, state, because FROM tasks \
     WHERE id < ?1 AND id >= ?2 ORDER BY id DESC LIMIT ?3";
const ON_SHELVES: &str =
    "SELECT id FROM tasks WHERE shelf BETWEEN ?1 AND ?2 AND id < ?3 AND id >= ?4 LIMIT ?5";
const LANES: &str = "SELECT id FROM lanes WHERE tenant = ?1";

/// How many rows are looked at for a page.
const LOOKS_MAX: usize = 20_000;

/// What decides whether a task is among those looked for.
struct Traits {
    lane: u32,
    policy: u32,
    state: State,
    because: Option<String>,
}

struct Search<'a> {
    connection: &'a Connection,
    lanes: HashSet<u32>,
    filter: &'a TaskFilter,
    /// Tasks from this id on, up to but not including that one.
    ids: (i64, i64),
    max: usize,
}

pub(super) fn list(
    connection: &Connection,
    tenant: &TenantId,
    filter: &TaskFilter,
    after: Option<Cursor>,
    max: u32,
) -> Result<Page<TaskRecord>, Failure> {
    let look = connection.unchecked_transaction()?;
    let id_at = |at| from_id(TaskId::first_at(at));
    let first = filter.created_after.map_or(i64::MIN, id_at);
    let end = filter.created_before.map_or(i64::MAX, id_at);
    let end = after.map_or(i64::MAX, |Cursor(id)| from_id(id)).min(end);
    let search = Search {
        connection: &look,
        lanes: lanes(&look, tenant, filter)?,
        filter,
        ids: (first, end),
        max: max.max(1) as usize,
    };
    match search.few_on_shelves()? {
        Some(ids) => search.among(&ids),
        None => search.latest_first(),
    }
}

fn lanes(
    connection: &Connection,
    tenant: &TenantId,
    filter: &TaskFilter,
) -> Result<HashSet<u32>, Failure> {
    let mut select = connection.prepare_cached(LANES)?;
    let own = select.query_map([tenant.as_str()], |row| row.get(0))?;
    let mut own = own.collect::<rusqlite::Result<HashSet<u32>>>()?;
    if let Some(wanted) = &filter.lanes {
        let wanted: HashSet<u32> = wanted.iter().map(|lane| lane.as_u32()).collect();
        own.retain(|lane| wanted.contains(lane));
    }
    Ok(own)
}

impl Search<'_> {
    /// The shelves of the states that are looked for.
    fn shelves(&self) -> Vec<(i64, i64)> {
        let shelves = self.filter.states.iter().map(|state| match state {
            State::Pending | State::InFlight => due::LIVE_SHELVES,
            State::Succeeded => due::ended_shelves(SUCCEEDED),
            State::Exhausted => due::ended_shelves(EXHAUSTED),
            State::Cancelled => due::ended_shelves(CANCELLED),
        });
        let mut shelves: Vec<(i64, i64)> = shelves.collect();
        shelves.sort_unstable();
        shelves.dedup();
        shelves
    }

    /// All tasks in the states that are looked for, latest first, if they are few.
    fn few_on_shelves(&self) -> Result<Option<Vec<i64>>, Failure> {
        let shelves = self.shelves();
        if shelves.is_empty() {
            return Ok(None);
        }
        let mut ids = Vec::new();
        let mut select = self.connection.prepare_cached(ON_SHELVES)?;
        for (first, last) in shelves {
            let limit = i64::try_from(LOOKS_MAX + 1 - ids.len()).unwrap_or(i64::MAX);
            let values = params![first, last, self.ids.1, self.ids.0, limit];
            for id in select.query_map(values, |row| row.get::<_, i64>(0))? {
                ids.push(id?);
            }
            if ids.len() > LOOKS_MAX {
                return Ok(None);
            }
        }
        ids.sort_unstable_by(|a, b| b.cmp(a));
        Ok(Some(ids))
    }

    fn among(&self, ids: &[i64]) -> Result<Page<TaskRecord>, Failure> {
        let mut found = Vec::new();
        let mut select = self.connection.prepare_cached(TRAITS)?;
        for id in ids {
            let mut rows = select.query([id])?;
            let Some(row) = rows.next()? else { continue };
            let traits = Traits {
                lane: row.get(0)?,
                policy: row.get(1)?,
                state: to_state(row.get(2)?)?,
                because: row.get(3)?,
            };
            if self.fits(&traits)? {
                found.push(*id);
            }
            if found.len() > self.max {
                break;
            }
        }
        self.page(found, None)
    }

    fn latest_first(&self) -> Result<Page<TaskRecord>, Failure> {
        let mut found = Vec::new();
        let mut select = self.connection.prepare_cached(LATEST_FIRST)?;
        let limit = i64::try_from(LOOKS_MAX).unwrap_or(i64::MAX);
        let mut rows = select.query(params![self.ids.1, self.ids.0, limit])?;
        let (mut looks, mut last) = (0, None);
        while let Some(row) = rows.next()? {
            looks += 1;
            let id = row.get(0)?;
            last = Some(id);
            let traits = Traits {
                lane: row.get(1)?,
                policy: row.get(2)?,
                state: to_state(row.get(3)?)?,
                because: row.get(4)?,
            };
            if self.fits(&traits)? {
                found.push(id);
            }
            if found.len() > self.max {
                break;
            }
        }
        drop(rows);
        self.page(found, last.filter(|_| looks == LOOKS_MAX))
    }

    fn fits(&self, traits: &Traits) -> Result<bool, Failure> {
        let filter = self.filter;
        let because = traits.because.as_deref().map(to_reason).transpose()?;
        let policy = |policy: &crate::id::PolicyKey| policy.as_u32() == traits.policy;
        Ok((filter.states.is_empty() || filter.states.contains(&traits.state))
            && self.lanes.contains(&traits.lane)
            && filter.policies.as_ref().is_none_or(|policies| policies.iter().any(policy))
            && filter.because.is_none_or(|wanted| because == Some(wanted)))
    }

    /// The page of what was found, which is at most one more than fits on it. `looked_through` is
    /// where the search stopped without having come to the end.
    fn page(
        &self,
        mut found: Vec<i64>,
        looked_through: Option<i64>,
    ) -> Result<Page<TaskRecord>, Failure> {
        let is_full = found.len() > self.max;
        found.truncate(self.max);
        let next = if is_full { found.last().copied() } else { looked_through };
        let mut select = self.connection.prepare_cached(TASK)?;
        let mut items = Vec::with_capacity(found.len());
        for id in found {
            let record = select.query_row([id], |row| Ok(task_record(row))).optional()?;
            items.extend(record.transpose()?);
        }
        Ok(Page { items, next: next.map(to_id).transpose()?.map(Cursor) })
    }
}
