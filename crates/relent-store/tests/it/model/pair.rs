//! The model and another store side by side.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use relent_policy::{
    FailureKind, GiveUpReason, History, IdempotencyKey, Repeatable, Timestamp, Turn,
};
use relent_store::{
    AttemptRecord, Claims, Counts, Ended, Enqueued, FirstAttempt, LaneDue, Lease, NewTask, Phases,
    Record, Redrive, State, StoredRequest, Swept, SweptBecause, TaskFilter, TaskId, TenantId, Then,
    Waiting, Want,
};

use super::names::Names;
use super::operation::{Asker, Item, Line, Narrowed, Operation, Pick, Result};
use super::side::Side;
use crate::backend::{Backend, Clock};

const REDRIVE_LIFETIME: Duration = Duration::from_secs(1_800);

pub(super) struct Pair {
    clock: Clock,
    began_at: Timestamp,
    tenants: [TenantId; 2],
    model: Side,
    other: Side,
    names: Names,
    tasks: Vec<Task>,
    held: Vec<Held>,
}

/// A task in both stores, also when it is deleted.
#[derive(Clone, Copy)]
struct Task {
    tenant: usize,
    model: TaskId,
    other: TaskId,
}

/// A lease in both stores, also when it is stale.
struct Held {
    model: Lease,
    other: Lease,
    history: History,
    generation: u32,
    /// Whether an attempt is to be recorded.
    attempted: bool,
}

macro_rules! expect_same {
    ($model:expr, $other:expr) => {
        assert_eq!($model, $other, "the model says the left")
    };
}

impl Pair {
    pub(super) async fn new(other: fn(&Clock) -> Backend) -> Pair {
        let clock = Clock::new();
        let tenants = ["one", "two"].map(|name| TenantId::try_new(name).unwrap());
        let model = Side::new(Backend::memory(&clock), &tenants).await;
        let other = Side::new(other(&clock), &tenants).await;
        assert_eq!((model.policies, &model.lanes), (other.policies, &other.lanes));
        let (began_at, names) = (clock.now(), Names::default());
        Pair { clock, began_at, tenants, model, other, names, tasks: Vec::new(), held: Vec::new() }
    }

    pub(super) async fn apply(&mut self, operation: &Operation) {
        match operation {
            Operation::Enqueue { tenant, tasks } => self.enqueue(*tenant, tasks).await,
            Operation::Claim { wants, max, ahead } => self.claim(wants, *max, *ahead).await,
            Operation::Record(results) => self.record(results).await,
            Operation::Sweep => self.sweep().await,
            Operation::Cancel { asker, task } => {
                let (tenant, task) = (self.asker(*asker, *task), self.task(*task));
                let model = self.model.store().cancel(tenant, task.model).await;
                expect_same!(model, self.other.store().cancel(tenant, task.other).await);
            }
            Operation::Redrive { asker, tasks, after, other_policy } => {
                self.redrive(*asker, tasks, *after, *other_policy).await;
            }
            Operation::Purge { asker, tasks } => {
                let (tenant, (model, other)) = (self.asker(*asker, tasks[0]), self.ids(tasks));
                let model = self.model.store().purge(tenant, model).await;
                expect_same!(model, self.other.store().purge(tenant, other).await);
            }
            Operation::Prune { chunk } => {
                self.model.prune(*chunk).await;
                self.other.prune(*chunk).await;
            }
            Operation::Advance(by) => self.clock.advance(*by),
            Operation::Reopen => {
                self.model.reopen().await;
                self.other.reopen().await;
                self.held.clear();
            }
            Operation::Look { asker, task, key } => {
                let (tenant, key) = (self.asker(*asker, *task), self::key(*key));
                self.look(tenant, self.task(*task)).await;
                let model = self.model.store().task_by_key(tenant, &key).await.unwrap();
                let other = self.other.store().task_by_key(tenant, &key).await.unwrap();
                expect_same!(model, self.names.translate(other));
            }
            Operation::List { tenant, narrowed, max } => {
                let filter = self.filter(*tenant, *narrowed);
                self.list(*tenant, &filter, *max).await;
            }
            Operation::Count => self.count().await,
        }
    }

    async fn enqueue(&mut self, tenant: usize, items: &[Item]) {
        let tasks: Vec<NewTask> = items.iter().map(|item| self.new_task(tenant, item)).collect();
        let owner = &self.tenants[tenant];
        let model = self.model.store().enqueue(owner, tasks.clone()).await.unwrap();
        let other = self.other.store().enqueue(owner, tasks).await.unwrap();
        for answers in model.iter().zip(&other) {
            if let (Enqueued::Created(model), Enqueued::Created(other)) = answers {
                self.names.add(*model, *other);
                self.tasks.push(Task { tenant, model: *model, other: *other });
            }
        }
        expect_same!(model, self.names.translate(other));
    }

