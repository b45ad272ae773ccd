//! Which key belongs to which task.
//!
//! Keys come in random order, so an index on disk would be written at random places: the costliest
//! thing a queue can do. The index of recent keys is therefore in memory: 16 bytes of SHA-256 over
//! tenant and key, and the task's id. 128 bits of it are taken to be the key; two keys that share
//! them are not to be expected in the life of anything.
//!
//! Memory is bounded. When there are too many, the older half goes to the table `keys`, sorted by
//! hash and in small steps between other work, so that each step writes to one stretch of the
//! table. `meta.keys_flushed_through` then says up to which task the table is complete; a restart
//! reads only the later tasks. A crash in between leaves rows in the table that memory will have
//! too; they say the same.
//!
//! A key lives as long as its task. What deletes a task forgets its key; a key found on disk whose
//! task is gone counts as not found. Until the recent keys are loaded after a start, everything that
//! depends on keys waits, and everything else does not.
//!
//! What else was considered: a filter in front of the table, so that a new key need not be looked up
//! there. It would have to be rebuilt at each start from the whole table; the look-up costs a few
//! microseconds and only once there are more keys than fit. REQ-I2, REQ-S4.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hash, Hasher};

use relent_policy::IdempotencyKey;
use rusqlite::{Connection, OptionalExtension, params};
use sha2::{Digest, Sha256};

use crate::id::TenantId;

const FIND: &str = "SELECT task FROM keys WHERE hash = ?1";
const FLUSH: &str = "INSERT OR REPLACE INTO keys (hash, task) VALUES (?1, ?2)";
const FORGET: &str = "DELETE FROM keys WHERE hash = ?1 AND task = ?2";
const SAVE_FLUSHED: &str =
    "INSERT OR REPLACE INTO meta (name, value) VALUES ('keys_flushed_through', ?1)";

/// How many keys one step flushes when nothing else is to be done in it.
const STEP: usize = 1_000;

/// What stands for a tenant's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct KeyHash(pub(super) [u8; 16]);

impl KeyHash {
    pub(super) fn of(tenant: &TenantId, key: &IdempotencyKey) -> KeyHash {
        let digest = Sha256::new()
            .chain_update(tenant.as_str())
            .chain_update([0])
            .chain_update(key.as_str())
            .finalize();
        let mut hash = [0; 16];
        hash.copy_from_slice(&digest[..16]);
        KeyHash(hash)
    }
}

impl Hash for KeyHash {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(&self.0[..8]);
    }
}

/// What is hashed is a hash already.
#[derive(Default)]
pub(super) struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        let mut number = [0; 8];
        let length = bytes.len().min(8);
        number[..length].copy_from_slice(&bytes[..length]);
        self.0 = u64::from_le_bytes(number);
    }
}

pub(super) type AsIsHashed = BuildHasherDefault<AsIs>;
pub(super) type Recent = HashMap<KeyHash, u64, AsIsHashed>;

pub(super) struct KeyIndex {
    recent: Recent,
    recent_max: usize,
    /// Keys of tasks up to this one may be on disk only.
    flushed_through: u64,
    flush: Option<Flush>,
    /// Keys that were forgotten before the recent ones were loaded.
    forgotten: Option<Vec<(KeyHash, u64)>>,
}

/// A move of older keys to disk, on its way.
struct Flush {
    through: u64,
    left: VecDeque<(KeyHash, u64)>,
}

impl KeyIndex {
    pub(super) fn new(recent_max: usize) -> KeyIndex {
        KeyIndex {
            recent: Recent::default(),
            recent_max: recent_max.max(2),
            flushed_through: 0,
            flush: None,
            forgotten: Some(Vec::new()),
        }
    }

    /// Takes in what was loaded.
    pub(super) fn complete(&mut self, recent: Recent, flushed_through: u64) {
        self.recent = recent;
        self.flushed_through = flushed_through;
        for (hash, task) in self.forgotten.take().unwrap_or_default() {
            self.forget_recent(hash, task);
        }
        self.flush_if_full();
    }

    pub(super) fn find(
        &self,
        connection: &Connection,
        hash: KeyHash,
    ) -> rusqlite::Result<Option<u64>> {
        if let Some(task) = self.recent.get(&hash) {
            return Ok(Some(*task));
        }
        if self.flushed_through == 0 && self.flush.is_none() {
            return Ok(None);
        }
        let mut find = connection.prepare_cached(FIND)?;
        let task = find.query_row([&hash.0[..]], |row| row.get::<_, i64>(0)).optional()?;
        Ok(task.map(i64::cast_unsigned))
    }

    pub(super) fn insert(&mut self, hash: KeyHash, task: u64) {
        self.recent.insert(hash, task);
        self.flush_if_full();
    }

