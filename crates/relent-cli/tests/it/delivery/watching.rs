//! What is told of deliveries, and what is not: events, metrics, logs, health. REQ-O1, REQ-O2,
//! REQ-P2.

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::TcpStream;

use super::World;
use crate::rig::{answer, ok, soon, status, with};

/// The stream of events, as a browser reads it.
struct Events(Lines<BufReader<TcpStream>>);

impl Events {
    async fn open(world: &World) -> Events {
        let mut stream = TcpStream::connect(world.relent.address).await.unwrap();
        stream.write_all(b"GET /events HTTP/1.1\r\nhost: relent.test\r\n\r\n").await.unwrap();
        let mut events = Events(BufReader::new(stream).lines());
        // A comment tells that it has begun.
        while !events.line().await.starts_with(':') {}
        events
    }

    async fn line(&mut self) -> String {
        soon("a line of the event stream", self.0.next_line()).await.unwrap().unwrap()
    }

    async fn next(&mut self) -> Value {
        loop {
            if let Some(data) = self.line().await.strip_prefix("data: ") {
                return serde_json::from_str(data).unwrap();
            }
        }
    }
}

#[tokio::test]
async fn the_event_stream_sees_a_task_live_and_end() {
    let world = World::start().await;
    world.target.on("/seen", [status(503), ok()]);
    world.target.on("/bad", [status(400)]);
    let mut events = Events::open(&world).await;
    let id = world.create("seen").await;
    let mut types = Vec::new();
    while types.last().is_none_or(|last| last != "task.succeeded") {
        let event = events.next().await;
        assert_eq!(event["taskId"], id);
        assert_eq!(event["dependency"], world.dependency());
        types.push(event["type"].as_str().unwrap().to_owned());
    }
    // Who stores a task and who sends it tell of it each for themselves.
    let created = types.iter().position(|kind| kind == "task.created").expect("it was created");
    types.remove(created);
    assert_eq!(types, ["attempt.finished", "attempt.finished", "task.succeeded"]);

    let batch = json!([world.task("batched")]);
    let batch = world.client.post("/retry-tasks:batch", &batch).await.expect(202);
    let created = loop {
        let event = events.next().await;
        if event["type"] == "task.created" {
            break event;
        }
    };
    assert_eq!(created["taskId"], batch["items"][0]["taskId"]);

    let bad = world.create("bad").await;
    let exhausted = loop {
        let event = events.next().await;
        if event["type"] == "task.exhausted" {
            break event;
        }
    };
    assert_eq!((&exhausted["taskId"], &exhausted["because"]), (&json!(bad), &json!("permanent")));
}

