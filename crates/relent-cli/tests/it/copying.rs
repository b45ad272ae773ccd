//! `relent store copy`: between stores of every kind, and a service goes on there.

use serde_json::{Value, json};

use crate::cli::{Ran, run};
use crate::rig::{
    Client, Gate, Kind, Postgres, Relent, StoreServer, Target, ok, quick_policy, status, task, with,
};

/// As the API shows a store: everything but what the time does to it.
async fn everything(client: &Client) -> Value {
    let mut tasks = client.all("/retry-tasks").await;
    for task in &mut tasks {
        let id = task["taskId"].as_str().unwrap().to_owned();
        task["attempts"] = Value::from(client.attempts(&id).await);
    }
    let policies = client.all("/retry-policies").await;
    let lanes = client.all("/lanes").await;
    let told = ["laneId", "dependency", "paused", "limits", "rulesFrom", "waitingFirst"];
    let lanes: Vec<_> = lanes.iter().map(|lane| told.map(|name| lane[name].clone())).collect();
    json!({"tasks": tasks, "policies": policies, "lanes": lanes})
}

async fn copy(postgres: &Postgres, from: &str, to: &str, more: &[&str]) -> Ran {
    let schema = format!("store.postgres.schema={}", postgres.schema);
    let mut arguments = vec!["store", "copy", "--from", from, "--to", to, "--set", &schema];
    arguments.extend(["--set", "store.allow_unsafe=true"]);
    arguments.extend(more);
    run(&arguments).await
}

#[tokio::test]
async fn a_service_goes_on_in_another_store() {
    let Some(postgres) = Postgres::schema() else { return };
    let target = Target::start().await;
    let gate = Gate::closed();
    target.on("/dead", [status(400)]);
    target.on("/done", [ok()]);
    target.on("/hangs", [ok().held_by(&gate), ok()]);
    let mut relent = Relent::start().await;
    let client = relent.client();
    let policy = with(quick_policy("quick", 3), json!({"attemptTimeoutMs": 2_000}));
    client.register(&policy).await;
    let dead = client.create(&task(&target.url("/dead"), "dead", "quick")).await;
    let done = client.create(&task(&target.url("/done"), "done", "quick")).await;
    let waits = json!({"dependency": "waits", "delayMs": 3_600_000});
    let later = client.create(&with(task(&target.url("/later"), "later", "quick"), waits)).await;
    let lane = client.lane("waits").await["laneId"].as_str().unwrap().to_owned();
    client.post(&format!("/lanes/{lane}/pause"), &json!({})).await.expect(200);
    client.until_status(&dead, "EXHAUSTED").await;
    client.until_status(&done, "SUCCEEDED").await;
    let sqlite = format!("sqlite:{}", relent.data().display());
    let busy = copy(&postgres, &sqlite, &postgres.url(), &[]).await.exit(2);
    busy.says("is in use by another process");
    let hangs = client.create(&task(&target.url("/hangs"), "hangs", "quick")).await;
    target.until_seen("/hangs", 1).await;
    // In the middle of an attempt.
    relent.kill9().await;

    let copied = copy(&postgres, &sqlite, &postgres.url(), &[]).await.exit(0);
    let copied = copied.says("2 lanes");
    assert!(!copied.stdout.contains("hunter2") && !copied.stderr.contains("hunter2"), "{copied:?}");
    let again = copy(&postgres, &sqlite, &postgres.url(), &["--json"]).await.exit(0).json();
    assert_eq!((&again["tasks"], &again["before"]), (&json!(0), &json!(4)));

    let arguments = postgres.arguments();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let node = Relent::start_with(&arguments).await;
    let there = node.client();
    // The lost attempt is taken over when its lease ends, and counted.
    let ended = there.until_status(&hangs, "SUCCEEDED").await;
    assert_eq!(ended["attemptNumber"], 2, "{ended:#}");
    gate.open();
    let repeated = there.post("/retry-tasks", &task(&target.url("/dead"), "dead", "quick")).await;
    assert_eq!(repeated.expect(200)["taskId"], dead);
    assert_eq!(there.task(&later).await["status"], "PENDING");
    drop(node);

    // And back, into a fresh directory.
    let directory = tempfile::tempdir().unwrap();
    let back = format!("sqlite:{}", directory.path().join("data").display());
    let in_use = ["--even-if-in-use"];
    copy(&postgres, &postgres.url(), &back, &in_use).await.exit(0).says("both have");
    let node = Relent::start_with(&arguments).await;
    let before = everything(&node.client()).await;
    drop(node);
    let relent = Relent::start_with(&["--store", &back]).await;
    assert_eq!(everything(&relent.client()).await, before);
}

/// Starts a service with these arguments, and expects it to show this.
async fn expect_there(arguments: &[String], expected: &Value) -> Relent {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let relent = Relent::start_with(&arguments).await;
    assert_eq!(&everything(&relent.client()).await, expected);
    relent
}

async fn stop(mut relent: Relent) {
    relent.sigterm();
    assert_eq!(relent.ended().await.code(), Some(0), "{}", relent.log());
}

/// Lets a lane go on, and waits until its one task is delivered.
async fn deliver(client: &Client, dependency: &str, task: &str) {
    let lane = client.lane(dependency).await["laneId"].as_str().unwrap().to_owned();
    client.post(&format!("/lanes/{lane}/resume"), &json!({})).await.expect(200);
    client.until_status(task, "SUCCEEDED").await;
}

/// Where the store of a server of one's own is, and what a service is told to use it.
fn place_of(redis: &StoreServer) -> (String, Vec<String>) {
    let url = format!("redis+unix://{}", redis.socket().display());
    (url.clone(), vec!["--store".to_owned(), url])
}

