//! One budget: a fifth of what all nodes send first, and one burst.

use std::time::Duration;

use serde_json::{Value, json};

use super::{HEARD_WITHIN, Nodes};
use crate::rig::{Kind, SOON, ok, quick_policy, status, wait_until, with};

const IN_FLIGHT_MAX: usize = 30;

/// A policy with no floor, so that every retry is earned.
fn frugal(burst: usize) -> Value {
    let budget = json!({"ratio": 0.2, "windowMs": 60_000, "burst": burst, "floorRetries": 0});
    let concurrency = json!({"inFlightMax": IN_FLIGHT_MAX, "retriesInFlightMax": IN_FLIGHT_MAX});
    let more = json!({"budget": budget, "concurrency": concurrency, "totalBudgetMs": 120_000});
    with(quick_policy("frugal", 8), more)
}

/// First attempts and retries so far.
fn counts(nodes: &Nodes) -> (usize, usize) {
    let seen = nodes.target.seen_at("/frugal");
    let firsts = seen.iter().filter(|seen| seen.attempt == Some(1)).count();
    (firsts, seen.len() - firsts)
}

/// Waits until there are so many first attempts and retries, and then for what should not come.
async fn until_spent(nodes: &Nodes, firsts: usize, retries: usize) -> usize {
    wait_until(SOON, &format!("{firsts} first attempts and {retries} retries"), async || {
        let counts = counts(nodes);
        (counts.0 >= firsts && counts.1 >= retries).then_some(())
    })
    .await;
    tokio::time::sleep(HEARD_WITHIN).await;
    counts(nodes).1
}

/// Nothing that was earned is lost where so much can be saved up: the share is exact.
pub(super) async fn retries_of_three_nodes_are_a_fifth_of_their_first_attempts(kind: Kind) {
    let Some(nodes) = Nodes::start(kind, 3).await else { return };
    nodes.clients[0].register(&frugal(1_000)).await;
    nodes.target.on("/frugal", [status(503)]);
    let firsts = 600;
    nodes.create("frugal", 0, firsts).await;
    // What is less than one retry cannot be spent on any node.
    let retries = until_spent(&nodes, firsts, firsts / 5 - 3).await;
    let attempts = nodes.attempts().await;
    println!("{firsts} first attempts, {retries} retries; attempts by node: {attempts:?}");
    assert!(retries <= firsts / 5, "{retries} retries for {firsts} first attempts");
    assert!(attempts.iter().all(|attempts| *attempts > 0), "{attempts:?}");
    // At every moment, too; what has been counted and has not arrived is in flight.
    let (mut first, mut again) = (0, 0);
    for seen in nodes.target.seen_at("/frugal") {
        *if seen.attempt == Some(1) { &mut first } else { &mut again } += 1;
        assert!(again * 5 <= first + IN_FLIGHT_MAX, "{again} retries after {first} first attempts");
    }
}

/// The dependency is well until each node has saved up what it may, and then fails.
pub(super) async fn three_nodes_together_save_up_one_burst(kind: Kind) {
    const BURST: usize = 10;
    let Some(nodes) = Nodes::start(kind, 3).await else { return };
    nodes.clients[0].register(&frugal(BURST)).await;
    nodes.target.on("/frugal", [ok().after(Duration::from_millis(10))]);
    let (mut firsts, enough) = (0, 5 * BURST as u64);
    while nodes.attempts().await.iter().any(|attempts| *attempts < enough) {
        assert!(firsts < 6_000, "attempts by node: {:?}", nodes.attempts().await);
        nodes.create("frugal", firsts, 150).await;
        firsts += 150;
        nodes.until_arrived("/frugal", firsts, SOON).await;
    }
    assert_eq!(counts(&nodes), (firsts, 0));

    nodes.target.on("/frugal", [status(503)]);
    let failing = 60;
    nodes.create("frugal", firsts, failing).await;
    let retries = until_spent(&nodes, firsts + failing, BURST).await;
    println!("{retries} retries for {failing} first attempts, after {firsts} that went well");
    assert!(retries <= BURST + failing / 5, "{retries} retries for {failing} first attempts");
}
