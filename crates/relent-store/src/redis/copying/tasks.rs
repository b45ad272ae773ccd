//! Tasks with their attempts, a batch at a time.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::iter::repeat;

use redis::{Value, cmd};
use relent_policy::Turn;

use crate::error::Error;
use crate::hints::Neighbour as _;
use crate::id::{LaneId, TaskId, TenantId};
use crate::lane::LaneDue;
use crate::redis::claim::to_id;
use crate::redis::codes::to_state;
use crate::redis::enqueue::expect_copies;
use crate::redis::failure::Failure;
use crate::redis::layout::{Task, from_attempt, from_whole, key_hash, to_attempts};
use crate::redis::link::Role;
use crate::redis::node::Node;
use crate::redis::pack::{Reader, damaged};
use crate::redis::script::{IMPORT, WALK};
use crate::redis::values::{array, bytes, int, some_bytes};
use crate::task::State;
use crate::whole::{EXPORT_BYTES, Extent, WholeTask, in_the_way};

/// Of how many tenants a script looks for ids.
const TENANTS: usize = 64;
/// Enough of a task to compare it with what is there; `lua/common.lua` says the same.
const HEAD: usize = 234;
/// How many tasks a batch has at most, however many are wanted.
const TASKS_MAX: u32 = 1_000;

/// A task's id, and the shard it is in.
type Place = (TaskId, usize);

impl Node {
    /// How many tasks are in which state: those that are there, whatever the counts say.
    pub(super) async fn tally(&self) -> Result<Extent, Failure> {
        let mut extent = Extent::default();
        for (shard, tenants) in self.tenants().await? {
            for tenant in tenants {
                self.tally_of(shard, &tenant, &mut extent).await?;
            }
        }
        let (counts, known) = (self.counts().await?, self.known_lanes());
        if let Some((lane, _)) = counts.iter().find(|(lane, _)| !known.contains_key(lane)) {
            let text = format!("{lane} has tasks, and nobody knows whose it is");
            return Err(Error::Damaged(text).into());
        }
        Ok(extent)
    }

    async fn tally_of(
        &self,
        shard: usize,
        tenant: &TenantId,
        extent: &mut Extent,
    ) -> Result<(), Failure> {
        let mut from = b"-".to_vec();
        loop {
            let args: [&[u8]; 3] = [b"tally", tenant.as_str().as_bytes(), &from];
            let mut found = array(self.run(shard, Role::Plain, &WALK, &args).await?)?.into_iter();
            let last = bytes(found.next().unwrap_or_default())?;
            for (code, count) in (0..).zip(found) {
                extent.add(to_state(code)?, int(count)?.unsigned_abs());
            }
            if last.is_empty() {
                return Ok(());
            }
            from = [b"(", &last[..]].concat();
        }
    }

    /// Whoever has tasks has a lane.
    async fn tenants(&self) -> Result<BTreeMap<usize, Vec<TenantId>>, Failure> {
        if self.length_of("v").await? != self.known_lanes().len() as u64 {
            self.lanes().await?;
        }
        let mut tenants = BTreeMap::<usize, Vec<TenantId>>::new();
        for tenant in self.known_lanes().into_values().collect::<BTreeSet<_>>() {
            tenants.entry(self.shard_of(&tenant)).or_default().push(tenant);
        }
        Ok(tenants)
    }

    pub(super) async fn export(
        &self,
        mut after: Option<TaskId>,
        max: u32,
    ) -> Result<Vec<WholeTask>, Failure> {
        let tenants = self.tenants().await?;
        loop {
            let places = self.next_places(&tenants, after, max.min(TASKS_MAX)).await?;
            let places = self.fitting(places).await?;
            let Some((last, _)) = places.last() else { return Ok(Vec::new()) };
            after = Some(*last);
            let tasks = self.wholes(&places).await?;
            // Else all of them were deleted in the meantime, and there may be more behind.
            if !tasks.is_empty() {
                return Ok(tasks);
            }
        }
    }

