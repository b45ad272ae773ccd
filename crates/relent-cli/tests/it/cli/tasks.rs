//! `relent task` against a server and a target.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{feed_on, file, run_on};
use crate::rig::{Relent, Target, ok, quick_policy, status};

async fn world() -> (Relent, Target) {
    let (relent, target) =
        (Relent::start_with(&["--store", "memory:"]).await, Target::start().await);
    relent.client().register(&quick_policy("quick", 3)).await;
    (relent, target)
}

#[tokio::test]
async fn a_task_is_created_and_followed_to_its_end() {
    let (relent, target) = world().await;
    target.on("/orders", [status(503), ok()]);
    let (url, header) = (target.url("/orders"), "X-Order: 17");
    let arguments = [
        "task",
        "create",
        &url,
        "--json-body",
        r#"{"n": 1.50}"#,
        "-H",
        header,
        "--policy",
        "quick",
        "--wait",
    ];
    let ran = run_on(&relent, &arguments).await.exit(0);
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!(lines.len(), 4, "{ran:?}");
    assert!(lines[1].contains("attempt 1/3  503 in ") && lines[1].contains("again in "), "{ran:?}");
    assert!(lines[2].contains("attempt 2/3  200 in ") && lines[2].ends_with("done"), "{ran:?}");
    assert!(lines[3].starts_with(lines[0]) && lines[3].contains(" SUCCEEDED after "), "{ran:?}");

    let seen = target.seen_at("/orders");
    assert!(ran.stderr.contains(&format!("idempotency key {}", seen[0].key)), "{ran:?}");
    assert_eq!(seen[0].key.len(), 36);
    assert_eq!(seen[0].header("x-order"), Some("17"));
    assert_eq!(seen[0].header("content-type"), Some("application/json"));
    assert_eq!(seen[0].header("content-length"), Some(r#"{"n": 1.50}"#.len().to_string().as_str()));

    let task = run_on(&relent, &["task", "get", lines[0]]).await.exit(0);
    task.says("status SUCCEEDED").says("attempts 2 of 3");
    let attempts = run_on(&relent, &["task", "attempts", lines[0]]).await.exit(0);
    assert_eq!(attempts.stdout.lines().count(), 3, "{attempts:?}");
}

#[tokio::test]
async fn a_watched_task_that_gives_up_ends_with_1() {
    let (relent, target) = world().await;
    target.on("/bad", [status(400)]);
    let id = run_on(&relent, &["task", "create", &target.url("/bad"), "--body", "x"]).await.exit(0);
    let id = id.stdout.trim();
    let ran = run_on(&relent, &["task", "watch", id]).await.exit(1);
    ran.says("gave up: permanent").says(" EXHAUSTED after ");
    let ran = run_on(&relent, &["task", "watch", id, "--json"]).await.exit(1);
    let documents: Vec<Value> =
        ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(documents[0]["decision"], "give_up");
    assert_eq!(documents[1]["status"], "EXHAUSTED");
}

#[tokio::test]
async fn the_same_key_is_the_same_task_and_other_content_is_refused() {
    let (relent, target) = world().await;
    let url = target.url("/later");
    let create = ["task", "create", &url, "--delay", "1h", "--key", "k"];
    let first = run_on(&relent, &create).await.exit(0);
    let again = run_on(&relent, &create).await.exit(0).says("it was there already");
    assert_eq!(first.stdout, again.stdout);
    assert!(!first.stderr.contains("idempotency key"), "the key was given: {first:?}");
    let other = run_on(&relent, &[&create[..], &["--body", "other"]].concat()).await.exit(2);
    other.says("key_conflict").says(first.stdout.trim());

    let id = first.stdout.trim();
    run_on(&relent, &["task", "get", id]).await.exit(0).says("waits for scheduled");
    run_on(&relent, &["task", "cancel", id]).await.exit(0).says("CANCELLED");
    assert_eq!(target.count(), 0);
}

#[tokio::test]
async fn lists_are_pages_and_filters() {
    let (relent, target) = world().await;
    for key in ["a", "b", "c"] {
        let ran =
            run_on(&relent, &["task", "create", &target.url("/x"), "--key", key, "--delay", "1h"])
                .await;
        ran.exit(0);
    }
    let page = run_on(&relent, &["task", "list", "--limit", "2"]).await.exit(0);
    assert_eq!(page.stdout.lines().count(), 3, "{page:?}");
    let cursor = page.stderr.trim().rsplit(' ').next().unwrap().to_owned();
    let rest = run_on(&relent, &["task", "list", "--cursor", &cursor]).await.exit(0);
    assert_eq!(rest.stdout.lines().count(), 2, "{rest:?}");

    let json = run_on(&relent, &["task", "list", "--key", "b", "--json"]).await.exit(0).json();
    assert_eq!(json, relent.client().get("/retry-tasks?idempotencyKey=b").await.json());
    let none = run_on(&relent, &["task", "list", "--status", "SUCCEEDED,EXHAUSTED"]).await.exit(0);
    assert_eq!(none.stdout.lines().count(), 1, "{none:?}");
    run_on(&relent, &["task", "list", "--status", "DONE"]).await.exit(2).says("PENDING");
}

#[tokio::test]
async fn a_refusal_names_every_place() {
    let (relent, _target) = world().await;
    let ran = run_on(&relent, &["task", "create", "nowhere", "--method", "BREW"]).await.exit(2);
    assert!(ran.stdout.is_empty(), "{ran:?}");
    for text in [
        "error: Invalid request (invalid_request)",
        "  /targetUrl\n    expected ",
        "  /method\n    expected ",
        "hint: ",
    ] {
        assert!(ran.stderr.contains(text), "{text:?} is not in {}", ran.stderr);
    }
}

#[tokio::test]
async fn a_file_of_tasks_is_created_in_batches() {
    let (relent, target) = world().await;
    let line = |n: usize| json!({"targetUrl": target.url("/bulk"), "idempotencyKey": format!("k{n}"), "delayMs": 3_600_000});
    let mut lines = String::new();
    for n in 0..1_200 {
        writeln!(lines, "{}\n", line(n)).unwrap();
    }
    let directory = tempfile::tempdir().unwrap();
    let path = file(&directory, "tasks.ndjson", &lines);
    let ran = run_on(&relent, &["task", "create", "--from", &path]).await.exit(0);
    assert_eq!(ran.stdout, "1200 created, 0 there already\n");
    let ran = feed_on(&relent, &["task", "create", "--from", "-"], &lines).await.exit(0);
    assert_eq!(ran.stdout, "0 created, 1200 there already\n");

    let broken = format!("{}\n\n{{\"targetUrl\": 5, \"method\": \"PUT\"}}\n", line(1_200));
    let ran = feed_on(&relent, &["task", "create", "--from", "-"], &broken).await.exit(2);
    ran.says("  line 3 /targetUrl\n").says("before them: 0 created, 0 there already");
    feed_on(&relent, &["task", "create", "--from", "-"], "\n").await.exit(2).says("has no task");
}
