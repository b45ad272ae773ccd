//! Limits and pauses, set on one node.

use std::time::{Duration, Instant};

use serde_json::json;

use super::{HEARD_WITHIN, Nodes, at_once_max, most_within, patient_policy};
use crate::rig::{Gate, Kind, SOON, ok, quick_policy};

pub(super) async fn three_nodes_together_have_as_many_in_flight_as_the_lane_allows(kind: Kind) {
    let Some(nodes) = Nodes::start(kind, 3).await else { return };
    nodes.clients[0].register(&patient_policy()).await;
    let lane = nodes.open_lane("quick").await;
    nodes.limit(&lane, json!({"inFlightMax": 5, "retriesInFlightMax": 5})).await;
    let gate = Gate::closed();
    let held_from = nodes.hold("/quick", &gate);
    nodes.create("quick", 0, 300).await;
    let mut by_node = nodes.until_full(5, held_from).await;
    println!("in flight by node, of 5: {by_node:?}");
    by_node.sort_unstable();
    assert_eq!(by_node, [1, 2, 2]);
    // Whoever takes more than its part takes it now.
    tokio::time::sleep(HEARD_WITHIN).await;
    assert_eq!(nodes.target.seen_at("/quick").len(), 5);
    nodes.target.on("/quick", [ok().after(Duration::from_millis(5))]);
    gate.open();
    let seen = nodes.until_arrived("/quick", 300, SOON).await;
    assert_eq!(at_once_max(&seen), 5, "by node: {:?}", nodes.attempts().await);
}

pub(super) async fn three_nodes_together_are_as_fast_as_the_lane_allows(kind: Kind) {
    let Some(nodes) = Nodes::start(kind, 3).await else { return };
    nodes.clients[0].register(&quick_policy("quick", 4)).await;
    let lane = nodes.open_lane("quick").await;
    nodes.limit(&lane, json!({"ratePerSecond": 20})).await;
    nodes.create("quick", 0, 120).await;
    let seen = nodes.until_arrived("/quick", 120, SOON).await;
    let took = seen.last().unwrap().arrived.duration_since(seen[0].arrived);
    let most = most_within(&seen, Duration::from_secs(1));
    println!("120 at 20 a second took {took:?}, {most} within a second at most");
    // 7, 7 and 6 a second, evenly spaced on each node: in a second each may have one more.
    assert!(most <= 23, "{most} within a second");
    // However busy the machine is, one second of six is as it should be.
    assert!(most >= 18, "{most} within a second");
    assert!(took >= Duration::from_millis(5_700), "120 at 20 a second took {took:?}");
}

pub(super) async fn a_pause_on_one_node_stops_all_within_a_second(kind: Kind) {
    let Some(nodes) = Nodes::start(kind, 3).await else { return };
    nodes.clients[0].register(&quick_policy("quick", 4)).await;
    let lane = nodes.open_lane("quick").await;
    nodes.limit(&lane, json!({"inFlightMax": 6, "retriesInFlightMax": 6})).await;
    nodes.target.on("/quick", [ok().after(Duration::from_millis(40))]);
    nodes.create("quick", 0, 3_000).await;
    nodes.until_arrived("/quick", 100, SOON).await;

    nodes.clients[1].post(&format!("/lanes/{lane}/pause"), &json!({})).await.expect(200);
    let paused_at = Instant::now();
    tokio::time::sleep(HEARD_WITHIN * 3).await;
    let seen = nodes.target.seen_at("/quick");
    let last = seen.iter().map(|seen| seen.arrived).max().unwrap();
    println!(
        "the last request came {:?} after the pause",
        last.saturating_duration_since(paused_at)
    );
    assert!(last <= paused_at + HEARD_WITHIN);
    assert!(seen.len() < 3_000, "there was nothing left to stop");
    for client in &nodes.clients {
        assert_eq!(client.lane(&nodes.dependency()).await["paused"], true);
    }

    nodes.clients[2].post(&format!("/lanes/{lane}/resume"), &json!({})).await.expect(200);
    let before = nodes.attempts().await;
    nodes.until_arrived("/quick", seen.len() + 100, SOON).await;
    let after = nodes.attempts().await;
    assert!(before.iter().zip(&after).all(|(before, after)| after > before), "{after:?}");
}
