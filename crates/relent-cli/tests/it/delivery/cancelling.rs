//! Calling tasks off: before, during and after an attempt. G10.

use serde_json::json;

use super::World;
use crate::rig::{Gate, SOON, ok, status, wait_until, with};

#[tokio::test]
async fn a_waiting_task_is_cancelled_at_once() {
    let world = World::start().await;
    let document = with(world.task("later"), json!({"delayMs": 300}));
    let id = world.client.create(&document).await;
    let cancelled = world.client.cancel(&id).await.expect(200);
    assert_eq!(cancelled["status"], "CANCELLED");
    assert!(cancelled["endedAt"].is_u64() && cancelled["nextAttemptAt"].is_null());

    // Something that was due later has gone out, so this one would have too.
    let document = with(world.task("after"), json!({"delayMs": 350}));
    let after = world.client.create(&document).await;
    world.client.until_status(&after, "SUCCEEDED").await;
    assert_eq!(world.target.seen_at("/later").len(), 0);
    assert_eq!(world.client.attempts(&id).await.len(), 0);
    assert_eq!(
        world.client.get(&format!("/dead-letters/{id}")).await.problem(404),
        "dead_letter_not_found"
    );
    assert_eq!(
        world.client.cancel(&id).await.expect(200)["status"],
        "CANCELLED",
        "once more is fine"
    );
}

#[tokio::test]
async fn a_task_in_flight_ends_with_its_attempt() {
    let world = World::start().await;
    let gate = Gate::closed();
    world.target.on("/held", [status(503).held_by(&gate), ok()]);
    let id = world.create("held").await;
    world.target.until_seen("/held", 1).await;

    let accepted = world.client.cancel(&id).await.expect(202);
    assert_eq!(
        (&accepted["status"], &accepted["cancelRequested"]),
        (&json!("IN_FLIGHT"), &json!(true))
    );
    gate.open();
    let task = world.client.until_status(&id, "CANCELLED").await;
    assert_eq!(task["attemptNumber"], 1);
    assert_eq!(world.target.seen_at("/held").len(), 1, "nothing starts after a cancel");
    assert_eq!(world.client.attempts(&id).await[0]["responseStatus"], 503);
}

#[tokio::test]
async fn a_task_whose_last_attempt_succeeds_has_succeeded_whoever_cancelled_it() {
    let world = World::start().await;
    let gate = Gate::closed();
    world.target.on("/held", [ok().held_by(&gate)]);
    let id = world.create("held").await;
    world.target.until_seen("/held", 1).await;
    world.client.cancel(&id).await.expect(202);
    gate.open();
    let task = world.client.until(&id, "the task ends", crate::rig::has_ended).await;
    assert_eq!(task["status"], "SUCCEEDED", "{task:#}");
}

#[tokio::test]
async fn a_task_that_has_ended_cannot_be_cancelled() {
    let world = World::start().await;
    let id = world.create("done").await;
    world.client.until_status(&id, "SUCCEEDED").await;
    assert_eq!(world.client.cancel(&id).await.problem(409), "already_ended");
    assert_eq!(world.client.task(&id).await["status"], "SUCCEEDED");
    let unknown = world.client.cancel("tsk_0000000000000").await;
    assert_eq!(unknown.problem(404), "task_not_found");
}

#[tokio::test]
async fn nothing_starts_after_an_acknowledged_cancel_however_close_the_race() {
    let world = World::start().await;
    world.target.on("/race", [status(503)]);
    let mut cancelled = Vec::new();
    for number in 0..200 {
        let key = format!("race-{number}");
        let document =
            with(world.task("race"), json!({"idempotencyKey": key, "delayMs": number % 4}));
        let id = world.client.create(&document).await;
        let reply = world.client.cancel(&id).await;
        let acknowledged = std::time::Instant::now();
        assert!([200, 202].contains(&reply.status.as_u16()), "{}", reply.text());
        cancelled.push((id, key, acknowledged, reply));
    }
    let (mut counts, mut called_off) = ([0_usize; 2], 0);
    for (id, key, acknowledged, reply) in cancelled {
        let what = format!("{id} is cancelled");
        let task = wait_until(SOON, &what, async || {
            let task = world.client.task(&id).await;
            crate::rig::has_ended(&task).then_some(task)
        });
        let task = task.await;
        assert_eq!(task["status"], "CANCELLED", "{task:#}");
        let seen: Vec<_> = world.target.seen().into_iter().filter(|seen| seen.key == key).collect();
        // 202 says that an attempt is under way, which may arrive a moment later. None follows it.
        let in_flight = reply.status == 202;
        let under_way = in_flight.then(|| reply.json()["attemptNumber"].as_u64()).flatten();
        let late = seen.iter().filter(|seen| seen.arrived > acknowledged);
        let late: Vec<_> = late.filter(|seen| seen.attempt.map(u64::from) != under_way).collect();
        assert!(late.is_empty(), "{key}: {late:#?}");
        let rows = world.client.attempts(&id).await;
        assert_eq!(Some(rows.len() as u64), task["attemptNumber"].as_u64());
        // The log says of every attempt whether it was made.
        let (sent, unsent): (Vec<_>, Vec<_>) =
            rows.iter().partition(|row| row["error"] != "called_off");
        assert_eq!(seen.len(), sent.len(), "{rows:#?}");
        assert!(unsent.iter().all(|row| row["effect"] == "not_sent"), "{unsent:#?}");
        counts[usize::from(in_flight)] += 1;
        called_off += unsent.len();
    }
    let [waiting, in_flight] = counts;
    println!("cancelled while waiting {waiting}, in flight {in_flight}, {called_off} called off");
    assert!(called_off > 0, "no cancel came between a claim and its sending");
}
