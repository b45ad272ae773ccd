//! Writing down what came of attempts: as many as wait, in one script, each fenced.
//!
//! A record changes the task that has its token and is held, or it changes nothing; the row of the log
//! is written in the same script. What a stale owner wrote is therefore nowhere. REQ-S3, REQ-S4,
//! REQ-O1.

use std::collections::HashMap;
use std::sync::Arc;

use relent_policy::{Timestamp, Turn};

use super::claim::to_token;
use super::codes::{EXHAUSTED, PENDING, SUCCEEDED, from_reason, from_waiting};
use super::failure::Failure;
use super::history::{HISTORY_BYTES, from_history};
use super::layout::from_attempt;
use super::link::Role;
use super::node::{AtWork, Node};
use super::pack::Reader;
use super::script::RECORD;
use super::values::bytes;
use crate::attempt::{Record, Recorded, Then};
use crate::error::Error;
use crate::hints::Neighbour as _;
use crate::id::LaneId;
use crate::lane::LaneDue;
use crate::queue::Job;

/// In one script.
const ROWS_MAX: usize = 500;
const BYTES_MAX: usize = 4 << 20;

pub(super) fn size(records: &[Record]) -> usize {
    let preview =
        |record: &Record| record.attempt.as_ref()?.preview.as_ref().map(bytes::Bytes::len);
    records.iter().map(|record| 256 + preview(record).unwrap_or_default()).sum()
}

/// Writes what waits for a shard, round after round, until the queue is closed.
pub(super) async fn work(node: Arc<Node>, shard: usize) {
    let _at_work = AtWork(Arc::clone(&node));
    loop {
        let jobs = node.shards[shard].records.take(ROWS_MAX, BYTES_MAX).await;
        if jobs.is_empty() {
            return;
        }
        answer_all(&node, shard, jobs).await;
    }
}

async fn answer_all(node: &Node, shard: usize, jobs: Vec<Job<Vec<Record>, Vec<Recorded>>>) {
    let records: Vec<&Record> = jobs.iter().flat_map(|job| &job.work).collect();
    match write(node, shard, &records).await {
        Ok(answers) => {
            let mut answers = answers.into_iter();
            for job in jobs {
                let own = answers.by_ref().take(job.work.len()).collect();
                job.answer(Ok(own));
            }
        }
        Err(failure) => {
            let error = Error::from(failure);
            jobs.into_iter().for_each(|job| job.answer(Err(error.clone())));
        }
    }
}

async fn write(node: &Node, shard: usize, records: &[&Record]) -> Result<Vec<Recorded>, Failure> {
    let mut args = Vec::with_capacity(2 * records.len());
    for record in records {
        args.push(change(record)?);
        args.push(record.attempt.as_ref().map(from_attempt).unwrap_or_default());
    }
    let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
    let written = bytes(node.run(shard, Role::Record, &RECORD, &args).await?)?;
    let mut written = Reader::new(&written);
    let (mut answers, mut dues) = (Vec::with_capacity(records.len()), HashMap::new());
    for record in records {
        let (kind, lane, retries) = (written.u8()?, written.u32()?, written.u8()? == 1);
        if let (3, Then::RetryAt { at, .. }) = (kind, &record.then) {
            let line = (LaneId::from_u32(lane), retries);
            let earliest = dues.entry(line).or_insert(*at);
            *earliest = (*earliest).min(*at);
        }
        answers.push(match kind {
            0 => Recorded::Stale,
            2 => Recorded::Cancelled,
            _ => Recorded::Applied,
        });
    }
    let due = |((lane, retries), at): ((LaneId, bool), Timestamp)| LaneDue {
        lane,
        turn: if retries { Turn::Retry } else { Turn::First },
        at,
    };
    node.tell(&dues.into_iter().map(due).collect::<Vec<_>>());
    Ok(answers)
}

/// What becomes of a task, as the script reads it.
fn change(record: &Record) -> Result<Vec<u8>, Error> {
    let mut out = Vec::with_capacity(77);
    out.extend(record.lease.task.as_u64().to_be_bytes());
    out.extend(to_token(record.lease.token).0.to_be_bytes());
    let status = record.attempt.as_ref().and_then(|attempt| attempt.status).unwrap_or_default();
    let (state, waiting, because, due, history) = match &record.then {
        Then::Succeed => (SUCCEEDED, 0, 0, 0, [0; HISTORY_BYTES]),
        Then::Exhaust { because } => (EXHAUSTED, 0, from_reason(*because), 0, [0; HISTORY_BYTES]),
        Then::RetryAt { at, waiting, history } => {
            (PENDING, from_waiting(*waiting), 0, at.as_nanos(), from_history(history)?)
        }
    };
    out.extend([state, waiting, because]);
    out.extend(status.to_be_bytes());
    out.extend(due.to_be_bytes());
    out.extend(history);
    let begun = record.attempt.as_ref().map_or(Timestamp::ZERO, |attempt| attempt.started_at);
    out.extend(begun.as_nanos().to_be_bytes());
    Ok(out)
}
