//! What was given up: kept whole, tried again, deleted. REQ-D1, REQ-D3.

use std::time::Instant;

use serde_json::{Value, json};

use super::{World, column};
use crate::rig::{Gate, ok, quick_policy, status, with};

impl World {
    /// Tasks that a target has refused for good, by name.
    async fn refused(&self, names: &[&str]) -> Vec<String> {
        let mut ids = Vec::new();
        for name in names {
            self.target.on(&format!("/{name}"), [status(400), ok()]);
            let id = self.create(name).await;
            self.client.until_status(&id, "EXHAUSTED").await;
            ids.push(id);
        }
        ids
    }

    async fn redrive(&self, document: Value) -> Value {
        self.client.post("/dead-letters:redrive", &document).await.expect(200)
    }
}

#[tokio::test]
async fn a_dead_letter_has_everything_but_secrets() {
    let world = World::start().await;
    world.target.on("/kept", [status(503), status(422)]);
    let headers = json!({"authorization": "Bearer canary", "x-kind": "order"});
    let fields = json!({"body": "the payload", "headers": headers, "correlationId": "cart-9"});
    let id = world.client.create(&with(world.task("kept"), fields)).await;
    world.client.until_status(&id, "EXHAUSTED").await;

    let letter = world.client.get(&format!("/dead-letters/{id}")).await;
    assert!(!letter.text().contains("canary"));
    let letter = letter.expect(200);
    assert_eq!((&letter["taskId"], &letter["body"]), (&json!(id), &json!("the payload")));
    assert_eq!(letter["headers"], json!({"authorization": "[redacted]", "x-kind": "order"}));
    assert_eq!(
        (&letter["correlationId"], &letter["lastError"]),
        (&json!("cart-9"), &json!("http_422"))
    );
    let attempts = letter["attempts"].as_array().unwrap();
    assert_eq!(column(attempts, "responseStatus"), [json!(503), json!(422)]);
    let listed = world.client.all("/dead-letters").await;
    assert_eq!(column(&listed, "taskId"), [json!(id)]);
    assert!(listed[0].get("body").is_none(), "lists have no bodies");
}

#[tokio::test]
async fn a_redriven_task_is_a_new_generation_with_the_same_key_and_bytes() {
    let world = World::start().await;
    let ids = world.refused(&["again"]).await;
    world.target.on("/again", [status(400), status(503), ok()]);
    let report = world.redrive(json!({"ids": ids})).await;
    assert_eq!((&report["redriven"], &report["taskIds"]), (&json!(1), &json!(ids)));

    let done = world.client.until_status(&ids[0], "SUCCEEDED").await;
    assert_eq!(done["attemptNumber"], 2, "counted from 1 again");
    let seen = world.target.seen_at("/again");
    let numbers: Vec<_> = seen.iter().filter_map(|seen| seen.attempt).collect();
    assert_eq!(numbers, [1, 1, 2]);
    assert!(seen.iter().all(|it| it.key == "again" && it.body_hash == seen[0].body_hash));
    assert_eq!(seen[1].previous_status, None, "a new life has no past");
    let attempts = world.client.attempts(&ids[0]).await;
    assert_eq!(column(&attempts, "attemptNumber"), [json!(1), json!(1), json!(2)]);
    assert_eq!(column(&attempts, "generation"), [json!(1), json!(2), json!(2)]);
    assert_eq!(done["generation"], 2);
    assert_eq!(world.client.all("/dead-letters").await.len(), 0);
    let gone = world.client.get(&format!("/dead-letters/{}", ids[0])).await;
    assert_eq!(gone.problem(404), "dead_letter_not_found");
}

