//! What the tests stand on: the real binary, a target that does as it is told, and a client.
//!
//! Nothing of ours is imitated. Every wait has a deadline, and what is waited for has a name.

mod authority;
mod client;
mod cluster;
mod disk;
mod pgbouncer;
mod postgres;
mod postgres_server;
mod proxy;
mod redis_server;
mod relent;
mod script;
mod shared;
mod store_server;
mod target;
mod wire;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::{Instant, sleep, timeout};

pub(crate) use authority::Authority;
pub(crate) use client::{Client, Reply, has_ended, request};
pub(crate) use cluster::{Cluster, Metrics, Places};
pub(crate) use disk::Disk;
pub(crate) use pgbouncer::PgBouncer;
pub(crate) use postgres::Postgres;
pub(crate) use postgres_server::PostgresServer;
pub(crate) use proxy::Fault;
pub(crate) use redis_server::RedisServer;
pub(crate) use relent::Relent;
pub(crate) use script::{Gate, Step, answer, ok, status};
pub(crate) use shared::{Shared, Way, can_start};
pub(crate) use store_server::{Kind, StoreServer};
pub(crate) use target::{Seen, Target};
pub(crate) use wire::hash;

/// For anything that should happen at once, on a machine that does six other things.
pub(crate) const SOON: Duration = Duration::from_secs(20);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(4);

/// A bound on what the service does, as it is on a machine that has nothing else to do; longer by as
/// much as there is more to do at present than there are cores.
pub(crate) fn stretched(bound: Duration) -> Duration {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().and_then(|load| load.parse::<f64>().ok()).unwrap_or(0.0);
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    bound.mul_f64((load / f64::from(u32::try_from(cores).unwrap())).max(1.0))
}

/// Looks until the condition holds; fails with `what` after the time.
pub(crate) async fn wait_until<T>(
    within: Duration,
    what: &str,
    mut look: impl AsyncFnMut() -> Option<T>,
) -> T {
    let deadline = Instant::now() + within;
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(Instant::now() < deadline, "did not happen within {within:?}: {what}");
        sleep(LOOK).await;
    }
}

/// Fails with `what` if it takes longer than [`SOON`].
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match timeout(SOON, future).await {
        Ok(done) => done,
        Err(_) => panic!("did not happen within {SOON:?}: {what}"),
    }
}

/// Tests that load the machine run one after the other.
pub(crate) async fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::const_new(());
    ONE.lock().await
}

/// Milliseconds since the epoch, with their fraction.
pub(crate) fn millis(at: SystemTime) -> f64 {
    at.duration_since(UNIX_EPOCH).unwrap().as_secs_f64() * 1_000.0
}

/// A number that a run can be repeated with: printed, and taken from the environment if given.
pub(crate) fn seed() -> u64 {
    let given = std::env::var("RELENT_TEST_SEED").ok();
    let seed = given.map_or_else(|| fastrand::u64(..), |text| text.parse().unwrap());
    println!("seed {seed} (RELENT_TEST_SEED={seed} repeats it)");
    seed
}

/// A number out of the environment.
pub(crate) fn setting(name: &str, default: usize) -> usize {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

/// A port of this machine that nobody has at present.
pub(crate) fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A policy with short waits, no breaker and no limit on retries: one task's life and nothing else.
pub(crate) fn quick_policy(policy_id: &str, max_attempts: u32) -> Value {
    json!({
        "policyId": policy_id,
        "context": "async-event",
        "maxAttempts": max_attempts,
        "initialDelayMs": 20,
        "maxDelayMs": 100,
        "totalBudgetMs": 60_000,
        "attemptTimeoutMs": 5_000,
        "breaker": null,
        "budget": null,
        "waivers": [waiver("R-7")],
    })
}

/// The same document with some fields replaced.
pub(crate) fn with(mut document: Value, fields: Value) -> Value {
    let Value::Object(fields) = fields else { panic!("not an object: {fields}") };
    for (name, value) in fields {
        document[name] = value;
    }
    document
}

/// What allows a departure from a rule.
pub(crate) fn waiver(rule: &str) -> Value {
    let reason = "the test looks at one thing at a time";
    json!({"rule": rule, "approver": "the tests", "reason": reason, "expires": "2099-12-31"})
}

/// A POST task with this key.
pub(crate) fn task(url: &str, key: &str, policy_id: &str) -> Value {
    json!({"targetUrl": url, "idempotencyKey": key, "policyId": policy_id, "body": {"key": key}})
}

/// The value below which this share of the values lies.
pub(crate) fn percentile(values: &mut [f64], share: f64) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let last = values.len().saturating_sub(1);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "an index into a list that fits into memory"
    )]
    let index = (last as f64 * share).round() as usize;
    values.get(index).copied().unwrap_or(f64::NAN)
}
