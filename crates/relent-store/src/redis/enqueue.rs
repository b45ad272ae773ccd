//! Storing tasks: as many as wait, in one script.
//!
//! A caller's batch is a tenant's, and everything of a tenant is in one shard, its keys included. So one
//! script compares a batch with what is there and stores it whole or not at all; nothing can come in
//! between, and a crash leaves nothing half done. Batches of many callers go in one call, one after the
//! other, each as if it came alone.
//!
//! **Ids** are made by the script out of the server's clock and a count, as [`TaskId`] says; the lowest
//! byte is the shard, so that no two shards make the same. Nothing is found by that byte: a task that came
//! from another store has the id it had there. A shard's ids grow; so do those that one node is given, in
//! whatever shard: it says with each call which was its last.
//!
//! **Copies.** If so configured, the answer waits for replicas, or the log, to have what was written
//! (`WAIT`, `WAITAOF`). If they do not in time, the caller is told that the store is not available, and
//! the task may be there all the same. REQ-S1, REQ-S4, REQ-I2.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use redis::Value;
use relent_policy::{Timestamp, Turn};

use super::failure::Failure;
use super::layout::{fixed, key_hash};
use super::link::Role;
use super::node::{AtWork, Node};
use super::pack::{Reader, damaged, nanos, start};
use super::script::ENQUEUE;
use super::values::{array, bytes, int};
use crate::error::Error;
use crate::hints::Neighbour as _;
use crate::id::{LaneId, PolicyKey, TaskId, TenantId};
use crate::lane::LaneDue;
use crate::queue::Job;
use crate::task::{Enqueued, FirstAttempt, NewTask};

/// In one script.
const ROWS_MAX: usize = 500;
const BYTES_MAX: usize = 4 << 20;

/// Tasks of one caller, as far as they can be made ready without the store.
pub(super) struct NewTasks {
    /// Size and tenant, then for each task when it is due and what is written.
    args: Vec<Vec<u8>>,
    lanes: Vec<LaneId>,
}

impl NewTasks {
    /// # Errors
    ///
    /// When a lane or policy is not known, or not the tenant's.
    pub(super) fn new(
        node: &Node,
        tenant: &TenantId,
        tasks: &[NewTask],
    ) -> Result<NewTasks, Error> {
        let mut args = Vec::with_capacity(2 * tasks.len() + 1);
        let mut head = u32::try_from(tasks.len()).unwrap_or(u32::MAX).to_be_bytes().to_vec();
        head.extend(tenant.as_str().as_bytes());
        args.push(head);
        for task in tasks {
            if node.owns(tenant, task.lane) != Some(true) {
                return Err(Error::Damaged(format!("{tenant} has no {}", task.lane)));
            }
            let lease = node.lease_of(task.policy);
            let lease =
                lease.ok_or_else(|| Error::Damaged(format!("there is no {}", task.policy)))?;
            let hash = task.key.as_ref().map(|key| key_hash(tenant, key));
            args.push(schedule(task, lease, hash.as_ref()));
            args.push(fixed(tenant, hash.as_ref(), &task.into()));
        }
        Ok(NewTasks { args, lanes: tasks.iter().map(|task| task.lane).collect() })
    }

    pub(super) fn rows(&self) -> usize {
        self.lanes.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.args.iter().map(|arg| arg.len() + 64).sum()
    }
}

/// When a task is due, and under what.
fn schedule(task: &NewTask, lease: u64, hash: Option<&[u8; 16]>) -> Vec<u8> {
    let (after, not_before) = match task.first {
        FirstAttempt::Now => (0, 0),
        FirstAttempt::After(wait) => (nanos(wait), 0),
        FirstAttempt::NotBefore(at) => (0, start(at)),
    };
    let mut out = Vec::with_capacity(52);
    for time in [after, not_before, nanos(task.lifetime)] {
        out.extend(time.to_be_bytes());
    }
    out.extend(task.policy.as_u32().to_be_bytes());
    out.extend(lease.to_be_bytes());
    out.extend(hash.into_iter().flatten());
    out
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
            policies.filter(|policy| self.lease_of(*policy).is_none()).collect(),
        )
    }
}

