//! Storing tasks: two rows each, at the end of their tables.
//!
//! What can be worked out before (hashes, JSON) is worked out by the caller, so that the writer only
//! writes. The whole batch is checked before its first row is written; from there on only the disk
//! can refuse, and then everything is undone.
//!
//! `token`, `since` and `last_attempt` mean nothing in a new row. They have values of full size all
//! the same, so that a claim replaces them without making the row longer. REQ-S1, REQ-S4, REQ-I2.

use std::collections::HashMap;

use relent_policy::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use super::due::LineId;
use super::keys::{AsIsHashed, KeyHash};
use super::queue::{Failure, Kind, Size};
use super::rows::{PENDING, from_headers, from_id, from_repeatable, from_time, storable};
use super::state::{Desk, Hot};
use crate::id::{TaskId, TenantId};
use crate::task::{Enqueued, FirstAttempt, NewTask};

pub(super) const INSERT_TASK: &str = "INSERT INTO tasks (id, lane, state, attempts, due_at, deadline_at, \
     shelf, policy, generation, started_at, waiting, repeatable, cancel_requested, token, since, \
     last_attempt, key_hash) \
     VALUES (?1, ?2, 0, 0, ?3, ?4, ?5, ?6, 0, ?3, 0, ?7, 0, ?1, ?3, ?1, ?8)";
pub(super) const INSERT_PAYLOAD: &str = "INSERT INTO payloads (id, method, url, headers, idempotency_key, \
     fingerprint, correlation_id, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
const FINGERPRINT: &str = "SELECT fingerprint FROM payloads WHERE id = ?1";

/// A task, as far as it can be made ready without the store.
pub(super) struct Prepared {
    task: NewTask,
    hash: Option<KeyHash>,
    headers: String,
}

pub(super) fn prepare(tenant: &TenantId, tasks: Vec<NewTask>) -> Vec<Prepared> {
    let prepared = tasks.into_iter().map(|task| Prepared {
        hash: task.key.as_ref().map(|key| KeyHash::of(tenant, key)),
        headers: from_headers(&task.request.headers),
        task,
    });
    prepared.collect()
}

pub(super) fn size(tasks: &[Prepared]) -> Size {
    let bytes = |one: &Prepared| one.task.request.body.len() + one.headers.len() + 512;
    let has_keys = tasks.iter().any(|one| one.hash.is_some());
    Size {
        rows: 2 * tasks.len(),
        bytes: tasks.iter().map(bytes).sum(),
        kind: if has_keys { Kind::NewWithKeys } else { Kind::New },
    }
}

impl Desk<'_> {
    pub(super) fn enqueue(
        &mut self,
        tenant: &TenantId,
        tasks: &[Prepared],
    ) -> Result<Vec<Enqueued>, Failure> {
        for Prepared { task, .. } in tasks {
            self.state.expect_lane(tenant, task.lane)?;
            self.state.expect_policy(task.policy)?;
        }
        let mut answers = self.compare(tasks)?;
        if answers.iter().any(|answer| matches!(answer, Enqueued::Conflict(_))) {
            return Ok(answers);
        }
        let mut created = HashMap::<KeyHash, TaskId, AsIsHashed>::default();
        for (prepared, answer) in tasks.iter().zip(&mut answers) {
            if *answer != Enqueued::Withheld {
                continue;
            }
            let repeated = prepared.hash.and_then(|hash| created.get(&hash));
            *answer = match repeated {
                Some(id) => Enqueued::Existing(*id),
                None => Enqueued::Created(self.insert(prepared)?),
            };
            if let (Enqueued::Created(id), Some(hash)) = (*answer, prepared.hash)
                && tasks.len() > 1
            {
                created.insert(hash, id);
            }
        }
        Ok(answers)
    }

    /// What the answers are if nothing is stored.
    fn compare(&self, tasks: &[Prepared]) -> Result<Vec<Enqueued>, Failure> {
        let mut batch = HashMap::<KeyHash, [u8; 16], AsIsHashed>::default();
        let mut answers = Vec::with_capacity(tasks.len());
        for Prepared { task, hash, .. } in tasks {
            let Some(hash) = hash else {
                answers.push(Enqueued::Withheld);
                continue;
            };
            answers.push(match self.find_key(*hash)? {
                Some((id, fingerprint)) if fingerprint == task.fingerprint => {
                    Enqueued::Existing(id)
                }
                Some((id, _)) => Enqueued::Conflict(Some(id)),
                None if tasks.len() == 1 => Enqueued::Withheld,
                None if *batch.entry(*hash).or_insert(task.fingerprint) != task.fingerprint => {
                    Enqueued::Conflict(None)
                }
                None => Enqueued::Withheld,
            });
        }
        Ok(answers)
    }

    /// The task with this key, and its fingerprint.
    pub(super) fn find_key(
        &self,
        hash: KeyHash,
    ) -> Result<Option<(TaskId, [u8; 16])>, rusqlite::Error> {
        let Some(task) = self.state.keys.find(self.connection, hash)? else { return Ok(None) };
        let fingerprint = fingerprint(self.connection, task)?;
        Ok(TaskId::from_u64(task).zip(fingerprint))
    }

    fn insert(&mut self, prepared: &Prepared) -> Result<TaskId, Failure> {
        let Prepared { task, hash, headers } = prepared;
        let id = self.state.next_id(self.now);
        let due_at = first_due_at(task.first, self.now);
        let deadline_at = due_at + task.lifetime;
        let line = LineId::of_waiting(task.lane.as_u32(), 0);
        let shelf = self.state.wait(line, id.as_u64(), due_at.as_nanos(), deadline_at.as_nanos());
        debug_assert_eq!(PENDING, 0, "as the statement says");
        self.hot(Hot::InsertTask)?.execute(params![
            from_id(id),
            task.lane.as_u32(),
            from_time(due_at),
            from_time(deadline_at),
            shelf,
            task.policy.as_u32(),
            from_repeatable(task.repeatable),
            hash.as_ref().map(|hash| &hash.0[..]),
        ])?;
        let request = &task.request;
        self.hot(Hot::InsertPayload)?.execute(params![
            from_id(id),
            request.method,
            request.url,
            headers,
            task.key.as_ref().map(relent_policy::IdempotencyKey::as_str),
            &task.fingerprint[..],
            request.correlation_id,
            &request.body[..],
        ])?;
        if let Some(hash) = hash {
            self.state.keys.insert(*hash, id.as_u64());
        }
        Ok(id)
    }
}

fn first_due_at(first: FirstAttempt, now: Timestamp) -> Timestamp {
    storable(match first {
        FirstAttempt::Now => now,
        FirstAttempt::After(wait) => now + wait,
        FirstAttempt::NotBefore(at) => at.max(now),
    })
}

fn fingerprint(connection: &Connection, task: u64) -> rusqlite::Result<Option<[u8; 16]>> {
    let mut select = connection.prepare_cached(FINGERPRINT)?;
    select.query_row([task.cast_signed()], |row| row.get(0)).optional()
}
