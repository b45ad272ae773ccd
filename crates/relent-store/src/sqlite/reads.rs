//! Looking at one task and its attempts, beside the writer. REQ-S2, REQ-O1.

use bytes::Bytes;
use relent_policy::FailureKind;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::queue::Failure;
use super::rows::{
    from_id, to_duration, to_failure, to_headers, to_id, to_key, to_reason, to_state, to_time,
    to_waiting,
};
use crate::attempt::{AttemptRecord, Ended, Phases};
use crate::error::Error;
use crate::id::{LaneId, PolicyKey, TaskId, TenantId};
use crate::task::{StoredRequest, TaskRecord};

/// The columns of [`task_record`]; what comes behind them is the body.
macro_rules! task_columns {
    () => {
        "tasks.id, tasks.lane, tasks.policy, state, generation, attempts, due_at, waiting, \
         started_at, deadline_at, cancel_requested, since, because, last_status, \
         idempotency_key, fingerprint, method, url, headers, correlation_id, length(body)"
    };
}
pub(super) use task_columns;

const TASK: &str = concat!(
    "SELECT ",
    task_columns!(),
    ", body FROM tasks JOIN payloads USING (id) JOIN lanes ON lanes.id = tasks.lane \
     WHERE tasks.id = ?1 AND lanes.tenant = ?2"
);
const LAST_ATTEMPT: &str = "SELECT last_attempt FROM tasks JOIN lanes ON lanes.id = tasks.lane \
     WHERE tasks.id = ?1 AND lanes.tenant = ?2";
const ATTEMPT: &str = "SELECT previous, generation, number, started_at, took, status, failure, \
     ended, next_at, waiting, because, roll, dns, connect, tls, first_byte, preview \
     FROM attempts WHERE id = ?1 AND task = ?2";

/// A chain longer than this is damaged: it may lead round in a circle.
const ATTEMPTS_MAX: usize = 100_000;

pub(super) fn task(
    connection: &Connection,
    tenant: &TenantId,
    task: TaskId,
) -> Result<Option<TaskRecord>, Failure> {
    let mut select = connection.prepare_cached(TASK)?;
    let mut rows = select.query(params![from_id(task), tenant.as_str()])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let mut record = task_record(row)?;
    record.request.body = Bytes::from(row.get::<_, Vec<u8>>(21)?);
    Ok(Some(record))
}

/// A task without its body.
pub(super) fn task_record(row: &Row<'_>) -> Result<TaskRecord, Failure> {
    let state = to_state(row.get(3)?)?;
    let because = row.get_ref(12)?.as_str_or_null().map_err(rusqlite::Error::from)?;
    let key = row.get_ref(14)?.as_str_or_null().map_err(rusqlite::Error::from)?;
    let headers = row.get_ref(18)?.as_str().map_err(rusqlite::Error::from)?;
    Ok(TaskRecord {
        id: to_id(row.get(0)?)?,
        lane: LaneId::from_u32(row.get(1)?),
        policy: PolicyKey::from_u32(row.get(2)?),
        state,
        generation: row.get(4)?,
        attempts: row.get(5)?,
        due_at: to_time(row.get(6)?),
        waiting: to_waiting(row.get(7)?)?,
        started_at: to_time(row.get(8)?),
        deadline_at: to_time(row.get(9)?),
        cancel_requested: row.get(10)?,
        ended_at: state.is_final().then_some(to_time(row.get(11)?)),
        because: because.map(to_reason).transpose()?,
        last_status: row.get(13)?,
        key: key.map(to_key).transpose()?,
        fingerprint: row.get(15)?,
        request: StoredRequest {
            method: row.get(16)?,
            url: row.get(17)?,
            headers: to_headers(headers)?,
            body: Bytes::new(),
            correlation_id: row.get(19)?,
        },
        body_bytes: u64::try_from(row.get::<_, i64>(20)?).unwrap_or_default(),
    })
}

pub(super) fn attempts(
    connection: &Connection,
    tenant: &TenantId,
    task: TaskId,
) -> Result<Option<Vec<AttemptRecord>>, Failure> {
    // One look for all of the chain, so that it cannot be deleted halfway.
    let look = connection.unchecked_transaction()?;
    let mut select = look.prepare_cached(LAST_ATTEMPT)?;
    let last = select.query_row(params![from_id(task), tenant.as_str()], |row| row.get(0));
    let Some(last) = last.optional()? else { return Ok(None) };
    Ok(Some(chain(&look, from_id(task), last)?))
}

/// The rows of a task's attempts from this one backwards, in order.
pub(super) fn chain(
    connection: &Connection,
    task: i64,
    last: i64,
) -> Result<Vec<AttemptRecord>, Failure> {
    let mut select = connection.prepare_cached(ATTEMPT)?;
    let (mut attempts, mut id) = (Vec::new(), last);
    while id != task && attempts.len() < ATTEMPTS_MAX {
        let mut rows = select.query(params![id, task])?;
        let Some(row) = rows.next()? else { break };
        id = row.get(0)?;
        attempts.push(attempt_record(row)?);
    }
    attempts.reverse();
    Ok(attempts)
}

fn attempt_record(row: &Row<'_>) -> Result<AttemptRecord, Failure> {
    let failure = row.get_ref(6)?.as_str_or_null().map_err(rusqlite::Error::from)?;
    let failure: Option<FailureKind> = failure.map(to_failure).transpose()?;
    let phase = |index| row.get::<_, Option<i64>>(index).map(|nanos| nanos.map(to_duration));
    Ok(AttemptRecord {
        generation: row.get(1)?,
        number: row.get(2)?,
        started_at: to_time(row.get(3)?),
        took: to_duration(row.get(4)?),
        status: row.get(5)?,
        failure,
        ended: ended(row)?,
        roll: row.get::<_, i64>(11)?.cast_unsigned(),
        phases: Phases {
            dns: phase(12)?,
            connect: phase(13)?,
            tls: phase(14)?,
            first_byte: phase(15)?,
        },
        preview: row.get::<_, Option<Vec<u8>>>(16)?.map(Bytes::from),
    })
}

fn ended(row: &Row<'_>) -> Result<Ended, Failure> {
    match row.get::<_, i64>(7)? {
        0 => Ok(Ended::Done),
        1 => Ok(Ended::RetryAt { at: to_time(row.get(8)?), waiting: to_waiting(row.get(9)?)? }),
        2 => {
            let because: String = row.get(10)?;
            Ok(Ended::GaveUp { because: to_reason(&because)? })
        }
        other => Err(Error::Damaged(format!("{other} is no end of an attempt")).into()),
    }
}
