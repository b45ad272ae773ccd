//! Targets that misbehave below HTTP, or just within it. REQ-C3, REQ-L4, REQ-P3, REQ-P4.

use std::collections::HashSet;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{World, assert_contiguous, column};
use crate::rig::{Step, ok, quick_policy, task, with};

impl World {
    /// A policy whose attempts may take 300 ms.
    async fn impatient(&self) {
        let policy = json!({"attemptTimeoutMs": 300, "connectTimeoutMs": 300});
        self.client.register(&with(quick_policy("impatient", 3), policy)).await;
    }

    /// What the first attempt came to, against a target that does this once and then answers.
    async fn first_attempt(&self, name: &str, step: Step) -> Value {
        let path = format!("/{name}");
        self.target.on(&path, [step, ok()]);
        let id = self.client.create(&task(&self.target.url(&path), name, "impatient")).await;
        self.client.until(&id, &format!("{name} ends"), crate::rig::has_ended).await;
        let attempts = self.client.attempts(&id).await;
        assert_contiguous(&attempts);
        attempts[0].clone()
    }
}

#[tokio::test]
async fn a_target_that_hangs_up_is_tried_again() {
    let world = World::start().await;
    world.impatient().await;
    for (name, step, error, effect) in [
        ("silent", Step::Silence, "response_timeout", "ambiguous"),
        ("resets", Step::Reset, "reset", "ambiguous"),
        ("closes", Step::Close, "closed_early", "ambiguous"),
        ("drips", Step::DripHead, "response_timeout", "ambiguous"),
        ("hints", Step::InterimFlood, "response_timeout", "ambiguous"),
    ] {
        let began = Instant::now();
        let attempt = world.first_attempt(name, step).await;
        assert_eq!(attempt["error"], error, "{name}: {attempt:#}");
        assert_eq!(attempt["effect"], effect, "{name}");
        assert_eq!(attempt["decision"], "retry", "{name}");
        assert_eq!(world.target.seen_at(&format!("/{name}")).len(), 2, "{name}");
        assert!(began.elapsed() < Duration::from_secs(10), "{name}");
    }
}

#[tokio::test]
async fn what_is_not_http_is_not_tried_again() {
    let world = World::start().await;
    world.impatient().await;
    for (name, step) in [("garbage", Step::Garbage), ("huge-head", Step::HugeHead)] {
        let attempt = world.first_attempt(name, step).await;
        assert_eq!(
            (&attempt["error"], &attempt["decision"]),
            (&json!("http_parse"), &json!("give_up"))
        );
        assert_eq!(world.target.seen_at(&format!("/{name}")).len(), 1, "{name}");
    }
}

#[tokio::test]
async fn the_head_of_an_answer_decides_whatever_its_body_does() {
    let world = World::start().await;
    world.impatient().await;
    let before = world.relent.resident_bytes();
    for (name, step) in [
        ("endless", Step::EndlessBody),
        ("huge", Step::HugeBody(1 << 30)),
        ("truncated", Step::Truncated),
    ] {
        let attempt = world.first_attempt(name, step).await;
        assert_eq!(
            (&attempt["responseStatus"], &attempt["decision"]),
            (&json!(200), &json!("done"))
        );
        let path = format!("/{name}");
        let ended =
            crate::rig::wait_until(crate::rig::SOON, "the connection is closed", async || {
                world.target.seen_at(&path).pop().filter(|seen| seen.ended.is_some())
            });
        let seen = ended.await;
        assert!(seen.written < 32 << 20, "{name}: the target got rid of {} bytes", seen.written);
    }
    let grown = world.relent.resident_bytes().saturating_sub(before);
    assert!(grown < 64 << 20, "memory grew by {grown} bytes");
    assert_eq!(world.target.connections(), 3, "none of them was used again");
}

