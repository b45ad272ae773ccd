//! Stopping, being killed, and starting again on the same data. REQ-S4.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use super::{World, assert_contiguous, assert_never_early, column};
use crate::rig::{Gate, SOON, Step, ok, quick_policy, status, task, wait_until, with};

impl World {
    /// Starts the service again on the same data, after it has ended.
    async fn start_again(self) -> World {
        let World { relent, target, .. } = self;
        let relent = relent.start_again().await;
        let client = relent.client();
        World { relent, target, client }
    }

    /// A policy whose waits are 1.5 s and more.
    async fn slow_policy(&self) {
        let policy = json!({
            "policyId": "slow", "context": "webhook", "maxAttempts": 4, "breaker": null,
            "scheduleMs": [1_500, 2_000, 3_000], "jitterRatio": 0.001,
        });
        self.client.register(&policy).await;
    }
}

#[tokio::test]
async fn a_restart_in_the_middle_of_a_wait_keeps_schedule_and_count() {
    let mut world = World::start().await;
    world.slow_policy().await;
    world.target.on("/waits", [status(503), ok()]);
    let id = world.client.create(&task(&world.target.url("/waits"), "waits", "slow")).await;
    let waits = |task: &Value| task["waitingReason"] == "backoff" && task["attemptNumber"] == 1;
    let before = world.client.until(&id, "the task waits for its retry", waits).await;
    world.relent.kill9().await;
    let world = world.start_again().await;
    let after = world.client.task(&id).await;
    for field in
        ["nextAttemptAt", "attemptNumber", "createdAt", "deadlineAt", "policyVersion", "generation"]
    {
        assert_eq!(after[field], before[field], "{field}");
    }
    world.client.until_status(&id, "SUCCEEDED").await;
    let (seen, attempts) = (world.target.seen_at("/waits"), world.client.attempts(&id).await);
    assert_eq!((seen.len(), seen[1].attempt, seen[1].previous_status), (2, Some(2), Some(503)));
    assert_contiguous(&attempts);
    assert_never_early(&attempts, &seen);
}

#[tokio::test]
async fn a_scheduled_task_a_pause_and_a_policy_survive_a_kill() {
    let mut world = World::start().await;
    let done = world.create("done").await;
    world.client.until_status(&done, "SUCCEEDED").await;
    let lane = world.client.lane(&world.dependency()).await["laneId"].as_str().unwrap().to_owned();
    world.client.post(&format!("/lanes/{lane}/pause"), &json!({})).await.expect(200);
    let held = world.create("held").await;
    world.relent.kill9().await;
    let world = world.start_again().await;
    assert_eq!(world.client.task(&done).await["status"], "SUCCEEDED");
    assert_eq!(world.client.get(&format!("/lanes/{lane}")).await.expect(200)["paused"], true);
    let waiting =
        world.client.until(&held, "the task waits", |task| task["waitingReason"] == "paused").await;
    assert_eq!(waiting["attemptNumber"], 0);
    world.client.post(&format!("/lanes/{lane}/resume"), &json!({})).await.expect(200);
    world.client.until_status(&held, "SUCCEEDED").await;
    let again = world.client.post("/retry-tasks", &world.task("done")).await.expect(200);
    assert_eq!(again["taskId"], done, "its key is remembered");
}

#[tokio::test]
async fn an_attempt_lost_with_its_process_is_counted_and_made_again() {
    let mut world = World::start().await;
    world.target.on("/lost", [Step::Silence, ok()]);
    let id = world.create("lost").await;
    world.target.until_seen("/lost", 1).await;
    world.relent.kill9().await;
    let world = world.start_again().await;
    let done = world.client.until_status(&id, "SUCCEEDED").await;
    assert_eq!(done["attemptNumber"], 2);
    let attempts = world.client.attempts(&id).await;
    assert_contiguous(&attempts);
    assert_eq!(column(&attempts, "error")[0], "abandoned");
    assert_eq!(column(&attempts, "effect")[0], "ambiguous");
    let numbers: Vec<_> = world.target.seen_at("/lost").iter().map(|seen| seen.attempt).collect();
    assert_eq!(numbers, [Some(1), Some(2)]);
}