#[tokio::test]
async fn metrics_have_the_names_that_are_promised() {
    let world = World::start().await;
    world.target.on("/flaky", [status(503), ok()]);
    world.target.on("/bad", [status(400)]);
    let (flaky, bad) = (world.create("flaky").await, world.create("bad").await);
    // A lane with a budget and a breaker, which `quick` has not.
    let guarded = json!({"policyId": "webhook", "dependency": "guarded"});
    let guarded = world.client.create(&with(world.task("guarded"), guarded)).await;
    world.client.until_status(&guarded, "SUCCEEDED").await;
    world.client.until_status(&flaky, "SUCCEEDED").await;
    world.client.until_status(&bad, "EXHAUSTED").await;
    world.client.post("/retry-tasks", &world.task("flaky")).await.expect(200);
    let text = world.client.get("/metrics").await.text();
    let dependency = world.dependency();
    for name in [
        "retry_attempts_total",
        "retry_exhausted_total",
        "retry_backoff_duration_seconds",
        "dlq_messages_total",
        "retry_task_age_seconds",
        "retry_attempt_duration_seconds",
        "retry_schedule_lateness_seconds",
        "retry_claim_duration_seconds",
        "retry_duplicates_total",
        r#"retry_breaker_state{service="relent",dependency="guarded"} 0"#,
        r#"retry_budget_utilization_ratio{service="relent",dependency="guarded"} 0.0"#,
    ] {
        assert!(text.contains(name), "{name} is not in\n{text}");
    }
    let of_quick = |line: &&str| {
        line.starts_with("retry_attempts_total{") && line.contains(r#"policy="quick""#)
    };
    let mut attempts = text.lines().filter(of_quick);
    let attempts = attempts.find(|line| line.contains(r#"outcome="success""#));
    let attempts = attempts.unwrap_or_else(|| panic!("no successes in\n{text}"));
    for label in [
        r#"service="relent""#.to_owned(),
        format!(r#"dependency="{dependency}""#),
        r#"attempt_number="2""#.to_owned(),
        r#"policy="quick""#.to_owned(),
    ] {
        assert!(attempts.contains(&label), "{label} is not in {attempts}");
    }
    assert!(text.contains(&format!(r#"dlq_messages_total{{queue="{dependency}"}} 1"#)), "{text}");
    for secret in ["flaky", "bad", &flaky, &bad] {
        assert!(!text.contains(secret), "{secret} is in\n{text}");
    }
}

#[tokio::test]
async fn no_secret_reaches_a_log_a_metric_or_an_error() {
    let world = World::start_with(&["--set", "log.level=trace"]).await;
    let canaries =
        ["canary-header", "canary-cookie", "canary-body", "canary-answer", "canary-query"];
    world.target.on(
        "/secret?token=canary-query",
        [
            answer(503, b"canary-answer"),
            answer(400, b"canary-answer").header("set-cookie", "canary-cookie"),
        ],
    );
    let fields = json!({
        "targetUrl": world.target.url("/secret?token=canary-query"),
        "headers": {"authorization": "Bearer canary-header", "cookie": "canary-cookie"},
        "body": "canary-body",
    });
    let id = world.client.create(&with(world.task("secret"), fields)).await;
    world.client.until_status(&id, "EXHAUSTED").await;
    assert_eq!(world.target.seen()[0].header("authorization"), Some("Bearer canary-header"));
    // A refused request must not come back with what was in it either.
    let bad = json!({"targetUrl": "http://user:canary-header@h/", "headers": {"authorization": 7},
        "bodyBase64": "canary-body", "idempotencyKey": "bad"});
    let refused = world.client.post("/retry-tasks", &bad).await;
    assert!(refused.status.is_client_error());
    let metrics = world.client.get("/metrics").await.text();
    let log = world.relent.log();
    assert!(log.contains(&id) || log.contains("attempt"), "the log says nothing:\n{log}");
    for canary in canaries {
        assert!(!log.contains(canary), "{canary} is in the log:\n{log}");
        assert!(!metrics.contains(canary), "{canary} is in the metrics");
        assert!(!refused.text().contains(canary), "{canary} is in {}", refused.text());
    }
    let shown = world.client.get(&format!("/retry-tasks/{id}")).await.text();
    assert!(!shown.contains("canary-header") && !shown.contains("canary-cookie"), "{shown}");
}

#[tokio::test]
async fn every_attempt_is_logged_with_what_is_promised() {
    let world = World::start_with(&["--set", "log.format=json"]).await;
    world.target.on("/logged", [status(503), ok()]);
    let id =
        world.client.create(&with(world.task("logged"), json!({"correlationId": "cart-9"}))).await;
    world.client.until_status(&id, "SUCCEEDED").await;
    let line = crate::rig::wait_until(crate::rig::SOON, "the attempt is logged", async || {
        let log = world.relent.log();
        log.lines().find(|line| line.contains("http_503")).map(ToOwned::to_owned)
    });
    let line: Value = serde_json::from_str(&line.await).unwrap();
    assert_eq!(
        (&line["correlation_id"], &line["dependency"]),
        (&json!("cart-9"), &json!(world.dependency()))
    );
    assert_eq!((&line["attempt"], &line["max_attempts"]), (&json!(1), &json!(4)));
    assert_eq!(
        (&line["error_type"], &line["idempotency_key"]),
        (&json!("http_503"), &json!("logged"))
    );
    assert!(line["backoff_ms"].is_u64() && line["elapsed_ms"].is_u64(), "{line:#}");
}

#[tokio::test]
async fn it_says_whether_it_lives_and_what_it_can_do() {
    let world = World::start().await;
    assert_eq!(world.client.get("/livez").await.status, 200);
    assert_eq!(world.client.get("/readyz").await.status, 200);
    let description = world.client.get("/openapi.json").await.expect(200);
    assert!(description["openapi"].as_str().is_some_and(|version| version.starts_with("3.")));
    for path in
        ["/retry-tasks", "/retry-tasks/{taskId}", "/dead-letters:redrive", "/lanes/{laneId}/pause"]
    {
        assert!(description["paths"].get(path).is_some(), "{path}");
    }
}
