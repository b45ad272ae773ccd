//! One breaker: one node's opening stops all, and one probe goes out from all of them together.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{HEARD_WITHIN, Nodes};
use crate::rig::{Client, Gate, SOON, Seen, ok, quick_policy, status, wait_until, with};

const COOL_DOWN: Duration = Duration::from_secs(3);
/// Chance makes it up to a quarter shorter.
const COOL_DOWN_LEAST: Duration = Duration::from_millis(2_250);

fn guarded() -> Value {
    let cool_down = COOL_DOWN.as_millis();
    let breaker = json!({
        "callsMin": 10, "failureRatio": 0.5, "windowMs": 10_000, "coolDownMs": cool_down,
        "coolDownMaxMs": cool_down, "rampMs": 0,
    });
    // Few are on their way when it opens.
    let concurrency = json!({"inFlightMax": 12, "retriesInFlightMax": 12});
    let more = json!({"breaker": breaker, "concurrency": concurrency, "totalBudgetMs": 120_000});
    with(quick_policy("guarded", 11), more)
}

async fn until_state(client: &Client, dependency: &str, state: &str, within: Duration) {
    wait_until(within, &format!("the breaker is {state}"), async || {
        let lane = client.lane(dependency).await;
        (lane["breaker"]["state"] == state).then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_open_breaker_is_open_on_all_nodes_and_one_probe_goes_out() {
    let Some(mut nodes) = Nodes::start(3).await else { return };
    // It makes no attempts, and knows all the same.
    nodes.add(&["--role", "api"]).await;
    nodes.clients[0].register(&guarded()).await;
    nodes.open_lane("guarded").await;
    nodes.target.on("/guarded", [status(503)]);
    nodes.create("guarded", 0, 300).await;
    let dependency = nodes.dependency();
    until_state(&nodes.clients[0], &dependency, "open", SOON).await;
    let open_at = Instant::now();
    for client in &nodes.clients {
        until_state(client, &dependency, "open", HEARD_WITHIN).await;
    }
    println!("open on every node after {:?}", open_at.elapsed());

    // Three probes, each by itself.
    let quiet_from = open_at + HEARD_WITHIN;
    let probes = wait_until(4 * COOL_DOWN + SOON, "three probes", async || {
        let seen = nodes.target.seen_at("/guarded");
        let times: Vec<Instant> =
            seen.iter().map(|seen| seen.arrived).filter(|at| *at > quiet_from).collect();
        (times.len() >= 3).then_some(times)
    });
    let probes = probes.await;
    tokio::time::sleep(COOL_DOWN_LEAST / 2).await;
    let seen = nodes.target.seen_at("/guarded");
    let late = seen.iter().filter(|seen| seen.arrived > probes[2]).count();
    assert_eq!(late, 0, "nothing follows a probe that failed");
    assert!(probes[0] >= open_at + COOL_DOWN_LEAST - HEARD_WITHIN);
    for pair in probes.windows(2) {
        let apart = pair[1].duration_since(pair[0]);
        assert!(apart >= COOL_DOWN_LEAST, "two probes came {apart:?} apart");
        assert!(apart <= COOL_DOWN + HEARD_WITHIN, "two probes came {apart:?} apart");
    }

    // The dependency is back: the next probe finds out, for all nodes.
    nodes.target.on("/guarded", [ok()]);
    for client in &nodes.clients {
        until_state(client, &dependency, "closed", COOL_DOWN + SOON).await;
    }
    wait_until(SOON, "all tasks are delivered", async || {
        let lane = nodes.clients[3].lane(&dependency).await;
        (lane["waitingFirst"] == 0 && lane["waitingRetries"] == 0).then_some(())
    })
    .await;
    let attempts = nodes.attempts().await;
    println!("attempts by node: {attempts:?}");
    assert!(attempts[..3].iter().all(|attempts| *attempts > 0) && attempts[3] == 0);
}

#[tokio::test]
async fn a_node_that_dies_over_its_probe_is_followed_by_another() {
    let Some(mut nodes) = Nodes::start(3).await else { return };
    let mut policy = guarded();
    policy["breaker"]["probeTimeoutMs"] = json!(6_000);
    nodes.clients[0].register(&policy).await;
    nodes.open_lane("guarded").await;
    nodes.target.on("/guarded", [status(503)]);
    nodes.create("guarded", 0, 100).await;
    until_state(&nodes.clients[0], &nodes.dependency(), "open", SOON).await;
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
    let prober = find_prober(&nodes).await;
    nodes.nodes[prober].kill9().await;
    let next = wait_until(SOON, "another node probes", async || {
        let seen = nodes.target.seen_at("/guarded");
        seen.into_iter().find(|seen| is_held(seen) && seen.arrived > probe.arrived)
    });
    let next = next.await;
    let apart = next.arrived.duration_since(probe.arrived);
    println!("the next probe came {apart:?} after the first, which had 6 s");
    // Its time is counted from when it was let through.
    assert!(apart >= Duration::from_secs(5), "{apart:?}");
    assert!(apart <= Duration::from_secs(6) + HEARD_WITHIN, "{apart:?}");
    gate.open();
}

/// The node that has an attempt under way.
async fn find_prober(nodes: &Nodes) -> usize {
    wait_until(SOON, "one node has an attempt under way", async || {
        for (number, client) in nodes.clients.iter().enumerate() {
            let text = client.get("/metrics").await.text();
            if text.contains("\nretry_attempts_in_flight 1\n") {
                return Some(number);
            }
        }
        None
    })
    .await
}
