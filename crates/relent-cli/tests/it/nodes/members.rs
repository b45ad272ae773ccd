//! Nodes that come, go and fall silent.

use std::time::{Duration, Instant};

use serde_json::json;

use super::{HEARD_WITHIN, Nodes, at_once_max, attempts_of};
use crate::rig::{Gate, SOON, ok, quick_policy, wait_until};

/// After this a node is not counted that was not heard of.
const NODE_TTL: Duration = Duration::from_secs(2);

#[tokio::test]
async fn a_node_that_joins_gets_its_part_of_the_work_within_a_second() {
    let Some(mut nodes) = Nodes::start(2).await else { return };
    nodes.clients[0].register(&quick_policy("quick", 4)).await;
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

    let before = nodes.attempts().await;
    let seen = nodes.target.seen_at("/quick").len();
    nodes.until_arrived("/quick", seen + 400, SOON).await;
    let after = nodes.attempts().await;
    let made: Vec<u64> = after.iter().zip(&before).map(|(after, before)| after - before).collect();
    println!("attempts by node: {made:?}");
    let all: u64 = made.iter().sum();
    assert!(made.iter().all(|made| made * 5 >= all), "{made:?}");
}

#[tokio::test]
async fn the_part_of_a_node_that_is_killed_is_taken_over() {
    let Some(mut nodes) = Nodes::start(3).await else { return };
    nodes.clients[0].register(&quick_policy("quick", 4)).await;
    let lane = nodes.open_lane("quick").await;
    // One place, which the first of the nodes has.
    nodes.limit(&lane, json!({"inFlightMax": 1, "retriesInFlightMax": 1})).await;
    nodes.target.on("/quick", [ok().after(Duration::from_millis(20))]);
    nodes.create("quick", 0, 1_000).await;
    nodes.until_arrived("/quick", 20, SOON).await;
    assert_eq!(nodes.attempts().await[1..], [0, 0], "one node has the place");

    nodes.nodes[0].kill9().await;
    let killed_at = Instant::now();
    let next = wait_until(SOON, "another node takes over", async || {
        let seen = nodes.target.seen_at("/quick");
        seen.into_iter().find(|seen| seen.arrived > killed_at)
    });
    let took = next.await.arrived.duration_since(killed_at);
    println!("another node went on {took:?} after the first was killed");
    assert!(took <= NODE_TTL + HEARD_WITHIN, "{took:?}");
}

#[tokio::test]
async fn a_node_that_was_stopped_sends_nothing_until_it_is_counted_again() {
    let Some(nodes) = Nodes::start(3).await else { return };
    nodes.clients[0].register(&quick_policy("quick", 4)).await;
    let lane = nodes.open_lane("quick").await;
    nodes.limit(&lane, json!({"inFlightMax": 1, "retriesInFlightMax": 1})).await;
    let gate = Gate::closed();
    nodes.target.on("/quick", [ok().held_by(&gate)]);
    nodes.create("quick", 0, 600).await;
    nodes.until_arrived("/quick", 1, SOON).await;

    // The first node has its one attempt under way; it is answered while it sleeps.
    nodes.nodes[0].sigstop();
    nodes.target.on("/quick", [ok().after(Duration::from_millis(20))]);
    gate.open();
    nodes.until_arrived("/quick", 30, SOON).await;
    nodes.nodes[0].sigcont();
    let woken_at = Instant::now();
    let served = attempts_of(&nodes.clients[0]).await;
    wait_until(SOON, "the first node works again", async || {
        (attempts_of(&nodes.clients[0]).await > served + 20).then_some(())
    })
    .await;
    println!("the first node works again {:?} after it was woken", woken_at.elapsed());
    let seen = nodes.target.seen_at("/quick");
    assert_eq!(at_once_max(&seen), 1, "the place was taken twice");
}
