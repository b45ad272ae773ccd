//! One budget: a fifth of what all nodes send first.

use std::time::Duration;

use serde_json::json;

use super::Nodes;
use crate::rig::{SOON, status, wait_until};

#[tokio::test]
async fn retries_of_three_nodes_are_a_fifth_of_their_first_attempts() {
    let Some(nodes) = Nodes::start(3).await else { return };
    let frugal = json!({
        "policyId": "frugal", "context": "async-event", "maxAttempts": 8, "initialDelayMs": 20,
        "maxDelayMs": 100, "breaker": null,
    });
    nodes.clients[0].register(&frugal).await;
    nodes.target.on("/frugal", [status(503)]);
    let mut pace = tokio::time::interval(Duration::from_millis(250));
    let (rounds, each) = (40, 30);
    for round in 0..rounds {
        pace.tick().await;
        nodes.create("frugal", round * each, each).await;
    }
    let firsts = rounds * each;
    let seen = wait_until(SOON, "all first attempts", async || {
        let seen = nodes.target.seen_at("/frugal");
        let first = seen.iter().filter(|seen| seen.attempt == Some(1)).count();
        (first == firsts).then_some(seen)
    });
    let retries = seen.await.len() - firsts;
    let attempts = nodes.attempts().await;
    println!("{firsts} first attempts, {retries} retries; attempts by node: {attempts:?}");
    // A burst of 10, and a floor of 10 until five in a row have failed on each node.
    assert!(retries <= firsts / 5 + 10 + 10, "{retries} retries for {firsts} first attempts");
    assert!(retries >= firsts / 20, "{retries} retries for {firsts} first attempts");
    assert!(attempts.iter().all(|attempts| *attempts > 0), "{attempts:?}");
}
