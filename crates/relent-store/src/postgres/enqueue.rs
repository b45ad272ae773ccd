//! Storing tasks: as many as wait, in one statement.
//!
//! **Keys.** A unique index decides who was first, and nobody asks before: a row whose key is there
//! is left out (`ON CONFLICT DO NOTHING`, which waits for a transaction that is about to store the
//! same key), and whoever it belonged to is told what is there by a second look. Rows are inserted in
//! the order of their keys, so that two nodes which store the same keys do not wait for each other.
//!
//! **Batches of one caller** are stored whole or not at all. Without keys nothing can conflict, and
//! they go with the others. With keys a batch goes by itself: it is compared with what is there,
//! then stored by the same statement, which undoes itself (`relent.refuse`) if another node was
//! faster with one of the keys; then it is compared again.
//!
//! **Ids** are made by the database out of its clock and a sequence, as [`TaskId`] says. The sequence
//! starts over every four million tasks: within one millisecond in which it does, later tasks can
//! have lower ids. REQ-S1, REQ-S4, REQ-I2.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::failure::Failure;
use super::insert::{Prepared, Stored, find, insert_again};
use super::link::Link;
use super::node::{AtWork, Node};
use super::place::Role;
use super::queue::Job;
use crate::error::Error;
use crate::id::{LaneId, PolicyKey, TenantId};
use crate::task::{Enqueued, NewTask};

/// In one statement.
const ROWS_MAX: usize = 1_000;
const BYTES_MAX: usize = 8 << 20;
/// How often a race for the same keys is run again.
const RACES_MAX: usize = 10;

/// Tasks of one caller.
pub(super) struct NewTasks {
    tasks: Vec<Prepared>,
}

impl NewTasks {
    pub(super) fn new(tenant: &TenantId, tasks: Vec<NewTask>) -> NewTasks {
        let prepared = tasks.into_iter().map(|task| Prepared::new(tenant, task));
        NewTasks { tasks: prepared.collect() }
    }

    pub(super) fn rows(&self) -> usize {
        self.tasks.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.tasks.iter().map(Prepared::bytes).sum()
    }

    fn hashes(&self) -> impl Iterator<Item = &Vec<u8>> {
        self.tasks.iter().filter_map(|task| task.hash.as_ref())
    }

    /// Whether each of its rows can be stored whatever becomes of the others.
    fn is_loose(&self) -> bool {
        self.tasks.len() == 1 || self.hashes().next().is_none()
    }
}

impl Node {
    /// What these tasks refer to and is not known here.
    pub(super) fn unknown(
        &self,
        tenant: &TenantId,
        tasks: &[NewTask],
    ) -> (Vec<LaneId>, Vec<PolicyKey>) {
        let lanes = tasks.iter().map(|task| task.lane);
        let policies = tasks.iter().map(|task| task.policy);
        (
            lanes.filter(|lane| self.owns(tenant, *lane).is_none()).collect(),
            policies.filter(|policy| !self.knows_policy(*policy)).collect(),
        )
    }

    /// That everything these tasks refer to is there, as far as was looked up.
    pub(super) fn expect_known(&self, tenant: &TenantId, tasks: &[NewTask]) -> Result<(), Error> {
        for task in tasks {
            if self.owns(tenant, task.lane) != Some(true) {
                return Err(Error::Damaged(format!("{tenant} has no {}", task.lane)));
            }
            if !self.knows_policy(task.policy) {
                return Err(Error::Damaged(format!("there is no {}", task.policy)));
            }
        }
        Ok(())
    }
}

type Asked = Job<NewTasks, Vec<Enqueued>>;

/// Stores what waits, round after round, until the queue is closed.
pub(super) async fn work(node: Arc<Node>) {
    let _at_work = AtWork(Arc::clone(&node));
    let mut link = Link::new(Arc::clone(&node.place), Role::Insert);
    loop {
        let mut jobs = node.enqueues.take(ROWS_MAX, BYTES_MAX).await;
        if jobs.is_empty() {
            return;
        }
        while !jobs.is_empty() {
            let round = Round::of(jobs);
            store(&node, &mut link, round.together).await;
            for job in round.alone {
                store(&node, &mut link, vec![job]).await;
            }
            jobs = round.later;
        }
    }
}

/// What can go together, what goes by itself, and what has to wait because its key is among them.
#[derive(Default)]
struct Round {
    together: Vec<Asked>,
    alone: Vec<Asked>,
    later: Vec<Asked>,
}

impl Round {
    fn of(jobs: Vec<Asked>) -> Round {
        let (mut round, mut keys) = (Round::default(), HashSet::new());
        for job in jobs {
            if job.work.hashes().any(|hash| keys.contains(hash)) {
                round.later.push(job);
                continue;
            }
            keys.extend(job.work.hashes().cloned());
            match job.work.is_loose() {
                true => round.together.push(job),
                false => round.alone.push(job),
            }
        }
        round
    }
}