    fn new_task(&self, tenant: usize, item: &Item) -> NewTask {
        NewTask {
            lane: self.model.lanes[tenant][item.lane],
            policy: self.model.policies[0],
            key: item.key.map(key),
            fingerprint: [item.content; 16],
            first: FirstAttempt::After(item.after),
            lifetime: item.lifetime,
            repeatable: Repeatable::ByMethod,
            request: StoredRequest {
                method: "PUT".to_owned(),
                url: "https://a.example.com/".to_owned(),
                headers: Vec::new(),
                body: Bytes::copy_from_slice(&[item.content]),
                correlation_id: None,
            },
        }
    }

    async fn claim(&mut self, lines: &[Line], max: u32, ahead: Duration) {
        let want = |line: &Line| Want {
            lane: self.model.lanes[line.tenant][line.lane],
            turn: if line.retries { Turn::Retry } else { Turn::First },
            max,
            ahead,
        };
        let wants: Vec<Want> = lines.iter().map(want).collect();
        self.model.catch_up();
        self.other.catch_up();
        let model = self.model.store().claim(wants.clone()).await.unwrap();
        let other = self.other.store().claim(wants.clone()).await.unwrap();
        for (want, next) in wants.iter().zip(&model.next) {
            self.model.learn(want.lane, want.turn, *next);
            self.other.learn(want.lane, want.turn, *next);
        }
        for (model, other) in model.claimed.iter().zip(&other.claimed) {
            let (history, generation) = (model.history, model.generation);
            let (model, other) = (model.lease, other.lease);
            self.held.push(Held { model, other, history, generation, attempted: true });
        }
        let mut other = self.names.translate(other);
        self.allow_early_next(&model, &mut other);
        expect_same!(claims_without_tokens(model), claims_without_tokens(other));
    }

    /// A time to come may be too early, as whoever was due then may have been called off.
    fn allow_early_next(&self, model: &Claims, other: &mut Claims) {
        for (model, other) in model.next.iter().zip(&mut other.next) {
            if other.is_some_and(|at| at > self.clock.now()) && *other < *model {
                *other = *model;
            }
        }
    }

    async fn sweep(&mut self) {
        // A store may have looked for deadlines just now, and not look again at once.
        self.clock.advance(Duration::from_millis(1));
        let mut model = self.model.store().sweep(1_000).await.unwrap();
        let mut other = self.other.store().sweep(1_000).await.unwrap();
        model.sort_by_key(|swept| swept.lease.task);
        other.sort_by_key(|swept| swept.lease.task);
        for (model, other) in model.iter().zip(&other) {
            let attempted = model.because != SweptBecause::DeadlinePassed;
            let (history, generation) = (model.history, model.generation);
            let (model, other) = (model.lease, other.lease);
            self.held.push(Held { model, other, history, generation, attempted });
        }
        let other = self.names.translate(other);
        expect_same!(swept_without_tokens(model), swept_without_tokens(other));
    }

    async fn record(&mut self, results: &[(Pick, Result)]) {
        let now = self.clock.now();
        let mut records = (Vec::new(), Vec::new());
        let mut used = BTreeSet::new();
        for (pick, result) in results {
            let Some(index) = self.held.len().checked_sub(pick + 1) else { continue };
            let held = &self.held[index];
            let record = held.record(self.in_time(held, *result, now).await, now);
            records.1.push(Record { lease: held.other, ..record.clone() });
            records.0.push(record);
            used.insert(index);
        }
        let model = self.model.store().record(records.0).await.unwrap();
        let other = self.other.store().record(records.1).await.unwrap();
        expect_same!(model, other);
        // Used leases are stale. They are tried again, but not as often as others.
        for index in used {
            let stale = self.held.remove(index);
            self.held.insert(0, stale);
        }
    }

    /// Nothing is to be tried again after its deadline.
    async fn in_time(&self, held: &Held, result: Result, now: Timestamp) -> Result {
        let Result::Again(wait) = result else { return result };
        let mut deadline_at = Timestamp::MAX;
        for tenant in &self.tenants {
            if let Some(task) = self.model.store().task(tenant, held.model.task).await.unwrap() {
                deadline_at = task.deadline_at;
            }
        }
        if now + wait < deadline_at { result } else { Result::GaveUp }
    }

    async fn redrive(&self, asker: Asker, tasks: &[Pick], after: Duration, other_policy: bool) {
        let policy = other_policy.then_some((self.model.policies[1], REDRIVE_LIFETIME));
        let (model, other) = self.ids(tasks);
        let wish = |task| Redrive { task, after, policy };
        let tenant = self.asker(asker, tasks[0]);
        let wishes = model.into_iter().map(wish).collect();
        let model = self.model.store().redrive(tenant, wishes).await;
        let wishes = other.into_iter().map(wish).collect();
        expect_same!(model, self.other.store().redrive(tenant, wishes).await);
    }

