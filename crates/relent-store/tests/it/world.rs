//! What a fact needs: a store with a tenant, a policy and a lane, and the verbs of a service.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use relent_policy::{
    FailureKind, GiveUpReason, History, IdempotencyKey, Repeatable, Timestamp, Turn,
};
use relent_store::{
    AttemptRecord, Claimed, Copying, Ended, Enqueued, FirstAttempt, LaneId, Lease, NewPolicy,
    NewTask, Phases, PolicyKey, Record, Recorded, Store, StoredRequest, Swept, TaskFilter, TaskId,
    TaskRecord, TenantId, Then, Waiting, Want,
};

use crate::backend::{Backend, Clock};

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const MINUTE: Duration = Duration::from_secs(60);
pub(crate) const HOUR: Duration = Duration::from_secs(3_600);
pub(crate) const NANOSECOND: Duration = Duration::from_nanos(1);

/// How long an attempt's lease is under the world's policy.
pub(crate) const LEASE: Duration = Duration::from_secs(35);

pub(crate) struct World {
    backend: Backend,
    clock: Clock,
    store: Option<Arc<dyn Store>>,
    pub(crate) tenant: TenantId,
    pub(crate) policy: PolicyKey,
    pub(crate) lane: LaneId,
}

impl World {
    pub(crate) async fn new(backend: impl FnOnce(&Clock) -> Backend) -> World {
        let clock = Clock::new();
        let backend = backend(&clock);
        let store = backend.store();
        let tenant = TenantId::default_tenant();
        let policy = store.put_policy(&tenant, policy("webhooks", "{}")).await.unwrap().key;
        let lane = store.open_lane(&tenant, "api.example.com", policy).await.unwrap().id;
        World { backend, clock, store: Some(store), tenant, policy, lane }
    }

    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        self.store.as_ref().unwrap()
    }

    pub(crate) fn copying(&self) -> Arc<dyn Copying> {
        self.backend.copying()
    }

    /// An empty store of the same kind on the same clock. The world's tenant, policy and lane are
    /// there once they are copied.
    pub(crate) fn elsewhere(&self) -> World {
        let backend = self.backend.another(&self.clock);
        let store = Some(backend.store());
        let (tenant, policy, lane) = (self.tenant.clone(), self.policy, self.lane);
        World { backend, clock: self.clock.clone(), store, tenant, policy, lane }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    /// Ends the service and starts it again. Nobody may hold the store across it.
    pub(crate) async fn reopen(&mut self) {
        self.store = None;
        self.backend.reopen().await;
        self.store = Some(self.backend.store());
    }

    /// A tenant of its own with a lane of its own.
    pub(crate) async fn neighbour(&self) -> (TenantId, LaneId) {
        let tenant = TenantId::try_new("neighbour").unwrap();
        let store = self.store();
        let key = store.put_policy(&tenant, policy("webhooks", "{}")).await.unwrap().key;
        let lane = store.open_lane(&tenant, "api.example.com", key).await.unwrap();
        (tenant, lane.id)
    }

    pub(crate) async fn open_lane(&self, dependency: &str) -> LaneId {
        self.store().open_lane(&self.tenant, dependency, self.policy).await.unwrap().id
    }

    /// A task that is due at once.
    pub(crate) fn task(&self) -> NewTask {
        NewTask {
            lane: self.lane,
            policy: self.policy,
            key: None,
            fingerprint: *b"0123456789abcdef",
            first: FirstAttempt::Now,
            lifetime: HOUR,
            repeatable: Repeatable::ByKey,
            request: request(),
        }
    }

    pub(crate) fn task_after(&self, wait: Duration) -> NewTask {
        NewTask { first: FirstAttempt::After(wait), ..self.task() }
    }

    pub(crate) fn keyed(&self, name: &str) -> NewTask {
        NewTask { key: Some(key(name)), ..self.task() }
    }

    pub(crate) async fn enqueue(&self, tasks: Vec<NewTask>) -> Vec<Enqueued> {
        self.store().enqueue(&self.tenant, tasks).await.unwrap()
    }

    /// Stores a task that is new.
    pub(crate) async fn add(&self, task: NewTask) -> TaskId {
        created(self.enqueue(vec![task]).await[0])
    }

    pub(crate) async fn claim(&self, turn: Turn, max: u32) -> Vec<Claimed> {
        let wants = vec![Want::due(self.lane, turn, max)];
        self.store().claim(wants).await.unwrap().claimed
    }

    pub(crate) async fn next(&self, turn: Turn) -> Option<Timestamp> {
        let wants = vec![Want::due(self.lane, turn, 0)];
        self.store().claim(wants).await.unwrap().next[0]
    }

    /// Claims the one task that is due in this line.
    pub(crate) async fn claim_one(&self, turn: Turn) -> Claimed {
        let mut claimed = self.claim(turn, 10).await;
        assert_eq!(claimed.len(), 1, "{claimed:#?}");
        claimed.remove(0)
    }

    pub(crate) async fn record(&self, record: Record) -> Recorded {
        self.store().record(vec![record]).await.unwrap()[0]
    }

    pub(crate) async fn succeed(&self, claimed: &Claimed) -> Recorded {
        self.record(success(claimed, self.now())).await
    }

    pub(crate) async fn retry_at(&self, claimed: &Claimed, at: Timestamp) -> Recorded {
        self.record(failure(claimed, self.now(), at)).await
    }

    pub(crate) async fn exhaust(&self, claimed: &Claimed) -> Recorded {
        self.record(exhaustion(claimed, self.now())).await
    }

    /// Stores a task and lets its first attempt end it as a dead letter.
    pub(crate) async fn dead_letter(&self, task: NewTask) -> TaskId {
        let id = self.add(task).await;
        let claimed = self.claim_one(Turn::First).await;
        assert_eq!(claimed.lease.task, id);
        assert_eq!(self.exhaust(&claimed).await, Recorded::Applied);
        id
    }

    pub(crate) async fn sweep(&self) -> Vec<Swept> {
        self.store().sweep(100).await.unwrap()
    }

    pub(crate) async fn get(&self, task: TaskId) -> TaskRecord {
        self.find(task).await.unwrap()
    }

    pub(crate) async fn find(&self, task: TaskId) -> Option<TaskRecord> {
        self.store().task(&self.tenant, task).await.unwrap()
    }

    pub(crate) async fn attempts(&self, task: TaskId) -> Vec<AttemptRecord> {
        self.store().attempts(&self.tenant, task).await.unwrap().unwrap()
    }

    /// Everything that fits, page by page.
    pub(crate) async fn list(&self, filter: TaskFilter) -> Vec<TaskRecord> {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let store = self.store();
            let page = store.list(&self.tenant, filter.clone(), after, 2).await.unwrap();
            assert!(page.items.len() <= 2);
            found.extend(page.items);
            match page.next {
                Some(next) => after = Some(next),
                None => return found,
            }
        }
    }
}