    /// Where the next tasks are, over all tenants.
    async fn next_places(
        &self,
        tenants: &BTreeMap<usize, Vec<TenantId>>,
        after: Option<TaskId>,
        max: u32,
    ) -> Result<Vec<Place>, Failure> {
        let bound = |sign: &[u8], id: TaskId| [sign, &id.as_u64().to_be_bytes()].concat();
        let from = after.map_or(b"-".to_vec(), |after| bound(b"(", after));
        let (mut to, count) = (b"+".to_vec(), max.to_string());
        let mut places: Vec<Place> = Vec::new();
        let parts = tenants.iter().flat_map(|(shard, all)| all.chunks(TENANTS).zip(repeat(*shard)));
        for (part, shard) in parts {
            let mut args: Vec<&[u8]> = vec![b"ids", &from, &to, count.as_bytes()];
            args.extend(part.iter().map(|tenant| tenant.as_str().as_bytes()));
            let found = bytes(self.run(shard, Role::Plain, &WALK, &args).await?)?;
            for id in found.chunks(8) {
                places.push((to_id(Value::BulkString(id.to_vec()))?, shard));
            }
            places.sort_unstable();
            places.truncate(max as usize);
            // What is behind the last of a full batch need not be asked for.
            if let Some((last, _)) = places.last().filter(|_| places.len() == max as usize) {
                to = bound(b"[", *last);
            }
        }
        Ok(places)
    }

    /// So many of them as fit into a batch, and at least one.
    async fn fitting(&self, mut places: Vec<Place>) -> Result<Vec<Place>, Failure> {
        let mut sizes = HashMap::new();
        for (shard, ids) in by_shard(&places) {
            let written: Vec<_> = ids.iter().map(|id| id.as_u64().to_be_bytes()).collect();
            let mut args: Vec<&[u8]> = vec![b"sizes"];
            args.extend(written.iter().map(|id| &id[..]));
            let found = bytes(self.run(shard, Role::Plain, &WALK, &args).await?)?;
            let mut found = Reader::new(&found);
            for id in ids {
                sizes.insert(id, usize::try_from(found.u64()?).unwrap_or(usize::MAX));
            }
        }
        let mut before = 0_usize;
        let mut fits = |(id, _): &Place| {
            let fits = before < EXPORT_BYTES;
            before = before.saturating_add(sizes.get(id).copied().unwrap_or_default());
            fits
        };
        let count = places.iter().map_while(|place| fits(place).then_some(())).count();
        places.truncate(count);
        Ok(places)
    }

    /// The tasks that are there, with everything.
    async fn wholes(&self, places: &[Place]) -> Result<Vec<WholeTask>, Failure> {
        let mut tasks = Vec::with_capacity(places.len());
        for (shard, ids) in by_shard(places) {
            let mut command = cmd("MGET");
            for id in &ids {
                for kind in ["t", "a"] {
                    let mut key = format!("{}{kind}", self.routes.place.base(shard)).into_bytes();
                    key.extend(id.as_u64().to_be_bytes());
                    command.arg(key);
                }
            }
            let mut found = array(self.look(shard, &command).await?)?.into_iter();
            let mut next = || some_bytes(found.next().unwrap_or_default());
            for id in ids {
                let (task, rows) = (next()?, next()?.unwrap_or_default());
                if let Some(task) = task {
                    tasks.push(Task::read(id, task, None)?.into_whole(to_attempts(&rows)?)?);
                }
            }
        }
        tasks.sort_unstable_by_key(|whole| whole.task.id);
        Ok(tasks)
    }

    pub(super) async fn import(&self, all: &[WholeTask]) -> Result<u64, Failure> {
        let Some(highest) = all.iter().map(|whole| whole.task.id).max() else { return Ok(0) };
        self.expect_places(all).await?;
        self.learn_task(highest);
        let mut batches = BTreeMap::<usize, Batch>::new();
        for whole in all {
            let batch = batches.entry(self.shard_of(&whole.tenant)).or_default();
            batch.ids.push(whole.task.id);
            batch.args.push(self.written(whole)?);
        }
        if self.shards.len() > 1 {
            for shard in 0..self.shards.len() {
                let elsewhere = batches.iter().filter(|(other, _)| **other != shard);
                let elsewhere: Vec<u8> = elsewhere
                    .flat_map(|(_, batch)| &batch.ids)
                    .flat_map(|id| id.as_u64().to_be_bytes())
                    .collect();
                let heads = batches.get(&shard).map(Batch::heads).unwrap_or_default();
                self.send_in(shard, b"compare", highest, &elsewhere, &heads).await?;
            }
        }
        let mut new = 0;
        for (shard, batch) in &batches {
            let tasks: Vec<&[u8]> = batch.args.iter().flatten().map(Vec::as_slice).collect();
            new += self.send_in(*shard, b"store", highest, &[], &tasks).await?;
        }
        self.tell(&dues(all));
        Ok(new)
    }

