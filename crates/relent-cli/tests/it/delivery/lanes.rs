//! What holds a lane back: people, its limits, its breaker, its budget. REQ-G2, REQ-K1, REQ-K2,
//! REQ-L6.

use std::time::Duration;

use serde_json::{Value, json};

use super::World;
use crate::rig::{Gate, ok, quick_policy, status, task, with};

impl World {
    async fn lane_id(&self) -> String {
        self.client.lane(&self.dependency()).await["laneId"].as_str().unwrap().to_owned()
    }

    /// A task under a policy; its path is its key.
    async fn create_under(&self, policy_id: &str, name: &str) -> String {
        self.client.create(&task(&self.target.url(&format!("/{name}")), name, policy_id)).await
    }

    /// Waits until a task says that it waits for this.
    async fn until_waiting(&self, id: &str, reason: &str) -> Value {
        let what = format!("{id} waits because of {reason}");
        self.client.until(id, &what, |task| task["waitingReason"] == reason).await
    }
}

#[tokio::test]
async fn a_paused_lane_sends_nothing_until_it_is_resumed() {
    let world = World::start().await;
    let first = world.create("first").await;
    world.client.until_status(&first, "SUCCEEDED").await;
    let lane = world.lane_id().await;
    let paused = world.client.post(&format!("/lanes/{lane}/pause"), &json!({})).await.expect(200);
    assert_eq!(paused["paused"], true);

    let held = world.create("held").await;
    let waiting = world.until_waiting(&held, "paused").await;
    assert_eq!((&waiting["status"], &waiting["attemptNumber"]), (&json!("PENDING"), &json!(0)));
    assert_eq!(world.client.lane(&world.dependency()).await["blockedBy"], "paused");
    // Another lane is served meanwhile.
    let elsewhere = with(world.task("elsewhere"), json!({"dependency": "elsewhere"}));
    let elsewhere = world.client.create(&elsewhere).await;
    world.client.until_status(&elsewhere, "SUCCEEDED").await;
    assert_eq!(world.target.seen_at("/held").len(), 0);

    let resumed = world.client.post(&format!("/lanes/{lane}/resume"), &json!({})).await.expect(200);
    assert_eq!(resumed["paused"], false);
    world.client.until_status(&held, "SUCCEEDED").await;
}

#[tokio::test]
async fn a_pause_keeps_the_count_and_a_redrive_starts_over() {
    let world = World::start().await;
    let gate = Gate::closed();
    world.target.on("/held", [status(503), status(503).held_by(&gate), status(503)]);
    let id = world.create("held").await;
    world.target.until_seen("/held", 2).await;
    let lane = world.lane_id().await;
    world.client.post(&format!("/lanes/{lane}/pause"), &json!({})).await.expect(200);
    gate.open();
    let waiting = world.until_waiting(&id, "paused").await;
    assert_eq!(waiting["attemptNumber"], 2);
    world.client.post(&format!("/lanes/{lane}/resume"), &json!({})).await.expect(200);
    let ended = world.client.until_status(&id, "EXHAUSTED").await;
    assert_eq!((&ended["attemptNumber"], &ended["generation"]), (&json!(4), &json!(1)));

    world.client.post("/dead-letters:redrive", &json!({"ids": [id]})).await.expect(200);
    let ended = world.client.until_status(&id, "EXHAUSTED").await;
    assert_eq!((&ended["attemptNumber"], &ended["generation"]), (&json!(4), &json!(2)));
    let seen = world.target.seen_at("/held");
    let numbers: Vec<_> = seen.iter().filter_map(|seen| seen.attempt).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 1, 2, 3, 4]);
}