    pub(super) fn forget(
        &mut self,
        connection: &Connection,
        hash: KeyHash,
        task: u64,
    ) -> rusqlite::Result<()> {
        if let Some(forgotten) = &mut self.forgotten {
            forgotten.push((hash, task));
        }
        self.forget_recent(hash, task);
        let may_be_on_disk = task <= self.flushed_through
            || self.forgotten.is_some()
            || self.flush.as_ref().is_some_and(|flush| task <= flush.through);
        if may_be_on_disk {
            let mut forget = connection.prepare_cached(FORGET)?;
            forget.execute(params![&hash.0[..], task.cast_signed()])?;
        }
        Ok(())
    }

    fn forget_recent(&mut self, hash: KeyHash, task: u64) {
        if self.recent.get(&hash) == Some(&task) {
            self.recent.remove(&hash);
        }
    }

    pub(super) fn is_flushing(&self) -> bool {
        self.flush.is_some()
    }

    fn flush_if_full(&mut self) {
        if self.flush.is_some() || self.recent.len() < self.recent_max {
            return;
        }
        let mut tasks: Vec<u64> = self.recent.values().copied().collect();
        let (_, through, _) = tasks.select_nth_unstable(self.recent.len() / 2);
        let through = *through;
        let older = self.recent.iter().filter(|(_, task)| **task <= through);
        let mut left: Vec<(KeyHash, u64)> = older.map(|(hash, task)| (*hash, *task)).collect();
        left.sort_unstable();
        self.flush = Some(Flush { through, left: left.into() });
    }

    /// Writes some of what is to be flushed, more of it the more other rows were written.
    pub(super) fn flush_some(
        &mut self,
        connection: &Connection,
        rows: usize,
    ) -> rusqlite::Result<()> {
        let Some(flush) = &mut self.flush else { return Ok(()) };
        let mut insert = connection.prepare_cached(FLUSH)?;
        for _ in 0..STEP + 4 * rows {
            let Some((hash, task)) = flush.left.pop_front() else { break };
            if self.recent.get(&hash) == Some(&task) {
                insert.execute(params![&hash.0[..], task.cast_signed()])?;
                self.recent.remove(&hash);
            }
        }
        if flush.left.is_empty() {
            connection.prepare_cached(SAVE_FLUSHED)?.execute([flush.through.cast_signed()])?;
            self.flushed_through = flush.through;
            self.flush = None;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(number: u64) -> KeyHash {
        let key = IdempotencyKey::try_new(&format!("key-{number}")).unwrap();
        KeyHash::of(&TenantId::default_tenant(), &key)
    }

    fn database() -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        connection
            .execute_batch(
                "CREATE TABLE keys (hash BLOB PRIMARY KEY, task INTEGER) WITHOUT ROWID;
                 CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER) WITHOUT ROWID;",
            )
            .unwrap();
        connection
    }

    #[test]
    fn keys_of_different_tenants_are_different() {
        let key = IdempotencyKey::try_new("k").unwrap();
        let (a, b) = (TenantId::try_new("a").unwrap(), TenantId::try_new("b").unwrap());
        assert_ne!(KeyHash::of(&a, &key), KeyHash::of(&b, &key));
    }

    #[test]
    fn older_keys_move_to_disk_and_every_key_is_found_all_the_time() {
        let connection = database();
        let mut keys = KeyIndex::new(100);
        keys.complete(Recent::default(), 0);
        for task in 1..=250 {
            keys.insert(hash(task), task);
            if task % 7 == 0 {
                keys.flush_some(&connection, 0).unwrap();
            }
            for earlier in 1..=task {
                assert_eq!(keys.find(&connection, hash(earlier)).unwrap(), Some(earlier));
            }
            assert!(keys.recent.len() <= 110, "{}", keys.recent.len());
        }
        assert_eq!(keys.find(&connection, hash(0)).unwrap(), None);
    }

    #[test]
    fn a_forgotten_key_is_forgotten_wherever_it_was() {
        let connection = database();
        let mut keys = KeyIndex::new(10);
        keys.complete(Recent::default(), 0);
        for task in 1..=50 {
            keys.insert(hash(task), task);
            keys.flush_some(&connection, 0).unwrap();
        }
        for task in 1..=50 {
            keys.forget(&connection, hash(task), task).unwrap();
            assert_eq!(keys.find(&connection, hash(task)).unwrap(), None);
        }
    }

    #[test]
    fn what_was_forgotten_while_loading_does_not_come_back() {
        let connection = database();
        let mut keys = KeyIndex::new(10);
        keys.forget(&connection, hash(1), 1).unwrap();
        keys.complete(Recent::from_iter([(hash(1), 1), (hash(2), 2)]), 0);
        assert_eq!(keys.find(&connection, hash(1)).unwrap(), None);
        assert_eq!(keys.find(&connection, hash(2)).unwrap(), Some(2));
    }
}
