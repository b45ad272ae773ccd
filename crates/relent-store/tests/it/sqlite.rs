//! What only the embedded store has to show: files, crashes, a full disk, bounded memory.

mod crashing;
mod damage;
mod failing;
mod memory;
mod opening;
mod reserve;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use relent_policy::{IdempotencyKey, Repeatable, Timestamp, Turn};
use relent_store::{
    Claimed, Claims, Enqueued, FirstAttempt, LaneId, Lanes, NewTask, Policies, PolicyKey,
    SqliteOptions, SqliteStore, State, Store, TaskId, TaskRecord, Tasks, TenantId, Upkeep, Want,
};
use rusqlite::Connection;
use tempfile::TempDir;

use crate::backend::Clock;
use crate::world::{created, policy, request};

/// A store in a directory of its own, with a policy and a lane.
struct Place {
    directory: TempDir,
    clock: Clock,
    options: SqliteOptions,
    store: Option<SqliteStore>,
    tenant: TenantId,
    policy: PolicyKey,
    lane: LaneId,
}

impl Place {
    async fn new() -> Place {
        Place::with(SqliteOptions::default()).await
    }

    /// A store on a clock of the test's.
    async fn with(options: SqliteOptions) -> Place {
        let directory = tempfile::tempdir().unwrap();
        let clock = Clock::new();
        let reading = clock.clone();
        let options = SqliteOptions { clock: Some(Arc::new(move || reading.now())), ..options };
        let store = SqliteStore::open(directory.path(), options.clone()).unwrap();
        let tenant = TenantId::default_tenant();
        let policy = store.put_policy(&tenant, policy("p", "{}")).await.unwrap().key;
        let lane = store.open_lane(&tenant, "api.example.com", policy).await.unwrap().id;
        Place { directory, clock, options, store: Some(store), tenant, policy, lane }
    }

    fn store(&self) -> &SqliteStore {
        self.store.as_ref().unwrap()
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn now(&self) -> Timestamp {
        self.store().now()
    }

    /// Closes the store, does something to its file, and opens it again.
    async fn reopen_after(&mut self, change: impl FnOnce(&Connection)) {
        self.store().close(Duration::from_secs(10)).await.unwrap();
        self.store = None;
        change(&Connection::open(self.path().join("relent.db")).unwrap());
        self.store = Some(SqliteStore::open(self.path(), self.options.clone()).unwrap());
    }

    async fn reopen(&mut self) {
        self.reopen_after(|_| {}).await;
    }

    fn task(&self) -> NewTask {
        NewTask {
            lane: self.lane,
            policy: self.policy,
            key: None,
            fingerprint: [7; 16],
            first: FirstAttempt::Now,
            lifetime: Duration::from_secs(86_400),
            repeatable: Repeatable::ByKey,
            request: request(),
        }
    }

    fn keyed(&self, number: usize) -> NewTask {
        let key = IdempotencyKey::try_new(&format!("key-{number}")).unwrap();
        NewTask { key: Some(key), ..self.task() }
    }

    async fn add(&self, task: NewTask) -> TaskId {
        created(self.enqueue(vec![task]).await[0])
    }

    async fn enqueue(&self, tasks: Vec<NewTask>) -> Vec<Enqueued> {
        self.store().enqueue(&self.tenant, tasks).await.unwrap()
    }

    async fn claims(&self, turn: Turn, max: u32) -> Claims {
        self.store().claim(vec![Want::due(self.lane, turn, max)]).await.unwrap()
    }

    async fn claim(&self, max: u32) -> Vec<Claimed> {
        self.claims(Turn::First, max).await.claimed
    }

    async fn find(&self, task: TaskId) -> Option<TaskRecord> {
        self.store().task(&self.tenant, task).await.unwrap()
    }

    async fn state(&self, task: TaskId) -> State {
        self.find(task).await.unwrap().state
    }
}
