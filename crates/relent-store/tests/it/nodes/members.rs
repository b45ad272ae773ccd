//! What nodes know of each other. REQ-G4, REQ-S7.

use std::sync::Arc;
use std::time::Duration;

use relent_policy::{Breaker, BreakerRules, Share};
use relent_store::{
    BreakerSwap, BreakerSwapped, LaneChange, Lanes as _, NODE_TTL, Nodes as _, Policies as _,
    Store as _, Upkeep as _,
};

use super::{Cluster, Place};
use crate::world::policy;

async fn share<P: Place>(cluster: &Cluster<P>, node: usize) -> Option<Share> {
    cluster.nodes[node].beat(true).await.unwrap().share
}

pub(super) async fn nodes_divide_the_work_among_those_that_are_there<P: Place>(place: P) {
    let (cluster, clock) = Cluster::clocked(place, 4).await;
    assert_eq!(
        share(&cluster, 0).await,
        Some(Share::WHOLE),
        "who has not said a word is not there"
    );
    assert_eq!(share(&cluster, 1).await, Some(Share::new(1, 2)));
    assert_eq!(cluster.nodes[3].beat(false).await.unwrap().share, None);
    assert_eq!(share(&cluster, 2).await, Some(Share::new(2, 3)), "who does not send has no share");
    assert_eq!(share(&cluster, 0).await, Some(Share::new(0, 3)));

    cluster.nodes[1].close(Duration::from_secs(10)).await.unwrap();
    assert_eq!(share(&cluster, 2).await, Some(Share::new(1, 2)), "who closes is gone at once");
    clock.advance(NODE_TTL);
    assert_eq!(share(&cluster, 2).await, Some(Share::WHOLE), "who is silent is gone after a while");
    assert_eq!(share(&cluster, 0).await, Some(Share::new(0, 2)), "and back with a beat");
}

pub(super) async fn what_one_node_changes_the_others_hear<P: Place>(place: P) {
    let (cluster, clock) = Cluster::clocked(place, 2).await;
    let [here, there] = [&cluster.nodes[0], &cluster.nodes[1]];
    clock.advance(Duration::from_secs(60));
    here.beat(true).await.unwrap();
    clock.advance(Duration::from_secs(60));
    let quiet = here.beat(true).await.unwrap();
    assert_eq!((quiet.lanes.len(), quiet.policies.len()), (0, 0));

    let lane = there.open_lane(&cluster.tenant, "new.example.com", cluster.policy).await.unwrap();
    let stored = there.put_policy(&cluster.tenant, policy("new", "{}")).await.unwrap();
    let beat = here.beat(true).await.unwrap();
    assert_eq!((beat.lanes, beat.policies), (vec![lane], vec![(cluster.tenant.clone(), stored)]));

    clock.advance(Duration::from_secs(60));
    here.beat(true).await.unwrap();
    clock.advance(Duration::from_secs(60));
    let paused = there.change_lane(&cluster.tenant, cluster.lane, LaneChange::Paused(true)).await;
    let paused = paused.unwrap().unwrap();
    assert_eq!(there.delete_policy(&cluster.tenant, "new").await, Ok(true));
    let beat = here.beat(true).await.unwrap();
    let lanes: Vec<_> = beat.lanes.iter().map(|lane| (lane.id, lane.settings)).collect();
    assert_eq!(lanes, [(cluster.lane, paused)]);
    let policies: Vec<_> = beat.policies.iter().map(|(_, policy)| policy.deleted).collect();
    assert_eq!(policies, [true]);
}

pub(super) async fn of_many_nodes_that_want_to_probe_one_may<P: Place>(place: P) {
    let cluster = Cluster::new(place, 8, P::alone).await;
    for seen in 0..5 {
        let now = cluster.nodes[0].now();
        let asked = cluster.nodes.iter().map(|node| {
            let (node, lane) = (Arc::clone(node), cluster.lane);
            let breaker = Breaker::new(BreakerRules::default()).snapshot();
            tokio::spawn(async move {
                node.swap_breakers(vec![BreakerSwap { lane, seen, breaker }]).await.unwrap()[0]
            })
        });
        let mut done = 0;
        for asked in asked.collect::<Vec<_>>() {
            match asked.await.unwrap() {
                BreakerSwapped::Done { revision } => {
                    assert_eq!(revision, seen + 1);
                    done += 1;
                }
                BreakerSwapped::Lost { revision, breaker } => {
                    assert_eq!((revision, breaker.is_some()), (seen + 1, true));
                }
                BreakerSwapped::Unknown => panic!("the lane is there"),
            }
        }
        assert_eq!(done, 1);
        let beat = cluster.nodes[7].beat(true).await.unwrap();
        assert_eq!(beat.lanes[0].breaker_revision, seen + 1, "heard at {now}");
    }
}
