//! One task per key, and many tasks at once. G9, REQ-I1, REQ-I5.

use std::collections::HashSet;

use http::Method;
use serde_json::{Value, json};

use super::World;
use crate::rig::{quick_policy, request, with};

#[tokio::test]
async fn a_repeated_key_is_the_same_task() {
    let world = World::start().await;
    let first = world.client.post("/retry-tasks", &world.task("orders")).await;
    let location = first.header("location").to_owned();
    let first = first.expect(202);
    assert_eq!(location, format!("/retry-tasks/{}", first["taskId"].as_str().unwrap()));
    let again = world.client.post("/retry-tasks", &world.task("orders")).await.expect(200);
    assert_eq!(again["taskId"], first["taskId"]);
    world.client.until_status(first["taskId"].as_str().unwrap(), "SUCCEEDED").await;
    let ended = world.client.post("/retry-tasks", &world.task("orders")).await.expect(200);
    assert_eq!((&ended["taskId"], &ended["status"]), (&first["taskId"], &json!("SUCCEEDED")));
    assert_eq!(world.target.count(), 1);
}

#[tokio::test]
async fn a_repeated_key_tells_of_the_policy_that_the_task_has() {
    let world = World::start().await;
    world.client.register(&quick_policy("orders", 4)).await;
    let document = with(world.task("orders"), json!({"policyId": "orders", "delayMs": 60_000}));
    let first = world.client.post("/retry-tasks", &document).await.expect(202);
    assert_eq!(first["policyVersion"], 1);
    world.client.register(&quick_policy("orders", 5)).await;
    let again = world.client.post("/retry-tasks", &document).await.expect(200);
    for field in ["taskId", "policyVersion", "status", "createdAt", "laneId"] {
        assert_eq!(again[field], first[field], "{field}");
    }
    let batch = world.client.post("/retry-tasks:batch", &json!([document])).await.expect(202);
    assert_eq!((&batch["created"], &batch["items"][0]), (&json!(0), &again));
}

#[tokio::test]
async fn a_batch_under_an_unknown_policy_leaves_nothing_behind() {
    let world = World::start().await;
    let unknown = with(world.task("b"), json!({"policyId": "unknown"}));
    let reply = world.client.post("/retry-tasks:batch", &json!([world.task("a"), unknown])).await;
    assert_eq!(reply.json()["code"], "policy_not_found", "{}", reply.text());
    assert_eq!(world.client.all("/retry-tasks").await.len(), 0);
    assert_eq!(world.client.all("/lanes").await.len(), 0);
}

#[tokio::test]
async fn a_key_with_other_content_is_refused_and_names_its_task() {
    let world = World::start().await;
    let id = world.create("orders").await;
    for (name, fields) in [
        ("body", json!({"body": "other"})),
        ("url", json!({"targetUrl": world.target.url("/other")})),
        ("method", json!({"method": "PUT"})),
        ("headers", json!({"headers": {"x-other": "1"}})),
        ("delay", json!({"delayMs": 5})),
    ] {
        let reply = world.client.post("/retry-tasks", &with(world.task("orders"), fields)).await;
        assert_eq!(reply.problem(422), "key_conflict", "{name}");
        assert_eq!(reply.json()["taskId"], id, "{name}");
    }
    assert_eq!(world.client.all("/retry-tasks").await.len(), 1);
}

#[tokio::test]
async fn the_key_may_be_in_the_header() {
    let world = World::start().await;
    let url = world.target.url("/orders");
    let document = json!({"targetUrl": url, "policyId": "quick"});
    let mut send = request(Method::POST, "/retry-tasks", Some(&document));
    send.headers_mut().insert("idempotency-key", "\"in-the-header\"".parse().unwrap());
    let created = world.client.send(send).await.expect(202);
    world.client.until_status(created["taskId"].as_str().unwrap(), "SUCCEEDED").await;
    assert_eq!(world.target.seen_at("/orders")[0].key, "in-the-header");
}

#[tokio::test]
async fn the_same_key_from_many_at_once_is_one_task() {
    let world = World::start().await;
    let mut ids = HashSet::new();
    for round in 0..10 {
        let document =
            with(world.task("orders"), json!({"idempotencyKey": format!("round-{round}")}));
        let mut posting = tokio::task::JoinSet::new();
        for _ in 0..16 {
            // A connection of its own, and all of them at the same moment.
            let (client, document) = (world.relent.client(), document.clone());
            posting.spawn(async move { client.post("/retry-tasks", &document).await });
        }
        let replies = posting.join_all().await;
        let created = replies.iter().filter(|reply| reply.status == 202).count();
        assert_eq!(created, 1, "round {round}");
        for reply in replies {
            match reply.status.as_u16() {
                200 | 202 => ids.extend(reply.json()["taskId"].as_str().map(ToOwned::to_owned)),
                _ => assert_eq!(reply.problem(409), "key_in_progress"),
            }
        }
    }
    assert_eq!(ids.len(), 10);
    for id in &ids {
        world.client.until_status(id, "SUCCEEDED").await;
    }
    assert_eq!(world.target.count(), 10);
}

