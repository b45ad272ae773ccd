//! Deleting: what somebody asks to, and what is older than it need be.
//!
//! Always a bounded number of rows, so that nothing else waits long for the same commit. What ended
//! is found by its shelf. Of the hours that are over entirely everything goes; in the last, only a
//! bounded look is taken, as it is in order of ids and not of endings. What that misses goes an hour
//! later. A task that has not ended is on no such shelf. REQ-D3, REQ-S4.

use relent_policy::Timestamp;
use rusqlite::{OptionalExtension, Row, params};

use super::due;
use super::keys::KeyHash;
use super::load;
use super::queue::Failure;
use super::rows::{CANCELLED, EXHAUSTED, SUCCEEDED, from_id, from_time, nanos};
use super::state::Desk;
use crate::id::{TaskId, TenantId};
use crate::task::Retention;

const ENDED: &str = "SELECT id, lane, state, last_attempt, key_hash FROM tasks WHERE id = ?1";
const ON_SHELVES: &str = "SELECT id, lane, state, last_attempt, key_hash FROM tasks \
     WHERE shelf >= ?1 AND shelf < ?2 LIMIT ?3";
const ON_LAST_SHELF: &str = "SELECT id, lane, state, last_attempt, key_hash FROM \
     (SELECT id, lane, state, last_attempt, key_hash, since FROM tasks WHERE shelf = ?1 LIMIT ?4) \
     WHERE since < ?2 LIMIT ?3";
const PREVIOUS: &str = "SELECT previous FROM attempts WHERE id = ?1 AND task = ?2";
const DELETE_ATTEMPT: &str = "DELETE FROM attempts WHERE id = ?1";
const SHORTEN: &str = "UPDATE tasks SET last_attempt = ?2 WHERE id = ?1";
const DELETE_TASK: &str = "DELETE FROM tasks WHERE id = ?1";
const DELETE_PAYLOAD: &str = "DELETE FROM payloads WHERE id = ?1";
const DELETE_ATTEMPTS: &str = "DELETE FROM attempts WHERE id <= \
     (SELECT max(id) FROM (SELECT id FROM attempts WHERE id < ?1 ORDER BY id LIMIT ?2))";
const SAVE_IDS: &str = "INSERT OR REPLACE INTO meta (name, value) VALUES (?1, ?2)";

/// How much of the shelf of the hour in which the retention ends is looked at.
const LAST_SHELF_ROWS: u32 = 2_000;
/// More rows than this are not deleted at once.
const ROWS_MAX: u64 = 2_000;

/// A task that has ended.
struct Over {
    id: i64,
    lane: u32,
    state: i64,
    last_attempt: i64,
    hash: Option<[u8; 16]>,
}

fn over(row: &Row<'_>) -> rusqlite::Result<Over> {
    Ok(Over {
        id: row.get(0)?,
        lane: row.get(1)?,
        state: row.get(2)?,
        last_attempt: row.get(3)?,
        hash: row.get(4)?,
    })
}

