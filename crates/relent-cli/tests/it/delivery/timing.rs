//! First attempts at a later time, and the end of all time. REQ-S2, REQ-L2.

use std::time::{Duration, SystemTime};

use serde_json::json;

use super::World;
use crate::rig::{millis, quick_policy, status, task, with};

#[tokio::test]
async fn a_delay_is_kept_and_never_cut_short() {
    let world = World::start().await;
    let before = millis(SystemTime::now());
    let id = world.client.create(&with(world.task("later"), json!({"delayMs": 400}))).await;
    let waiting = world.client.task(&id).await;
    assert_eq!(
        (&waiting["status"], &waiting["waitingReason"]),
        (&json!("PENDING"), &json!("scheduled"))
    );
    assert_eq!(waiting["attemptNumber"], 0);
    world.client.until_status(&id, "SUCCEEDED").await;
    let arrived = millis(world.target.seen_at("/later")[0].arrived_at);
    assert!(arrived >= before + 399.0, "{} ms after it was created", arrived - before);
    assert!(arrived >= waiting["nextAttemptAt"].as_f64().unwrap() - 2.0);
}

#[tokio::test]
async fn a_time_is_kept_in_both_forms() {
    let world = World::start().await;
    let at = SystemTime::now() + Duration::from_millis(500);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a time of this century"
    )]
    let whole = millis(at) as u64;
    let date =
        jiff::Timestamp::from_millisecond(i64::try_from(whole).unwrap()).unwrap().to_string();
    for (name, not_before) in [("number", json!(whole)), ("text", json!(date))] {
        let id =
            world.client.create(&with(world.task(name), json!({"notBefore": not_before}))).await;
        let done = world.client.until_status(&id, "SUCCEEDED").await;
        let arrived = millis(world.target.seen_at(&format!("/{name}"))[0].arrived_at);
        assert!(arrived >= millis(at) - 2.0, "{name}: {} ms early", millis(at) - arrived);
        assert_eq!(done["attemptNumber"], 1);
    }
}

#[tokio::test]
async fn a_time_in_the_past_means_now() {
    let world = World::start().await;
    let id = world
        .client
        .create(&with(world.task("late"), json!({"notBefore": "2020-01-01T00:00:00Z"})))
        .await;
    world.client.until_status(&id, "SUCCEEDED").await;
}

#[tokio::test]
async fn many_times_are_kept_in_order_and_none_is_early() {
    let world = World::start().await;
    let begin = millis(SystemTime::now()) + 300.0;
    let mut ids = Vec::new();
    for number in 0..100_u32 {
        // Every third one is due before those that came ahead of it.
        let offset = f64::from((number * 37) % 100) * 4.0;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a time of this century"
        )]
        let due = (begin + offset) as u64;
        let fields = json!({"idempotencyKey": format!("at-{number}"), "notBefore": due});
        ids.push((world.client.create(&with(world.task("ordered"), fields)).await, due));
    }
    for (id, _) in &ids {
        world.client.until_status(id, "SUCCEEDED").await;
    }
    for seen in world.target.seen() {
        let number: usize = seen.key.trim_start_matches("at-").parse().unwrap();
        #[expect(clippy::cast_precision_loss, reason = "a time of this century")]
        let early = ids[number].1 as f64 - millis(seen.arrived_at);
        assert!(early <= 2.0, "{early} ms early");
    }
}

#[tokio::test]
async fn the_deadline_ends_a_task_before_its_next_attempt_would() {
    let world = World::start().await;
    // Waits of a second at least, in a life of 700 ms.
    let policy = json!({
        "policyId": "short-lived", "context": "webhook", "maxAttempts": 4, "totalBudgetMs": 700,
        "scheduleMs": [1_000, 2_000, 3_000], "breaker": null,
    });
    world.client.register(&policy).await;
    world.target.on("/down", [status(503)]);
    let id = world.client.create(&task(&world.target.url("/down"), "down", "short-lived")).await;
    let ended = world.client.until_status(&id, "EXHAUSTED").await;
    assert_eq!(
        (&ended["endedBecause"], &ended["attemptNumber"]),
        (&json!("deadline_would_pass"), &json!(1))
    );
    let took = ended["endedAt"].as_u64().unwrap() - ended["createdAt"].as_u64().unwrap();
    assert!(took < 700, "it ended after {took} ms instead of at once");
}

#[tokio::test]
async fn the_deadline_ends_a_task_that_is_held_back() {
    let world = World::start().await;
    world
        .client
        .register(&with(
            quick_policy("brief", 4),
            json!({"totalBudgetMs": 1_000, "attemptTimeoutMs": 500}),
        ))
        .await;
    let opened = world.create("opens-the-lane").await;
    world.client.until_status(&opened, "SUCCEEDED").await;
    let lane = world.client.lane(&world.dependency()).await["laneId"].as_str().unwrap().to_owned();
    world.client.post(&format!("/lanes/{lane}/pause"), &json!({})).await.expect(200);
    let id = world.client.create(&task(&world.target.url("/held"), "held", "brief")).await;
    let ended = world.client.until_status(&id, "EXHAUSTED").await;
    assert_eq!(
        (&ended["endedBecause"], &ended["attemptNumber"]),
        (&json!("deadline_would_pass"), &json!(0))
    );
    assert_eq!(world.target.seen_at("/held").len(), 0);
    world.client.get(&format!("/dead-letters/{id}")).await.expect(200);
}
