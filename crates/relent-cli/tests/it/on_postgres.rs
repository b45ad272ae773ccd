//! The service on PostgreSQL: nodes that share a database and nothing else, and its tables.
//!
//! What one node makes, another uses at once.

use serde_json::json;

use crate::cli::run;
use crate::rig::{Client, Postgres, Relent, SOON, Target, ok, quick_policy, task, wait_until};

async fn node(postgres: &Postgres, more: &[&str]) -> Relent {
    let mut arguments = postgres.arguments();
    arguments.extend(more.iter().map(ToString::to_string));
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    Relent::start_with(&arguments).await
}

async fn command(postgres: &Postgres, name: &str, more: &[&str]) -> crate::cli::Ran {
    let mut arguments = vec![name.to_owned()];
    arguments.extend(postgres.arguments());
    arguments.extend(more.iter().map(ToString::to_string));
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    run(&arguments).await
}

#[tokio::test]
async fn a_policy_of_one_node_is_used_by_another_at_once() {
    let Some(postgres) = Postgres::schema() else { return };
    let target = Target::start().await;
    let nodes = (node(&postgres, &[]).await, node(&postgres, &[]).await);
    let (one, other) = (nodes.0.client(), nodes.1.client());
    for round in 0..10 {
        let (policy_id, path) = (format!("p{round}"), format!("/{round}"));
        target.on(&path, [ok()]);
        one.register(&quick_policy(&policy_id, 3)).await;
        let mut document = task(&target.url(&path), &format!("k{round}"), &policy_id);
        document["dependency"] = json!(format!("dependency-{round}"));
        let id = other.create(&document).await;
        // And what the other made is known here: policy, lane and all.
        let seen = one.task(&id).await;
        assert_eq!((&seen["policyId"], &seen["policyVersion"]), (&json!(policy_id), &json!(1)));
        assert_eq!(seen["dependency"], format!("dependency-{round}"));
        let found = one.all(&format!("/retry-tasks?dependency=dependency-{round}")).await;
        assert_eq!(found.len(), 1);
        let lane = seen["laneId"].as_str().unwrap();
        one.get(&format!("/lanes/{lane}")).await.expect(200);
        one.until_status(&id, "SUCCEEDED").await;
        assert_eq!(target.seen_at(&path).len(), 1);
    }
    assert_eq!(other.get("/retry-policies/nobody-made-it").await.problem(404), "policy_not_found");
}

#[tokio::test]
async fn tables_are_made_by_migrate_or_by_serve() {
    let Some(postgres) = Postgres::schema() else { return };
    let late = ["--listen", "127.0.0.1:0", "--set", "store.migrate=false"];
    let refused = command(&postgres, "serve", &late).await.exit(2);
    let refused = refused.says("`relent migrate` brings its tables up to date");
    refused.says(&format!("schema `{}` has version 0, expected ", postgres.schema));
    command(&postgres, "migrate", &[]).await.exit(0).says("made at version");
    command(&postgres, "migrate", &[]).await.exit(0).says("already");
    let relent = node(&postgres, &["--set", "store.migrate=false"]).await;
    relent.client().get("/readyz").await;
    drop(relent);
    // As an earlier version has left it.
    let schema = &postgres.schema;
    postgres.run(&format!("UPDATE {schema}.meta SET value = 99 WHERE name = 'version'"));
    command(&postgres, "migrate", &[]).await.exit(2).says("has version 99, expected");
    command(&postgres, "serve", &late).await.exit(2).says("has version 99, expected");
}

#[tokio::test]
async fn the_password_is_nowhere() {
    let Some(postgres) = Postgres::schema() else { return };
    let relent = node(&postgres, &["--set", "log.level=trace"]).await;
    wait_until(SOON, "it says where its data lives", async || {
        let shown = postgres.url().replace("hunter2", "***");
        relent.log().contains(&format!("data in {shown}, schema {}", postgres.schema)).then_some(())
    })
    .await;
    Client::new(relent.address).get("/readyz").await;
    assert!(!relent.log().contains("hunter2"), "{}", relent.log());
    let printed = command(&postgres, "config", &["--effective"]).await.exit(0).says(":***@");
    assert!(!printed.stdout.contains("hunter2") && !printed.stderr.contains("hunter2"));
    let gone = ["migrate", "--store", "postgres://me:hunter2@127.0.0.1:1/relent"];
    let failed =
        run(&gone).await.exit(2).says("cannot migrate postgres://me:***@127.0.0.1:1/relent");
    assert!(!failed.stdout.contains("hunter2") && !failed.stderr.contains("hunter2"));
}

#[tokio::test]
async fn a_store_that_may_lose_tasks_is_refused() {
    let Some(postgres) = Postgres::schema() else { return };
    // The tests' own server flushes nothing.
    let url = postgres.url();
    let unsafe_store = ["serve", "--listen", "127.0.0.1:0", "--store", &url];
    let refused = run(&unsafe_store).await.exit(2).says("cannot open the store");
    let refused = refused.says("fsync is off: a power loss can destroy the whole database");
    refused.says("set fsync = on in postgresql.conf").says("--allow-unsafe-store");

    let checked = run(&["store", "check", "--store", &url]).await.exit(1).says("fsync off danger:");
    let checked = checked.says("power loss no: nothing is flushed (fsync = off)");
    checked.says("hint: fsync: set fsync = on in postgresql.conf");
    let checked = run(&["store", "check", "--json", "--store", &url]).await.exit(1);
    let report = checked.json();
    assert_eq!((&report["store"], &report["severity"]), (&json!("postgres"), &json!("danger")));
    assert_eq!(report["survives"]["powerLoss"]["answer"], "no");
    let fsync = report["findings"].as_array().unwrap().iter().find(|one| one["name"] == "fsync");
    assert_eq!(fsync.unwrap()["wayOut"], "set fsync = on in postgresql.conf");
    assert!(!checked.stdout.contains("hunter2") && !checked.stderr.contains("hunter2"));

    let schema = format!("store.postgres.schema={}", postgres.schema);
    let allowed = ["--store", &url, "--set", &schema, "--allow-unsafe-store"];
    let relent = Relent::start_with(&allowed).await;
    wait_until(SOON, "it says what is not safe", async || {
        relent.log().contains("the store: fsync is off").then_some(())
    })
    .await;
}
