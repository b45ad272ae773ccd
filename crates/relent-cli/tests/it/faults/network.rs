//! What happens between nodes and the store.

use std::time::{Duration, Instant, SystemTime};

use super::producers::Answer;
use super::{LEASE, NODES, NOTICED_WITHIN, World, assert_taken_over_in_time, rounds};
use crate::rig::{Fault, Kind, millis, stretched};

/// Grace, and a statement that is not answered.
const ENDS_WITHIN: Duration = Duration::from_secs(30);

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
    let (began, before) = (Instant::now(), spent(world, nodes));
    nodes.iter().for_each(|node| world.cluster.fault(*node, fault));
    let answered = async {
        for node in nodes {
            match fault {
                Fault::Slow(_) => world.until_answered(*node, began, 3).await,
                // It fails at once: often enough to see that nobody comes back in a hurry.
                Fault::Cut | Fault::Reset => world.until_answered(*node, began, 6).await,
                _ => world.until_refused(*node, began).await,
            }
        }
    };
    // Meanwhile, so that the fault lasts no longer for it.
    let unready = async {
        if !matches!(fault, Fault::Slow(_)) {
            world.cluster.until_unready(nodes[0]).await;
        }
    };
    tokio::join!(answered, unready);
    assert_quiet(world, nodes, before, began.elapsed());
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

/// How much these nodes have computed and written to their logs.
fn spent(world: &World, nodes: &[usize]) -> (Duration, usize) {
    let relents = nodes.iter().map(|node| &world.cluster.nodes[*node].relent);
    relents.fold((Duration::ZERO, 0), |(cpu, lines), relent| {
        (cpu + relent.cpu_time(), lines + relent.log().lines().count())
    })
}

/// Nodes that cannot work do not keep themselves busy with that, nor whoever reads their logs.
fn assert_quiet(world: &World, nodes: &[usize], before: (Duration, usize), lasted: Duration) {
    let (cpu, lines) = spent(world, nodes);
    let (cpu, lines) = (cpu - before.0, lines - before.1);
    let seconds = lasted.as_secs_f64() * f64::from(u32::try_from(nodes.len()).unwrap());
    println!("meanwhile {cpu:.1?} of work and {lines} lines of log in {seconds:.1} s of nodes");
    assert!(cpu.as_secs_f64() < 0.5 + seconds * 0.5, "busy with nothing: {cpu:?} in {seconds} s");
    assert!(f64::from(u32::try_from(lines).unwrap()) < 100.0 + 20.0 * seconds, "{lines} lines");
}

/// A node that is asked to stop and cannot reach its store ends all the same, within its grace and
/// what it takes to see that nobody answers.
pub(super) async fn stopped_without_store(kind: Kind) {
    const CUT_OFF: usize = 1;
    let Some(mut world) = World::start(kind).await else { return };
    world.until_acked(50).await;
    let began = Instant::now();
    world.cluster.fault(CUT_OFF, Fault::BlackHole);
    world.until_refused(CUT_OFF, began).await;
    let asked = Instant::now();
    world.cluster.nodes[CUT_OFF].relent.sigterm();
    let ended = world.cluster.nodes[CUT_OFF].relent.ended_within(stretched(ENDS_WITHIN)).await;
    println!("asked to stop without its store, it ended after {:.1?}: {ended}", asked.elapsed());
    assert!(ended.code().is_some(), "{ended}");
    world.cluster.fault(CUT_OFF, Fault::Nothing);
    world.cluster.restart(CUT_OFF).await;
    let figures = world.end("a node stopped that could not reach the store").await;
    assert_taken_over_in_time(&figures, &[]);
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
