//! What happens between nodes and the store.

use std::time::{Duration, Instant, SystemTime};

use super::producers::Answer;
use super::{LEASE, NODES, NOTICED_WITHIN, World, assert_taken_over_in_time, rounds};
use crate::rig::{Fault, Kind, millis};

/// How long a node may need to find out that the network is back. Connections that were forgotten are
/// only found to be dead when an answer does not come.
fn back_within(fault: Fault) -> Duration {
    match fault {
        Fault::BlackHole => LEASE + NOTICED_WITHIN,
        _ => Duration::from_secs(5),
    }
}

fn faults() -> [Fault; 5] {
    [
        Fault::Cut,
        Fault::Reset,
        Fault::Stall,
        Fault::Slow(Duration::from_millis(150)),
        Fault::BlackHole,
    ]
}

/// Breaks the network of these nodes, and mends it.
async fn break_and_mend(world: &World, nodes: &[usize], fault: Fault) {
    let began = Instant::now();
    nodes.iter().for_each(|node| world.cluster.fault(*node, fault));
    for node in nodes {
        match fault {
            Fault::Slow(_) => world.until_answered(*node, began, 3).await,
            _ => world.until_refused(*node, began).await,
        }
    }
    nodes.iter().for_each(|node| world.cluster.fault(*node, Fault::Nothing));
    let mended = Instant::now();
    for node in nodes {
        world.cluster.until_ready(*node, back_within(fault)).await;
        world.until_taken(*node, mended, back_within(fault)).await;
    }
    let (lasted, back) = (mended - began, mended.elapsed());
    println!("{fault:?} at {nodes:?} for {lasted:.1?}, back after {back:.1?}");
    world.assert_answered(began, Instant::now());
}

pub(super) async fn broken_for_one(kind: Kind) {
    const BROKEN: usize = 1;
    let Some(mut world) = World::start(kind).await else { return };
    world.until_acked(50).await;
    let began = Instant::now();
    for _ in 0..rounds(1) {
        for fault in faults() {
            break_and_mend(&world, &[BROKEN], fault).await;
            world.until_acked(20).await;
        }
    }
    let figures = world.end("the network of one node broken").await;
    assert_taken_over_in_time(&figures, &[]);
    let failed = world.load.posts(began, Instant::now()).into_iter();
    let failed = failed.filter(|post| post.node != BROKEN && post.answer != Answer::Stored);
    let failed: Vec<_> = failed.collect();
    assert!(failed.is_empty(), "refused where nothing was wrong: {failed:?}");
}

pub(super) async fn broken_for_all(kind: Kind) {
    let Some(mut world) = World::start(kind).await else { return };
    world.until_acked(50).await;
    let nodes: Vec<usize> = (0..NODES).collect();
    let mut broken = Vec::new();
    for _ in 0..rounds(1) {
        for fault in faults() {
            let began_at = millis(SystemTime::now());
            break_and_mend(&world, &nodes, fault).await;
            broken.push((began_at, millis(SystemTime::now())));
            world.until_acked(20).await;
        }
    }
    let figures = world.end("the network of all nodes broken").await;
    assert_taken_over_in_time(&figures, &broken);
}
