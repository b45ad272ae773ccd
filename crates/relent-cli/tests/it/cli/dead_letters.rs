//! `relent dead-letter` against a server and a target.

use super::run_on;
use crate::rig::{Relent, Target, ok, quick_policy, status, task};

/// A service with some dead letters, whose target is well again.
async fn world(count: usize) -> (Relent, Target, Vec<String>) {
    let (relent, target) =
        (Relent::start_with(&["--store", "memory:"]).await, Target::start().await);
    let client = relent.client();
    client.register(&quick_policy("quick", 3)).await;
    let mut ids = Vec::new();
    for n in 0..count {
        let path = format!("/dead/{n}");
        target.on(&path, [status(400), ok()]);
        ids.push(client.create(&task(&target.url(&path), &format!("k{n}"), "quick")).await);
    }
    for id in &ids {
        client.until_status(id, "EXHAUSTED").await;
    }
    (relent, target, ids)
}

#[tokio::test]
async fn a_dead_letter_is_shown_with_its_body_and_attempts() {
    let (relent, _target, ids) = world(1).await;
    let list = run_on(&relent, &["dead-letter", "list"]).await.exit(0);
    assert!(list.stdout.lines().nth(1).is_some_and(|line| line.starts_with(&ids[0])), "{list:?}");
    let shown = run_on(&relent, &["dead-letter", "show", &ids[0]]).await.exit(0);
    let shown =
        shown.says("ended because permanent").says("gave up: permanent").says(r#"{"key":"k0"}"#);
    assert_eq!(shown.stderr, "");
    let json = run_on(&relent, &["dead-letter", "show", &ids[0], "--json"]).await.exit(0).json();
    assert_eq!(json["attempts"][0]["responseStatus"], 400);
    run_on(&relent, &["dead-letter", "show", "nope"]).await.exit(2).says("dead_letter_not_found");
}

#[tokio::test]
async fn many_are_redriven_only_when_it_is_meant() {
    let (relent, _target, ids) = world(3).await;
    run_on(&relent, &["dead-letter", "redrive"]).await.exit(2).says("say which dead letters");
    let dry = run_on(&relent, &["dead-letter", "redrive", "--all", "--dry-run"]).await.exit(0);
    assert!(dry.stdout.starts_with("would redrive 3 dead letters\n"), "{dry:?}");
    let timid = run_on(&relent, &["dead-letter", "redrive", "--policy", "quick"]).await.exit(2);
    timid.says("would redrive 3 dead letters").says("nothing was changed; add --yes");
    let none = run_on(&relent, &["dead-letter", "redrive", "--because", "class_limit"]).await;
    assert_eq!(none.exit(0).stdout, "nothing to redrive\n");
    let client = relent.client();
    for id in &ids {
        assert_eq!(client.task(id).await["status"], "EXHAUSTED");
    }

    let one = run_on(&relent, &["dead-letter", "redrive", &ids[0]]).await.exit(0);
    assert_eq!(one.stdout, "1 redriven\n");
    client.until_status(&ids[0], "SUCCEEDED").await;
    let rest = ["dead-letter", "redrive", "--all", "--yes", "--rate-per-second", "100"];
    assert_eq!(run_on(&relent, &rest).await.exit(0).stdout, "2 redriven\n");
    for id in &ids[1..] {
        client.until_status(id, "SUCCEEDED").await;
    }
}

#[tokio::test]
async fn what_is_named_and_no_dead_letter_is_told_and_ends_with_1() {
    let (relent, _target, ids) = world(2).await;
    let client = relent.client();
    run_on(&relent, &["dead-letter", "redrive", &ids[0]]).await.exit(0).says("1 redriven");
    client.until_status(&ids[0], "SUCCEEDED").await;
    for more in [&[][..], &["--dry-run"], &["--yes"]] {
        let arguments = [&["dead-letter", "redrive", &ids[0]], more].concat();
        let ran = run_on(&relent, &arguments).await.exit(1);
        assert_eq!(ran.stdout, "nothing to redrive\n");
        ran.says(&format!("{} is no dead letter", ids[0]));
    }
    let both = ["dead-letter", "redrive", &ids[0], &ids[1], "--yes"];
    let ran = run_on(&relent, &both).await.exit(1);
    assert_eq!(ran.stdout, "1 redriven\n");
    assert_eq!(ran.stderr, format!("{} is no dead letter\n", ids[0]));
    client.until_status(&ids[1], "SUCCEEDED").await;
    run_on(&relent, &["dead-letter", "redrive", "nobody"])
        .await
        .exit(2)
        .says("dead_letter_not_found");
}

#[tokio::test]
async fn many_are_deleted_only_when_it_is_meant() {
    let (relent, _target, ids) = world(2).await;
    run_on(&relent, &["dead-letter", "purge"]).await.exit(2).says("say which dead letters");
    run_on(&relent, &["dead-letter", "purge", "--all"])
        .await
        .exit(2)
        .says("would delete 2 dead letters");
    let one = run_on(&relent, &["dead-letter", "purge", "--key", "k0", "--yes"]).await.exit(0);
    assert_eq!(one.stdout, "1 deleted\n");
    run_on(&relent, &["task", "get", &ids[0]]).await.exit(2).says("task_not_found");
    run_on(&relent, &["dead-letter", "purge", "--all", "--yes"]).await.exit(0).says("1 deleted");
    run_on(&relent, &["dead-letter", "purge", "--all", "--yes"])
        .await
        .exit(0)
        .says("nothing to delete");
}