async fn store(node: &Node, link: &mut Link, round: Vec<Asked>) {
    let batches: Vec<&NewTasks> = round.iter().map(|job| &job.work).collect();
    let stored = match &batches[..] {
        [batch] if !batch.is_loose() => store_whole(node, link, batch).await.map(|one| vec![one]),
        batches => store_loose(node, link, batches).await,
    };
    match stored {
        Ok(answers) => {
            for (job, answer) in round.into_iter().zip(answers) {
                job.answer(Ok(answer));
            }
        }
        Err(failure) if failure.is_about_values() && round.len() > 1 => {
            // One of them cannot be stored, and it is not the others' fault.
            for job in round {
                Box::pin(store(node, link, vec![job])).await;
            }
        }
        Err(failure) => {
            let error = Error::from(failure);
            round.into_iter().for_each(|job| job.answer(Err(error.clone())));
        }
    }
}

/// Stores tasks each for itself.
async fn store_loose(
    node: &Node,
    link: &mut Link,
    batches: &[&NewTasks],
) -> Result<Vec<Vec<Enqueued>>, Failure> {
    let tasks: Vec<&Prepared> = batches.iter().flat_map(|batch| &batch.tasks).collect();
    let mut answers = vec![None; tasks.len()];
    for _ in 0..RACES_MAX {
        let open = |answers: &[Option<Enqueued>]| {
            let open = (0..tasks.len()).filter(|index| answers[*index].is_none());
            open.collect::<Vec<usize>>()
        };
        let left = open(&answers);
        let rows: Vec<&Prepared> = left.iter().map(|index| tasks[*index]).collect();
        for (row, id) in insert_again(node, link, &rows, false).await? {
            answers[left[row]] = Some(Enqueued::Created(id));
        }
        let left = open(&answers);
        let keys = left.iter().filter_map(|index| tasks[*index].hash.clone()).collect();
        let stored = find(link, keys).await?;
        for index in &left {
            answers[*index] = compare(&stored, tasks[*index]);
        }
        // A key that is neither new nor there was deleted in between.
        if answers.iter().all(Option::is_some) {
            break;
        }
    }
    let mut answers = answers.into_iter().map(|answer| answer.ok_or(Error::Overloaded));
    let mut sorted = Vec::with_capacity(batches.len());
    for batch in batches {
        sorted.push(answers.by_ref().take(batch.tasks.len()).collect::<Result<_, Error>>()?);
    }
    Ok(sorted)
}

/// Stores a batch with keys, all of it or nothing.
async fn store_whole(
    node: &Node,
    link: &mut Link,
    batch: &NewTasks,
) -> Result<Vec<Enqueued>, Failure> {
    for _ in 0..RACES_MAX {
        let stored = find(link, batch.hashes().cloned().collect()).await?;
        let mut answers = compare_all(&stored, &batch.tasks);
        if answers.iter().any(|answer| matches!(answer, Enqueued::Conflict(_))) {
            return Ok(answers);
        }
        // The first of those with the same key is stored.
        let mut first = HashMap::new();
        let mut rows = Vec::new();
        for (index, task) in batch.tasks.iter().enumerate() {
            let repeats = task.hash.as_ref().is_some_and(|hash| first.contains_key(hash));
            if answers[index] == Enqueued::Withheld && !repeats {
                first.extend(task.hash.as_ref().map(|hash| (hash, index)));
                rows.push(index);
            }
        }
        let inserted: Vec<&Prepared> = rows.iter().map(|index| &batch.tasks[*index]).collect();
        let created = match insert_again(node, link, &inserted, true).await {
            Err(failure) if failure.is_key_taken() => continue,
            created => created?,
        };
        if created.len() < rows.len() {
            continue;
        }
        for (row, id) in created {
            answers[rows[row]] = Enqueued::Created(id);
        }
        for (index, task) in batch.tasks.iter().enumerate() {
            let first = task.hash.as_ref().and_then(|hash| first.get(hash));
            if let (Enqueued::Withheld, Some(first)) = (answers[index], first)
                && let Enqueued::Created(id) = answers[*first]
            {
                answers[index] = Enqueued::Existing(id);
            }
        }
        return Ok(answers);
    }
    Err(Error::Overloaded.into())
}

/// What the answers are if nothing is stored.
fn compare_all(stored: &Stored, tasks: &[Prepared]) -> Vec<Enqueued> {
    let mut batch = HashMap::new();
    let answers = tasks.iter().map(|task| {
        if let Some(answer) = compare(stored, task) {
            return answer;
        }
        let Some(hash) = &task.hash else { return Enqueued::Withheld };
        match *batch.entry(hash).or_insert(task.task.fingerprint) == task.task.fingerprint {
            true => Enqueued::Withheld,
            false => Enqueued::Conflict(None),
        }
    });
    answers.collect()
}

fn compare(stored: &Stored, task: &Prepared) -> Option<Enqueued> {
    let (id, fingerprint) = stored.get(task.hash.as_ref()?)?;
    let is_same = fingerprint[..] == task.task.fingerprint[..];
    Some(if is_same { Enqueued::Existing(*id) } else { Enqueued::Conflict(Some(*id)) })
}
