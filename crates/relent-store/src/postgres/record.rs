//! Writing down what came of attempts: as many as wait, in one statement, each fenced.
//!
//! A record changes the row that has its token and is held, or it changes nothing; the log's row is
//! written out of what was changed, in the same statement. What a stale owner wrote is therefore
//! nowhere. Rows are changed in the order of their ids, so that two statements never wait for each
//! other. REQ-S3, REQ-S4, REQ-O1.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::types::Type;

use super::failure::Failure;
use super::insert::to_dues;
use super::link::Link;
use super::node::{AtWork, Node};
use super::place::Role;
use super::queue::Job;
use super::rows::{
    CANCELLED, EXHAUSTED, PENDING, SUCCEEDED, column, from_count, from_duration, from_failure,
    from_history, from_id, from_time, from_waiting,
};
use crate::attempt::{AttemptRecord, Ended, Record, Recorded, Then};
use crate::error::Error;
use crate::hints::Neighbour as _;

/// By its state, and not by `lease_until IS NOT NULL`, which says the same: that would let the index
/// of leases take part, and before the first statistics it looks as good as the one of ids.
const RECORD: &str = "
WITH clock AS MATERIALIZED (SELECT coalesce($1, relent.now_nanos()) AS now),
input AS MATERIALIZED (
    SELECT * FROM unnest($2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17,
        $18, $19, $20, $21, $22, $23, $24, $25)
        WITH ORDINALITY AS i(id, token, state, due_at, waiting, history, because, attempted,
            generation, number, started_at, took, status, failure, ended, next_at, next_waiting,
            gave_up, roll, dns, connect, tls, first_byte, preview, n)
),
changed AS (
    UPDATE relent.tasks t SET
        state = CASE WHEN i.state = 0 AND t.cancel_requested THEN 4 ELSE i.state END,
        line = CASE WHEN i.state = 0 AND NOT t.cancel_requested AND t.attempts > 0
            THEN t.line | 1 ELSE t.line END,
        due_at = CASE WHEN i.state = 0 AND NOT t.cancel_requested
            THEN i.due_at ELSE t.due_at END,
        waiting = CASE WHEN i.state = 0 AND NOT t.cancel_requested
            THEN i.waiting ELSE t.waiting END,
        history = CASE WHEN i.state = 0 AND NOT t.cancel_requested
            THEN i.history ELSE t.history END,
        ended_at = CASE WHEN i.state = 0 AND NOT t.cancel_requested
            THEN NULL ELSE (SELECT now FROM clock) END,
        because = i.because,
        last_status = coalesce(i.status, t.last_status),
        cancel_requested = false,
        lease_until = NULL,
        claimed_at = NULL
    FROM input i
    WHERE t.id = i.id AND t.token = i.token AND t.state IN (1, 5)
    RETURNING t.state AS now_state, t.line, t.due_at AS now_due_at, i.*
),
logged AS (
    INSERT INTO relent.attempts (task, started_at, took, roll, next_at, dns, connect, tls,
        first_byte, generation, number, status, ended, waiting, failure, because, preview)
    SELECT id, started_at, took, roll, next_at, dns, connect, tls, first_byte, generation, number,
        status, ended, next_waiting, failure, gave_up, preview
    FROM changed WHERE attempted
)
SELECT n, now_state, line, now_due_at FROM changed";

/// In one statement.
const ROWS_MAX: usize = 1_000;
const BYTES_MAX: usize = 8 << 20;

pub(super) fn bytes(records: &[Record]) -> usize {
    records.iter().map(|record| 512 + preview(record).map_or(0, <[u8]>::len)).sum()
}

fn preview(record: &Record) -> Option<&[u8]> {
    record.attempt.as_ref()?.preview.as_deref()
}

/// Writes what waits, round after round, until the queue is closed.
pub(super) async fn work(node: Arc<Node>) {
    let _at_work = AtWork(Arc::clone(&node));
    let mut link = Link::new(Arc::clone(&node.place), Role::Index);
    loop {
        let jobs = node.records.take(ROWS_MAX, BYTES_MAX).await;
        if jobs.is_empty() {
            return;
        }
        write_all(&node, &mut link, jobs).await;
    }
}

