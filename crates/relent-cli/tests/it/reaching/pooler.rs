//! PostgreSQL behind a transaction-mode pooler, with `store.postgres.prepare = false`.

use std::time::{Duration, Instant};

use serde_json::json;

use super::everything_works;
use crate::rig::{
    PgBouncer, Relent, SOON, Shared, Target, Way, ok, quick_policy, stretched, task, wait_until,
    with,
};

/// How long a task may wait for a node to look, as the guide says.
const LOOKS_WITHIN: Duration = Duration::from_secs(1);
/// To take it, to claim it and to send it.
const WORK: Duration = Duration::from_millis(500);

#[tokio::test]
async fn everything_works_behind_a_pooler() {
    let Some(shared) = Shared::by(Way::Pooler) else { return };
    shared.run(&["migrate"], &[]).await.exit(0).says("made at version");
    everything_works(&shared).await;
    let checked = shared.run(&["store", "check"], &[]).await;
    // The tests' own server flushes nothing, which is found through the pooler as well.
    checked.exit(1).says("LISTEN not used").says("fsync off danger:");
}

#[tokio::test]
async fn a_worker_behind_a_pooler_finds_what_another_node_took_within_a_second() {
    let Some(shared) = Shared::by(Way::Pooler) else { return };
    let target = Target::start().await;
    let (api, _worker) =
        (shared.node(&["--role", "api"]).await, shared.node(&["--role", "worker"]).await);
    let client = api.client();
    client.register(&quick_policy("quick", 3)).await;
    for round in 0..4 {
        let path = format!("/{round}");
        target.on(&path, [ok()]);
        // Now, and at a time that is known before it comes.
        let delay_ms = 1_200 * (round % 2);
        let delay = Duration::from_millis(delay_ms);
        let new = task(&target.url(&path), &path[1..], "quick");
        let asked = Instant::now();
        client.create(&with(new, json!({"delayMs": delay_ms}))).await;
        target.until_seen(&path, 1).await;
        let late = asked.elapsed().checked_sub(delay).expect("it comes when it is due, not before");
        let allowed = if delay.is_zero() { LOOKS_WITHIN } else { Duration::ZERO } + WORK;
        assert!(
            late <= stretched(allowed),
            "{late:?} after it was due, {delay:?} after it was taken"
        );
    }
}

#[tokio::test]
async fn a_pooler_that_is_restarted_and_connections_behind_it_that_are_cut_lose_nothing() {
    let Some(mut pooler) = PgBouncer::start(&[]).await else { return };
    let schema = pooler.schema();
    let name = format!("{}_node", schema.schema);
    let own = |argument: String| match argument == schema.url() {
        true => format!("{argument}?application_name={name}"),
        false => argument,
    };
    let arguments: Vec<String> = schema.arguments().into_iter().map(own).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (target, relent) = (Target::start().await, Relent::start_with(&arguments).await);
    let client = relent.client();
    client.register(&quick_policy("quick", 3)).await;
    let cut = format!(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '{name}'"
    );
    let mut ids: Vec<String> = Vec::new();
    for round in 0..40 {
        if round % 10 == 0 {
            // A claim whose answer is lost would wait for its lease to end.
            for id in &ids {
                client.until_status(id, "SUCCEEDED").await;
            }
        }
        match round {
            10 | 20 => schema.run(&cut),
            30 => pooler.restart().await,
            _ => {}
        }
        let path = format!("/{round}");
        target.on(&path, [ok()]);
        let new = task(&target.url(&path), &path[1..], "quick");
        // What was refused is sent again under the same key.
        let taken = wait_until(SOON, "the task is taken", async || {
            let reply = client.post("/retry-tasks", &new).await;
            assert!(reply.status.is_success() || reply.status == 503, "{}", reply.text());
            reply.status.is_success().then(|| reply.json())
        });
        ids.push(taken.await["taskId"].as_str().unwrap().to_owned());
    }
    for id in &ids {
        client.until_status(id, "SUCCEEDED").await;
    }
    assert_eq!(client.all("/retry-tasks").await.len(), ids.len());
}

#[tokio::test]
async fn a_pooler_is_named_when_settings_are_asked_of_it() {
    let Some(shared) = Shared::by(Way::Pooler) else { return };
    let prepared = ["--set", "store.postgres.prepare=true"];
    let checked = shared.run(&["store", "check"], &prepared).await.exit(1);
    checked.says("a pooler takes no settings").says("hint: connection: set store.postgres.prepare");

    // Some are told to overlook what they do not know. Then it only looks as if all were well.
    let lenient = PgBouncer::start(&["ignore_startup_parameters = options"]).await;
    let Some(lenient) = lenient else { return };
    let shared = Shared::on_postgres(lenient.schema());
    let checked = shared.run(&["store", "check"], &prepared).await.exit(1);
    checked.says("pooler there, and overlooks settings").says("set store.postgres.prepare");
    let unsafe_too = [&prepared[..], &["--set", "store.allow_unsafe=false"]].concat();
    let refused = shared.run(&["serve", "--listen", "127.0.0.1:0"], &unsafe_too).await.exit(2);
    refused.says("pooler is there, and overlooks settings");
    shared.run(&["store", "check"], &[]).await.exit(1).says("LISTEN not used");
}
