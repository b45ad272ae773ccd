//! Looking at tasks. REQ-S2, REQ-O1, REQ-D3.

use std::collections::BTreeMap;

use bytes::Bytes;
use relent_policy::{IdempotencyKey, Turn};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::failure::Failure;
use super::node::Node;
use super::rows::{
    EXHAUSTED, PENDING, column, from_id, key_hash, to_count, to_duration, to_failure, to_headers,
    to_id, to_key, to_line, to_policy, to_reason, to_state, to_status, to_time, to_waiting,
};
use crate::attempt::{AttemptRecord, Ended, Phases};
use crate::contract::Counts;
use crate::error::Error;
use crate::id::{LaneId, TaskId, TenantId};
use crate::lane::LaneDue;
use crate::task::{StoredRequest, TaskRecord};

const TASK: &str = "
SELECT t.id, t.line, t.policy, t.state, t.generation, t.attempts, t.due_at, t.waiting,
    t.started_at, t.deadline_at, t.cancel_requested, t.ended_at, t.because, t.last_status,
    y.idempotency_key, y.fingerprint, y.method, y.url, y.headers, y.correlation_id,
    octet_length(y.body)::bigint, y.body
FROM relent.tasks t JOIN relent.payloads y ON y.id = t.id
WHERE t.id = $1 AND t.line >> 1 IN (SELECT id FROM relent.lanes WHERE tenant = $2)";

const BY_KEY: &str = "SELECT id FROM relent.payloads WHERE key_hash = $1";

const IS_THERE: &str = "SELECT 1 FROM relent.tasks t
WHERE t.id = $1 AND t.line >> 1 IN (SELECT id FROM relent.lanes WHERE tenant = $2)";

const ATTEMPTS: &str = "
SELECT generation, number, started_at, took, status, failure, ended, next_at, waiting, because,
    roll, dns, connect, tls, first_byte, preview
FROM relent.attempts WHERE task = $1 ORDER BY generation, number, started_at";

/// From line to line by the index, past everything between the first row of one and of the next.
const LINES: &str = "
WITH RECURSIVE heads AS (
    (SELECT t.line FROM relent.tasks t WHERE t.state = 0 ORDER BY t.line LIMIT 1)
    UNION ALL
    SELECT (SELECT t.line FROM relent.tasks t WHERE t.state = 0 AND t.line > h.line
        ORDER BY t.line LIMIT 1)
    FROM heads h WHERE h.line IS NOT NULL
)
SELECT h.line, d.due_at FROM heads h CROSS JOIN LATERAL (
    SELECT t.due_at FROM relent.tasks t
    WHERE t.state = 0 AND t.line = h.line AND t.deadline_at > coalesce($1, relent.now_nanos())
    ORDER BY t.due_at, t.id LIMIT 1) d
WHERE h.line IS NOT NULL";

const COUNTS: &str = "
SELECT line, 0::smallint, count(*) FROM relent.tasks WHERE state = 0 GROUP BY line
UNION ALL
SELECT line, 1::smallint, count(*) FROM relent.tasks WHERE lease_until IS NOT NULL GROUP BY line
UNION ALL
SELECT line, 3::smallint, count(*) FROM relent.tasks WHERE state = 3 GROUP BY line";

const CHECK: &str = "SELECT pg_is_in_recovery()";

impl Node {
    pub(super) async fn task(
        &self,
        tenant: &TenantId,
        task: TaskId,
    ) -> Result<Option<TaskRecord>, Failure> {
        let (id, owner) = (from_id(task), tenant.as_str());
        let values = [(&id as _, Type::INT8), (&owner as _, Type::TEXT)];
        let rows = self.link().await.look(TASK, &values).await?;
        Ok(rows.first().map(to_task).transpose()?)
    }

    pub(super) async fn task_by_key(
        &self,
        tenant: &TenantId,
        key: &IdempotencyKey,
    ) -> Result<Option<TaskId>, Failure> {
        let hash = key_hash(tenant, key);
        let rows = self.link().await.look(BY_KEY, &[(&hash, Type::BYTEA)]).await?;
        Ok(rows.first().map(|row| to_id(column(row, 0)?)).transpose()?)
    }

    pub(super) async fn attempts(
        &self,
        tenant: &TenantId,
        task: TaskId,
    ) -> Result<Option<Vec<AttemptRecord>>, Failure> {
        let (id, owner) = (from_id(task), tenant.as_str());
        let values = [(&id as _, Type::INT8), (&owner as _, Type::TEXT)];
        let mut link = self.link().await;
        if link.look(IS_THERE, &values).await?.is_empty() {
            return Ok(None);
        }
        let rows = link.look(ATTEMPTS, &values[..1]).await?;
        Ok(Some(rows.iter().map(to_attempt).collect::<Result<_, Error>>()?))
    }

