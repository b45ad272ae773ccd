//! What happens to the store: restarted, and killed.

use std::time::{Duration, Instant, SystemTime};

use super::{NODES, World, assert_taken_over_in_time, rounds};
use crate::rig::{Kind, millis};

/// How long a node may need to find out that the store is back.
const BACK_WITHIN: Duration = Duration::from_secs(5);

pub(super) async fn restarted(kind: Kind) {
    let Some(mut world) = World::start(kind).await else { return };
    world.until_acked(50).await;
    let mut faults = Vec::new();
    for round in 0..rounds(1) * 2 {
        let (began, began_at) = (Instant::now(), millis(SystemTime::now()));
        if round % 2 == 0 {
            world.cluster.store.stop().await;
        } else {
            world.cluster.store.kill9().await;
        }
        for node in 0..NODES {
            world.until_refused(node, began).await;
            world.cluster.until_unready(node).await;
        }
        world.cluster.store.start_again().await;
        let back = Instant::now();
        for node in 0..NODES {
            world.cluster.until_ready(node, BACK_WITHIN).await;
            world.until_taken(node, back, BACK_WITHIN).await;
        }
        faults.push((began_at, millis(SystemTime::now())));
        world.assert_answered(began, Instant::now());
        world.until_acked(50).await;
    }
    let figures = world.end("the store restarted and killed").await;
    assert_taken_over_in_time(&figures, &faults);
}