#[tokio::test]
async fn a_task_that_loses_every_attempt_still_ends() {
    let mut world = World::start().await;
    world.target.on("/lost", [Step::Silence]);
    let id = world.create("lost").await;
    for attempt in 1..=4 {
        world.target.until_seen("/lost", attempt).await;
        world.relent.kill9().await;
        world = world.start_again().await;
    }
    let ended = world.client.until_status(&id, "EXHAUSTED").await;
    assert_eq!(
        (&ended["endedBecause"], &ended["attemptNumber"]),
        (&json!("attempts_exhausted"), &json!(4))
    );
    assert_eq!(world.target.seen_at("/lost").len(), 4);
    let attempts = world.client.attempts(&id).await;
    assert_eq!(column(&attempts, "error"), vec![json!("abandoned"); 4]);
    world.client.get(&format!("/dead-letters/{id}")).await.expect(200);
}

#[tokio::test]
async fn sigterm_lets_attempts_finish_and_abandons_nothing() {
    let mut world = World::start().await;
    let gate = Gate::closed();
    world.target.on("/held", [ok().held_by(&gate)]);
    let held = world.create("held").await;
    let later = world.client.create(&with(world.task("later"), json!({"delayMs": 1_000}))).await;
    world.target.until_seen("/held", 1).await;
    world.relent.sigterm();
    wait_until(SOON, "the service says that it stops", async || {
        (world.client.get("/readyz").await.status == 503).then_some(())
    })
    .await;
    let refused = world.client.post("/retry-tasks", &world.task("late")).await;
    assert_eq!(refused.problem(503), "draining");
    gate.open();
    let ended = world.relent.ended().await;
    assert_eq!(ended.code(), Some(0), "{}", world.relent.log());

    let world = world.start_again().await;
    let done = world.client.task(&held).await;
    assert_eq!((&done["status"], &done["attemptNumber"]), (&json!("SUCCEEDED"), &json!(1)));
    world.client.until_status(&later, "SUCCEEDED").await;
    let attempts = world.client.attempts(&held).await;
    assert_eq!(column(&attempts, "decision"), [json!("done")]);
    assert_eq!(world.target.seen_at("/held").len(), 1);
    assert_eq!(world.client.all("/retry-tasks").await.len(), 2, "what was refused was not stored");
}

#[tokio::test]
async fn sigterm_under_load_ends_with_0_and_abandons_nothing() {
    let mut world = World::start().await;
    world.target.on("/load", [ok().after(Duration::from_millis(30))]);
    let tasks: Vec<Value> = (0..400)
        .map(|n| with(world.task("load"), json!({"idempotencyKey": format!("load-{n}")})))
        .collect();
    world.client.post("/retry-tasks:batch", &json!({"tasks": tasks})).await.expect(202);
    world.target.until_seen("/load", 50).await;
    world.relent.sigterm();
    assert_eq!(world.relent.ended().await.code(), Some(0), "{}", world.relent.log());
    let world = world.start_again().await;
    wait_until(SOON, "every task is delivered", async || {
        (world.client.all("/retry-tasks?status=SUCCEEDED").await.len() == 400).then_some(())
    })
    .await;
    assert_eq!(world.target.count(), 400, "each was sent once");
}

#[tokio::test]
async fn sigterm_in_the_middle_of_a_start_ends_it_and_loses_nothing() {
    const TASKS: usize = 50;
    let mut world = World::start().await;
    // Due while it is started again and again.
    let new = |n: usize| {
        let fields = json!({"idempotencyKey": format!("n-{n}"), "delayMs": 200 + 20 * n});
        with(world.task("load"), fields)
    };
    let tasks: Vec<Value> = (0..TASKS).map(new).collect();
    world.client.post("/retry-tasks:batch", &json!({"tasks": tasks})).await.expect(202);
    world.relent.sigterm();
    assert_eq!(world.relent.ended().await.code(), Some(0), "{}", world.relent.log());

    // Around the moment from which on it listens for signals, and opens its store.
    let (mut wait, mut early, mut in_order) = (Duration::from_millis(1), 0, 0);
    while in_order < 15 {
        let stopped = world.relent.stopped_while_starting(wait).await;
        if stopped.code == Some(0) {
            in_order += 1;
            wait = wait.mul_f64(0.93);
            continue;
        }
        // Before that moment it has touched nothing, and ends as any process does.
        let killed = stopped.signal == Some(15) && !stopped.was_ready;
        assert!(killed && early < 500, "after {wait:?}: {stopped:?}");
        early += 1;
        wait = wait.mul_f64(1.1);
    }
    println!("asked about {wait:?} after the start: {in_order} ended in order, {early} at once");
    let world = world.start_again().await;
    wait_until(SOON, "every task is delivered", async || {
        (world.client.all("/retry-tasks?status=SUCCEEDED").await.len() == TASKS).then_some(())
    })
    .await;
    assert_eq!(world.target.count(), TASKS, "each was sent once");
}

