//! Tasks, with their payloads and attempts, a batch in one statement.

use std::collections::{HashMap, HashSet};

use relent_policy::{GiveUpReason, IdempotencyKey, Turn};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::to_tenant;
use crate::attempt::{AttemptRecord, Ended};
use crate::error::Error;
use crate::hints::Neighbour as _;
use crate::id::TaskId;
use crate::postgres::failure::Failure;
use crate::postgres::insert::to_dues;
use crate::postgres::node::Node;
use crate::postgres::reads::{to_attempt, to_task};
use crate::postgres::rows::{
    HELD, PENDING, column, from_count, from_duration, from_failure, from_headers, from_history,
    from_id, from_line, from_repeatable, from_state, from_time, from_waiting, key_hash, to_count,
    to_id, to_repeatable, to_state, to_time,
};
use crate::task::State;
use crate::whole::{EXPORT_BYTES, Held, Likeness, WholeTask, in_the_way};

/// The columns of [`to_task`], and more. Of large bodies only so many as fit are read at all.
const EXPORT: &str = "
SELECT s.*, l.tenant FROM (
    SELECT t.id, t.line, t.policy, t.state, t.generation, t.attempts, t.due_at, t.waiting,
        t.started_at, t.deadline_at, t.cancel_requested, t.ended_at, t.because, t.last_status,
        y.idempotency_key, y.fingerprint, y.method, y.url, y.headers, y.correlation_id,
        octet_length(y.body)::bigint, y.body, t.repeatable, t.history, t.lease_until, t.claimed_at,
        sum(octet_length(y.body)) OVER (ORDER BY t.id) - octet_length(y.body) AS before
    FROM (SELECT * FROM relent.tasks WHERE id > $1 ORDER BY id LIMIT $2) t
    JOIN relent.payloads y ON y.id = t.id
) s JOIN relent.lanes l ON l.id = s.line >> 1
WHERE s.before < $3 ORDER BY s.id";

const ATTEMPTS: &str = "
SELECT generation, number, started_at, took, status, failure, ended, next_at, waiting, because,
    roll, dns, connect, tls, first_byte, preview, task
FROM relent.attempts WHERE task = ANY($1) ORDER BY task, generation, number, started_at";

const IMPORT: &str = "
WITH input AS MATERIALIZED (
    SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17,
        $18, $19, $20, $21, $22, $23, $24, $25, $26)
        AS i(id, line, due_at, deadline_at, started_at, policy, lease_until, claimed_at, ended_at,
            attempts, generation, last_status, state, waiting, repeatable, cancel_requested,
            because, history, key_hash, idempotency_key, fingerprint, method, url, headers,
            correlation_id, body)
),
stored AS (
    INSERT INTO relent.payloads (id, key_hash, idempotency_key, fingerprint, method, url, headers,
        correlation_id, body)
    SELECT id, key_hash, idempotency_key, fingerprint, method, url, headers, correlation_id, body
    FROM input ORDER BY id
    RETURNING id
),
kept AS (
    INSERT INTO relent.tasks (id, line, due_at, deadline_at, started_at, policy, token, lease_until,
        claimed_at, ended_at, attempts, generation, last_status, state, waiting, repeatable,
        cancel_requested, because, history)
    SELECT id, line, due_at, deadline_at, started_at, policy,
        CASE WHEN lease_until IS NULL THEN 0 ELSE nextval('relent.tokens') END, lease_until,
        claimed_at, ended_at, attempts, generation, last_status, state, waiting, repeatable,
        cancel_requested, because, history
    FROM input JOIN stored USING (id)
),
logged AS (
    INSERT INTO relent.attempts (task, started_at, took, roll, next_at, dns, connect, tls,
        first_byte, generation, number, status, ended, waiting, failure, because, preview)
    SELECT a.* FROM unnest($27, $28, $29, $30, $31, $32, $33, $34, $35, $36, $37, $38, $39, $40, $41,
        $42, $43) AS a(task, started_at, took, roll, next_at, dns, connect, tls, first_byte,
            generation, number, status, ended, waiting, failure, because, preview)
    JOIN stored ON stored.id = a.task
)
SELECT id FROM stored";

const LIKENESS: &str = "SELECT t.id, y.fingerprint, t.state, t.generation, t.attempts, y.key_hash
FROM (SELECT id FROM relent.payloads WHERE id = ANY($1)
    UNION SELECT id FROM relent.payloads WHERE key_hash = ANY($2)) f