#[tokio::test]
async fn what_fails_again_after_a_redrive_is_the_same_dead_letter() {
    let world = World::start().await;
    world.client.register(&quick_policy("orders", 2)).await;
    world.target.on("/fails", [status(503)]);
    let fields = json!({
        "policyId": "orders", "dependency": "orders", "correlationId": "cart-9",
        "headers": {"authorization": "Bearer canary", "x-kind": "order"},
    });
    let document = with(world.task("fails"), fields);
    let id = world.client.create(&document).await;
    world.client.until_status(&id, "EXHAUSTED").await;
    let path = format!("/dead-letters/{id}");
    let first = world.client.get(&path).await.expect(200);
    let again = world.client.post("/retry-tasks", &document).await.expect(200);
    assert_eq!(
        (&again["taskId"], &again["status"]),
        (&json!(id), &json!("EXHAUSTED")),
        "whoever sends it again is told what became of it"
    );

    // What was registered since is not for a task that has a policy.
    world.client.register(&quick_policy("orders", 3)).await;
    world.redrive(json!({"ids": [id]})).await;
    world.client.until_status(&id, "EXHAUSTED").await;
    let second = world.client.get(&path).await.expect(200);
    for field in [
        "taskId",
        "policyId",
        "policyVersion",
        "idempotencyKey",
        "dependency",
        "laneId",
        "method",
        "targetUrl",
        "headers",
        "body",
        "correlationId",
        "maxAttempts",
        "endedBecause",
    ] {
        assert!(!first[field].is_null(), "{field}: {first:#}");
        assert_eq!(second[field], first[field], "{field}");
    }
    let attempts = second["attempts"].as_array().unwrap();
    assert_eq!(column(attempts, "generation"), [1, 1, 2, 2].map(|number| json!(number)));
    let seen = world.target.seen_at("/fails");
    assert_eq!(seen.len(), 4);
    for request in &seen {
        assert_eq!((&request.key[..], request.body_hash), ("fails", seen[0].body_hash));
        let headers = ["authorization", "x-kind"].map(|name| request.header(name));
        assert_eq!(headers, [Some("Bearer canary"), Some("order")]);
    }
}

#[tokio::test]
async fn a_redrive_that_reaches_nobody_says_so() {
    let world = World::start().await;
    let ids = world.refused(&["dead", "purged"]).await;
    world.client.delete("/dead-letters?idempotencyKey=purged").await.expect(200);
    let done = world.create("done").await;
    world.client.until_status(&done, "SUCCEEDED").await;
    let (dead, purged) = (&ids[0], &ids[1]);

    let wish = json!({"ids": [purged, done, dead, dead], "dryRun": true});
    let dry = world.redrive(wish.clone()).await;
    assert_eq!(
        (&dry["taskIds"], &dry["refused"]),
        (&json!([dead]), &json!([purged, done, dead])),
        "a dry run says what would be done"
    );
    let report = world.redrive(with(wish, json!({"dryRun": false}))).await;
    assert_eq!((&report["redriven"], &report["taskIds"]), (&json!(1), &dry["taskIds"]));
    assert_eq!(report["refused"], dry["refused"]);
    let unknown = world.client.post("/dead-letters:redrive", &json!({"ids": ["nobody"]})).await;
    assert_eq!(unknown.problem(404), "dead_letter_not_found");
    assert!(unknown.text().contains("nobody"), "{}", unknown.text());
    world.client.until_status(dead, "SUCCEEDED").await;
}

