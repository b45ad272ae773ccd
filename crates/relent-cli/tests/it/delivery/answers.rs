//! What answers lead to: success, another attempt, a longer wait, the end. REQ-C1, REQ-A1, REQ-S10.

use std::time::{Duration, SystemTime};

use serde_json::json;

use super::{World, assert_contiguous, assert_never_early, column};
use crate::rig::{answer, hash, millis, ok, quick_policy, status, task, waiver, with};

#[tokio::test]
async fn two_503_and_a_200_are_three_attempts_with_the_same_key_and_bytes() {
    let world = World::start().await;
    world.target.on("/orders", [status(503), status(503), ok()]);
    let body = r#"{"order": 17,  "spaces": "stay"}"#;
    let document = with(world.task("orders"), json!({"body": body}));
    let id = world.client.create(&document).await;

    let done = world.client.until_status(&id, "SUCCEEDED").await;
    assert_eq!((&done["attemptNumber"], &done["maxAttempts"]), (&json!(3), &json!(4)));
    assert_eq!(done.get("waitingReason"), None);
    let seen = world.target.seen_at("/orders");
    assert_eq!(seen.len(), 3);
    for (number, seen) in (1..).zip(&seen) {
        assert_eq!((seen.attempt, seen.max_attempts), (Some(number), Some(4)));
        assert_eq!(seen.previous_status, (number > 1).then_some(503));
        assert_eq!((seen.key.as_str(), seen.method.as_str()), ("orders", "POST"));
        assert_eq!(seen.body_hash, hash(body.as_bytes()));
    }
    let attempts = world.client.attempts(&id).await;
    assert_contiguous(&attempts);
    assert_eq!(column(&attempts, "responseStatus"), [json!(503), json!(503), json!(200)]);
    assert_eq!(column(&attempts, "decision"), [json!("retry"), json!("retry"), json!("done")]);
    assert_eq!(column(&attempts, "effect"), vec![json!("answered"); 3]);
    assert_eq!(attempts[0]["error"], "http_503");
    assert_never_early(&attempts, &seen);
}

#[tokio::test]
async fn retry_after_in_seconds_is_waited_for() {
    let world = World::start().await;
    let policy = json!({"retryAfter": {"jitterMaxMs": 100}});
    world.client.register(&with(quick_policy("patient", 4), policy)).await;
    world.target.on("/limited", [status(429).header("retry-after", "1"), ok()]);
    let id = world.client.create(&task(&world.target.url("/limited"), "limited", "patient")).await;

    let waits = |task: &serde_json::Value| task["waitingReason"] == "retry_after";
    world.client.until(&id, "the task waits because it was asked to", waits).await;
    world.client.until_status(&id, "SUCCEEDED").await;
    let seen = world.target.seen_at("/limited");
    let waited = seen[1].arrived.duration_since(seen[0].turned.unwrap());
    assert!(waited >= Duration::from_millis(998), "{waited:?}");
    let attempts = world.client.attempts(&id).await;
    assert_eq!(column(&attempts, "because")[0], "retry_after");
    assert_eq!(seen[1].previous_status, Some(429));
    assert_never_early(&attempts, &seen);
}

#[tokio::test]
async fn retry_after_as_a_date_is_waited_for() {
    let world = World::start().await;
    let date = SystemTime::now() + Duration::from_secs(2);
    let text = httpdate::fmt_http_date(date);
    let date = httpdate::parse_http_date(&text).unwrap();
    world.target.on("/limited", [status(503).header("retry-after", text), ok()]);
    let id = world.create("limited").await;

    world.client.until_status(&id, "SUCCEEDED").await;
    let seen = world.target.seen_at("/limited");
    let early = millis(date) - millis(seen[1].arrived_at);
    assert!(early <= 2.0, "{early} ms before the date");
    assert_eq!(world.client.attempts(&id).await[0]["because"], "retry_after");
}

#[tokio::test]
async fn a_retry_after_beyond_the_deadline_gives_up_now() {
    let world = World::start().await;
    world.target.on("/limited", [status(429).header("retry-after", "3600")]);
    let id = world.create("limited").await;
    let given_up = world.client.until_status(&id, "EXHAUSTED").await;
    assert_eq!(given_up["endedBecause"], "retry_after_too_long");
    assert_eq!(world.target.count(), 1);
}

