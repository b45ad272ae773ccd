//! Nodes that come, go and fall silent.

use std::time::{Duration, Instant};

use serde_json::json;

use super::{HEARD_WITHIN, Nodes, at_once_max, attempts_of, patient_policy};
use crate::rig::{Gate, Kind, SOON, ok, quick_policy, wait_until};

/// After this a node is not counted that was not heard of.
const NODE_TTL: Duration = Duration::from_secs(2);

pub(super) async fn a_node_that_joins_gets_its_part_of_the_work_within_a_second(kind: Kind) {
    let Some(mut nodes) = Nodes::start(kind, 2).await else { return };
    nodes.clients[0].register(&patient_policy()).await;
    let lane = nodes.open_lane("quick").await;
    nodes.limit(&lane, json!({"inFlightMax": 12, "retriesInFlightMax": 12})).await;
    nodes.target.on("/quick", [ok().after(Duration::from_millis(100))]);
    nodes.create("quick", 0, 1_500).await;
    nodes.until_arrived("/quick", 50, SOON).await;

    nodes.add(&[]).await;
    let joined_at = Instant::now();
    wait_until(SOON, "the third node makes an attempt", async || {
        (attempts_of(&nodes.clients[2]).await > 0).then_some(())
    })
    .await;
    let took = joined_at.elapsed();
    println!("the third node has made an attempt {took:?} after it said where it listens");
    // An attempt is counted when it has ended, after another tenth of a second.
    assert!(took <= Duration::from_millis(1_100), "{took:?}");

    let gate = Gate::closed();
    let held_from = nodes.hold("/quick", &gate);
    let by_node = nodes.until_full(12, held_from).await;
    println!("in flight by node, of 12: {by_node:?}");
    assert_eq!(by_node, [4, 4, 4]);
    gate.open();
}

pub(super) async fn the_part_of_a_node_that_is_killed_is_taken_over(kind: Kind) {
    let Some(mut nodes) = Nodes::start(kind, 3).await else { return };
    nodes.clients[0].register(&quick_policy("quick", 4)).await;
    let lane = nodes.open_lane("quick").await;
    // One place, which one of the nodes has.
    nodes.limit(&lane, json!({"inFlightMax": 1, "retriesInFlightMax": 1})).await;
    let before = nodes.attempts().await;
    nodes.target.on("/quick", [ok().after(Duration::from_millis(20))]);
    nodes.create("quick", 0, 1_000).await;
    nodes.until_arrived("/quick", 20, SOON).await;
    let after = nodes.attempts().await;
    let senders: Vec<usize> = (0..3).filter(|node| after[*node] > before[*node]).collect();
    assert_eq!(senders.len(), 1, "one node has the place: {before:?}, {after:?}");

    nodes.cluster.nodes[senders[0]].relent.kill9().await;
    let killed_at = Instant::now();
    let next = wait_until(SOON, "another node takes over", async || {
        let seen = nodes.target.seen_at("/quick");
        seen.into_iter().find(|seen| seen.arrived > killed_at)
    });
    let took = next.await.arrived.duration_since(killed_at);
    println!("another node went on {took:?} after the one was killed");
    assert!(took <= NODE_TTL + HEARD_WITHIN, "{took:?}");
}

pub(super) async fn a_node_that_was_stopped_sends_nothing_until_it_is_counted_again(kind: Kind) {
    let Some(nodes) = Nodes::start(kind, 3).await else { return };
    nodes.clients[0].register(&quick_policy("quick", 4)).await;
    let lane = nodes.open_lane("quick").await;
    nodes.limit(&lane, json!({"inFlightMax": 1, "retriesInFlightMax": 1})).await;
    let gate = Gate::closed();
    nodes.target.on("/quick", [ok().held_by(&gate)]);
    nodes.create("quick", 0, 600).await;
    nodes.until_arrived("/quick", 1, SOON).await;

    // The node's one attempt is answered while it sleeps.
    let sender = nodes.until_one_sends().await;
    nodes.cluster.nodes[sender].relent.sigstop();
    nodes.target.on("/quick", [ok().after(Duration::from_millis(20))]);
    gate.open();
    nodes.until_arrived("/quick", 30, SOON).await;
    nodes.cluster.nodes[sender].relent.sigcont();
    let woken_at = Instant::now();
    let served = attempts_of(&nodes.clients[sender]).await;
    wait_until(SOON, "the node works again", async || {
        (attempts_of(&nodes.clients[sender]).await > served + 20).then_some(())
    })
    .await;
    println!("the node works again {:?} after it was woken", woken_at.elapsed());
    let seen = nodes.target.seen_at("/quick");
    assert_eq!(at_once_max(&seen), 1, "the place was taken twice");
}
