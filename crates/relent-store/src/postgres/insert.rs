//! The statement that stores tasks, and the one that finds what their keys belong to. REQ-S1, REQ-S4.

use std::collections::HashMap;

use relent_policy::{IdempotencyKey, Turn};
use tokio_postgres::types::Type;

use super::failure::Failure;
use super::link::Link;
use super::node::Node;
use super::rows::{
    column, from_duration, from_headers, from_line, from_repeatable, from_start, key_hash, to_id,
    to_line, to_time,
};
use crate::error::Error;
use crate::hints::Neighbour as _;
use crate::id::{TaskId, TenantId};
use crate::lane::LaneDue;
use crate::task::{FirstAttempt, NewTask};

const INSERT: &str = "
WITH clock AS MATERIALIZED (SELECT coalesce($1, relent.now_nanos()) AS now),
input AS MATERIALIZED (
    SELECT i.*, greatest(clock.now + i.after, i.not_before) AS due_at,
        (greatest(clock.now / 1000000 - 1767225600000, 0) << 22)
            | (nextval('relent.task_numbers') & 4194303) AS id
    FROM clock CROSS JOIN unnest($2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
        WITH ORDINALITY AS i(line, policy, after, not_before, lifetime, repeatable, key_hash,
            idempotency_key, fingerprint, method, url, headers, correlation_id, body, n)
),
stored AS (
    INSERT INTO relent.payloads (id, key_hash, idempotency_key, fingerprint, method, url, headers,
        correlation_id, body)
    SELECT id, key_hash, idempotency_key, fingerprint, method, url, headers, correlation_id, body
    FROM input ORDER BY key_hash
    ON CONFLICT (key_hash) WHERE key_hash IS NOT NULL DO NOTHING
    RETURNING id
),
waiting AS (
    INSERT INTO relent.tasks (id, line, due_at, deadline_at, started_at, policy, token, attempts,
        generation, state, waiting, repeatable, cancel_requested)
    SELECT id, line, due_at, due_at + lifetime, due_at, policy, 0, 0, 0, 0, 0, repeatable, false
    FROM input JOIN stored USING (id)
)
SELECT n, id, due_at FROM input JOIN stored USING (id)
WHERE CASE WHEN $16 AND (SELECT count(*) FROM stored) < (SELECT count(*) FROM input)
    THEN relent.refuse() ELSE true END";

const FIND: &str = "SELECT key_hash, id, fingerprint FROM relent.payloads WHERE key_hash = ANY($1)";

/// A task, as far as it can be made ready without the store.
pub(super) struct Prepared {
    pub(super) task: NewTask,
    pub(super) hash: Option<Vec<u8>>,
    headers: String,
}

/// What is stored under a key.
pub(super) type Stored = HashMap<Vec<u8>, (TaskId, Vec<u8>)>;

impl Prepared {
    pub(super) fn new(tenant: &TenantId, task: NewTask) -> Prepared {
        Prepared {
            hash: task.key.as_ref().map(|key| key_hash(tenant, key)),
            headers: from_headers(&task.request.headers),
            task,
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.task.request.body.len() + self.headers.len() + 512
    }
}

pub(super) async fn find(link: &mut Link, hashes: Vec<Vec<u8>>) -> Result<Stored, Failure> {
    let mut stored = HashMap::new();
    if hashes.is_empty() {
        return Ok(stored);
    }
    for row in link.look(FIND, &[(&hashes, Type::BYTEA_ARRAY)]).await? {
        stored.insert(column(&row, 0)?, (to_id(column(&row, 1)?)?, column(&row, 2)?));
    }
    Ok(stored)
}

/// Inserts, once more if others were in the way.
pub(super) async fn insert_again(
    node: &Node,
    link: &mut Link,
    tasks: &[&Prepared],
    strict: bool,
) -> Result<Vec<(usize, TaskId)>, Failure> {
    if tasks.is_empty() {
        return Ok(Vec::new());
    }
    match insert(node, link, tasks, strict).await {
        Err(failure) if failure.is_passing() => insert(node, link, tasks, strict).await,
        inserted => inserted,
    }
}

/// Inserts tasks, and says which of them, by number, are stored under which ids.
async fn insert(
    node: &Node,
    link: &mut Link,
    tasks: &[&Prepared],
    strict: bool,
) -> Result<Vec<(usize, TaskId)>, Failure> {
    fn each<'a, T>(tasks: &[&'a Prepared], get: impl Fn(&'a Prepared) -> T) -> Vec<T> {
        tasks.iter().map(|task| get(task)).collect()
    }
    let now = node.clock.given();
    let lines = each(tasks, |one| from_line(one.task.lane, Turn::First));
    let policies = each(tasks, |one| i64::from(one.task.policy.as_u32()));
    let first = each(tasks, |one| match one.task.first {
        FirstAttempt::Now => (0, 0),
        FirstAttempt::After(wait) => (from_duration(wait), 0),
        FirstAttempt::NotBefore(at) => (0, from_start(at)),
    });
    let (after, not_before): (Vec<i64>, Vec<i64>) = first.into_iter().unzip();
    let lifetimes = each(tasks, |one| from_duration(one.task.lifetime));
    let repeatable = each(tasks, |one| from_repeatable(one.task.repeatable));
    let hashes = each(tasks, |one| one.hash.as_deref());
    let keys = each(tasks, |one| one.task.key.as_ref().map(IdempotencyKey::as_str));
    let fingerprints = each(tasks, |one| &one.task.fingerprint[..]);
    let methods = each(tasks, |one| &one.task.request.method[..]);
    let urls = each(tasks, |one| &one.task.request.url[..]);
    let headers = each(tasks, |one| &one.headers[..]);
    let correlations = each(tasks, |one| one.task.request.correlation_id.as_deref());
    let bodies = each(tasks, |one| &one.task.request.body[..]);
    let values = [
        (&now as _, Type::INT8),
        (&lines as _, Type::INT8_ARRAY),
        (&policies as _, Type::INT8_ARRAY),
        (&after as _, Type::INT8_ARRAY),
        (&not_before as _, Type::INT8_ARRAY),
        (&lifetimes as _, Type::INT8_ARRAY),
        (&repeatable as _, Type::INT2_ARRAY),
        (&hashes as _, Type::BYTEA_ARRAY),
        (&keys as _, Type::TEXT_ARRAY),
        (&fingerprints as _, Type::BYTEA_ARRAY),
        (&methods as _, Type::TEXT_ARRAY),
        (&urls as _, Type::TEXT_ARRAY),
        (&headers as _, Type::TEXT_ARRAY),
        (&correlations as _, Type::TEXT_ARRAY),
        (&bodies as _, Type::BYTEA_ARRAY),
        (&strict as _, Type::BOOL),
    ];
    let rows = link.query(INSERT, &values).await?;
    let (mut inserted, mut dues) = (Vec::with_capacity(rows.len()), HashMap::new());
    for row in rows {
        let n: i64 = column(&row, 0)?;
        let number = usize::try_from(n - 1).ok().filter(|number| *number < tasks.len());
        let number = number.ok_or_else(|| Error::Damaged(format!("there is no row {n}")))?;
        inserted.push((number, to_id(column(&row, 1)?)?));
        let at: i64 = column(&row, 2)?;
        let earliest = dues.entry(lines[number]).or_insert(at);
        *earliest = at.min(*earliest);
    }
    node.tell(&to_dues(dues)?);
    Ok(inserted)
}

/// The earliest times of lines, as a listener is told.
pub(super) fn to_dues(lines: HashMap<i64, i64>) -> Result<Vec<LaneDue>, Error> {
    let dues = lines.into_iter().map(|(line, at)| {
        let (lane, turn) = to_line(line)?;
        Ok(LaneDue { lane, turn, at: to_time(at) })
    });
    dues.collect()
}