#[tokio::test]
async fn everything_goes_round_all_kinds_of_stores() {
    let (Some(postgres), Some(redis)) = (Postgres::schema(), StoreServer::start(Kind::Redis).await)
    else {
        return;
    };
    let target = Target::start().await;
    target.on("/dead", [status(400)]);
    for path in ["/done", "/on-redis", "/at-last"] {
        target.on(path, [ok()]);
    }
    let mut relent = Relent::start().await;
    let client = relent.client();
    client.register(&quick_policy("quick", 3)).await;
    let dead = client.create(&task(&target.url("/dead"), "dead", "quick")).await;
    let done = client.create(&task(&target.url("/done"), "done", "quick")).await;
    client.until_status(&dead, "EXHAUSTED").await;
    client.until_status(&done, "SUCCEEDED").await;
    let mut waiting = Vec::new();
    for name in ["on-redis", "at-last"] {
        let later = json!({"dependency": name, "delayMs": 3_600_000});
        let opens = with(task(&target.url("/never"), &format!("opens-{name}"), "quick"), later);
        client.create(&opens).await;
        let lane = client.lane(name).await["laneId"].as_str().unwrap().to_owned();
        client.post(&format!("/lanes/{lane}/pause"), &json!({})).await.expect(200);
        let held = task(&target.url(&format!("/{name}")), name, "quick");
        waiting.push(client.create(&with(held, json!({"dependency": name}))).await);
    }
    let sqlite = format!("sqlite:{}", relent.data().display());
    let before = everything(&client).await;
    // Its directory is there as long as the value is.
    relent.sigterm();
    assert_eq!(relent.ended().await.code(), Some(0));

    let (redis_url, on_redis) = place_of(&redis);
    copy(&postgres, &sqlite, &redis_url, &[]).await.exit(0).says("both have");
    let node = expect_there(&on_redis, &before).await;
    deliver(&node.client(), "on-redis", &waiting[0]).await;
    assert_eq!(target.seen_at("/on-redis").len(), 1);
    let before = everything(&node.client()).await;
    stop(node).await;

    copy(&postgres, &redis_url, &postgres.url(), &[]).await.exit(0).says("both have");
    let node = expect_there(&postgres.arguments(), &before).await;
    stop(node).await;

    let directory = tempfile::tempdir().unwrap();
    let last = format!("sqlite:{}", directory.path().join("data").display());
    copy(&postgres, &postgres.url(), &last, &[]).await.exit(0).says("both have");
    let relent = expect_there(&["--store".to_owned(), last], &before).await;
    deliver(&relent.client(), "at-last", &waiting[1]).await;
    assert_eq!(target.seen_at("/at-last").len(), 1);
    let repeated = task(&target.url("/dead"), "dead", "quick");
    let repeated = relent.client().post("/retry-tasks", &repeated).await;
    assert_eq!(repeated.expect(200)["taskId"], dead);
}

/// Refused in both directions while a node is at work, and not afterwards.
async fn is_left_alone_while_at_work(postgres: &Postgres, url: &str, arguments: &[String]) {
    let target = Target::start().await;
    target.on("/done", [ok()]);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let node = Relent::start_with(&arguments).await;
    let client = node.client();
    client.register(&quick_policy("quick", 3)).await;
    let done = client.create(&task(&target.url("/done"), "done", "quick")).await;
    client.until_status(&done, "SUCCEEDED").await;
    let directory = tempfile::tempdir().unwrap();
    let other = format!("sqlite:{}", directory.path().join("data").display());
    for (from, to) in [(url, &*other), (&*other, url)] {
        let refused = copy(postgres, from, to, &[]).await.exit(2);
        refused.says("servers at work on").says(": 1; stop them, or say --even-if-in-use");
    }
    copy(postgres, url, &other, &["--even-if-in-use"]).await.exit(0).says("both have");
    stop(node).await;
    let again = copy(postgres, url, &other, &["--json"]).await.exit(0).json();
    assert_eq!((&again["tasks"], &again["before"]), (&json!(0), &json!(1)));
}

#[tokio::test]
async fn a_store_on_postgres_is_left_alone_while_a_node_works_on_it() {
    let Some(postgres) = Postgres::schema() else { return };
    is_left_alone_while_at_work(&postgres, &postgres.url(), &postgres.arguments()).await;
}

#[tokio::test]
async fn a_store_on_redis_is_left_alone_while_a_node_works_on_it() {
    let (Some(postgres), Some(redis)) = (Postgres::schema(), StoreServer::start(Kind::Redis).await)
    else {
        return;
    };
    let (url, arguments) = place_of(&redis);
    is_left_alone_while_at_work(&postgres, &url, &arguments).await;
}

#[tokio::test]
async fn a_store_that_is_not_empty_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let place = |name: &str| format!("sqlite:{}", directory.path().join(name).display());
    for name in ["one", "other"] {
        let mut relent = Relent::start_with(&["--store", &place(name)]).await;
        relent.client().register(&quick_policy(name, 3)).await;
        relent.client().create(&task("http://127.0.0.1:9/", name, name)).await;
        relent.sigterm();
        assert_eq!(relent.ended().await.code(), Some(0));
    }
    let (one, other) = (place("one"), place("other"));
    let refused = run(&["store", "copy", "--from", &one, "--to", &other]).await.exit(2);
    refused.says("the copy is not complete").says("and is not what is to be copied");
    let refused = run(&["store", "copy", "--from", &one, "--to", &one]).await.exit(2);
    refused.says("--from and --to are the same store");
    run(&["store", "copy", "--from", "memory:", "--to", &one]).await.exit(2).says("it is gone");
}