pub(crate) fn policy(id: &str, document: &str) -> NewPolicy {
    NewPolicy { policy_id: id.to_owned(), document: document.to_owned(), lease: LEASE }
}

pub(crate) fn key(name: &str) -> IdempotencyKey {
    IdempotencyKey::try_new(name).unwrap()
}

pub(crate) fn request() -> StoredRequest {
    let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    StoredRequest {
        method: "POST".to_owned(),
        url: "https://api.example.com/orders?q=ä".to_owned(),
        headers: vec![header("x-b", "2"), header("x-a", "1"), header("x-b", "3")],
        body: Bytes::from_static(b"\0\xff one order"),
        correlation_id: Some("order-17".to_owned()),
    }
}

pub(crate) fn created(answer: Enqueued) -> TaskId {
    match answer {
        Enqueued::Created(id) => id,
        other => panic!("expected a new task, got {other:?}"),
    }
}

/// The row of an attempt that was answered with a 503.
pub(crate) fn attempt(history: &History, generation: u32, now: Timestamp) -> AttemptRecord {
    AttemptRecord {
        generation,
        number: history.attempts(),
        started_at: now,
        took: Duration::from_nanos(1_234_567),
        status: Some(503),
        failure: Some(FailureKind::Http(503)),
        ended: Ended::GaveUp { because: GiveUpReason::AttemptsExhausted },
        roll: u64::MAX - 7,
        phases: Phases::default(),
        preview: None,
    }
}

pub(crate) fn success(claimed: &Claimed, now: Timestamp) -> Record {
    let attempt = AttemptRecord {
        status: Some(200),
        failure: None,
        ended: Ended::Done,
        ..attempt(&claimed.history, claimed.generation, now)
    };
    Record { lease: claimed.lease, attempt: Some(attempt), then: Then::Succeed }
}

pub(crate) fn failure(claimed: &Claimed, now: Timestamp, at: Timestamp) -> Record {
    retry(claimed.lease, &claimed.history, claimed.generation, now, at)
}

pub(crate) fn retry(
    lease: Lease,
    history: &History,
    generation: u32,
    now: Timestamp,
    at: Timestamp,
) -> Record {
    let ended = Ended::RetryAt { at, waiting: Waiting::Backoff };
    let attempt = AttemptRecord { ended, ..attempt(history, generation, now) };
    let then = Then::RetryAt { at, waiting: Waiting::Backoff, history: *history };
    Record { lease, attempt: Some(attempt), then }
}

pub(crate) fn exhaustion(claimed: &Claimed, now: Timestamp) -> Record {
    let because = GiveUpReason::AttemptsExhausted;
    let attempt = attempt(&claimed.history, claimed.generation, now);
    Record { lease: claimed.lease, attempt: Some(attempt), then: Then::Exhaust { because } }
}

/// What is written about a task whose deadline passed while it waited.
pub(crate) fn too_late(swept: &Swept) -> Record {
    let because = GiveUpReason::DeadlineWouldPass;
    Record { lease: swept.lease, attempt: None, then: Then::Exhaust { because } }
}