    /// Every task has its policy, and a lane of its tenant.
    async fn expect_places(&self, all: &[WholeTask]) -> Result<(), Failure> {
        let owns = |one: &WholeTask| self.owns(&one.tenant, one.task.lane);
        let knows = |one: &WholeTask| self.lease_of(one.task.policy).is_some();
        let lanes = all.iter().filter(|one| owns(one).is_none()).map(|one| one.task.lane);
        let policies = all.iter().filter(|one| !knows(one)).map(|one| one.task.policy);
        self.look_up(lanes.collect(), policies.collect()).await?;
        match all.iter().find(|one| owns(one) != Some(true) || !knows(one)) {
            None => Ok(()),
            Some(one) => {
                let text = format!("{} has no lane or no policy", one.task.id);
                Err(Error::Damaged(text).into())
            }
        }
    }

    /// A task as the script reads it: id and times of attempts, the task, rows of attempts.
    fn written(&self, whole: &WholeTask) -> Result<[Vec<u8>; 3], Error> {
        let task = &whole.task;
        let hash = task.key.as_ref().map(|key| key_hash(&whole.tenant, key));
        let lease = self.lease_of(task.policy).unwrap_or_default();
        let mut head = task.id.as_u64().to_be_bytes().to_vec();
        // Rows go in their order, and so do their times, whatever the clock there has done.
        let mut latest = 0;
        for attempt in &whole.attempts {
            latest = attempt.started_at.as_nanos().max(latest);
            head.extend(latest.to_be_bytes());
        }
        let rows = whole.attempts.iter().flat_map(from_attempt).collect();
        Ok([head, from_whole(whole, lease, hash.as_ref())?, rows])
    }

    /// Has a shard compare tasks or store them. Returns how many are new.
    async fn send_in(
        &self,
        shard: usize,
        what: &[u8],
        highest: TaskId,
        elsewhere: &[u8],
        tasks: &[&[u8]],
    ) -> Result<u64, Failure> {
        let highest = highest.as_u64().to_be_bytes();
        let mut args: Vec<&[u8]> = vec![what, &highest, elsewhere];
        args.extend(tasks);
        let copies = self.copies.as_ref().map(|(copies, _)| copies);
        let (answer, copied) =
            self.run_copied(shard, Role::Enqueue, &IMPORT, &args, copies).await?;
        if let Value::Int(new) = answer {
            if let (Some((_, wanted)), Some(copied)) = (&self.copies, copied) {
                expect_copies(copied, *wanted)?;
            }
            return Ok(new.unsigned_abs());
        }
        let other = array(answer)?.pop().ok_or_else(|| damaged("is no answer"))?;
        Err(in_the_way(to_id(other)?).into())
    }
}

/// What is sent to one shard.
#[derive(Default)]
struct Batch {
    ids: Vec<TaskId>,
    args: Vec<[Vec<u8>; 3]>,
}

impl Batch {
    /// What is compared of each task; bodies and attempts are sent once.
    fn heads(&self) -> Vec<&[u8]> {
        let mut heads: Vec<&[u8]> = Vec::with_capacity(3 * self.args.len());
        for [id, task, _] in &self.args {
            heads.extend([&id[..], &task[..task.len().min(HEAD)], &[]]);
        }
        heads
    }
}

fn by_shard(places: &[Place]) -> BTreeMap<usize, Vec<TaskId>> {
    let mut shards = BTreeMap::<usize, Vec<TaskId>>::new();
    places.iter().for_each(|(id, shard)| shards.entry(*shard).or_default().push(*id));
    shards
}

/// When something of each line is due.
fn dues(all: &[WholeTask]) -> Vec<LaneDue> {
    let mut earliest = HashMap::<(LaneId, bool), LaneDue>::new();
    for whole in all.iter().filter(|whole| whole.task.state == State::Pending) {
        let (lane, at) = (whole.task.lane, whole.task.due_at);
        let turn = Turn::of_attempt(whole.task.attempts.saturating_add(1));
        let due = earliest.entry((lane, turn == Turn::Retry)).or_insert(LaneDue { lane, turn, at });
        due.at = at.min(due.at);
    }
    earliest.into_values().collect()
}
