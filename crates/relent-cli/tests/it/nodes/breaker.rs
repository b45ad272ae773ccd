//! One breaker: one node's opening stops all, and one probe goes out from all of them together.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::{HEARD_WITHIN, Nodes};
use crate::rig::{Client, Gate, Kind, SOON, Seen, ok, quick_policy, status, wait_until, with};

const COOL_DOWN: Duration = Duration::from_secs(3);
/// Chance makes it up to a quarter shorter.
const COOL_DOWN_LEAST: Duration = Duration::from_millis(2_250);
const PROBE_TIMEOUT: Duration = Duration::from_secs(6);

fn guarded() -> Value {
    let cool_down = COOL_DOWN.as_millis();
    let breaker = json!({
        "callsMin": 10, "failureRatio": 0.5, "windowMs": 10_000, "coolDownMs": cool_down,
        "coolDownMaxMs": cool_down, "rampMs": 0,
    });
    // Few are on their way when it opens.
    let concurrency = json!({"inFlightMax": 12, "retriesInFlightMax": 12});
    let more = json!({
        "breaker": breaker, "concurrency": concurrency, "totalBudgetMs": 120_000,
        "attemptTimeoutMs": 50_000,
    });
    with(quick_policy("guarded", 11), more)
}

/// Waits until it is open on every node; before when none of them lets a probe through.
async fn until_open(nodes: &Nodes) -> SystemTime {
    let dependency = nodes.dependency();
    let mut until = u64::MAX;
    until_state(&nodes.clients[0], &dependency, "open", SOON).await;
    let open_at = Instant::now();
    for client in &nodes.clients {
        let lane = until_state(client, &dependency, "open", HEARD_WITHIN).await;
        until = until.min(lane["breaker"]["until"].as_u64().unwrap());
    }
    println!("open on every node after {:?}", open_at.elapsed());
    // Told in whole milliseconds, the next one.
    UNIX_EPOCH + Duration::from_millis(until - 1)
}

async fn until_state(client: &Client, dependency: &str, state: &str, within: Duration) -> Value {
    wait_until(within, &format!("the breaker is {state}"), async || {
        let lane = client.lane(dependency).await;
        (lane["breaker"]["state"] == state).then_some(lane)
    })
    .await
}

pub(super) async fn an_open_breaker_is_open_on_all_nodes_and_one_probe_goes_out(kind: Kind) {
    let Some(mut nodes) = Nodes::start(kind, 3).await else { return };
    // It makes no attempts, and knows all the same.
    nodes.add(&["--role", "api"]).await;
    nodes.clients[0].register(&guarded()).await;
    nodes.open_lane("guarded").await;
    nodes.target.on("/guarded", [status(503)]);
    nodes.create("guarded", 0, 300).await;
    let dependency = nodes.dependency();
    let until = until_open(&nodes).await;

    // Three probes, each by itself.
    let quiet_from = Instant::now() + HEARD_WITHIN;
    let probes = wait_until(4 * COOL_DOWN + SOON, "three probes", async || {
        let seen = nodes.target.seen_at("/guarded");
        let probes = seen.into_iter().filter(|seen| seen.arrived > quiet_from);
        let probes: Vec<Seen> = probes.collect();
        (probes.len() >= 3).then_some(probes)
    });
    let probes = probes.await;
    tokio::time::sleep(COOL_DOWN_LEAST / 2).await;
    let seen = nodes.target.seen_at("/guarded");
    let late = seen.iter().filter(|seen| seen.arrived > probes[2].arrived).count();
    assert_eq!(late, 0, "nothing follows a probe that failed");
    assert!(probes[0].arrived_at >= until, "it came too early: {:?}", probes[0]);
    for pair in probes.windows(2) {
        let apart = pair[1].arrived.duration_since(pair[0].arrived);
        assert!(apart >= COOL_DOWN_LEAST, "two probes came {apart:?} apart");
        assert!(apart <= COOL_DOWN + HEARD_WITHIN, "two probes came {apart:?} apart");
    }

    // The dependency is back: the next probe finds out, for all nodes, and all go on.
    let (probe, all) = (Gate::closed(), Gate::closed());
    let held_from = nodes.hold("/guarded", &probe);
    nodes.until_full(1, held_from).await;
    let held_from = nodes.hold("/guarded", &all);
    probe.open();
    for client in &nodes.clients {
        until_state(client, &dependency, "closed", COOL_DOWN + SOON).await;
    }
    let by_node = nodes.until_full(12, held_from).await;
    println!("in flight by node, of 12: {by_node:?}");
    assert_eq!(by_node, [4, 4, 4, 0]);
    all.open();
    wait_until(SOON, "all tasks are delivered", async || {
        let lane = nodes.clients[3].lane(&dependency).await;
        (lane["waitingFirst"] == 0 && lane["waitingRetries"] == 0).then_some(())
    })
    .await;
}

pub(super) async fn a_node_that_dies_over_its_probe_is_followed_by_another(kind: Kind) {
    let Some(mut nodes) = Nodes::start(kind, 3).await else { return };
    let mut policy = guarded();
    policy["breaker"]["probeTimeoutMs"] = json!(PROBE_TIMEOUT.as_millis());
    nodes.clients[0].register(&policy).await;
    nodes.open_lane("guarded").await;
    nodes.target.on("/guarded", [status(503)]);
    nodes.create("guarded", 0, 100).await;
    let until = until_open(&nodes).await;
    // What was on its way has arrived before the probe does, which is not answered.
    tokio::time::sleep(HEARD_WITHIN).await;
    let gate = Gate::closed();
    nodes.target.on("/guarded", [ok().held_by(&gate)]);
    let held_from = Instant::now();
    let is_held = |seen: &Seen| seen.arrived > held_from && seen.ended.is_none();
    let probe = wait_until(SOON, "a probe is under way", async || {
        nodes.target.seen_at("/guarded").into_iter().find(is_held)
    });
    let probe = probe.await;
    let prober = nodes.until_one_sends().await;
    nodes.cluster.nodes[prober].relent.kill9().await;
    let next = wait_until(SOON, "another node probes", async || {
        let seen = nodes.target.seen_at("/guarded");
        seen.into_iter().find(|seen| is_held(seen) && seen.arrived > probe.arrived)
    });
    let next = next.await;
    let apart = next.arrived.duration_since(probe.arrived);
    println!("the next probe came {apart:?} after the first, which had 6 s");
    // The first was let through at the end of the cool-down, or later.
    let since = next.arrived_at.duration_since(until).unwrap();
    assert!(since >= PROBE_TIMEOUT, "{since:?} after the cool-down");
    assert!(apart <= PROBE_TIMEOUT + PROBE_TIMEOUT / 16 + HEARD_WITHIN, "{apart:?}");
    gate.open();
}
