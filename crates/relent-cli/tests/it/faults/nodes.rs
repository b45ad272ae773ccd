//! What happens to nodes: killed, stopped and woken, replaced one after the other.

use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::producers::Answer;
use super::{
    ATTEMPT_TIMEOUT, LEASE, NODES, NOTICED_WITHIN, World, assert_taken_over_in_time, rounds,
};
use crate::rig::{Kind, SOON, ok, stretched, wait_until};

pub(super) async fn killed(kind: Kind) {
    let Some(mut world) = World::start(kind).await else { return };
    world.until_acked(50).await;
    for _ in 0..rounds(3) {
        let node = world.rng.usize(0..NODES);
        world.cluster.nodes[node].relent.kill9().await;
        world.until_acked(50).await;
        world.cluster.restart(node).await;
        sleep(Duration::from_millis(world.rng.u64(100..800))).await;
    }
    let figures = world.end("nodes killed").await;
    assert_taken_over_in_time(&figures, &[]);
    assert!(!figures.abandoned.is_empty(), "no attempt was under way when a node was killed");
}

/// Stopped in the middle of attempts for longer than their leases, and then woken: it finds answers
/// that nobody waits for any more, and whatever it writes about them changes nothing.
pub(super) async fn stopped(kind: Kind) {
    const HELD: usize = 12;
    const STOPPED: usize = 1;
    let Some(mut world) = World::start(kind).await else { return };
    world.until_acked(50).await;
    // So many in flight that each node has its part of them.
    let first = world.load.post_all(&world.cluster.client(0), "/held", 1).await.remove(0);
    let first = world.cluster.client(0).until_status(&first, "SUCCEEDED").await;
    world.cluster.limit(first["laneId"].as_str().unwrap(), HELD).await;
    for _ in 0..rounds(1) {
        // Their answers come while it is stopped.
        world.load.target.on("/held", [ok().after(ATTEMPT_TIMEOUT / 2)]);
        let before = world.load.target.seen_at("/held").len();
        let held = world.load.post_all(&world.cluster.client(STOPPED), "/held", HELD).await;
        world.load.target.until_seen("/held", before + HELD).await;
        world.cluster.nodes[STOPPED].relent.sigstop();
        let client = world.cluster.client(0);
        let longest = ATTEMPT_TIMEOUT + LEASE + NOTICED_WITHIN;
        for id in held {
            wait_until(stretched(longest), "what it held is delivered", async || {
                (client.task(&id).await["status"] == "SUCCEEDED").then_some(())
            })
            .await;
        }
        world.cluster.nodes[STOPPED].relent.sigcont();
        world.cluster.until_ready(STOPPED, SOON).await;
    }
    let figures = world.end("a node stopped past its leases, and woken").await;
    assert_taken_over_in_time(&figures, &[]);
    assert!(figures.stale > 0.0, "nothing was written too late");
    assert!(!figures.abandoned.is_empty(), "it held nothing when it was stopped");
}

pub(super) async fn replaced(kind: Kind) {
    let Some(mut world) = World::start(kind).await else { return };
    world.until_acked(50).await;
    let began = Instant::now();
    let mut away = Vec::new();
    for _ in 0..rounds(1) {
        for node in 0..NODES {
            let asked = Instant::now();
            world.cluster.nodes[node].relent.sigterm();
            let ended = world.cluster.nodes[node].relent.ended().await;
            assert_eq!(ended.code(), Some(0), "{}", world.cluster.nodes[node].relent.log());
            world.until_acked(30).await;
            world.cluster.restart(node).await;
            away.push((node, asked, Instant::now()));
            world.until_acked(30).await;
        }
    }
    let figures = world.end("nodes replaced one after the other").await;
    let failed = world.load.posts(began, Instant::now()).into_iter().find(|post| {
        let was_away = away.iter().any(|(node, from, until)| {
            *node == post.node && post.at < *until && post.at + post.took >= *from
        });
        post.answer != Answer::Stored && !was_away
    });
    assert!(failed.is_none(), "refused where nothing was wrong: {failed:?}");
    assert!(figures.abandoned.is_empty(), "{:?}", figures.abandoned);
    assert!(figures.stale < 1.0, "a graceful stop leaves nobody behind: {figures}");
    assert!(figures.duplicates <= figures.too_late, "a graceful stop makes none: {figures}");
}