#[tokio::test]
async fn a_batch_is_stored_whole() {
    let world = World::start().await;
    let tasks: Vec<Value> = (0..50).map(|n| world.task(&format!("b-{n}"))).collect();
    let stored =
        world.client.post("/retry-tasks:batch", &json!({"tasks": tasks})).await.expect(202);
    assert_eq!((&stored["created"], stored["items"].as_array().unwrap().len()), (&json!(50), 50));
    for item in stored["items"].as_array().unwrap() {
        world.client.until_status(item["taskId"].as_str().unwrap(), "SUCCEEDED").await;
    }
    let again = world.client.post("/retry-tasks:batch", &json!(tasks)).await;
    assert!(again.status.is_success(), "{}", again.text());
    let again = again.json();
    assert_eq!(
        (&again["created"], &again["items"][7]["taskId"]),
        (&json!(0), &stored["items"][7]["taskId"])
    );
    assert_eq!(again["items"][7]["status"], "SUCCEEDED", "{again:#}");
    assert_eq!(world.target.count(), 50);
}

#[tokio::test]
async fn a_batch_opens_the_lanes_it_needs_in_its_order() {
    let world = World::start().await;
    let task = |n| {
        let fields = json!({"dependency": format!("dependency-{}", n % 300), "delayMs": 3_600_000});
        with(world.task(&format!("b-{n}")), fields)
    };
    let tasks: Vec<Value> = (0..600).map(task).collect();
    let stored = world.client.post("/retry-tasks:batch", &json!(tasks)).await.expect(202);
    for (n, item) in stored["items"].as_array().unwrap().iter().enumerate() {
        assert_eq!(item["laneId"], format!("lane_{}", n % 300 + 1), "{item}");
        assert_eq!(item["dependency"], format!("dependency-{}", n % 300), "{item}");
    }
    assert_eq!(world.client.all("/lanes").await.len(), 300);
}

#[tokio::test]
async fn a_batch_with_one_problem_stores_nothing() {
    let world = World::start().await;
    world.create("taken").await;
    let conflict = with(world.task("taken"), json!({"body": "other"}));
    let batch = json!({"tasks": [world.task("a"), conflict, world.task("b")]});
    let reply = world.client.post("/retry-tasks:batch", &batch).await;
    assert_eq!(reply.problem(422), "key_conflict");
    assert_eq!(reply.json()["errors"][0]["pointer"], "/tasks/1/idempotencyKey");

    let unnamed = json!({"tasks": [world.task("a"), {"targetUrl": "nowhere"}, {"targetURL": 1}]});
    let reply = world.client.post("/retry-tasks:batch", &unnamed).await;
    assert!(reply.status.is_client_error());
    let errors = reply.json()["errors"].as_array().unwrap().clone();
    let pointers: HashSet<_> =
        errors.iter().filter_map(|error| error["pointer"].as_str()).collect();
    assert!(
        pointers.contains("/tasks/1/targetUrl") && pointers.contains("/tasks/2/targetURL"),
        "{pointers:?}"
    );
    assert_eq!(world.client.all("/retry-tasks").await.len(), 1);
}

#[tokio::test]
async fn a_batch_may_be_one_document_a_line() {
    let world = World::start().await;
    let lines: Vec<String> =
        (0..20).map(|n| world.task(&format!("line-{n}")).to_string()).collect();
    let mut send = request(Method::POST, "/retry-tasks:batch", None);
    send.headers_mut().insert("content-type", "application/x-ndjson".parse().unwrap());
    *send.body_mut() = (lines.join("\n") + "\n").into();
    let stored = world.client.send(send).await.expect(202);
    assert_eq!(stored["created"], 20);
    for item in stored["items"].as_array().unwrap() {
        world.client.until_status(item["taskId"].as_str().unwrap(), "SUCCEEDED").await;
    }
}

#[tokio::test]
async fn tasks_are_found_by_status_policy_dependency_key_and_page() {
    let world = World::start().await;
    world.target.on("/bad", [crate::rig::status(400)]);
    for n in 0..5 {
        let id = world.create(&format!("good-{n}")).await;
        world.client.until_status(&id, "SUCCEEDED").await;
    }
    let bad = world.create("bad").await;
    world.client.until_status(&bad, "EXHAUSTED").await;
    let count = async |query: &str| world.client.all(&format!("/retry-tasks?{query}")).await.len();
    assert_eq!(count("status=SUCCEEDED").await, 5);
    assert_eq!(count("status=SUCCEEDED,EXHAUSTED&policyId=quick").await, 6);
    assert_eq!(count("policyId=webhook").await, 0);
    assert_eq!(count(&format!("dependency={}", world.dependency())).await, 6);
    assert_eq!(count("idempotencyKey=good-3").await, 1);
    assert_eq!(count("endedBecause=permanent").await, 1);
    let mut found = Vec::new();
    let mut next = "/retry-tasks?limit=2".to_owned();
    loop {
        let page = world.client.get(&next).await.expect(200);
        let items = page["items"].as_array().unwrap();
        assert!(items.len() <= 2);
        found.extend(items.iter().map(|item| item["taskId"].as_str().unwrap().to_owned()));
        let Some(cursor) = page["nextCursor"].as_str() else { break };
        next = format!("/retry-tasks?limit=2&cursor={cursor}");
    }
    assert_eq!(found.len(), 6);
    assert_eq!(found[0], bad, "latest first");
}