#[tokio::test]
async fn nonsense_in_retry_after_is_ignored() {
    let world = World::start().await;
    for (name, value) in
        [("word", "soon"), ("negative", "-5"), ("past", "Sun, 06 Nov 1994 08:49:37 GMT")]
    {
        world.target.on(&format!("/{name}"), [status(503).header("retry-after", value), ok()]);
        let id = world.create(name).await;
        world.client.until_status(&id, "SUCCEEDED").await;
        assert_eq!(world.client.attempts(&id).await[0]["because"], "backoff", "{name}");
    }
}

#[tokio::test]
async fn what_cannot_succeed_is_given_up_after_one_attempt_and_kept() {
    let world = World::start().await;
    for code in [400, 401, 403, 404, 409, 422, 301, 501] {
        let name = format!("answers-{code}");
        world.target.on(&format!("/{name}"), [answer(code, b"no")]);
        let id = world.create(&name).await;
        let task = world.client.until_status(&id, "EXHAUSTED").await;
        assert_eq!(
            (&task["attemptNumber"], &task["endedBecause"]),
            (&json!(1), &json!("permanent"))
        );
        assert_eq!(task["lastStatus"], code);
        let letter = world.client.get(&format!("/dead-letters/{id}")).await.expect(200);
        assert_eq!(letter["body"], format!(r#"{{"key":"{name}"}}"#), "{letter:#}");
        assert_eq!(letter["attempts"][0]["responseStatus"], code);
        assert_eq!(world.target.seen_at(&format!("/{name}")).len(), 1, "{code}");
    }
    assert_eq!(world.client.all("/dead-letters").await.len(), 8);
}

#[tokio::test]
async fn attempts_run_out() {
    let world = World::start().await;
    world.target.on("/down", [status(500)]);
    let id = world.create("down").await;
    let task = world.client.until_status(&id, "EXHAUSTED").await;
    assert_eq!(task["endedBecause"], "attempts_exhausted");
    assert_eq!(world.target.count(), 4);
    assert_contiguous(&world.client.attempts(&id).await);
}

/// The most that a policy can say; nothing beneath it has a lower limit of its own.
#[tokio::test]
async fn a_hundred_attempts_are_a_hundred() {
    let world = World::start().await;
    let fields = json!({
        "initialDelayMs": 10, "maxDelayMs": 10, "waivers": [waiver("R-2"), waiver("R-7")],
    });
    world.client.register(&with(quick_policy("stubborn", 100), fields)).await;
    world.target.on("/down", [status(503)]);
    let id = world.client.create(&task(&world.target.url("/down"), "down", "stubborn")).await;
    let ended = world.client.until_status(&id, "EXHAUSTED").await;
    assert_eq!(
        (&ended["endedBecause"], &ended["attemptNumber"]),
        (&json!("attempts_exhausted"), &json!(100))
    );
    let numbers: Vec<_> =
        world.target.seen_at("/down").iter().filter_map(|seen| seen.attempt).collect();
    assert_eq!(numbers, (1..=100).collect::<Vec<_>>());
    let attempts = world.client.attempts(&id).await;
    assert_eq!(attempts.len(), 100);
    assert_contiguous(&attempts);
}

#[tokio::test]
async fn an_unknown_failure_is_tried_once_more() {
    let world = World::start().await;
    world.target.on("/odd", [status(520)]);
    let id = world.create("odd").await;
    let task = world.client.until_status(&id, "EXHAUSTED").await;
    assert_eq!((&task["attemptNumber"], &task["endedBecause"]), (&json!(2), &json!("permanent")));
}

#[tokio::test]
async fn methods_that_may_be_repeated_need_no_key() {
    let world = World::start().await;
    for method in ["GET", "PUT", "DELETE", "HEAD", "OPTIONS"] {
        let path = format!("/{}", method.to_ascii_lowercase());
        world.target.on(&path, [status(503), ok()]);
        let document =
            json!({"targetUrl": world.target.url(&path), "method": method, "policyId": "quick"});
        let id = world.client.create(&document).await;
        world.client.until_status(&id, "SUCCEEDED").await;
        let seen = world.target.seen_at(&path);
        assert!(
            seen.iter()
                .all(|seen| seen.method == method && seen.header("idempotency-key").is_none())
        );
        assert_eq!(seen.len(), 2, "{method}");
    }
}
