//! The service on PostgreSQL: nodes that share a database and nothing else, and its tables.
//!
//! What one node makes, another uses at once.

use serde_json::json;

use crate::cli::run;
use crate::rig::{
    Client, Cluster, Gate, Kind, Postgres, Relent, SOON, StoreServer, Target, ok, quick_policy,
    task, wait_until, with,
};

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

/// A slow target costs places and sockets, and nothing in the database.
#[tokio::test]
async fn attempts_under_way_hold_neither_connection_nor_transaction() {
    // More than the server takes connections.
    const HELD: usize = 200;
    // What `store.postgres.connections_max` says by default, and the four that every node has.
    const CONNECTIONS: i64 = 4 + 4;
    let Some(cluster) = Cluster::start(Kind::Postgres, 1, &[]).await else { return };
    let StoreServer::Postgres(server) = &cluster.store else { panic!("not PostgreSQL") };
    let (client, target, sql) = (cluster.client(0), Target::start().await, server.connect().await);
    let patient = json!({"attemptTimeoutMs": 50_000});
    client.register(&with(quick_policy("patient", 2), patient)).await;
    let gate = Gate::closed();
    target.on("/held", [ok().held_by(&gate)]);
    let new = |n: usize| {
        let dependency = json!({"dependency": format!("slow-{}", n % 10)});
        with(task(&target.url("/held"), &format!("held-{n}"), "patient"), dependency)
    };
    let tasks: Vec<_> = (0..HELD).map(new).collect();
    client.post("/retry-tasks:batch", &json!({"tasks": tasks})).await.expect(202);
    target.until_seen("/held", HELD).await;

    let look = "SELECT count(*), count(*) FILTER (WHERE state LIKE 'idle in transaction%')
        FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";
    let (mut connections_max, mut in_transaction_min) = (0, i64::MAX);
    for n in 0..20 {
        // Other work goes on meanwhile.
        let id =
            client.create(&task(&target.url("/quick"), &format!("quick-{n}"), "patient")).await;
        client.until_status(&id, "SUCCEEDED").await;
        let row = sql.query_one(look, &[]).await.unwrap();
        connections_max = connections_max.max(row.get(0));
        in_transaction_min = in_transaction_min.min(row.get(1));
    }
    let open = target.seen_at("/held").iter().filter(|seen| seen.ended.is_none()).count();
    println!("{open} attempts under way: at most {connections_max} connections");
    assert_eq!(open, HELD);
    assert!((1..=CONNECTIONS).contains(&connections_max), "{connections_max} connections");
    assert_eq!(in_transaction_min, 0, "a transaction stays open");
    gate.open();
    wait_until(SOON, "what was held is delivered", async || {
        let done = client.all("/retry-tasks?status=SUCCEEDED").await.len();
        (done == HELD + 20).then_some(())
    })
    .await;
    assert_eq!(target.seen_at("/held").len(), HELD, "each was sent once");
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