impl Desk<'_> {
    pub(super) fn purge(&mut self, tenant: &TenantId, tasks: &[TaskId]) -> Result<u64, Failure> {
        let mut purged = 0;
        for task in tasks {
            let mut select = self.connection.prepare_cached(ENDED)?;
            let found = select.query_row([from_id(*task)], over).optional()?;
            let Some(over) = found.filter(|over| self.may_purge(tenant, over)) else { continue };
            let mut unlimited = u64::MAX;
            self.delete(&over, &mut unlimited)?;
            purged += 1;
        }
        self.save_ids(purged)?;
        Ok(purged)
    }

    fn may_purge(&self, tenant: &TenantId, over: &Over) -> bool {
        matches!(over.state, SUCCEEDED | EXHAUSTED | CANCELLED)
            && self.state.lanes.tenant(over.lane) == Some(tenant)
    }

    pub(super) fn prune(&mut self, retention: Retention, max: u32) -> Result<u64, Failure> {
        let allowed = u64::from(max).min(ROWS_MAX);
        let mut left = allowed;
        for (state, kept) in [
            (SUCCEEDED, retention.ended),
            (CANCELLED, retention.ended),
            (EXHAUSTED, retention.dead_letters),
        ] {
            let before = self.now.as_nanos().saturating_sub(nanos(kept));
            self.prune_state(state, Timestamp::from_nanos(before), &mut left)?;
        }
        self.prune_attempts(retention, &mut left)?;
        self.save_ids(allowed - left)?;
        Ok(allowed - left)
    }

    fn prune_state(
        &mut self,
        state: i64,
        before: Timestamp,
        left: &mut u64,
    ) -> Result<(), Failure> {
        let first = due::ended_shelves(state).0;
        let last = due::ended_shelf(state, before.as_nanos());
        let limit = i64::try_from(*left).unwrap_or(i64::MAX);
        let mut select = self.connection.prepare_cached(ON_SHELVES)?;
        let mut found = collect(select.query_map(params![first, last, limit], over)?)?;
        let mut select = self.connection.prepare_cached(ON_LAST_SHELF)?;
        let values = params![last, from_time(before), limit, LAST_SHELF_ROWS];
        found.extend(collect(select.query_map(values, over)?)?);
        for over in found {
            if *left == 0 {
                break;
            }
            self.delete(&over, left)?;
        }
        Ok(())
    }

    fn prune_attempts(&mut self, retention: Retention, left: &mut u64) -> Result<(), Failure> {
        let before = self.now.as_nanos().saturating_sub(nanos(retention.attempts));
        let first_kept = TaskId::first_at(Timestamp::from_nanos(before));
        let limit = i64::try_from(*left).unwrap_or(i64::MAX);
        let mut delete = self.connection.prepare_cached(DELETE_ATTEMPTS)?;
        let deleted = delete.execute(params![from_id(first_kept), limit])?;
        *left = left.saturating_sub(u64::try_from(deleted).unwrap_or(u64::MAX));
        Ok(())
    }

    /// Deletes a task, its attempts first. If there are more of those than may be deleted, the task
    /// stays with the others.
    fn delete(&mut self, over: &Over, left: &mut u64) -> Result<(), Failure> {
        let mut attempt = over.last_attempt;
        while *left > 0
            && attempt != over.id
            && let Some(previous) = self.previous(attempt, over.id)?
        {
            self.connection.prepare_cached(DELETE_ATTEMPT)?.execute([attempt])?;
            attempt = previous;
            *left -= 1;
        }
        if *left == 0 {
            self.connection.prepare_cached(SHORTEN)?.execute([over.id, attempt])?;
            return Ok(());
        }
        self.connection.prepare_cached(DELETE_TASK)?.execute([over.id])?;
        self.connection.prepare_cached(DELETE_PAYLOAD)?.execute([over.id])?;
        *left -= 1;
        if let Some(hash) = over.hash {
            self.state.keys.forget(self.connection, KeyHash(hash), over.id.cast_unsigned())?;
        }
        if over.state == EXHAUSTED {
            self.state.tally(over.lane).dead_letters -= 1;
        }
        Ok(())
    }

    fn previous(&self, attempt: i64, task: i64) -> Result<Option<i64>, Failure> {
        let mut select = self.connection.prepare_cached(PREVIOUS)?;
        Ok(select.query_row([attempt, task], |row| row.get(0)).optional()?)
    }

    /// Numbers of what was deleted are not given out again, whatever the clock shows after a start.
    fn save_ids(&self, deleted: u64) -> Result<(), Failure> {
        if let Some(last) = self.state.last_id()
            && deleted > 0
        {
            let mut save = self.connection.prepare_cached(SAVE_IDS)?;
            save.execute(params![load::IDS_THROUGH, from_id(last)])?;
        }
        Ok(())
    }
}

fn collect(
    rows: impl Iterator<Item = rusqlite::Result<Over>>,
) -> Result<Vec<Over>, rusqlite::Error> {
    rows.collect()
}
