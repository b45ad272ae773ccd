//! How a task and its attempts are written: packed, so that a task is one key and a change of its
//! state rewrites its first bytes in place.
//!
//! A task begins with what changes, at fixed places that the scripts know (`lua/*.lua`, which count
//! from 1). Then comes what never changes, and last the body, so that a list can leave it out. An
//! attempt's row begins with its length and the time of the attempt. Numbers are big-endian: bytes
//! sort as they do. REQ-S1.

use std::time::Duration;

use bytes::Bytes;
use relent_policy::{History, IdempotencyKey, Repeatable, Timestamp};
use sha2::{Digest, Sha256};

use super::codes::{
    HELD, from_failure, from_reason, from_repeatable, from_state, from_waiting, to_failure,
    to_reason, to_repeatable, to_state, to_waiting,
};
use super::history::{HISTORY_BYTES, from_history, to_history};
use super::pack::{Reader, damaged, nanos, put_name, put_text, text};
use crate::attempt::{AttemptRecord, Ended, Phases};
use crate::error::Error;
use crate::id::{LaneId, PolicyKey, TaskId, TenantId};
use crate::task::{NewTask, State, StoredRequest, TaskRecord};
use crate::whole::{Held, WholeTask};

/// Where what never changes begins.
const FIXED_AT: usize = 126;
/// Where the place of the body is written.
const BODY_AT: usize = 147;
/// What a key is found by: a part of the SHA-256 over tenant and key.
pub(super) fn key_hash(tenant: &TenantId, key: &IdempotencyKey) -> [u8; 16] {
    let digest = Sha256::new()
        .chain_update(tenant.as_str())
        .chain_update([0])
        .chain_update(key.as_str())
        .finalize();
    let mut hash = [0; 16];
    hash.copy_from_slice(&digest[..16]);
    hash
}

/// What never changes about a task.
pub(super) struct Fixed<'a> {
    pub(super) lane: LaneId,
    pub(super) repeatable: Repeatable,
    pub(super) fingerprint: [u8; 16],
    pub(super) key: Option<&'a IdempotencyKey>,
    pub(super) request: &'a StoredRequest,
}

impl<'a> From<&'a NewTask> for Fixed<'a> {
    fn from(task: &'a NewTask) -> Fixed<'a> {
        let NewTask { lane, repeatable, fingerprint, request, .. } = task;
        let (lane, repeatable, fingerprint) = (*lane, *repeatable, *fingerprint);
        Fixed { lane, repeatable, fingerprint, key: task.key.as_ref(), request }
    }
}

/// What never changes about a task, and its body.
pub(super) fn fixed(tenant: &TenantId, hash: Option<&[u8; 16]>, task: &Fixed<'_>) -> Vec<u8> {
    let request = task.request;
    let mut out = Vec::with_capacity(192 + request.url.len() + request.body.len());
    out.extend(task.lane.as_u32().to_be_bytes());
    out.push(from_repeatable(task.repeatable));
    out.extend(task.fingerprint);
    out.extend([0; 4]);
    put_name(&mut out, tenant.as_str());
    match (task.key, hash) {
        (Some(key), Some(hash)) => {
            let length = u16::try_from(key.as_str().len()).unwrap_or(u16::MAX);
            out.extend(length.to_be_bytes());
            out.extend(hash);
            out.extend(&key.as_str().as_bytes()[..usize::from(length)]);
        }
        _ => out.extend([0; 2]),
    }
    put_text(&mut out, &request.method);
    put_text(&mut out, &request.url);
    let headers = u32::try_from(request.headers.len()).unwrap_or(u32::MAX);
    out.extend(headers.to_be_bytes());
    for (name, value) in &request.headers {
        put_text(&mut out, name);
        put_text(&mut out, value);
    }
    match &request.correlation_id {
        Some(id) => {
            out.push(1);
            put_text(&mut out, id);
        }
        None => out.push(0),
    }
    let body_at = u32::try_from(FIXED_AT + out.len()).unwrap_or(u32::MAX);
    out[BODY_AT - FIXED_AT..][..4].copy_from_slice(&body_at.to_be_bytes());
    out.extend(&request.body);
    out
}