#[tokio::test]
async fn a_closed_port_is_tried_again() {
    let world = World::start().await;
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("http://127.0.0.1:{port}/");
    let id = world.client.create(&task(&url, "refused", "quick")).await;
    let given_up = world.client.until_status(&id, "EXHAUSTED").await;
    assert_eq!(given_up["endedBecause"], "attempts_exhausted");
    let attempts = world.client.attempts(&id).await;
    assert_eq!(column(&attempts, "error"), vec![json!("connect_refused"); 4]);
    assert_eq!(column(&attempts, "effect"), vec![json!("not_sent"); 4]);
}

#[tokio::test]
async fn a_name_that_is_not_found_is_tried_twice() {
    let world = World::start().await;
    let id = world.client.create(&task("http://nx.invalid/", "unnamed", "quick")).await;
    let given_up = world.client.until_status(&id, "EXHAUSTED").await;
    assert_eq!(given_up["endedBecause"], "class_limit");
    let attempts = world.client.attempts(&id).await;
    assert_eq!(column(&attempts, "error"), vec![json!("dns"); 2]);
}

#[tokio::test]
async fn a_target_without_tls_is_not_tried_again() {
    let world = World::start().await;
    world.impatient().await;
    // It answers the handshake in plain text.
    let url = format!("https://{}/", world.target.address);
    let id = world.client.create(&task(&url, "plain", "impatient")).await;
    world.client.until(&id, "the task ends", crate::rig::has_ended).await;
    let attempts = world.client.attempts(&id).await;
    assert!(attempts.iter().all(|attempt| attempt["effect"] == "not_sent"), "{attempts:#?}");
    assert_eq!(world.target.count(), 0, "nothing may be sent without TLS");
}

#[tokio::test]
async fn addresses_that_hand_out_credentials_are_never_called() {
    let world = World::start().await;
    for (name, url) in [
        ("metadata", "http://169.254.169.254/latest/meta-data/"),
        ("decimal", "http://2852039166/"),
        ("mapped", "http://[::ffff:169.254.169.254]/"),
        ("any", "http://0.0.0.0/"),
    ] {
        let reply = world.client.post("/retry-tasks", &task(url, name, "quick")).await;
        if reply.status == 422 {
            continue;
        }
        let id = reply.expect(202)["taskId"].as_str().unwrap().to_owned();
        let given_up = world.client.until_status(&id, "EXHAUSTED").await;
        assert_eq!(given_up["endedBecause"], "permanent", "{name}");
        let attempts = world.client.attempts(&id).await;
        assert_eq!(column(&attempts, "error"), [json!("blocked")], "{name}");
        assert_eq!(column(&attempts, "effect"), [json!("not_sent")], "{name}");
    }
}

#[tokio::test]
async fn connections_are_used_again_and_never_resend_by_themselves() {
    let world = World::start().await;
    for number in 0..30 {
        let id = world
            .client
            .create(&with(world.task("kept"), json!({"idempotencyKey": format!("kept-{number}")})))
            .await;
        world.client.until_status(&id, "SUCCEEDED").await;
    }
    assert_eq!(world.target.count(), 30);
    let connections: HashSet<_> = world.target.seen().iter().map(|seen| seen.connection).collect();
    assert!(connections.len() <= 3, "{} connections", connections.len());
}

#[tokio::test]
async fn a_connection_that_ended_while_idle_is_no_failure_and_no_second_request() {
    let world = World::start().await;
    world.target.on("/last", [Step::LastAnswer]);
    for number in 0..30 {
        let key = json!({"idempotencyKey": format!("last-{number}")});
        let id = world.client.create(&with(world.task("last"), key)).await;
        let done = world.client.until_status(&id, "SUCCEEDED").await;
        let seen = world.target.seen();
        let seen: Vec<_> =
            seen.iter().filter(|seen| seen.key == format!("last-{number}")).collect();
        assert_eq!(Some(seen.len() as u64), done["attemptNumber"].as_u64(), "{seen:#?}");
    }
    assert_eq!(world.target.count(), 30, "an idle connection that ends costs no attempt");
}