#[tokio::test]
async fn a_redrive_by_filter_takes_what_it_says_and_a_dry_run_takes_nothing() {
    let world = World::start().await;
    let ids = world.refused(&["a", "b", "c"]).await;
    world.target.on("/down", [status(503)]);
    let other = world.create("down").await;
    world.client.until_status(&other, "EXHAUSTED").await;

    let filter = json!({"endedBecause": "permanent", "dependency": world.dependency()});
    let dry = world.redrive(json!({"filter": filter, "dryRun": true})).await;
    assert_eq!(dry["dryRun"], true);
    let mut would: Vec<_> =
        dry["taskIds"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    would.sort_unstable();
    let mut meant: Vec<_> = ids.iter().map(String::as_str).collect();
    meant.sort_unstable();
    assert_eq!(would, meant);
    assert_eq!(world.client.all("/dead-letters").await.len(), 4);
    assert_eq!(world.target.count(), 3 + 4);

    let report = world.redrive(json!({"filter": filter})).await;
    assert_eq!(report["redriven"], 3);
    for id in &ids {
        world.client.until_status(id, "SUCCEEDED").await;
    }
    let left = world.client.all("/dead-letters").await;
    assert_eq!(column(&left, "taskId"), [json!(other)]);
}

#[tokio::test]
async fn a_redrive_is_paced() {
    let world = World::start().await;
    let names = ["p-0", "p-1", "p-2", "p-3", "p-4"];
    let ids = world.refused(&names).await;
    let (before, asked) = (world.target.count(), Instant::now());
    world.redrive(json!({"ids": ids, "ratePerSecond": 10})).await;
    for id in &ids {
        world.client.until_status(id, "SUCCEEDED").await;
    }
    let seen = world.target.seen().split_off(before);
    let took = seen.last().unwrap().arrived.duration_since(asked);
    assert!(took.as_millis() >= 398, "five at ten a second took {took:?}");
}

#[tokio::test]
async fn a_redrive_may_bring_another_policy() {
    let world = World::start().await;
    let ids = world.refused(&["other"]).await;
    world.target.on("/other", [status(503)]);
    world.client.register(&quick_policy("longer", 6)).await;
    world.redrive(json!({"ids": ids, "policyId": "longer"})).await;
    let ended = world.client.until_status(&ids[0], "EXHAUSTED").await;
    assert_eq!((&ended["policyId"], &ended["attemptNumber"]), (&json!("longer"), &json!(6)));
    assert_eq!(world.target.seen_at("/other").len(), 1 + 6);
    let unknown =
        world.client.post("/dead-letters:redrive", &json!({"ids": ids, "policyId": "none"})).await;
    assert_eq!(unknown.problem(404), "policy_not_found");
}

#[tokio::test]
async fn only_dead_letters_are_redriven() {
    let world = World::start().await;
    let gate = Gate::closed();
    world.target.on("/held", [ok().held_by(&gate)]);
    let (done, held) = (world.create("done").await, world.create("held").await);
    world.client.until_status(&done, "SUCCEEDED").await;
    world.target.until_seen("/held", 1).await;
    let report = world.redrive(json!({"ids": [done, held]})).await;
    assert_eq!((&report["redriven"], &report["refused"]), (&json!(0), &json!([done, held])));
    gate.open();
    world.client.until_status(&held, "SUCCEEDED").await;
    assert_eq!(world.target.count(), 2);
}

#[tokio::test]
async fn redriving_at_the_same_moment_redrives_once() {
    let world = World::start().await;
    let ids = world.refused(&["once"]).await;
    let mut redriving = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let (client, document) = (world.relent.client(), json!({"ids": ids}));
        redriving.spawn(async move {
            client.post("/dead-letters:redrive", &document).await.expect(200)
        });
    }
    let reports = redriving.join_all().await;
    let redriven: u64 = reports.iter().filter_map(|report| report["redriven"].as_u64()).sum();
    assert_eq!(redriven, 1);
    world.client.until_status(&ids[0], "SUCCEEDED").await;
    assert_eq!(world.target.seen_at("/once").len(), 2);
}

#[tokio::test]
async fn purging_deletes_dead_letters_and_nothing_else() {
    let world = World::start().await;
    let ids = world.refused(&["a", "b"]).await;
    let done = world.create("done").await;
    world.client.until_status(&done, "SUCCEEDED").await;
    let waiting = world.client.create(&with(world.task("later"), json!({"delayMs": 60_000}))).await;

    let empty = world.client.delete("/dead-letters").await;
    assert_eq!(empty.problem(422), "invalid_request", "a purge without a filter deletes nothing");
    assert_eq!(world.client.all("/dead-letters").await.len(), 2);
    let path = format!("/dead-letters?dependency={}", world.dependency());
    let purged = world.client.delete(&path).await.expect(200);
    assert_eq!(purged["purged"], 2, "{purged}");
    assert_eq!(world.client.all("/dead-letters").await.len(), 0);
    assert_eq!(
        world.client.get(&format!("/retry-tasks/{}", ids[0])).await.problem(404),
        "task_not_found"
    );
    assert_eq!(world.client.task(&done).await["status"], "SUCCEEDED");
    assert_eq!(world.client.task(&waiting).await["status"], "PENDING");
}
