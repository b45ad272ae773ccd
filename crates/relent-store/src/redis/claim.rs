//! Claiming, and taking over: one script each.
//!
//! A claim takes the first due tasks of each line that is wanted, counts their attempts, grants the
//! leases and brings what is to be sent, all in one script: a task moves from its line to those in
//! flight, and is never in neither. A line is a set sorted by due time and id, read from its beginning;
//! what has passed its deadline is taken out of it on the way and left to the sweep, which finds it in
//! the set of deadlines. A call takes a bounded number of tasks and bytes; what is left of a want is
//! said to be due at once.
//!
//! Claims of one shard go one after the other, in the order in which they came.
//!
//! **Tokens.** A shard counts its own. Whoever has a lease has no more than it when it comes to write the
//! result, so the shard stands in the token's lowest byte; an id would not do, as a task that came from
//! another store has the id that it had there. REQ-S3, REQ-S4, REQ-S5.

use std::sync::Arc;

use redis::Value;
use relent_policy::{Timestamp, Turn};

use super::failure::Failure;
use super::layout::Task;
use super::link::Role;
use super::node::{AtWork, Node};
use super::pack::{Reader, damaged, nanos};
use super::script::{CLAIM, RELEASE, SWEEP};
use super::values::{array, bytes, int};
use crate::error::Error;
use crate::id::{LaneId, TaskId};
use crate::lease::{Claimed, Lease, SWEEP_LEASE, Swept, SweptBecause, Want};
use crate::queue::Job;

/// In one script.
const ROWS_MAX: u32 = 1_000;
const BYTES_MAX: u32 = 8 << 20;

/// What may be taken.
pub(super) enum Taking {
    Due(Vec<Want>),
    Lost(u32),
}

/// What was taken.
pub(super) enum Taken {
    /// For each want.
    Due(Vec<(Vec<Claimed>, Option<Timestamp>)>),
    Lost(Vec<Swept>),
}

/// A line of a lane, as scripts name it.
pub(super) fn line(lane: LaneId, turn: Turn) -> u64 {
    u64::from(lane.as_u32()) * 2 + u64::from(turn == Turn::Retry)
}

pub(super) fn to_line(line: u64) -> Result<(LaneId, Turn), Error> {
    let turn = if line & 1 == 0 { Turn::First } else { Turn::Retry };
    let lane = u32::try_from(line >> 1).map_err(|_| damaged("is no lane"))?;
    Ok((LaneId::from_u32(lane), turn))
}

/// A token as leases carry it: what the shard counted, and the shard.
fn from_token(counted: u64, shard: usize) -> u64 {
    counted << 8 | (shard as u64 & 0xff)
}

/// What the shard counted, and the shard.
pub(super) fn to_token(token: u64) -> (u64, usize) {
    (token >> 8, usize::from(token.to_be_bytes()[7]))
}

/// Takes what is asked for, one after the other, until the queue is closed.
pub(super) async fn work(node: Arc<Node>, shard: usize) {
    let _at_work = AtWork(Arc::clone(&node));
    loop {
        let jobs = node.shards[shard].claims.take(1, usize::MAX).await;
        if jobs.is_empty() {
            return;
        }
        for job in jobs {
            let taken = take(&node, shard, &job).await;
            job.answer(taken.map_err(Error::from));
        }
    }
}

async fn take(node: &Node, shard: usize, job: &Job<Taking, Taken>) -> Result<Taken, Failure> {
    match &job.work {
        Taking::Due(wants) => claim(node, shard, wants).await.map(Taken::Due),
        Taking::Lost(max) => sweep(node, shard, *max).await.map(Taken::Lost),
    }
}