/// A task from another store. Whoever holds it is nobody here, and the script gives the token.
pub(super) fn from_whole(
    whole: &WholeTask,
    lease: u64,
    hash: Option<&[u8; 16]>,
) -> Result<Vec<u8>, Error> {
    let (task, held) = (&whole.task, whole.held);
    let claimed_at = held.and_then(|held| held.claimed_at);
    let state = match task.state {
        State::InFlight if claimed_at.is_none() => HELD,
        state => from_state(state),
    };
    let mut out = vec![state, u8::from(task.cancel_requested), from_waiting(task.waiting)];
    out.push(task.because.map_or(0, from_reason));
    out.extend(task.last_status.unwrap_or_default().to_be_bytes());
    for number in [task.attempts, task.generation, task.policy.as_u32()] {
        out.extend(number.to_be_bytes());
    }
    let ended_at = task.state.is_final().then(|| task.ended_at.unwrap_or(task.due_at));
    let times = [held.map(|held| held.until), claimed_at, ended_at];
    let times = times.map(|at| at.unwrap_or(Timestamp::ZERO).as_nanos());
    for number in [lease, 0].into_iter().chain(times) {
        out.extend(number.to_be_bytes());
    }
    out.extend([0; 4]);
    for at in [task.due_at, task.started_at, task.deadline_at] {
        out.extend(at.as_nanos().to_be_bytes());
    }
    out.extend(whole.history.as_ref().map_or(Ok([0; HISTORY_BYTES]), from_history)?);
    let TaskRecord { lane, fingerprint, request, .. } = task;
    let (lane, fingerprint, repeatable) = (*lane, *fingerprint, whole.repeatable);
    let unchanging = Fixed { lane, repeatable, fingerprint, key: task.key.as_ref(), request };
    out.extend(fixed(&whole.tenant, hash, &unchanging));
    Ok(out)
}

/// A task as it is written.
pub(super) struct Task {
    pub(super) tenant: String,
    pub(super) record: TaskRecord,
    pub(super) is_held: bool,
    pub(super) lease: u64,
    pub(super) until: Timestamp,
    pub(super) claimed_at: Timestamp,
    repeatable: Repeatable,
    history: [u8; HISTORY_BYTES],
}

impl Task {
    /// Reads a task; `bytes` may end before the body, and then `body_bytes` says how long that is.
    pub(super) fn read(id: TaskId, bytes: Vec<u8>, whole: Option<u64>) -> Result<Task, Error> {
        let mut head = Reader::new(&bytes);
        let state = head.u8()?;
        let cancel_requested = head.u8()? == 1;
        let waiting = to_waiting(head.u8()?)?;
        let because = to_reason(head.u8()?)?;
        let status = head.u16()?;
        let (attempts, generation) = (head.u32()?, head.u32()?);
        let policy = PolicyKey::from_u32(head.u32()?);
        let lease = head.u64()?;
        head.take(8)?;
        let until = head.time()?;
        let (claimed_at, ended_at) = (head.time()?, head.time()?);
        head.take(4)?;
        let (due_at, started_at, deadline_at) = (head.time()?, head.time()?, head.time()?);
        let history = head.array()?;
        let lane = LaneId::from_u32(head.u32()?);
        let repeatable = to_repeatable(head.u8()?);
        let fingerprint = head.array()?;
        let body_at = head.u32()? as usize;
        let tenant = head.name()?;
        let key = match usize::from(head.u16()?) {
            0 => None,
            length => {
                head.take(16)?;
                let key = IdempotencyKey::try_new(&text(head.take(length)?)?);
                Some(key.map_err(|_| damaged("has an idempotency key that is none"))?)
            }
        };
        let (method, url) = (head.text()?, head.text()?);
        let headers = (0..head.u32()?).map(|_| Ok((head.text()?, head.text()?)));
        let headers = headers.collect::<Result<Vec<_>, Error>>()?;
        let correlation_id = if head.u8()? == 1 { Some(head.text()?) } else { None };
        let whole = whole.unwrap_or(bytes.len() as u64);
        let body_bytes = whole.saturating_sub(body_at as u64);
        let bytes = Bytes::from(bytes);
        let body = if body_at < bytes.len() { bytes.slice(body_at..) } else { Bytes::new() };
        let state_now = to_state(state)?;
        let record = TaskRecord {
            id,
            lane,
            policy,
            state: state_now,
            generation,
            attempts,
            due_at,
            waiting,
            started_at,
            deadline_at,
            cancel_requested,
            ended_at: state_now.is_final().then_some(ended_at),
            because,
            last_status: (status > 0).then_some(status),
            key,
            fingerprint,
            request: StoredRequest { method, url, headers, body, correlation_id },
            body_bytes,
        };
        let is_held = state == HELD;
        Ok(Task { tenant, record, is_held, lease, until, claimed_at, repeatable, history })
    }

