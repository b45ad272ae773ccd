//! Claiming, and taking over: one statement each.
//!
//! **Claims.** For every line that is wanted, the first due rows that nobody else has locked, as many
//! as are wanted: `FOR UPDATE SKIP LOCKED` under a `LIMIT`, in a subquery that is evaluated once for
//! each line (`LATERAL`), inside `WITH … AS MATERIALIZED`. The last word matters: a subquery that the
//! planner may run again locks other rows the second time, and more is claimed than was asked for.
//! The statement locks, counts the attempts, grants the leases and fetches what is to be sent; then
//! it is over, and nothing is held in the database while a request is under way.
//!
//! **What is next.** If fewer were due than wanted, whatever else is due is somebody else's at this
//! moment, and what counts is what becomes due later. If as many were found as were wanted, it is
//! the row after the last. A row that somebody else had locked and then let go is found by the next
//! look.
//!
//! **Where a line is read from** is said by [`floors`](super::floors).
//!
//! Claims of one node go one after the other, in the order in which they came. REQ-S3, REQ-S4, REQ-S5.

use std::sync::Arc;

use bytes::Bytes;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::failure::Failure;
use super::link::Link;
use super::node::{AtWork, Node};
use super::place::Role;
use super::queue::Job;
use super::rows::{
    IN_FLIGHT, column, from_duration, from_line, to_count, to_headers, to_history, to_id, to_key,
    to_line, to_policy, to_repeatable, to_status, to_time,
};
use crate::error::Error;
use crate::lease::{Claimed, Claims, Lease, SWEEP_LEASE, Swept, SweptBecause, Want};
use crate::task::StoredRequest;

const CLAIM: &str = "
WITH clock AS MATERIALIZED (SELECT coalesce($1, relent.now_nanos()) AS now),
lines AS MATERIALIZED (
    SELECT w.n, picked.ids, (
        SELECT t.due_at FROM relent.tasks t
        WHERE t.state = 0 AND t.line = w.line AND t.deadline_at > (SELECT now FROM clock)
            AND (t.due_at, t.id) > (
                CASE WHEN picked.found < w.max THEN (SELECT now FROM clock) + w.ahead
                    ELSE coalesce(picked.dues[picked.found], w.from_at - 1) END,
                CASE WHEN picked.found < w.max THEN 9223372036854775807
                    ELSE coalesce(picked.ids[picked.found], 9223372036854775807) END)
        ORDER BY t.due_at, t.id LIMIT 1) AS next_at,
        CASE WHEN picked.found < w.max THEN (SELECT now FROM clock)
            ELSE least(coalesce(picked.dues[picked.found], w.from_at), (SELECT now FROM clock))
        END AS read_to
    FROM unnest($2, $3, $5, $6) WITH ORDINALITY AS w(line, max, from_at, ahead, n) CROSS JOIN LATERAL (
        SELECT array_agg(d.id) AS ids, array_agg(d.due_at) AS dues, count(*)::int AS found FROM (
            SELECT t.id, t.due_at FROM relent.tasks t
            WHERE t.state = 0 AND t.line = w.line AND t.due_at >= w.from_at
                AND t.due_at <= (SELECT now FROM clock) + w.ahead
                AND t.deadline_at > (SELECT now FROM clock)
            ORDER BY t.due_at, t.id LIMIT w.max FOR UPDATE SKIP LOCKED) d) picked
),
picked AS MATERIALIZED (
    SELECT u.id, nextval('relent.tokens') AS token FROM lines l CROSS JOIN LATERAL unnest(l.ids) AS u(id)
),
claimed AS (
    UPDATE relent.tasks t SET state = 1, attempts = t.attempts + 1, token = p.token,
        claimed_at = (SELECT now FROM clock), lease_until = (SELECT now FROM clock) + policy.lease,
        node = $4
    FROM picked p, relent.policies policy
    WHERE t.id = p.id AND policy.key = t.policy
    RETURNING t.id, t.token, t.lease_until, t.line, t.policy, t.generation, t.attempts,
        t.started_at, t.repeatable, t.history, t.due_at, t.last_status
)
SELECT NULL::bigint AS id, NULL::bigint AS token, NULL::bigint, NULL::bigint, NULL::bigint,
    NULL::int, NULL::int, NULL::bigint, NULL::smallint, NULL::text, NULL::bigint, NULL::int,
    NULL::text, NULL::text, NULL::text, NULL::text, NULL::text, NULL::bytea,
    array_agg(next_at ORDER BY n), array_agg(read_to ORDER BY n)