    pub(super) async fn lines(&self) -> Result<Vec<LaneDue>, Failure> {
        let now = self.clock.given();
        let rows = self.long_link().await.look(LINES, &[(&now, Type::INT8)]).await?;
        let lines = rows.iter().map(|row| {
            let (lane, turn) = to_line(column(row, 0)?)?;
            Ok(LaneDue { lane, turn, at: to_time(column(row, 1)?) })
        });
        Ok(lines.collect::<Result<_, Error>>()?)
    }

    pub(super) async fn counts(&self) -> Result<Vec<(LaneId, Counts)>, Failure> {
        let mut lanes = BTreeMap::<LaneId, Counts>::new();
        for row in self.long_link().await.look(COUNTS, &[]).await? {
            let (lane, turn) = to_line(column(&row, 0)?)?;
            let (state, count): (i16, i64) = (column(&row, 1)?, column(&row, 2)?);
            let counts = lanes.entry(lane).or_default();
            let place = match (state, turn) {
                (PENDING, Turn::First) => &mut counts.first,
                (PENDING, Turn::Retry) => &mut counts.retries,
                (EXHAUSTED, _) => &mut counts.dead_letters,
                _ => &mut counts.in_flight,
            };
            *place += count.cast_unsigned();
        }
        Ok(lanes.into_iter().collect())
    }

    pub(super) async fn check(&self) -> Result<(), Failure> {
        let rows = self.link().await.look(CHECK, &[]).await?;
        match rows.first().map(|row| column(row, 0)).transpose()? {
            Some(false) => Ok(()),
            _ => Err(Error::Unavailable("it is a standby: it cannot be written".to_owned()).into()),
        }
    }
}

/// A task out of the columns of [`TASK`]; the last of them may be left out.
pub(super) fn to_task(row: &Row) -> Result<TaskRecord, Error> {
    let body = if row.len() > 21 { column::<&[u8]>(row, 21)? } else { &[] };
    let because: Option<&str> = column(row, 12)?;
    let ended_at: Option<i64> = column(row, 11)?;
    let fingerprint: &[u8] = column(row, 15)?;
    let fingerprint = fingerprint.try_into();
    let body_bytes: i64 = column(row, 20)?;
    Ok(TaskRecord {
        id: to_id(column(row, 0)?)?,
        lane: to_line(column(row, 1)?)?.0,
        policy: to_policy(column(row, 2)?)?,
        state: to_state(column(row, 3)?)?,
        generation: to_count(column(row, 4)?),
        attempts: to_count(column(row, 5)?),
        due_at: to_time(column(row, 6)?),
        waiting: to_waiting(column(row, 7)?)?,
        started_at: to_time(column(row, 8)?),
        deadline_at: to_time(column(row, 9)?),
        cancel_requested: column(row, 10)?,
        ended_at: ended_at.map(to_time),
        because: because.map(to_reason).transpose()?,
        last_status: to_status(column(row, 13)?)?,
        key: to_key(column(row, 14)?)?,
        fingerprint: fingerprint
            .map_err(|_| Error::Damaged("a fingerprint has 16 bytes".to_owned()))?,
        request: StoredRequest {
            method: column(row, 16)?,
            url: column(row, 17)?,
            headers: to_headers(column(row, 18)?)?,
            correlation_id: column(row, 19)?,
            body: Bytes::copy_from_slice(body),
        },
        body_bytes: body_bytes.cast_unsigned(),
    })
}

pub(super) fn to_attempt(row: &Row) -> Result<AttemptRecord, Error> {
    let duration = |index| column::<Option<i64>>(row, index).map(|found| found.map(to_duration));
    let failure: Option<&str> = column(row, 5)?;
    let roll: i64 = column(row, 10)?;
    let preview: Option<&[u8]> = column(row, 15)?;
    let ended = match column::<i16>(row, 6)? {
        0 => Ended::Done,
        1 => Ended::RetryAt { at: to_time(column(row, 7)?), waiting: to_waiting(column(row, 8)?)? },
        2 => Ended::GaveUp { because: to_reason(column(row, 9)?)? },
        other => return Err(Error::Damaged(format!("{other} is no end of an attempt"))),
    };
    Ok(AttemptRecord {
        generation: to_count(column(row, 0)?),
        number: to_count(column(row, 1)?),
        started_at: to_time(column(row, 2)?),
        took: to_duration(column(row, 3)?),
        status: to_status(column(row, 4)?)?,
        failure: failure.map(to_failure).transpose()?,
        ended,
        roll: roll.cast_unsigned(),
        phases: Phases {
            dns: duration(11)?,
            connect: duration(12)?,
            tls: duration(13)?,
            first_byte: duration(14)?,
        },
        preview: preview.map(Bytes::copy_from_slice),
    })
}
