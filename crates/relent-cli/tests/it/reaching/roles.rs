//! Nodes that only take and nodes that only send, on either store.

use crate::rig::{
    Relent, SOON, Shared, Target, Way, millis, ok, quick_policy, status, task, wait_until,
};

macro_rules! on_each_store {
    ($($fact:ident)+) => {
        mod on_postgres {$(
            #[tokio::test]
            async fn $fact() {
                let Some(shared) = super::Shared::by(super::Way::Postgres) else { return };
                super::$fact(&shared).await;
            }
        )+}
        mod on_redis {$(
            #[tokio::test]
            async fn $fact() {
                let Some(shared) = super::Shared::by(super::Way::Redis) else { return };
                super::$fact(&shared).await;
            }
        )+}
    };
}

on_each_store! {
    what_one_node_takes_another_delivers
    a_worker_answers_for_its_health_only
    an_api_node_makes_no_attempts
    a_worker_that_dies_is_replaced_by_one_that_joins
}

const API: [&str; 2] = ["--role", "api"];
const WORKER: [&str; 2] = ["--role", "worker"];

async fn what_one_node_takes_another_delivers(shared: &Shared) {
    let target = Target::start().await;
    let (api, worker) = (shared.node(&API).await, shared.node(&WORKER).await);
    let client = api.client();
    // Neither the policy nor the lane was there when the worker started.
    client.register(&quick_policy("fresh", 3)).await;
    target.on("/flaky", [status(503), ok()]);
    let id = client.create(&task(&target.url("/flaky"), "k", "fresh")).await;
    let ended = client.until_status(&id, "SUCCEEDED").await;
    assert_eq!(ended["attemptNumber"], 2, "{ended:#}");
    assert_eq!(client.attempts(&id).await.len(), 2);
    assert_eq!(target.seen_at("/flaky").len(), 2);
    assert_eq!((attempts_of(&api).await, attempts_of(&worker).await), (0, 2));
}

async fn a_worker_answers_for_its_health_only(shared: &Shared) {
    let worker = shared.node(&WORKER).await;
    let client = worker.client();
    for path in ["/livez", "/readyz", "/metrics"] {
        assert_eq!(client.get(path).await.status, 200, "{path}");
    }
    for path in ["/retry-tasks", "/lanes", "/events", "/nothing"] {
        let reply = client.get(path).await;
        assert_eq!(reply.problem(404), "not_found");
        assert!(reply.text().contains("worker role only"), "{}", reply.text());
    }
    let refused = client.post("/retry-tasks", &task("http://127.0.0.1:9/", "k", "webhook")).await;
    assert_eq!(refused.problem(404), "not_found");
}

async fn an_api_node_makes_no_attempts(shared: &Shared) {
    let target = Target::start().await;
    target.on("/later", [ok()]);
    let mut api = shared.node(&API).await;
    let id = api.client().create(&task(&target.url("/later"), "k", "webhook")).await;
    // Long past due, and with a sweep's chance to run: it still waits.
    wait_until(SOON, "the task is due for two seconds", async || {
        let since = api.client().task(&id).await["nextAttemptAt"].as_f64().unwrap();
        (millis(std::time::SystemTime::now()) - since > 2_000.0).then_some(())
    })
    .await;
    assert_eq!(api.client().task(&id).await["status"], "PENDING");
    assert!(target.seen_at("/later").is_empty());
    assert_eq!(attempts_of(&api).await, 0);
    api.sigterm();
    assert_eq!(api.ended().await.code(), Some(0));
    let worker = shared.node(&WORKER).await;
    target.until_seen("/later", 1).await;
    drop(worker);
}

async fn a_worker_that_dies_is_replaced_by_one_that_joins(shared: &Shared) {
    let target = Target::start().await;
    let (api, mut worker) = (shared.node(&API).await, shared.node(&WORKER).await);
    let client = api.client();
    client.register(&quick_policy("quick", 3)).await;
    let create = async |name: &str| {
        target.on(&format!("/{name}"), [ok()]);
        client.create(&task(&target.url(&format!("/{name}")), name, "quick")).await
    };
    let first = create("first").await;
    client.until_status(&first, "SUCCEEDED").await;
    worker.kill9().await;
    let second = create("second").await;
    assert_eq!(client.task(&second).await["status"], "PENDING");
    let next = shared.node(&WORKER).await;
    client.until_status(&second, "SUCCEEDED").await;
    assert_eq!((attempts_of(&api).await, attempts_of(&next).await), (0, 1));
    assert_eq!((target.seen_at("/first").len(), target.seen_at("/second").len()), (1, 1));
}

async fn attempts_of(node: &Relent) -> u64 {
    let text = node.client().get("/metrics").await.text();
    let lines = text.lines().filter(|line| line.starts_with("retry_attempts_total{"));
    lines.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
}
