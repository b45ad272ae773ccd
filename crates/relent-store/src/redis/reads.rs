//! Looking at tasks. REQ-S2, REQ-O1, REQ-D3.

use std::collections::BTreeMap;

use redis::cmd;
use relent_policy::{IdempotencyKey, Turn};

use super::claim::{to_id, to_line};
use super::failure::Failure;
use super::layout::{Task, key_hash, to_attempts};
use super::link::Role;
use super::node::Node;
use super::pack::{Reader, damaged};
use super::script::{ENQUEUE, LOOK};
use super::values::{array, bytes, int, some_bytes, text};
use crate::attempt::AttemptRecord;
use crate::contract::Counts;
use crate::error::Error;
use crate::id::{LaneId, TaskId, TenantId};
use crate::lane::LaneDue;
use crate::task::TaskRecord;

/// How many lines a script looks at.
const LINES: i64 = 500;
/// How many counts are asked for at once.
const COUNTS: usize = 1_000;

impl Node {
    pub(super) async fn task(
        &self,
        tenant: &TenantId,
        task: TaskId,
    ) -> Result<Option<TaskRecord>, Failure> {
        Ok(self.find(tenant, task, false).await?.map(|(task, _)| task))
    }

    pub(super) async fn attempts(
        &self,
        tenant: &TenantId,
        task: TaskId,
    ) -> Result<Option<Vec<AttemptRecord>>, Failure> {
        match self.find(tenant, task, true).await? {
            Some((_, rows)) => Ok(Some(to_attempts(&rows)?)),
            None => Ok(None),
        }
    }

    /// The tenant's task of this id, and its attempts if they are wanted.
    async fn find(
        &self,
        tenant: &TenantId,
        id: TaskId,
        with_attempts: bool,
    ) -> Result<Option<(TaskRecord, Vec<u8>)>, Failure> {
        let shard = self.shard_of(tenant);
        let key = |kind: &str| {
            let mut key = format!("{}{kind}", self.routes.place.base(shard)).into_bytes();
            key.extend(id.as_u64().to_be_bytes());
            key
        };
        let mut command = cmd("MGET");
        command.arg(key("t"));
        if with_attempts {
            command.arg(key("a"));
        }
        let mut found = array(self.look(shard, &command).await?)?.into_iter();
        let mut next = || some_bytes(found.next().unwrap_or_default());
        let Some(task) = next()? else { return Ok(None) };
        let task = Task::read(id, task, None)?;
        let is_theirs = task.tenant == tenant.as_str();
        let rows = next()?.unwrap_or_default();
        Ok(is_theirs.then_some((task.record, rows)))
    }

    pub(super) async fn task_by_key(
        &self,
        tenant: &TenantId,
        key: &IdempotencyKey,
    ) -> Result<Option<TaskId>, Failure> {
        let (shard, hash) = (self.shard_of(tenant), key_hash(tenant, key));
        let name = [self.routes.place.base(shard).as_bytes(), b"k", &hash].concat();
        let found = self.look(shard, cmd("GET").arg(name)).await?;
        match found {
            redis::Value::Nil => Ok(None),
            found => Ok(Some(to_id(found)?)),
        }
    }

    /// When something of each line is due.
    pub(super) async fn lines(&self) -> Result<Vec<LaneDue>, Failure> {
        self.lines_until("+inf").await
    }

    /// The same, only of lines with something due until a time in microseconds.
    pub(super) async fn lines_until(&self, until: &str) -> Result<Vec<LaneDue>, Failure> {
        let mut lines = Vec::new();
        for shard in 0..self.shards.len() {
            let mut from = 0_i64;
            loop {
                let start = from.to_string();
                let args: [&[u8]; 3] = [b"lines", start.as_bytes(), until.as_bytes()];
                let found = self.run(shard, Role::Plain, &LOOK, &args).await?;
                let mut found = array(found)?.into_iter();
                let looked = int(found.next().unwrap_or_default())?;
                let found = bytes(found.next().unwrap_or_default())?;
                let mut found = Reader::new(&found);
                while !found.is_at_end() {
                    let (lane, turn) = to_line(found.u64()?)?;
                    lines.push(LaneDue { lane, turn, at: found.time()? });
                }
                from += looked;
                if looked < LINES {
                    break;
                }
            }
        }
        Ok(lines)
    }

    pub(super) async fn counts(&self) -> Result<Vec<(LaneId, Counts)>, Failure> {
        let mut lanes = BTreeMap::<LaneId, Counts>::new();
        for shard in 0..self.shards.len() {
            let key = format!("{}c", self.routes.place.base(shard));
            for (name, count) in self.scan(shard, &key, COUNTS).await? {
                let name = String::from_utf8(name).map_err(|_| damaged("counts nothing"))?;
                let count = String::from_utf8(count).ok().and_then(|count| count.parse().ok());
                put_count(&mut lanes, &name, count.unwrap_or_default())?;
            }
        }
        Ok(lanes.into_iter().collect())
    }

    /// Everything in a hash, a part at a time.
    pub(super) async fn scan(
        &self,
        shard: usize,
        key: &str,
        part: usize,
    ) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, Failure> {
        let (mut all, mut cursor) = (BTreeMap::new(), "0".to_owned());
        loop {
            let mut command = cmd("HSCAN");
            command.arg(key).arg(&cursor).arg("COUNT").arg(part);
            let mut found = array(self.look(shard, &command).await?)?.into_iter();
            cursor = text(found.next().unwrap_or_default())?;
            let mut pairs = array(found.next().unwrap_or_default())?.into_iter();
            while let (Some(name), Some(value)) = (pairs.next(), pairs.next()) {
                all.insert(bytes(name)?, bytes(value)?);
            }
            if cursor == "0" {
                return Ok(all);
            }
        }
    }

    /// Stores tasks, but none: what keeps tasks out keeps this out, too.
    pub(super) async fn check(&self) -> Result<(), Failure> {
        for shard in 0..self.shards.len() {
            let number = shard.to_string();
            let none: [&[u8]; 2] = [&[0; 8], number.as_bytes()];
            self.run(shard, Role::Plain, &ENQUEUE, &none).await?;
        }
        Ok(())
    }
}

fn put_count(lanes: &mut BTreeMap<LaneId, Counts>, name: &str, count: i64) -> Result<(), Error> {
    let count = u64::try_from(count).unwrap_or_default();
    let number = |text: &str| text.parse::<u64>().map_err(|_| damaged("counts nothing"));
    let (kind, rest) = name.split_at(usize::from(name.starts_with(['i', 'd'])));
    let rest = number(rest)?;
    let (lane, turn) = match kind {
        "" => to_line(rest)?,
        _ => (to_line(rest * 2)?.0, Turn::First),
    };
    let counts = lanes.entry(lane).or_default();
    match (kind, turn) {
        ("i", _) => counts.in_flight = count,
        ("d", _) => counts.dead_letters = count,
        (_, Turn::First) => counts.first = count,
        (_, Turn::Retry) => counts.retries = count,
    }
    Ok(())
}