#[tokio::test]
async fn limits_of_a_lane_hold_at_once() {
    let world = World::start().await;
    let gate = Gate::closed();
    world.target.on("/one", [ok().held_by(&gate)]);
    let first = world.create("first").await;
    world.client.until_status(&first, "SUCCEEDED").await;
    let lane = world.lane_id().await;
    let limits = json!({"inFlightMax": 1, "retriesInFlightMax": 1});
    let set = world.client.put(&format!("/lanes/{lane}/limits"), &limits).await.expect(200);
    assert_eq!(set["limits"]["inFlightMax"], 1);
    let (one, two) = (world.create("one").await, world.create("two").await);
    world.target.until_seen("/one", 1).await;
    world.until_waiting(&two, "concurrency").await;
    assert_eq!(world.client.lane(&world.dependency()).await["inFlight"], 1);
    gate.open();
    world.client.until_status(&one, "SUCCEEDED").await;
    world.client.until_status(&two, "SUCCEEDED").await;
}

#[tokio::test]
async fn a_rate_spaces_attempts() {
    let world = World::start().await;
    world
        .client
        .register(&with(quick_policy("slow", 4), json!({"concurrency": {"ratePerSecond": 20}})))
        .await;
    let mut ids = Vec::new();
    for number in 0..12 {
        ids.push(world.create_under("slow", &format!("slow-{number}")).await);
    }
    for id in &ids {
        world.client.until_status(id, "SUCCEEDED").await;
    }
    // A tenth of a second's worth, which is two, may start at once.
    let seen = world.target.seen();
    let took = seen.last().unwrap().arrived.duration_since(seen[0].arrived);
    assert!(took.as_millis() >= 480, "12 at 20 a second took {took:?}");
}

#[tokio::test]
async fn an_open_breaker_holds_tasks_and_spends_no_attempt() {
    let world = World::start().await;
    let breaker = json!({
        "callsMin": 3, "failureRatio": 0.5, "windowMs": 10_000, "coolDownMs": 1_500,
        "coolDownMaxMs": 1_500, "rampMs": 0,
    });
    world.client.register(&with(quick_policy("guarded", 11), json!({"breaker": breaker}))).await;
    let mut ids = Vec::new();
    for number in 0..3 {
        let name = format!("fails-{number}");
        world.target.on(&format!("/{name}"), [status(503)]);
        ids.push(world.create_under("guarded", &name).await);
    }
    let opens = crate::rig::wait_until(crate::rig::SOON, "the breaker opens", async || {
        let lane = world.client.lane(&world.dependency()).await;
        (lane["breaker"]["state"] == "open").then_some(())
    });
    opens.await;
    let held = world.create_under("guarded", "held").await;
    let waiting = world.until_waiting(&held, "breaker_open").await;
    assert_eq!(waiting["attemptNumber"], 0);
    world.until_waiting(&ids[0], "breaker_open").await;
    assert_eq!(world.target.seen_at("/held").len(), 0);
    let lane = world.client.lane(&world.dependency()).await;
    assert_eq!(lane["blockedBy"], "breaker_open", "{lane:#}");

    for number in 0..3 {
        world.target.on(&format!("/fails-{number}"), [ok()]);
    }
    for id in ids.iter().chain([&held]) {
        world.client.until_status(id, "SUCCEEDED").await;
    }
    assert_eq!(world.client.task(&held).await["attemptNumber"], 1);
}

#[tokio::test]
async fn a_spent_budget_holds_retries_until_first_attempts_earn_them() {
    let world = World::start().await;
    let policy = json!({
        "policyId": "frugal", "context": "async-event", "maxAttempts": 4, "initialDelayMs": 20,
        "maxDelayMs": 100, "breaker": null, "budget": {"ratio": 0.2, "burst": 1, "floorRetries": 0},
    });
    world.client.register(&policy).await;
    world.target.on("/fails", [status(503), ok()]);
    let held = world.create_under("frugal", "fails").await;
    let waiting = world.until_waiting(&held, "budget").await;
    assert_eq!((&waiting["status"], &waiting["attemptNumber"]), (&json!("PENDING"), &json!(1)));
    // One retry for five first attempts.
    for number in 0..3 {
        let id = world.create_under("frugal", &format!("earns-{number}")).await;
        world.client.until_status(&id, "SUCCEEDED").await;
    }
    assert_eq!(world.client.task(&held).await["attemptNumber"], 1, "four have not earned it");
    for number in 3..8 {
        let id = world.create_under("frugal", &format!("earns-{number}")).await;
        world.client.until_status(&id, "SUCCEEDED").await;
    }
    let done = world.client.until_status(&held, "SUCCEEDED").await;
    assert_eq!(done["attemptNumber"], 2);
}