JOIN relent.payloads y ON y.id = f.id JOIN relent.tasks t ON t.id = f.id";

impl Node {
    pub(super) async fn export(
        &self,
        after: Option<TaskId>,
        max: u32,
    ) -> Result<Vec<WholeTask>, Failure> {
        let (after, max) = (after.map_or(-1, from_id), i64::from(max));
        let bytes = i64::try_from(EXPORT_BYTES).unwrap_or(i64::MAX);
        let values =
            [(&after as _, Type::INT8), (&max as _, Type::INT8), (&bytes as _, Type::INT8)];
        let mut link = self.link().await;
        let rows = link.look(EXPORT, &values).await?;
        let mut tasks = rows.iter().map(to_whole).collect::<Result<Vec<_>, Error>>()?;
        let ids: Vec<i64> = tasks.iter().map(|whole| from_id(whole.task.id)).collect();
        let mut attempts = HashMap::<TaskId, Vec<AttemptRecord>>::new();
        for row in link.look(ATTEMPTS, &[(&ids, Type::INT8_ARRAY)]).await? {
            attempts.entry(to_id(column(&row, 16)?)?).or_default().push(to_attempt(&row)?);
        }
        for whole in &mut tasks {
            whole.attempts = attempts.remove(&whole.task.id).unwrap_or_default();
        }
        Ok(tasks)
    }

