//! Every way into a store that nodes share, gone by the real binary: through a pooler, through TLS, in
//! a Cluster, with one role and with both. What a store must not be is refused at the door. REQ-S7.

mod cluster;
mod pooler;
mod refusals;
mod roles;
mod tls;

use serde_json::json;

use crate::rig::{SOON, Shared, Target, ok, quick_policy, status, task, wait_until, with};

/// What a service is for, over this way: two nodes take, deliver, repeat, list, give up, redrive, and one
/// of them is started again.
async fn everything_works(shared: &Shared) {
    let target = Target::start().await;
    let (mut one, other) = (shared.node(&[]).await, shared.node(&[]).await);
    let client = one.client();
    client.register(&quick_policy("quick", 3)).await;
    let new = |name: &str| task(&target.url(&format!("/{name}")), name, "quick");

    target.on("/flaky", [status(503), ok()]);
    target.on("/dead", [status(400), ok()]);
    let flaky = client.create(&new("flaky")).await;
    let dead = client.create(&new("dead")).await;
    let again = client.post("/retry-tasks", &new("flaky")).await.expect(200);
    assert_eq!(again["taskId"], flaky, "a repeated key is the same task");
    let delivered = client.until_status(&flaky, "SUCCEEDED").await;
    assert_eq!((&delivered["attemptNumber"], target.seen_at("/flaky").len()), (&json!(2), 2));
    assert_eq!(client.attempts(&flaky).await.len(), 2);
    client.until_status(&dead, "EXHAUSTED").await;

    // The other node sees the same, and gives what was given up another life.
    let there = other.client();
    assert_eq!(there.all("/retry-tasks").await.len(), 2);
    let letters = there.all("/dead-letters").await;
    assert_eq!((letters.len(), &letters[0]["taskId"]), (1, &json!(dead)));
    let redriven = there.post("/dead-letters:redrive", &json!({"ids": [dead]})).await.expect(200);
    assert_eq!(redriven["redriven"], 1);
    there.until_status(&dead, "SUCCEEDED").await;

    // What waits outlives the nodes.
    target.on("/later", [ok()]);
    let later = client.create(&with(new("later"), json!({"delayMs": 1_500}))).await;
    drop(other);
    one.sigterm();
    assert_eq!(one.ended().await.code(), Some(0));
    one.restart().await;
    one.client().until_status(&later, "SUCCEEDED").await;
    assert_eq!(target.seen_at("/later").len(), 1);
    let counts = wait_until(SOON, "everything has ended", async || {
        let open = one.client().all("/retry-tasks?status=PENDING,IN_FLIGHT").await;
        open.is_empty().then(|| target.count())
    });
    assert_eq!(counts.await, 2 + 2 + 1, "nothing is sent more often than it must");
}