    /// Everything about it, for another store.
    ///
    /// # Errors
    ///
    /// When it has a history that cannot be read.
    pub(super) fn into_whole(self, attempts: Vec<AttemptRecord>) -> Result<WholeTask, Error> {
        let history = to_history(&self.history);
        if history.is_none() && self.history[0] != 0 {
            let text = format!("the history of {} cannot be read", self.record.id);
            return Err(Error::Damaged(text));
        }
        let tenant = TenantId::try_new(&self.tenant);
        let (until, claimed_at) = (self.until, (!self.is_held).then_some(self.claimed_at));
        let in_flight = self.record.state == State::InFlight;
        Ok(WholeTask {
            tenant: tenant.map_err(|_| damaged("is a task without a tenant"))?,
            repeatable: self.repeatable,
            history,
            held: in_flight.then_some(Held { until, claimed_at }),
            attempts,
            task: self.record,
        })
    }

    /// Its past with this many attempts.
    pub(super) fn past(&self, attempts: u32) -> History {
        let fresh = || History::start(self.record.started_at, self.repeatable);
        let mut history = to_history(&self.history).unwrap_or_else(fresh);
        while history.attempts() < attempts.min(ATTEMPTS_MAX) {
            history = history.begin_attempt();
        }
        history
    }
}

/// More than any policy allows: a damaged count does not keep the store busy.
const ATTEMPTS_MAX: u32 = 10_000;

/// An attempt's row.
pub(super) fn from_attempt(attempt: &AttemptRecord) -> Vec<u8> {
    let mut out = vec![0; 4];
    out.extend(attempt.started_at.as_nanos().to_be_bytes());
    out.extend(attempt.generation.to_be_bytes());
    out.extend(attempt.number.to_be_bytes());
    out.extend(nanos(attempt.took).to_be_bytes());
    out.extend(attempt.roll.to_be_bytes());
    out.extend(attempt.status.unwrap_or_default().to_be_bytes());
    put_name(&mut out, &attempt.failure.map(from_failure).unwrap_or_default());
    match attempt.ended {
        Ended::Done => out.push(0),
        Ended::RetryAt { at, waiting } => {
            out.push(1);
            out.extend(at.as_nanos().to_be_bytes());
            out.push(from_waiting(waiting));
        }
        Ended::GaveUp { because } => out.extend([2, from_reason(because)]),
    }
    let phases = attempt.phases;
    for phase in [phases.dns, phases.connect, phases.tls, phases.first_byte] {
        out.push(u8::from(phase.is_some()));
        out.extend(phase.map(|phase| nanos(phase).to_be_bytes()).into_iter().flatten());
    }
    out.push(u8::from(attempt.preview.is_some()));
    out.extend(attempt.preview.iter().flatten());
    let length = u32::try_from(out.len()).unwrap_or(u32::MAX);
    out[..4].copy_from_slice(&length.to_be_bytes());
    out
}

/// All rows of a task.
pub(super) fn to_attempts(bytes: &[u8]) -> Result<Vec<AttemptRecord>, Error> {
    let (mut rows, mut left) = (Vec::new(), Reader::new(bytes));
    while !left.is_at_end() {
        let length = left.u32()? as usize;
        rows.push(to_attempt(left.take(length.saturating_sub(4))?)?);
    }
    Ok(rows)
}

fn to_attempt(bytes: &[u8]) -> Result<AttemptRecord, Error> {
    let mut row = Reader::new(bytes);
    let started_at = row.time()?;
    let (generation, number) = (row.u32()?, row.u32()?);
    let took = Duration::from_nanos(row.u64()?);
    let (roll, status) = (row.u64()?, row.u16()?);
    let failure = row.name()?;
    let ended = match row.u8()? {
        0 => Ended::Done,
        1 => Ended::RetryAt { at: row.time()?, waiting: to_waiting(row.u8()?)? },
        2 => {
            let because = to_reason(row.u8()?)?;
            Ended::GaveUp { because: because.ok_or_else(|| damaged("gave up for no reason"))? }
        }
        _ => return Err(damaged("is no end of an attempt")),
    };
    let mut phase = || match row.u8()? {
        0 => Ok(None),
        _ => row.u64().map(|nanos| Some(Duration::from_nanos(nanos))),
    };
    let phases = Phases { dns: phase()?, connect: phase()?, tls: phase()?, first_byte: phase()? };
    let has_preview = row.u8()? == 1;
    Ok(AttemptRecord {
        generation,
        number,
        started_at,
        took,
        status: (status > 0).then_some(status),
        failure: (!failure.is_empty()).then(|| to_failure(&failure)).transpose()?,
        ended,
        roll,
        phases,
        preview: has_preview.then(|| Bytes::copy_from_slice(row.rest())),
    })
}