    pub(super) async fn import(&self, all: &[WholeTask]) -> Result<u64, Failure> {
        fn each<'a, T>(tasks: &[&'a WholeTask], get: impl Fn(&'a WholeTask) -> T) -> Vec<T> {
            tasks.iter().map(|task| get(task)).collect()
        }
        self.expect_places(all).await?;
        let tasks = &self.new_tasks(all).await?[..];
        let ids = each(tasks, |one| from_id(one.task.id));
        let lines = each(tasks, line);
        let dues = each(tasks, |one| from_time(one.task.due_at));
        let deadlines = each(tasks, |one| from_time(one.task.deadline_at));
        let starts = each(tasks, |one| from_time(one.task.started_at));
        let policies = each(tasks, |one| i64::from(one.task.policy.as_u32()));
        let leases = each(tasks, |one| one.held.map(|held| from_time(held.until)));
        let claims = each(tasks, |one| one.held?.claimed_at.map(from_time));
        let ends = each(tasks, |one| one.task.ended_at.map(from_time));
        let attempts = each(tasks, |one| from_count(one.task.attempts));
        let generations = each(tasks, |one| from_count(one.task.generation));
        let statuses = each(tasks, |one| one.task.last_status.map(i32::from));
        let states = each(tasks, code);
        let waiting = each(tasks, |one| from_waiting(one.task.waiting));
        let repeatable = each(tasks, |one| from_repeatable(one.repeatable));
        let cancels = each(tasks, |one| one.task.cancel_requested);
        let reasons = each(tasks, |one| one.task.because.map(GiveUpReason::name));
        let histories = each(tasks, |one| one.history.as_ref().map(from_history));
        let hashes = each(tasks, |one| Some(key_hash(&one.tenant, one.task.key.as_ref()?)));
        let keys = each(tasks, |one| one.task.key.as_ref().map(IdempotencyKey::as_str));
        let fingerprints = each(tasks, |one| &one.task.fingerprint[..]);
        let methods = each(tasks, |one| &*one.task.request.method);
        let urls = each(tasks, |one| &*one.task.request.url);
        let headers = each(tasks, |one| from_headers(&one.task.request.headers));
        let correlations = each(tasks, |one| one.task.request.correlation_id.as_deref());
        let bodies = each(tasks, |one| &one.task.request.body[..]);
        let log = Log::new(tasks);
        let mut values = vec![
            (&ids as _, Type::INT8_ARRAY),
            (&lines as _, Type::INT8_ARRAY),
            (&dues as _, Type::INT8_ARRAY),
            (&deadlines as _, Type::INT8_ARRAY),
            (&starts as _, Type::INT8_ARRAY),
            (&policies as _, Type::INT8_ARRAY),
            (&leases as _, Type::INT8_ARRAY),
            (&claims as _, Type::INT8_ARRAY),
            (&ends as _, Type::INT8_ARRAY),
            (&attempts as _, Type::INT4_ARRAY),
            (&generations as _, Type::INT4_ARRAY),
            (&statuses as _, Type::INT4_ARRAY),
            (&states as _, Type::INT2_ARRAY),
            (&waiting as _, Type::INT2_ARRAY),
            (&repeatable as _, Type::INT2_ARRAY),
            (&cancels as _, Type::BOOL_ARRAY),
            (&reasons as _, Type::TEXT_ARRAY),
            (&histories as _, Type::TEXT_ARRAY),
            (&hashes as _, Type::BYTEA_ARRAY),
            (&keys as _, Type::TEXT_ARRAY),
            (&fingerprints as _, Type::BYTEA_ARRAY),
            (&methods as _, Type::TEXT_ARRAY),
            (&urls as _, Type::TEXT_ARRAY),
            (&headers as _, Type::TEXT_ARRAY),
            (&correlations as _, Type::TEXT_ARRAY),
            (&bodies as _, Type::BYTEA_ARRAY),
        ];
        values.extend(log.values());
        let rows = self.link().await.query(IMPORT, &values).await?;
        let mut earliest = HashMap::new();
        for whole in tasks.iter().filter(|whole| whole.task.state == State::Pending) {
            let (line, due_at) = (line(whole), from_time(whole.task.due_at));
            let at = earliest.entry(line).or_insert(due_at);
            *at = due_at.min(*at);
        }
        self.tell(&to_dues(earliest)?);
        Ok(rows.len() as u64)
    }

    /// Every task has its policy, and a lane of its tenant.
    async fn expect_places(&self, all: &[WholeTask]) -> Result<(), Failure> {
        let owns = |one: &WholeTask| self.owns(&one.tenant, one.task.lane);
        let knows = |one: &WholeTask| self.knows_policy(one.task.policy);
        let lanes = all.iter().filter(|one| owns(one).is_none()).map(|one| one.task.lane);
        let policies = all.iter().filter(|one| !knows(one)).map(|one| one.task.policy);
        let (lanes, policies) = (lanes.collect(), policies.collect());
        self.look_up(&mut *self.link().await, lanes, policies).await?;
        let is_lost = |one: &&WholeTask| owns(one) != Some(true) || !knows(one);
        match all.iter().find(is_lost) {
            None => Ok(()),
            Some(one) => {
                let text = format!("{} has no lane or no policy", one.task.id);
                Err(Error::Damaged(text).into())
            }
        }
    }

    /// Those that are not there yet. No id and no key may stand for another.
    async fn new_tasks<'a>(&self, all: &'a [WholeTask]) -> Result<Vec<&'a WholeTask>, Failure> {
        let ids: Vec<i64> = all.iter().map(|one| from_id(one.task.id)).collect();
        let hash = |one: &WholeTask| Some(key_hash(&one.tenant, one.task.key.as_ref()?));
        let hashes: Vec<Vec<u8>> = all.iter().filter_map(hash).collect();
        let values = [(&ids as _, Type::INT8_ARRAY), (&hashes as _, Type::BYTEA_ARRAY)];
        let (mut there, mut keys) = (HashMap::new(), HashSet::new());
        for row in self.link().await.look(LIKENESS, &values).await? {
            let fingerprint: &[u8] = column(&row, 1)?;
            let likeness = Likeness {
                fingerprint: fingerprint.try_into().unwrap_or_default(),
                state: to_state(column(&row, 2)?)?,
                generation: to_count(column(&row, 3)?),
                attempts: to_count(column(&row, 4)?),
            };
            there.insert(to_id(column(&row, 0)?)?, likeness);
            keys.extend(column::<Option<Vec<u8>>>(&row, 5)?);
        }
        let mut new = Vec::with_capacity(all.len());
        for one in all {
            match there.get(&one.task.id) {
                None if hash(one).is_none_or(|hash| !keys.contains(&hash)) => new.push(one),
                Some(there) if *there == Likeness::of(&one.task) => {}
                _ => return Err(in_the_way(one.task.id).into()),
            }
        }
        Ok(new)
    }
}

fn code(whole: &WholeTask) -> i16 {
    match whole.held {
        Some(Held { claimed_at: None, .. }) => HELD,
        _ => from_state(whole.task.state).first().copied().unwrap_or(PENDING),
    }
}

