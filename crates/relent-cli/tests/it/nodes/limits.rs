//! Limits and pauses, set on one node.

use std::time::{Duration, Instant};

use serde_json::json;

use super::{HEARD_WITHIN, Nodes, at_once_max, most_within};
use crate::rig::{SOON, ok, quick_policy};

#[tokio::test]
async fn three_nodes_together_have_as_many_in_flight_as_the_lane_allows() {
    let Some(nodes) = Nodes::start(3).await else { return };
    nodes.clients[0].register(&quick_policy("quick", 4)).await;
    let lane = nodes.open_lane("quick").await;
    nodes.limit(&lane, json!({"inFlightMax": 5, "retriesInFlightMax": 5})).await;
    nodes.target.on("/quick", [ok().after(Duration::from_millis(50))]);
    nodes.create("quick", 0, 300).await;
    let seen = nodes.until_arrived("/quick", 300, SOON).await;
    let most = at_once_max(&seen);
    println!("{most} at once, of 5; by node: {:?}", nodes.attempts().await);
    assert!((4..=5).contains(&most), "{most} at once");
}

#[tokio::test]
async fn three_nodes_together_are_as_fast_as_the_lane_allows() {
    let Some(nodes) = Nodes::start(3).await else { return };
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
    assert!(took >= Duration::from_millis(5_700), "120 at 20 a second took {took:?}");
}

#[tokio::test]
async fn a_pause_on_one_node_stops_all_within_a_second() {
    let Some(nodes) = Nodes::start(3).await else { return };
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