/// Stores what waits for a shard, round after round, until the queue is closed.
pub(super) async fn work(node: Arc<Node>, shard: usize) {
    let _at_work = AtWork(Arc::clone(&node));
    loop {
        let jobs = node.shards[shard].enqueues.take(ROWS_MAX, BYTES_MAX).await;
        if jobs.is_empty() {
            return;
        }
        answer_all(&node, shard, jobs).await;
    }
}

async fn answer_all(node: &Node, shard: usize, jobs: Vec<Job<NewTasks, Vec<Enqueued>>>) {
    match store(node, shard, &jobs).await {
        Ok(answers) => {
            let mut answers = answers.into_iter();
            for job in jobs {
                let own = answers.by_ref().take(job.work.rows()).collect();
                job.answer(Ok(own));
            }
        }
        Err(failure) => {
            let error = Error::from(failure);
            jobs.into_iter().for_each(|job| job.answer(Err(error.clone())));
        }
    }
}

async fn store(
    node: &Node,
    shard: usize,
    jobs: &[Job<NewTasks, Vec<Enqueued>>],
) -> Result<Vec<Enqueued>, Failure> {
    let last = node.last_task.load(Ordering::SeqCst).to_be_bytes();
    let number = shard.to_string();
    let mut args: Vec<&[u8]> = vec![&last, number.as_bytes()];
    args.extend(jobs.iter().flat_map(|job| &job.work.args).map(Vec::as_slice));
    let copies = node.copies.as_ref().map(|(copies, _)| copies);
    let (stored, copied) = node.run_copied(shard, Role::Enqueue, &ENQUEUE, &args, copies).await?;
    let stored = bytes(stored)?;
    let mut stored = Reader::new(&stored);
    let (mut answers, mut dues) = (Vec::new(), HashMap::new());
    for lane in jobs.iter().flat_map(|job| &job.work.lanes) {
        let kind = stored.u8()?;
        let id = TaskId::from_u64(stored.u64()?).ok_or_else(|| damaged("is no task's id"))?;
        let due_at = stored.time()?;
        answers.push(match kind {
            b'N' => {
                node.learn_task(id);
                let earliest = dues.entry(*lane).or_insert(due_at);
                *earliest = due_at.min(*earliest);
                Enqueued::Created(id)
            }
            b'E' => Enqueued::Existing(id),
            b'C' => Enqueued::Conflict(Some(id)),
            b'B' => Enqueued::Conflict(None),
            _ => Enqueued::Withheld,
        });
    }
    node.tell(&first_attempts(dues));
    if let (Some((_, wanted)), Some(copied)) = (&node.copies, copied) {
        expect_copies(copied, *wanted)?;
    }
    Ok(answers)
}

pub(super) fn first_attempts(dues: HashMap<LaneId, Timestamp>) -> Vec<LaneDue> {
    dues.into_iter().map(|(lane, at)| LaneDue { lane, turn: Turn::First, at }).collect()
}

/// `WAIT` answers with the number of replicas, `WAITAOF` with those of logs here and there.
pub(super) fn expect_copies(copied: Value, wanted: i64) -> Result<(), Failure> {
    let (logged, replicas) = match copied {
        Value::Array(_) => {
            let mut counts = array(copied)?.into_iter();
            let mut count = || int(counts.next().unwrap_or_default());
            (count()? > 0, count()?)
        }
        replicas => (true, int(replicas)?),
    };
    if logged && replicas >= wanted {
        return Ok(());
    }
    let text = format!(
        "{replicas} of {wanted} replicas have confirmed what was stored; it may be there all the same"
    );
    Err(Error::Unavailable(text).into())
}