async fn write_all(node: &Node, link: &mut Link, jobs: Vec<Job<Vec<Record>, Vec<Recorded>>>) {
    let records: Vec<&Record> = jobs.iter().flat_map(|job| &job.work).collect();
    let mut written = write(node, link, &records).await;
    if matches!(&written, Err(failure) if failure.is_passing()) {
        written = write(node, link, &records).await;
    }
    match written {
        Ok(answers) => {
            let mut answers = answers.into_iter();
            for job in jobs {
                let own = answers.by_ref().take(job.work.len()).collect();
                job.answer(Ok(own));
            }
        }
        Err(failure) if failure.is_about_values() && jobs.len() > 1 => {
            for job in jobs {
                Box::pin(write_all(node, link, vec![job])).await;
            }
        }
        Err(failure) => {
            let error = Error::from(failure);
            jobs.into_iter().for_each(|job| job.answer(Err(error.clone())));
        }
    }
}

/// What becomes of a task, as its row says it.
struct Change {
    state: i16,
    due_at: Option<i64>,
    waiting: Option<i16>,
    history: Option<String>,
    because: Option<&'static str>,
}

impl Change {
    fn of(then: &Then) -> Change {
        let ends =
            |state, because| Change { state, due_at: None, waiting: None, history: None, because };
        match then {
            Then::Succeed => ends(SUCCEEDED, None),
            Then::Exhaust { because } => ends(EXHAUSTED, Some(because.name())),
            Then::RetryAt { at, waiting, history } => Change {
                state: PENDING,
                due_at: Some(from_time(*at)),
                waiting: Some(from_waiting(*waiting)),
                history: Some(from_history(history)),
                because: None,
            },
        }
    }
}

/// How an attempt ended: the kind, the next time and what it waits for, why it was given up.
fn ending(ended: &Ended) -> (i16, Option<i64>, Option<i16>, Option<&'static str>) {
    match ended {
        Ended::Done => (0, None, None, None),
        Ended::RetryAt { at, waiting } => {
            (1, Some(from_time(*at)), Some(from_waiting(*waiting)), None)
        }
        Ended::GaveUp { because } => (2, None, None, Some(because.name())),
    }
}

async fn write(
    node: &Node,
    link: &mut Link,
    records: &[&Record],
) -> Result<Vec<Recorded>, Failure> {
    let mut answers = vec![Recorded::Stale; records.len()];
    // A lease writes once: a second record under it is stale.
    let mut leases = HashSet::new();
    let is_first = |index: &usize| {
        let lease = &records[*index].lease;
        leases.insert((lease.task, lease.token))
    };
    let mut order: Vec<usize> = (0..records.len()).filter(is_first).collect();
    if order.is_empty() {
        return Ok(answers);
    }
    order.sort_unstable_by_key(|index| records[*index].lease.task);
    let rows: Vec<&Record> = order.iter().map(|index| records[*index]).collect();
    let (mut written, mut dues) =
        (write_rows(node, link, &rows).await?.into_iter(), HashMap::new());
    for row in &mut written {
        let n: i64 = column(&row, 0)?;
        let state: i16 = column(&row, 1)?;
        let number = usize::try_from(n - 1).ok().and_then(|number| order.get(number));
        let number = *number.ok_or_else(|| Error::Damaged(format!("there is no row {n}")))?;
        let was_called_off =
            state == CANCELLED && matches!(records[number].then, Then::RetryAt { .. });
        answers[number] = if was_called_off { Recorded::Cancelled } else { Recorded::Applied };
        if state == PENDING {
            let (line, at): (i64, i64) = (column(&row, 2)?, column(&row, 3)?);
            let earliest = dues.entry(line).or_insert(at);
            *earliest = at.min(*earliest);
        }
    }
    node.tell(&to_dues(dues)?);
    Ok(answers)
}

