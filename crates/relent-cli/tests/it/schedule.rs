//! Due times under load: retries are not behind fresh work, a dead dependency is nobody else's
//! trouble, and nothing is ever early. REQ-S3, REQ-S5, REQ-K2.
//!
//! The bounds are wide, because the machine may be busy with other things; the figures are printed,
//! and measured for their own sake by the benchmarks.

use std::collections::HashMap;
use std::net::TcpListener;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use crate::rig::{
    Client, Metrics, Relent, Seen, Step, Target, alone, millis, ok, percentile, quick_policy,
    setting, status, task, wait_until, with,
};

const FRESH: usize = 5_000;
const RETRIES: usize = 20;
/// How long whatever a test waits for may take in all.
const ENOUGH: Duration = Duration::from_secs(60);

/// Stores tasks in batches as large as can be; their ids.
async fn create_all(client: &Client, tasks: Vec<Value>) -> Vec<String> {
    let mut ids = Vec::with_capacity(tasks.len());
    for batch in tasks.chunks(1_000) {
        let stored = client.post("/retry-tasks:batch", &json!({"tasks": batch})).await.expect(202);
        let items = stored["items"].as_array().unwrap();
        ids.extend(items.iter().map(|item| item["taskId"].as_str().unwrap().to_owned()));
    }
    ids
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a time of this century"
)]
fn in_future(wait: Duration) -> u64 {
    millis(SystemTime::now() + wait) as u64
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retry_goes_out_when_it_is_due_with_5000_fresh_tasks_in_line() {
    let _alone = alone().await;
    let (relent, target) =
        (Relent::start_measured(&["--set", "log.level=warn"]).await, Target::start().await);
    let client = relent.client();
    // One lane of twenty places, with 20 ms for each task: five seconds' worth of work in line.
    let policy = json!({
        "policyId": "crowded", "context": "webhook", "maxAttempts": 4, "breaker": null,
        "scheduleMs": [100, 500, 1_000], "jitterRatio": 0.001, "budget": null,
        "concurrency": {"inFlightMax": 20, "retriesInFlightMax": 10},
        "waivers": [crate::rig::waiver("R-7")],
    });
    client.register(&policy).await;
    target.on("/flaky", [status(503), ok()]);
    target.on("/fresh", [ok().after(Duration::from_millis(20))]);

    // The lane is held until all of them stand in line, those first that are to be tried again.
    let first = client.create(&task(&target.url("/first"), "first", "crowded")).await;
    let lane =
        client.until_status(&first, "SUCCEEDED").await["laneId"].as_str().unwrap().to_owned();
    client.post(&format!("/lanes/{lane}/pause"), &json!({})).await.expect(200);
    let flaky = (0..RETRIES).map(|n| task(&target.url("/flaky"), &format!("flaky-{n}"), "crowded"));
    let fresh = (0..FRESH).map(|n| task(&target.url("/fresh"), &format!("fresh-{n}"), "crowded"));
    let ids = create_all(&client, flaky.chain(fresh).collect()).await;
    client.post(&format!("/lanes/{lane}/resume"), &json!({})).await.expect(200);

    wait_until(ENOUGH, "the retries are made", async || {
        (target.seen_at("/flaky").len() >= 2 * RETRIES).then_some(())
    })
    .await;
    let in_line = FRESH - target.seen_at("/fresh").len();
    let mut late = Vec::new();
    for (id, key) in ids.iter().zip((0..RETRIES).map(|n| format!("flaky-{n}"))) {
        client.until_status(id, "SUCCEEDED").await;
        let due = client.attempts(id).await[0]["nextAttemptAt"].as_f64().unwrap();
        let seen = target.seen_at("/flaky");
        let retry = seen.iter().find(|seen| seen.key == key && seen.attempt == Some(2)).unwrap();
        late.push(millis(retry.arrived_at) - due);
    }
    let (median, worst) = (percentile(&mut late, 0.5), percentile(&mut late, 1.0));
    let count = late.len();
    println!(
        "{count} retries among {in_line} fresh tasks: {median:.1} ms late, {worst:.1} at worst"
    );
    assert!(in_line > FRESH / 4, "the crowd was gone already: {in_line}");
    assert!(late.iter().all(|late| *late >= -2.0), "early: {late:?}");
    assert!(median < 250.0, "behind the crowd: {late:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_dependency_with_many_due_tasks_delays_nobody_else() {
    let _alone = alone().await;
    let dead = setting("RELENT_TEST_DEAD_TASKS", 20_000);
    let (relent, target) =
        (Relent::start_measured(&["--set", "log.level=error"]).await, Target::start().await);
    let client = relent.client();
    client.register(&quick_policy("healthy", 4)).await;
    let policy = json!({
        "policyId": "dead", "context": "async-event", "initialDelayMs": 100, "maxDelayMs": 1_000,
        "attemptTimeoutMs": 1_000,
    });
    client.register(&policy).await;
    let before = lateness(&client, &target, "before").await;

    target.on("/silent", [Step::Silence]);
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (silent, refused) = (target.url("/silent"), format!("http://127.0.0.1:{port}/"));
    let task = |n: usize| {
        let (name, url) =
            if n.is_multiple_of(2) { ("silent", &silent) } else { ("refused", &refused) };
        with(task(url, &format!("dead-{n}"), "dead"), json!({"dependency": name}))
    };
    create_all(&client, (0..dead).map(task).collect()).await;
    let meanwhile = lateness(&client, &target, "meanwhile").await;
    for name in ["silent", "refused"] {
        let lane = client.lane(name).await;
        let waiting = lane["waitingFirst"].as_u64();
        println!(
            "{name}: {} wait, breaker {}",
            waiting.unwrap_or_default(),
            lane["breaker"]["state"]
        );
    }
    println!("late at p99: {before:.1} ms alone, {meanwhile:.1} ms beside {dead} dead tasks");
    assert!(meanwhile < before * 4.0 + 250.0, "{before} and {meanwhile} ms");
}

/// What the others are spared, in counts, which do not depend on the machine.
#[tokio::test]
async fn a_dead_dependency_is_left_alone_however_much_is_due() {
    let relent = Relent::start_measured(&["--set", "log.level=error"]).await;
    let client = relent.client();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let task = |n: usize| {
        let task = task(&format!("http://127.0.0.1:{port}/"), &format!("dead-{n}"), "webhook");
        with(task, json!({"dependency": "refused"}))
    };
    create_all(&client, (0..20_000).map(task).collect()).await;
    wait_until(ENOUGH, "the breaker opens, and nothing is under way", async || {
        let lane = client.lane("refused").await;
        (lane["breaker"]["state"] == "open" && lane["inFlight"] == 0).then_some(())
    })
    .await;
    let counts = async || {
        let metrics = Metrics::of(&client).await;
        let claims = metrics.sum("retry_claim_duration_seconds_count");
        (metrics.sum("retry_attempts_total"), claims)
    };
    let before = counts().await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let after = counts().await;
    println!("attempts and claims: {before:?}, and {after:?} two seconds later");
    // As many as a lane may have in flight that has not answered yet, and those that were admitted
    // while the first of them failed.
    assert!((10.0..=128.0).contains(&before.0), "{before:?}");
    // A probe, and one more if the first was about to be.
    assert!(after.0 - before.0 <= 2.0 && after.1 - before.1 <= 2.0, "{before:?} and {after:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_of_a_thousand_lanes_that_come_due_together_go_out_together() {
    const LANES: usize = 1_000;
    let _alone = alone().await;
    let relent = Relent::start_measured(&["--set", "log.level=warn"]).await;
    let (client, target) = (relent.client(), Target::start().await);
    client.register(&quick_policy("one", 4)).await;
    let due = in_future(Duration::from_secs(3));
    let task = |n: usize| {
        let fields = json!({"dependency": format!("lane-{n}"), "notBefore": due});
        with(task(&target.url("/one"), &format!("one-{n}"), "one"), fields)
    };
    create_all(&client, (0..LANES).map(task).collect()).await;
    // On a slow machine some were due before the last was stored.
    let from = due.max(in_future(Duration::ZERO));
    let seen = wait_until(ENOUGH, "every lane is served", async || {
        let seen = target.seen_at("/one");
        (seen.len() >= LANES).then_some(seen)
    })
    .await;
    #[expect(clippy::cast_precision_loss, reason = "times of this century")]
    let (due, from) = (due as f64, from as f64);
    let mut arrived: Vec<f64> = seen.iter().map(|seen| millis(seen.arrived_at)).collect();
    assert!(arrived.iter().all(|at| *at >= due - 2.0), "early: {due}, {arrived:?}");
    let (median, worst) =
        (percentile(&mut arrived, 0.5) - from, percentile(&mut arrived, 1.0) - from);
    println!("{LANES} lanes due at once: {median:.1} ms late, {worst:.1} at worst");
    assert!(worst < 5_000.0, "{worst} ms");
}

/// How late the tasks of a healthy lane are, at the 99th percentile: 300 over three seconds.
async fn lateness(client: &Client, target: &Target, name: &str) -> f64 {
    const COUNT: usize = 300;
    let begin = in_future(Duration::from_secs(2));
    let key = |n: usize| format!("{name}-{n}");
    let due: HashMap<String, u64> = (0..COUNT).map(|n| (key(n), begin + n as u64 * 10)).collect();
    let path = format!("/{name}");
    let tasks = due.iter().map(|(key, due)| {
        with(
            task(&target.url(&path), key, "healthy"),
            json!({"notBefore": due, "dependency": "healthy"}),
        )
    });
    create_all(client, tasks.collect()).await;
    let seen: Vec<Seen> = wait_until(ENOUGH, "the healthy tasks are delivered", async || {
        let seen = target.seen_at(&path);
        (seen.len() >= COUNT).then_some(seen)
    })
    .await;
    #[expect(clippy::cast_precision_loss, reason = "a time of this century")]
    let mut late: Vec<f64> =
        seen.iter().map(|seen| millis(seen.arrived_at) - due[&seen.key] as f64).collect();
    assert!(late.iter().all(|late| *late >= -2.0), "early: {late:?}");
    percentile(&mut late, 0.99)
}