FROM lines
UNION ALL
SELECT c.*, y.idempotency_key, y.method, y.url, y.headers, y.correlation_id, y.body, NULL, NULL
FROM claimed c JOIN relent.payloads y ON y.id = c.id";

const SWEEP: &str = "
WITH clock AS MATERIALIZED (SELECT coalesce($1, relent.now_nanos()) AS now),
expired AS MATERIALIZED (
    SELECT t.id FROM relent.tasks t
    WHERE t.lease_until IS NOT NULL AND t.lease_until <= (SELECT now FROM clock)
    ORDER BY t.lease_until, t.id LIMIT $2 FOR UPDATE SKIP LOCKED
),
overdue AS MATERIALIZED (
    SELECT t.id FROM relent.tasks t
    WHERE t.state = 0 AND t.deadline_at <= (SELECT now FROM clock)
    ORDER BY t.deadline_at, t.id LIMIT $2 - (SELECT count(*) FROM expired) FOR UPDATE SKIP LOCKED
),
picked AS MATERIALIZED (
    SELECT u.id, nextval('relent.tokens') AS token
    FROM (SELECT id FROM expired UNION ALL SELECT id FROM overdue) u
),
swept AS (
    UPDATE relent.tasks t SET state = CASE WHEN t.state = 1 THEN 1 ELSE 5 END, token = p.token,
        lease_until = (SELECT now FROM clock) + $3, node = $4
    FROM picked p WHERE t.id = p.id
    RETURNING t.id, t.token, t.lease_until, t.line, t.policy, t.generation, t.attempts,
        t.started_at, t.repeatable, t.history, greatest(t.claimed_at, t.due_at), t.state
)
SELECT s.*, y.idempotency_key FROM swept s JOIN relent.payloads y ON y.id = s.id";

/// What the node that leaves still holds is for others to take over.
const RELEASE: &str = "UPDATE relent.tasks
SET lease_until = least(lease_until, coalesce($1, relent.now_nanos()))
WHERE lease_until IS NOT NULL AND node = $2";

/// What may be taken.
pub(super) enum Taking {
    Due(Vec<Want>),
    Lost(u32),
}

/// What was taken.
pub(super) enum Taken {
    Due(Claims),
    Lost(Vec<Swept>),
}

/// Takes what is asked for, one after the other, until the queue is closed.
pub(super) async fn work(node: Arc<Node>) {
    let _at_work = AtWork(Arc::clone(&node));
    let mut link = Link::new(Arc::clone(&node.place), Role::Index);
    loop {
        let jobs = node.claims.take(1, usize::MAX).await;
        if jobs.is_empty() {
            return;
        }
        for job in jobs {
            let taken = take(&node, &mut link, &job).await;
            job.answer(taken.map_err(Error::from));
        }
    }
}

async fn take(node: &Node, link: &mut Link, job: &Job<Taking, Taken>) -> Result<Taken, Failure> {
    match &job.work {
        Taking::Due(wants) => claim(node, link, wants).await.map(Taken::Due),
        Taking::Lost(max) => sweep(node, link, *max).await.map(Taken::Lost),
    }
}