async fn write_rows(
    node: &Node,
    link: &mut Link,
    records: &[&Record],
) -> Result<Vec<tokio_postgres::Row>, Failure> {
    fn each<T>(records: &[&Record], get: impl Fn(&Record) -> T) -> Vec<T> {
        records.iter().map(|record| get(record)).collect()
    }
    fn of_attempt<T>(
        records: &[&Record],
        get: impl Fn(&AttemptRecord) -> Option<T>,
    ) -> Vec<Option<T>> {
        records.iter().map(|record| record.attempt.as_ref().and_then(&get)).collect()
    }
    let nanos = |duration: Option<Duration>| duration.map(from_duration);
    let now = node.clock.given();
    let ids = each(records, |record| from_id(record.lease.task));
    let tokens = each(records, |record| record.lease.token.cast_signed());
    let changes = each(records, |record| Change::of(&record.then));
    let states: Vec<i16> = changes.iter().map(|change| change.state).collect();
    let dues: Vec<Option<i64>> = changes.iter().map(|change| change.due_at).collect();
    let waiting: Vec<Option<i16>> = changes.iter().map(|change| change.waiting).collect();
    let histories: Vec<_> = changes.iter().map(|change| change.history.as_deref()).collect();
    let because: Vec<_> = changes.iter().map(|change| change.because).collect();
    let attempted = each(records, |record| record.attempt.is_some());
    let generations = of_attempt(records, |row| Some(from_count(row.generation)));
    let numbers = of_attempt(records, |row| Some(from_count(row.number)));
    let started = of_attempt(records, |row| Some(from_time(row.started_at)));
    let took = of_attempt(records, |row| Some(from_duration(row.took)));
    let statuses = of_attempt(records, |row| row.status.map(i32::from));
    let failures = of_attempt(records, |row| row.failure.map(from_failure));
    let ended = of_attempt(records, |row| Some(ending(&row.ended).0));
    let next_at = of_attempt(records, |row| ending(&row.ended).1);
    let next_waiting = of_attempt(records, |row| ending(&row.ended).2);
    let gave_up = of_attempt(records, |row| ending(&row.ended).3);
    let rolls = of_attempt(records, |row| Some(row.roll.cast_signed()));
    let dns = of_attempt(records, |row| nanos(row.phases.dns));
    let connect = of_attempt(records, |row| nanos(row.phases.connect));
    let tls = of_attempt(records, |row| nanos(row.phases.tls));
    let first_byte = of_attempt(records, |row| nanos(row.phases.first_byte));
    let previews: Vec<Option<&[u8]>> = records.iter().map(|record| preview(record)).collect();
    let values = [
        (&now as _, Type::INT8),
        (&ids as _, Type::INT8_ARRAY),
        (&tokens as _, Type::INT8_ARRAY),
        (&states as _, Type::INT2_ARRAY),
        (&dues as _, Type::INT8_ARRAY),
        (&waiting as _, Type::INT2_ARRAY),
        (&histories as _, Type::TEXT_ARRAY),
        (&because as _, Type::TEXT_ARRAY),
        (&attempted as _, Type::BOOL_ARRAY),
        (&generations as _, Type::INT4_ARRAY),
        (&numbers as _, Type::INT4_ARRAY),
        (&started as _, Type::INT8_ARRAY),
        (&took as _, Type::INT8_ARRAY),
        (&statuses as _, Type::INT4_ARRAY),
        (&failures as _, Type::TEXT_ARRAY),
        (&ended as _, Type::INT2_ARRAY),
        (&next_at as _, Type::INT8_ARRAY),
        (&next_waiting as _, Type::INT2_ARRAY),
        (&gave_up as _, Type::TEXT_ARRAY),
        (&rolls as _, Type::INT8_ARRAY),
        (&dns as _, Type::INT8_ARRAY),
        (&connect as _, Type::INT8_ARRAY),
        (&tls as _, Type::INT8_ARRAY),
        (&first_byte as _, Type::INT8_ARRAY),
        (&previews as _, Type::BYTEA_ARRAY),
    ];
    link.query(RECORD, &values).await
}