    async fn look(&self, tenant: &TenantId, task: Task) {
        let model = self.model.store().task(tenant, task.model).await.unwrap();
        let other = self.other.store().task(tenant, task.other).await.unwrap();
        expect_same!(model, self.names.translate(other));
        let model = self.model.store().attempts(tenant, task.model).await;
        expect_same!(model, self.other.store().attempts(tenant, task.other).await);
    }

    async fn list(&self, tenant: usize, filter: &TaskFilter, max: u32) {
        let tenant = &self.tenants[tenant];
        let model = self.model.list(tenant, filter, max).await;
        let other = self.other.list(tenant, filter, max).await;
        expect_same!(model, self.names.translate(other));
    }

    async fn count(&self) {
        let model = self.model.store().counts().await.unwrap();
        let other = self.other.store().counts().await.unwrap();
        expect_same!(without_empty(model), without_empty(other));
    }

    /// A task by number, or one that never was.
    fn task(&self, pick: Pick) -> Task {
        let none = TaskId::from_u64(77).unwrap();
        let none = Task { tenant: 0, model: none, other: none };
        self.tasks.iter().rev().nth(pick).copied().unwrap_or(none)
    }

    fn ids(&self, picks: &[Pick]) -> (Vec<TaskId>, Vec<TaskId>) {
        picks.iter().map(|pick| self.task(*pick)).map(|task| (task.model, task.other)).unzip()
    }

    fn asker(&self, asker: Asker, task: Pick) -> &TenantId {
        let owner = self.task(task).tenant;
        &self.tenants[if asker == Asker::Owner { owner } else { 1 - owner }]
    }

    fn filter(&self, tenant: usize, narrowed: Narrowed) -> TaskFilter {
        use State::{Cancelled, Exhausted, InFlight, Pending, Succeeded};
        const STATES: [State; 5] = [Pending, InFlight, Succeeded, Exhausted, Cancelled];
        let mut filter = TaskFilter::default();
        match narrowed {
            Narrowed::Not => {}
            Narrowed::ToState(state) => filter.states = vec![STATES[state]],
            Narrowed::ToLane(lane) => filter.lanes = Some(vec![self.model.lanes[tenant][lane]]),
            Narrowed::ToOtherPolicy => filter.policies = Some(vec![self.model.policies[1]]),
            Narrowed::ToLater(by) => filter.created_after = Some(self.began_at + by),
            Narrowed::ToEarlier(by) => filter.created_before = Some(self.began_at + by),
            Narrowed::ToGivenUp => filter.because = Some(GiveUpReason::AttemptsExhausted),
        }
        filter
    }

    /// What the service knows of due times is never later than they are.
    pub(super) async fn expect_nobody_oversleeps(&mut self) {
        let lines: Vec<LaneDue> = self.model.store().lines().await.unwrap();
        self.model.expect_awake_for(&lines).await;
        self.other.expect_awake_for(&lines).await;
    }

    pub(super) async fn expect_the_same_everywhere(&self) {
        for (number, tenant) in self.tenants.iter().enumerate() {
            self.list(number, &TaskFilter::default(), 100).await;
            for task in &self.tasks {
                self.look(tenant, *task).await;
            }
        }
        self.count().await;
    }
}

impl Held {
    fn record(&self, result: Result, now: Timestamp) -> Record {
        let because = GiveUpReason::AttemptsExhausted;
        let waiting = Waiting::Backoff;
        let (status, ended, then) = match result {
            Result::Delivered => (Some(200), Ended::Done, Then::Succeed),
            Result::Again(wait) => {
                let (at, history) = (now + wait, self.history);
                let then = Then::RetryAt { at, waiting, history };
                (None, Ended::RetryAt { at, waiting }, then)
            }
            Result::GaveUp => (Some(503), Ended::GaveUp { because }, Then::Exhaust { because }),
        };
        let attempt = self.attempted.then(|| AttemptRecord {
            generation: self.generation,
            number: self.history.attempts(),
            started_at: now,
            took: Duration::from_nanos(1_001),
            status,
            failure: status.filter(|status| *status != 200).map(FailureKind::Http),
            ended,
            roll: now.as_nanos(),
            phases: Phases::default(),
            preview: None,
        });
        Record { lease: self.model, attempt, then }
    }
}

fn claims_without_tokens(mut claims: Claims) -> Claims {
    for claimed in &mut claims.claimed {
        claimed.lease.token = 0;
    }
    claims
}

fn swept_without_tokens(mut swept: Vec<Swept>) -> Vec<Swept> {
    for swept in &mut swept {
        swept.lease.token = 0;
    }
    swept
}

/// Lanes with nothing in them may be left out or not.
fn without_empty<L: Ord + Copy>(mut counts: Vec<(L, Counts)>) -> Vec<(L, Counts)> {
    counts.retain(|(_, counts)| *counts != Counts::default());
    counts.sort_unstable_by_key(|(lane, _)| *lane);
    counts
}

fn key(number: u8) -> IdempotencyKey {
    IdempotencyKey::try_new(&format!("key-{number}")).unwrap()
}
