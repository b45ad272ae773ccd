//! Somebody else's transaction that stays open keeps every dead row; claims must not read them all.
//! `cargo xtask bench stores long-transaction` is the same for two minutes under load. REQ-S4.

use std::time::{Duration, Instant};

use relent_policy::Turn;
use relent_store::{Tasks, Want};
use tokio_postgres::NoTls;

use super::{Schema, is_there, server};
use crate::backend::Clock;
use crate::nodes::Cluster;
use crate::world::success;

const ROUNDS: usize = 30;
const ROUND_TASKS: usize = 1_000;
const TIMED: usize = 20;

/// Stores tasks, claims them, and records that all were delivered; how long small claims took.
async fn round(cluster: &Cluster<Schema>, clock: &Clock) -> Vec<Duration> {
    let node = &cluster.nodes[0];
    node.enqueue(&cluster.tenant, vec![cluster.task(); ROUND_TASKS]).await.unwrap();
    clock.advance(Duration::from_secs(5));
    let (mut took, mut claimed) = (Vec::new(), Vec::new());
    while claimed.len() < ROUND_TASKS {
        let max = if took.len() < TIMED { 5 } else { 1_000 };
        let asked = Instant::now();
        let wants = vec![Want::due(cluster.lane, Turn::First, max)];
        let claims = node.claim(wants).await.unwrap();
        assert!(!claims.claimed.is_empty(), "{} of a round were claimed", claimed.len());
        if max == 5 {
            took.push(asked.elapsed());
        }
        claimed.extend(claims.claimed);
    }
    let records = claimed.iter().map(|claimed| success(claimed, clock.now()));
    node.record(records.collect()).await.unwrap();
    took
}

fn median(rounds: &[Vec<Duration>]) -> Duration {
    let mut all = rounds.concat();
    all.sort_unstable();
    all[all.len() / 2]
}

#[tokio::test]
async fn claims_stay_quick_beside_a_transaction_that_stays_open() {
    if !is_there() {
        return;
    }
    let (cluster, clock) = Cluster::clocked(Schema::new(), 1).await;
    let (client, connection) = tokio_postgres::connect(&server(), NoTls).await.unwrap();
    tokio::spawn(connection);
    let begin =
        "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT txid_current(), count(*) FROM pg_class";
    client.batch_execute(begin).await.unwrap();

    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        rounds.push(round(&cluster, &clock).await);
    }
    client.batch_execute("COMMIT").await.unwrap();
    let (first, last) = (median(&rounds[..5]), median(&rounds[ROUNDS - 5..]));
    assert!(last <= first * 5, "claims took {first:?} at first, {last:?} in the end");
}