async fn claim(
    node: &Node,
    shard: usize,
    wants: &[Want],
) -> Result<Vec<(Vec<Claimed>, Option<Timestamp>)>, Failure> {
    let mut values = vec![ROWS_MAX.to_string().into_bytes(), BYTES_MAX.to_string().into_bytes()];
    for want in wants {
        values.push(line(want.lane, want.turn).to_string().into_bytes());
        values.push(want.max.to_string().into_bytes());
        values.push(nanos(want.ahead).to_be_bytes().to_vec());
    }
    let args: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
    let claimed = node.run(shard, Role::Claim, &CLAIM, &args).await?;
    let mut claimed = array(claimed)?.into_iter();
    let mut next = || claimed.next().ok_or_else(|| damaged("is no claim"));
    let now = Reader::new(&bytes(next()?)?).time()?;
    let mut token = int(next()?)?.unsigned_abs();
    let nexts = bytes(next()?)?;
    let mut nexts = Reader::new(&nexts);
    let mut taken = Vec::with_capacity(wants.len());
    for _ in wants {
        let (is_there, at, count) = (nexts.u8()? == 1, nexts.time()?, nexts.u32()?);
        let mut tasks = Vec::with_capacity(count as usize);
        for _ in 0..count {
            let task = Task::read(to_id(next()?)?, bytes(next()?)?, None)?;
            tasks.push(to_claimed(task, from_token(token, shard), now));
            token += 1;
        }
        taken.push((tasks, is_there.then_some(at)));
    }
    Ok(taken)
}

pub(super) fn to_id(value: Value) -> Result<TaskId, Error> {
    let id = Reader::new(&bytes(value)?).u64()?;
    TaskId::from_u64(id).ok_or_else(|| damaged("is no task's id"))
}

/// A claimed task, out of what was written before the claim.
fn to_claimed(task: Task, token: u64, now: Timestamp) -> Claimed {
    let history = task.past(task.record.attempts.saturating_add(1));
    let until = Timestamp::from_nanos(now.as_nanos().saturating_add(task.lease));
    let record = task.record;
    Claimed {
        lease: Lease { task: record.id, token, until },
        lane: record.lane,
        policy: record.policy,
        generation: record.generation,
        history,
        due_at: record.due_at,
        previous_status: record.last_status,
        key: record.key,
        request: record.request,
    }
}

async fn sweep(node: &Node, shard: usize, max: u32) -> Result<Vec<Swept>, Failure> {
    let lease = nanos(SWEEP_LEASE).to_be_bytes();
    let mut swept = Vec::new();
    loop {
        let left = max.min(ROWS_MAX).saturating_sub(u32::try_from(swept.len()).unwrap_or(u32::MAX));
        let (left, begun) = (left.to_string(), swept.len());
        let args: [&[u8]; 2] = [left.as_bytes(), &lease];
        let taken = node.run(shard, Role::Claim, &SWEEP, &args).await?;
        let mut taken = array(taken)?.into_iter();
        let mut next = || taken.next().ok_or_else(|| damaged("is no sweep"));
        let mut token = int(next()?)?.unsigned_abs();
        let until = Reader::new(&bytes(next()?)?).time()?;
        let has_more = int(next()?)? == 1;
        while let Ok(id) = next() {
            let task = Task::read(to_id(id)?, bytes(next()?)?, None)?;
            swept.push(to_swept(task, from_token(token, shard), until));
            token += 1;
        }
        // It found nothing to take over among so many deadlines; there may be more behind them.
        if !has_more || swept.len() > begun {
            return Ok(swept);
        }
    }
}

fn to_swept(task: Task, token: u64, until: Timestamp) -> Swept {
    let was_attempted = task.record.state == crate::task::State::InFlight && !task.is_held;
    let because = match was_attempted {
        true => SweptBecause::LeaseExpired { began_at: task.claimed_at.max(task.record.due_at) },
        false => SweptBecause::DeadlinePassed,
    };
    Swept {
        lease: Lease { task: task.record.id, token, until },
        lane: task.record.lane,
        policy: task.record.policy,
        generation: task.record.generation,
        history: task.past(task.record.attempts),
        because,
        key: task.record.key,
    }
}

/// Ends the leases of this node.
pub(super) async fn release(node: &Node) -> Result<(), Failure> {
    for shard in 0..node.shards.len() {
        let mut from = Vec::new();
        loop {
            from = bytes(node.run(shard, Role::Claim, &RELEASE, &[&from]).await?)?;
            if from.is_empty() {
                break;
            }
        }
    }
    Ok(())
}