#[tokio::test]
async fn a_retry_and_a_fresh_task_that_come_due_together_both_go_out() {
    let world = World::start().await;
    let limits = json!({"concurrency": {"inFlightMax": 10, "retriesInFlightMax": 10}});
    world.client.register(&with(quick_policy("narrow", 4), limits)).await;
    let gate = Gate::closed();
    world.target.on("/retry", [status(503), ok().held_by(&gate)]);
    world.target.on("/fresh", [ok().held_by(&gate)]);
    let retry = world.create_under("narrow", "retry").await;
    world.target.until_seen("/retry", 1).await;
    let lane = world.lane_id().await;
    world.client.post(&format!("/lanes/{lane}/pause"), &json!({})).await.expect(200);
    let fresh = world.create_under("narrow", "fresh").await;
    world.until_waiting(&fresh, "paused").await;
    world.until_waiting(&retry, "paused").await;
    world.client.post(&format!("/lanes/{lane}/resume"), &json!({})).await.expect(200);
    // Neither has an end that the other could wait for.
    world.target.until_seen("/retry", 2).await;
    world.target.until_seen("/fresh", 1).await;
    gate.open();
    world.client.until_status(&retry, "SUCCEEDED").await;
    world.client.until_status(&fresh, "SUCCEEDED").await;
}

#[tokio::test]
async fn lanes_that_are_held_cost_nothing() {
    let world = World::start_with(&["--set", "log.level=warn"]).await;
    let breaker = json!({"callsMin": 2, "coolDownMs": 60_000, "coolDownMaxMs": 60_000});
    world.client.register(&with(quick_policy("guarded", 4), json!({"breaker": breaker}))).await;
    let limits = json!({"concurrency": {"inFlightMax": 2, "retriesInFlightMax": 2}});
    world.client.register(&with(quick_policy("narrow", 4), limits)).await;
    world.target.on("/fails", [status(503)]);
    world.target.on("/never", [crate::rig::Step::Silence]);
    let mut tasks = Vec::new();
    for (dependency, path, policy_id) in
        [("paused", "/ok", "quick"), ("open", "/fails", "guarded"), ("full", "/never", "narrow")]
    {
        let document = task(&world.target.url(path), &format!("first-{dependency}"), policy_id);
        world.client.create(&with(document.clone(), json!({"dependency": dependency}))).await;
        tasks.extend((0..300).map(|n| {
            let key = format!("{dependency}-{n}");
            with(document.clone(), json!({"dependency": dependency, "idempotencyKey": key}))
        }));
    }
    let lane = world.client.lane("paused").await["laneId"].as_str().unwrap().to_owned();
    world.client.post(&format!("/lanes/{lane}/pause"), &json!({})).await.expect(200);
    world.client.post("/retry-tasks:batch", &json!({"tasks": tasks})).await.expect(202);
    for (dependency, reason) in
        [("paused", "paused"), ("open", "breaker_open"), ("full", "concurrency")]
    {
        crate::rig::wait_until(crate::rig::SOON, reason, async || {
            let lane = world.client.lane(dependency).await;
            (lane["blockedBy"] == reason).then_some(())
        })
        .await;
    }
    let before = world.relent.cpu_time();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let spent = world.relent.cpu_time() - before;
    println!("900 tasks held back for a second cost {spent:?}");
    assert!(spent < Duration::from_millis(200), "{spent:?} in a second of waiting");
}
