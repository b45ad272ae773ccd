//! Policies: checked at the door, kept by version. REQ-S1, REQ-E1.

use serde_json::{Value, json};

use super::World;
use crate::rig::{Gate, quick_policy, status, task, waiver, with};

#[tokio::test]
async fn registering_the_same_policy_again_changes_nothing() {
    let world = World::start().await;
    let first = world.client.register(&quick_policy("orders", 4)).await;
    let again = world.client.register(&quick_policy("orders", 4)).await;
    assert_eq!((&first["version"], &again["version"]), (&json!(1), &json!(1)));
    let other = world.client.register(&quick_policy("orders", 5)).await;
    assert_eq!(other["version"], 2);
    let latest = world.client.get("/retry-policies/orders").await.expect(200);
    assert_eq!((&latest["version"], &latest["maxAttempts"]), (&json!(2), &json!(5)));
}

#[tokio::test]
async fn a_task_keeps_the_version_it_was_created_with() {
    let world = World::start().await;
    let gate = Gate::closed();
    world.target.on("/old", [status(503).held_by(&gate), status(503)]);
    world.target.on("/new", [status(503)]);
    world.client.register(&quick_policy("orders", 3)).await;
    let old = world.client.create(&task(&world.target.url("/old"), "old", "orders")).await;
    world.target.until_seen("/old", 1).await;
    let document = quick_policy("orders", 5);
    let replaced = world.client.put("/retry-policies/orders", &document).await;
    assert!(replaced.status.is_success(), "{}", replaced.text());
    let new = world.client.create(&task(&world.target.url("/new"), "new", "orders")).await;
    gate.open();
    for (id, version, attempts) in [(old, 1, 3), (new, 2, 5)] {
        let ended = world.client.until_status(&id, "EXHAUSTED").await;
        assert_eq!(
            (&ended["policyVersion"], &ended["attemptNumber"]),
            (&json!(version), &json!(attempts))
        );
        assert_eq!(ended["maxAttempts"], attempts);
    }
    assert_eq!((world.target.seen_at("/old").len(), world.target.seen_at("/new").len()), (3, 5));
}

#[tokio::test]
async fn a_policy_against_the_standard_is_refused_with_every_violation() {
    let world = World::start().await;
    let policy = json!({
        "policyId": "careless", "context": "webhook", "maxAttempts": 50, "backoff": "FIXED",
        "initialDelayMs": 100, "jitterType": "NONE", "budget": null, "retryableStatusCodes": [404],
    });
    let reply = world.client.post("/retry-policies", &policy).await;
    assert_eq!(reply.problem(422), "policy_rejected");
    let errors = reply.json()["errors"].as_array().unwrap().clone();
    let has = |pointer: &str, rule: &str| {
        errors.iter().any(|error| error["pointer"] == pointer && error["rule"] == rule)
    };
    for (pointer, rule) in [
        ("/maxAttempts", "R-2"),
        ("/backoff", "R-1"),
        ("/jitterType", "R-1"),
        ("/budget", "R-7"),
        ("/retryableStatusCodes", "R-4"),
    ] {
        assert!(has(pointer, rule), "{pointer} {rule}: {errors:#?}");
    }
    assert_eq!(world.client.get("/retry-policies/careless").await.problem(404), "policy_not_found");

    let waivers = ["R-1", "R-2", "R-4", "R-7"].map(waiver);
    let waived = with(policy, json!({"waivers": waivers}));
    let view = world.client.register(&waived).await;
    assert!(view["waived"].as_array().is_some_and(|waived| waived.len() >= 5), "{view:#}");
}

#[tokio::test]
async fn a_deleted_policy_takes_no_new_tasks_and_ends_its_old_ones() {
    let world = World::start().await;
    let gate = Gate::closed();
    world.target.on("/old", [status(503).held_by(&gate), crate::rig::ok()]);
    world.client.register(&quick_policy("gone", 4)).await;
    let old = world.client.create(&task(&world.target.url("/old"), "old", "gone")).await;
    world.target.until_seen("/old", 1).await;
    let deleted = world.client.delete("/retry-policies/gone").await;
    assert!(deleted.status.is_success(), "{}", deleted.text());
    let refused =
        world.client.post("/retry-tasks", &task(&world.target.url("/new"), "new", "gone")).await;
    assert_eq!(refused.json()["code"], "policy_not_found", "{}", refused.text());
    gate.open();
    world.client.until_status(&old, "SUCCEEDED").await;
}

#[tokio::test]
async fn presets_are_there_and_cannot_be_changed() {
    let world = World::start().await;
    let policies = world.client.all("/retry-policies").await;
    let ids: Vec<&str> = policies.iter().filter_map(|policy| policy["policyId"].as_str()).collect();
    for preset in ["webhook", "sync-api", "async-event", "standard-webhooks", "decision-matrix"] {
        assert!(ids.contains(&preset), "{preset} is not among {ids:?}");
    }
    let webhook = world.client.get("/retry-policies/webhook").await.expect(200);
    assert_eq!((&webhook["builtIn"], &webhook["maxAttempts"]), (&json!(true), &json!(6)));
    let changed = world.client.put("/retry-policies/webhook", &quick_policy("webhook", 4)).await;
    assert_eq!(changed.problem(409), "policy_built_in");
    assert_eq!(
        world.client.delete("/retry-policies/webhook").await.problem(409),
        "policy_built_in"
    );
    let default: Value =
        json!({"targetUrl": world.target.url("/plain"), "idempotencyKey": "plain"});
    let created = world.client.post("/retry-tasks", &default).await.expect(202);
    assert_eq!(created["policyId"], "webhook");
}