async fn claim(node: &Node, link: &mut Link, wants: &[Want]) -> Result<Claims, Failure> {
    if wants.is_empty() {
        return Ok(Claims::default());
    }
    let now = node.clock.given();
    let lines: Vec<i64> = wants.iter().map(|want| from_line(want.lane, want.turn)).collect();
    let maxima: Vec<i64> = wants.iter().map(|want| i64::from(want.max)).collect();
    let ahead: Vec<i64> = wants.iter().map(|want| from_duration(want.ahead)).collect();
    let from: Vec<i64> = lines.iter().map(|line| node.floors.begin(*line)).collect();
    let values = [
        (&now as _, Type::INT8),
        (&lines as _, Type::INT8_ARRAY),
        (&maxima as _, Type::INT8_ARRAY),
        (&node.number as _, Type::INT4),
        (&from as _, Type::INT8_ARRAY),
        (&ahead as _, Type::INT8_ARRAY),
    ];
    let rows = link.query(CLAIM, &values).await?;
    let mut claims = Claims { claimed: Vec::with_capacity(rows.len()), next: Vec::new() };
    for row in &rows {
        match column::<Option<i64>>(row, 0)? {
            Some(_) => claims.claimed.push(to_claimed(row)?),
            None => {
                let next: Option<Vec<Option<i64>>> = column(row, 18)?;
                let next = next.unwrap_or_default();
                claims.next = next.into_iter().map(|at| at.map(to_time)).collect();
                let read_to: Option<Vec<i64>> = column(row, 19)?;
                let read = lines.iter().zip(wants).zip(read_to.unwrap_or_default());
                for ((line, _), at) in read.filter(|((_, want), _)| want.max > 0) {
                    node.floors.end(*line, at);
                }
            }
        }
    }
    // Tokens were given in the order of the wants, and within them of due times.
    claims.claimed.sort_unstable_by_key(|claimed| claimed.lease.token);
    claims.next.resize(wants.len(), None);
    Ok(claims)
}

fn to_lease(row: &Row) -> Result<Lease, Error> {
    let token: i64 = column(row, 1)?;
    Ok(Lease {
        task: to_id(column(row, 0)?)?,
        token: token.cast_unsigned(),
        until: to_time(column(row, 2)?),
    })
}

fn to_past(row: &Row) -> Result<relent_policy::History, Error> {
    let attempts = to_count(column(row, 6)?);
    let (started_at, repeatable) = (to_time(column(row, 7)?), to_repeatable(column(row, 8)?));
    Ok(to_history(column(row, 9)?, started_at, repeatable, attempts))
}

fn to_claimed(row: &Row) -> Result<Claimed, Error> {
    let body: &[u8] = column(row, 17)?;
    Ok(Claimed {
        lease: to_lease(row)?,
        lane: to_line(column(row, 3)?)?.0,
        policy: to_policy(column(row, 4)?)?,
        generation: to_count(column(row, 5)?),
        history: to_past(row)?,
        due_at: to_time(column(row, 10)?),
        previous_status: to_status(column(row, 11)?)?,
        key: to_key(column(row, 12)?)?,
        request: StoredRequest {
            method: column(row, 13)?,
            url: column(row, 14)?,
            headers: to_headers(column(row, 15)?)?,
            correlation_id: column(row, 16)?,
            body: Bytes::copy_from_slice(body),
        },
    })
}

async fn sweep(node: &Node, link: &mut Link, max: u32) -> Result<Vec<Swept>, Failure> {
    let now = node.clock.given();
    let (max, lease) = (i64::from(max), from_duration(SWEEP_LEASE));
    let values = [
        (&now as _, Type::INT8),
        (&max as _, Type::INT8),
        (&lease as _, Type::INT8),
        (&node.number as _, Type::INT4),
    ];
    let rows = link.query(SWEEP, &values).await?;
    let mut swept = rows.iter().map(to_swept).collect::<Result<Vec<Swept>, Error>>()?;
    swept.sort_unstable_by_key(|swept| swept.lease.token);
    Ok(swept)
}

fn to_swept(row: &Row) -> Result<Swept, Error> {
    let (began_at, state): (i64, i16) = (column(row, 10)?, column(row, 11)?);
    let because = match state {
        IN_FLIGHT => SweptBecause::LeaseExpired { began_at: to_time(began_at) },
        _ => SweptBecause::DeadlinePassed,
    };
    Ok(Swept {
        lease: to_lease(row)?,
        lane: to_line(column(row, 3)?)?.0,
        policy: to_policy(column(row, 4)?)?,
        generation: to_count(column(row, 5)?),
        history: to_past(row)?,
        because,
        key: to_key(column(row, 12)?)?,
    })
}

/// Ends the leases of this node.
pub(super) async fn release(node: &Node) -> Result<(), Failure> {
    let now = node.clock.given();
    let values = [(&now as _, Type::INT8), (&node.number as _, Type::INT4)];
    node.long_link().await.query(RELEASE, &values).await.map(drop)
}
