//! `relent policy` against a server.

use super::{feed_on, file, run_on};
use crate::rig::Relent;

const ORDERS: &str = "tests/it/cli/policies/orders.toml";

#[tokio::test]
async fn a_policy_is_registered_shown_previewed_and_deleted() {
    let relent = Relent::start_with(&["--store", "memory:"]).await;
    run_on(&relent, &["policy", "put", ORDERS]).await.exit(0).says("`orders` version 1 registered");
    run_on(&relent, &["policy", "put", ORDERS]).await.exit(0).says("`orders` version 1 unchanged");
    let more = r#"{"policyId": "orders", "maxAttempts": 7}"#;
    let ran = feed_on(&relent, &["policy", "put", "-"], more).await;
    ran.exit(0).says("`orders` version 2 registered");

    let list = run_on(&relent, &["policy", "list"]).await.exit(0);
    assert!(
        list.stdout.lines().any(|line| line.starts_with("orders ") && line.ends_with("registered"))
    );
    let json = run_on(&relent, &["policy", "get", "orders", "--json"]).await.exit(0).json();
    assert_eq!((&json["version"], &json["maxAttempts"]), (&2.into(), &7.into()));
    let first = run_on(&relent, &["policy", "get", "orders", "--version", "1"]).await.exit(0);
    assert_eq!(first.json()["maxAttempts"], 5);
    run_on(&relent, &["policy", "preview", "orders"])
        .await
        .exit(0)
        .says("policy `orders`: 7 attempts");

    run_on(&relent, &["policy", "delete", "orders"]).await.exit(2).says("add --yes");
    run_on(&relent, &["policy", "delete", "orders", "--yes"])
        .await
        .exit(0)
        .says("`orders` deleted");
    run_on(&relent, &["policy", "get", "orders"]).await.exit(2).says("policy_not_found");
}

#[tokio::test]
async fn a_refused_policy_ends_with_1_and_every_reason() {
    let relent = Relent::start_with(&["--store", "memory:"]).await;
    let ran = run_on(&relent, &["policy", "put", "tests/it/cli/policies/bad.json"]).await.exit(1);
    assert!(ran.stdout.is_empty(), "{ran:?}");
    for text in [
        "error: Policy rejected (policy_rejected)",
        "  /maxAttempts (R-2)",
        "    fix: ",
        "hint: `relent explain policy_rejected`",
    ] {
        assert!(ran.stderr.contains(text), "{text:?} is not in {}", ran.stderr);
    }
    let directory = tempfile::tempdir().unwrap();
    let built_in = file(&directory, "p.json", r#"{"policyId": "webhook", "context": "webhook"}"#);
    run_on(&relent, &["policy", "put", &built_in]).await.exit(2).says("policy_built_in");
}
