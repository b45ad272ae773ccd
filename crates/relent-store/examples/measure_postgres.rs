//! What a store on PostgreSQL does in a second: tasks that many callers store one by one, and lives
//! of tasks (claimed by the hundred, results recorded one by one).
//!
//! `cargo run --release -p relent-store --example measure_postgres -- 'host=/tmp user=relent'`
//! uses the schema `relent_measure`, which is not there before, and leaves it behind.
#![expect(clippy::unwrap_used, reason = "a measurement that fails ends")]

use std::env;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use relent_policy::{Repeatable, Turn};
use relent_store::{
    AttemptRecord, Claimed, Ended, FirstAttempt, LaneId, NewPolicy, NewTask, Phases, PolicyKey,
    PostgresOptions, PostgresStore, Record, Store, StoredRequest, TenantId, Then, Want,
};
use tokio::task::JoinSet;

const MEASURE_FOR: Duration = Duration::from_secs(4);
const BODY_BYTES: usize = 512;
const BACKLOG: usize = 200_000;

#[derive(Clone)]
struct Bench {
    store: Arc<dyn Store>,
    tenant: TenantId,
    policy: PolicyKey,
    lane: LaneId,
}

impl Bench {
    async fn open(url: &str) -> Bench {
        let schema = "relent_measure".to_owned();
        let options = PostgresOptions { schema, ..PostgresOptions::default() };
        let store: Arc<dyn Store> = Arc::new(PostgresStore::connect(url, options).unwrap());
        let tenant = TenantId::default_tenant();
        let lease = Duration::from_secs(60);
        let (policy_id, document) = ("webhooks".to_owned(), "{}".to_owned());
        let policy = store.put_policy(&tenant, NewPolicy { policy_id, document, lease });
        let policy = policy.await.unwrap().key;
        let lane = store.open_lane(&tenant, "api.example.com", policy).await.unwrap().id;
        Bench { store, tenant, policy, lane }
    }

    fn task(&self, first: FirstAttempt) -> NewTask {
        NewTask {
            lane: self.lane,
            policy: self.policy,
            key: None,
            fingerprint: [0; 16],
            first,
            lifetime: Duration::from_secs(86_400),
            repeatable: Repeatable::ByKey,
            request: StoredRequest {
                method: "POST".to_owned(),
                url: "https://api.example.com/orders".to_owned(),
                headers: vec![("content-type".to_owned(), "application/json".to_owned())],
                body: Bytes::from(vec![b'x'; BODY_BYTES]),
                correlation_id: None,
            },
        }
    }

    /// Tasks that so many callers store in a second, one by one.
    async fn enqueue(&self, callers: usize) -> f64 {
        let start = Instant::now();
        let mut running = JoinSet::new();
        for _ in 0..callers {
            let bench = self.clone();
            running.spawn(async move {
                let mut count = 0_u32;
                while start.elapsed() < MEASURE_FOR {
                    let task = bench.task(FirstAttempt::Now);
                    bench.store.enqueue(&bench.tenant, vec![task]).await.unwrap();
                    count += 1;
                }
                count
            });
        }
        let count: u32 = running.join_all().await.into_iter().sum();
        f64::from(count) / start.elapsed().as_secs_f64()
    }

    async fn claim(&self, max: u32) -> Vec<Claimed> {
        let wants = vec![Want::due(self.lane, Turn::First, max)];
        self.store.claim(wants).await.unwrap().claimed
    }

    /// Tasks that are claimed and recorded in a second, until there are none.
    async fn deliver(&self) -> (f64, Vec<Duration>) {
        let (start, mut count, mut claims) = (Instant::now(), 0_u32, Vec::new());
        let mut running = JoinSet::new();
        while start.elapsed() < 2 * MEASURE_FOR {
            let asked = Instant::now();
            let claimed = self.claim(200).await;
            claims.push(asked.elapsed());
            if claimed.is_empty() {
                break;
            }
            for claimed in claimed {
                while running.len() >= 400 {
                    running.join_next().await;
                }
                let store = Arc::clone(&self.store);
                running.spawn(async move { store.record(vec![success(&claimed)]).await.unwrap() });
                count += 1;
            }
        }
        while running.join_next().await.is_some() {}
        claims.sort_unstable();
        (f64::from(count) / start.elapsed().as_secs_f64(), claims)
    }

    async fn fill(&self) -> f64 {
        let start = Instant::now();
        for n in 0..BACKLOG / 500 {
            let wait = Duration::from_secs(3_600 + n as u64);
            let tasks = vec![self.task(FirstAttempt::After(wait)); 500];
            self.store.enqueue(&self.tenant, tasks).await.unwrap();
        }
        BACKLOG as f64 / start.elapsed().as_secs_f64()
    }
}

fn success(claimed: &Claimed) -> Record {
    let attempt = AttemptRecord {
        generation: claimed.generation,
        number: claimed.history.attempts(),
        started_at: claimed.due_at,
        took: Duration::from_micros(12_345),
        status: Some(200),
        failure: None,
        ended: Ended::Done,
        roll: 0x0123_4567_89ab_cdef,
        phases: Phases::default(),
        preview: None,
    };
    Record { lease: claimed.lease, attempt: Some(attempt), then: Then::Succeed }
}

fn main() {
    let url = env::args().nth(1).unwrap_or_else(|| "host=/tmp user=relent".to_owned());
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.unwrap().block_on(async {
        let bench = Bench::open(&url).await;
        for callers in [1, 64, 512] {
            println!(
                "enqueue, {callers:>4} callers  {:>8.0} tasks/s",
                bench.enqueue(callers).await
            );
        }
        println!("claim 200, record 1     {:>8.0} tasks/s", bench.deliver().await.0);
        println!("enqueue, 500 at once    {:>8.0} tasks/s", bench.fill().await);
        bench.enqueue(64).await;
        let (speed, claims) = bench.deliver().await;
        println!("claim 200, record 1     {speed:>8.0} tasks/s with {BACKLOG} waiting");
        let at = |part: usize| claims[(claims.len() - 1) * part / 100];
        println!("claim 200               p50 {:?}, p99 {:?}", at(50), at(99));
        bench.store.close(Duration::from_secs(10)).await.unwrap();
    });
}