#[tokio::test]
async fn a_second_process_on_the_same_data_is_refused() {
    let world = World::start().await;
    let (status, said) = world.relent.start_second().await;
    assert_eq!(status.code(), Some(2), "{said}");
    let path = world.relent.data().display().to_string();
    assert!(said.contains("error:") && said.contains(&path), "{said}");
    assert!(said.contains("in use") || said.contains("another process"), "{said}");
    let id = world.create("unharmed").await;
    world.client.until_status(&id, "SUCCEEDED").await;
}

#[tokio::test]
async fn an_attempt_that_outlasts_the_grace_is_left_and_made_again() {
    let mut world = World::start_with(&["--set", "server.grace_ms=300"]).await;
    world.target.on("/endless", [Step::Silence, ok()]);
    let id = world.create("endless").await;
    world.target.until_seen("/endless", 1).await;
    let asked = Instant::now();
    world.relent.sigterm();
    assert_eq!(world.relent.ended().await.code(), Some(0), "{}", world.relent.log());
    assert!(asked.elapsed() < Duration::from_secs(5), "it took {:?} to stop", asked.elapsed());
    let world = world.start_again().await;
    let done = world.client.until_status(&id, "SUCCEEDED").await;
    assert_eq!(done["attemptNumber"], 2);
    assert_contiguous(&world.client.attempts(&id).await);
}

#[tokio::test]
async fn those_who_only_listen_do_not_keep_it_from_stopping() {
    let mut world = World::start().await;
    let mut streams = Vec::new();
    for _ in 0..3 {
        let mut stream = TcpStream::connect(world.relent.address).await.unwrap();
        stream.write_all(b"GET /events HTTP/1.1\r\nhost: h\r\n\r\n").await.unwrap();
        stream.readable().await.unwrap();
        streams.push(stream);
        // And some that say nothing at all.
        streams.push(TcpStream::connect(world.relent.address).await.unwrap());
    }
    world.client.get("/livez").await;
    let asked = Instant::now();
    world.relent.sigterm();
    assert_eq!(world.relent.ended().await.code(), Some(0), "{}", world.relent.log());
    assert!(asked.elapsed() < Duration::from_secs(5), "it took {:?} to stop", asked.elapsed());
}

#[tokio::test]
async fn an_open_breaker_is_open_after_a_restart() {
    let mut world = World::start().await;
    let breaker = json!({"callsMin": 2, "coolDownMs": 60_000, "coolDownMaxMs": 60_000});
    let policy = with(quick_policy("guarded", 4), json!({"breaker": breaker}));
    world.client.register(&policy).await;
    world.target.on("/fails", [status(503)]);
    let id = world.client.create(&task(&world.target.url("/fails"), "fails", "guarded")).await;
    let held = |task: &Value| task["waitingReason"] == "breaker_open";
    let before = world.client.until(&id, "the breaker opens", held).await;
    world.relent.sigterm();
    assert_eq!(world.relent.ended().await.code(), Some(0));
    let count = world.target.count();
    let world = world.start_again().await;
    let after = world.client.until(&id, "the breaker is open", held).await;
    assert_eq!(after["attemptNumber"], before["attemptNumber"]);
    assert_eq!(world.client.lane(&world.dependency()).await["breaker"]["state"], "open");
    assert_eq!(world.target.count(), count, "nothing goes through an open breaker");
}