/// The line that it waits in, or stood in when it was claimed.
fn line(whole: &WholeTask) -> i64 {
    let attempt = match (whole.task.state, whole.held) {
        (State::Pending, _) | (_, Some(Held { claimed_at: None, .. })) => whole.task.attempts + 1,
        _ => whole.task.attempts.max(1),
    };
    from_line(whole.task.lane, Turn::of_attempt(attempt))
}

fn to_whole(row: &Row) -> Result<WholeTask, Error> {
    let task = to_task(row)?;
    let history: Option<&str> = column(row, 23)?;
    let history = history.map(serde_json::from_str).transpose();
    let until: Option<i64> = column(row, 24)?;
    let claimed_at: Option<i64> = column(row, 25)?;
    let is_held = column::<i16>(row, 3)? == HELD;
    let claimed_at = claimed_at.filter(|_| !is_held).map(to_time);
    Ok(WholeTask {
        tenant: to_tenant(column(row, 27)?)?,
        repeatable: to_repeatable(column(row, 22)?),
        history: history
            .map_err(|_| Error::Damaged(format!("the history of {} cannot be read", task.id)))?,
        held: until.map(|until| Held { until: to_time(until), claimed_at }),
        attempts: Vec::new(),
        task,
    })
}

/// The rows of all attempts, column by column.
#[derive(Default)]
struct Log<'a> {
    numbers: [Vec<i64>; 4],
    maybe: [Vec<Option<i64>>; 5],
    counts: [Vec<i32>; 2],
    status: Vec<Option<i32>>,
    ended: Vec<i16>,
    waiting: Vec<Option<i16>>,
    failure: Vec<Option<String>>,
    because: Vec<Option<&'static str>>,
    preview: Vec<Option<&'a [u8]>>,
}

impl<'a> Log<'a> {
    fn new(tasks: &[&'a WholeTask]) -> Log<'a> {
        let mut log = Log::default();
        for whole in tasks {
            whole.attempts.iter().for_each(|attempt| log.add(whole.task.id, attempt));
        }
        log
    }

    fn add(&mut self, task: TaskId, attempt: &'a AttemptRecord) {
        let (ended, next_at, waiting, because) = match attempt.ended {
            Ended::Done => (0, None, None, None),
            Ended::RetryAt { at, waiting } => (1, Some(at), Some(waiting), None),
            Ended::GaveUp { because } => (2, None, None, Some(because)),
        };
        let AttemptRecord { started_at, took, roll, phases, .. } = attempt;
        let numbers =
            [from_id(task), from_time(*started_at), from_duration(*took), roll.cast_signed()];
        let phase = |phase: Option<std::time::Duration>| phase.map(from_duration);
        let maybe = [
            next_at.map(from_time),
            phase(phases.dns),
            phase(phases.connect),
            phase(phases.tls),
            phase(phases.first_byte),
        ];
        self.numbers.iter_mut().zip(numbers).for_each(|(column, value)| column.push(value));
        self.maybe.iter_mut().zip(maybe).for_each(|(column, value)| column.push(value));
        let counts = [attempt.generation, attempt.number].map(from_count);
        self.counts.iter_mut().zip(counts).for_each(|(column, value)| column.push(value));
        self.status.push(attempt.status.map(i32::from));
        self.ended.push(ended);
        self.waiting.push(waiting.map(from_waiting));
        self.failure.push(attempt.failure.map(from_failure));
        self.because.push(because.map(GiveUpReason::name));
        self.preview.push(attempt.preview.as_deref());
    }

    /// In the order of the statement.
    fn values(&self) -> Vec<crate::postgres::link::Value<'_>> {
        let mut values: Vec<crate::postgres::link::Value<'_>> = Vec::with_capacity(17);
        values.extend(self.numbers.iter().map(|column| (column as _, Type::INT8_ARRAY)));
        values.extend(self.maybe.iter().map(|column| (column as _, Type::INT8_ARRAY)));
        values.extend(self.counts.iter().map(|column| (column as _, Type::INT4_ARRAY)));
        values.push((&self.status, Type::INT4_ARRAY));
        values.push((&self.ended, Type::INT2_ARRAY));
        values.push((&self.waiting, Type::INT2_ARRAY));
        values.push((&self.failure, Type::TEXT_ARRAY));
        values.push((&self.because, Type::TEXT_ARRAY));
        values.push((&self.preview, Type::BYTEA_ARRAY));
        values
    }
}
