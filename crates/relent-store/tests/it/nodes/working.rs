//! Nodes that take, claim and record at the same time.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use relent_policy::Turn;
use relent_store::{
    Enqueued, Error, LaneId, NewTask, Policies as _, Recorded, State, Store as _, Tasks as _,
    TenantId, Upkeep as _,
};
use tokio::sync::mpsc;

use super::{Cluster, Place, Told};
use crate::world::{LEASE, SECOND, created, policy, retry, success};

const PATIENCE: Duration = Duration::from_secs(30);

pub(super) async fn eight_nodes_never_claim_a_task_twice_nor_more_than_they_want<P: Place>(
    place: P,
) {
    let cluster = Cluster::new(place, 8, P::alone).await;
    for _ in 0..4 {
        let tasks = vec![cluster.task(); 250];
        cluster.nodes[0].enqueue(&cluster.tenant, tasks).await.unwrap();
    }
    let claimers = cluster.nodes.iter().map(|node| {
        let (node, wants) = (Arc::clone(node), cluster.wants(Turn::First, 7));
        tokio::spawn(async move {
            let (mut ids, mut empty) = (Vec::new(), 0);
            // What others have locked is skipped: nothing found once does not mean nothing left.
            while empty < 5 {
                let claimed = node.claim(wants.clone()).await.unwrap().claimed;
                assert!(claimed.len() <= 7, "{} claimed", claimed.len());
                empty = if claimed.is_empty() { empty + 1 } else { 0 };
                ids.extend(claimed.iter().map(|claimed| claimed.lease.task));
            }
            ids
        })
    });
    let mut claimed = Vec::new();
    for claimer in claimers.collect::<Vec<_>>() {
        claimed.extend(claimer.await.unwrap());
    }
    assert_eq!(claimed.len(), 1_000);
    assert_eq!(claimed.into_iter().collect::<BTreeSet<_>>().len(), 1_000);
}

pub(super) async fn the_same_key_on_several_nodes_at_once_is_one_task<P: Place>(place: P) {
    let cluster = Cluster::new(place, 3, P::alone).await;
    let mut asked = Vec::new();
    for number in 0..150 {
        let node = Arc::clone(&cluster.nodes[number % 3]);
        let (tenant, task) = (cluster.tenant.clone(), cluster.keyed(&format!("{}", number % 5)));
        asked
            .push(tokio::spawn(async move { node.enqueue(&tenant, vec![task]).await.unwrap()[0] }));
    }
    let (mut new, mut ids) = (0, BTreeSet::new());
    for asked in asked {
        match asked.await.unwrap() {
            Enqueued::Created(id) => {
                new += 1;
                ids.insert(id);
            }
            Enqueued::Existing(id) => {
                ids.insert(id);
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((new, ids.len(), cluster.stored().await.len()), (5, 5, 5));
}

pub(super) async fn batches_with_the_same_keys_on_several_nodes_are_stored_whole_or_not_at_all<
    P: Place,
>(
    place: P,
) {
    let cluster = Cluster::new(place, 3, P::alone).await;
    let mut asked = Vec::new();
    for number in 0..30_usize {
        let node = Arc::clone(&cluster.nodes[number % 3]);
        // The same ten keys, in turns, and the last batches want other content for one of them.
        let mut batch: Vec<NewTask> =
            (0..10).map(|n| cluster.keyed(&format!("{}", (n + number) % 10))).collect();
        batch.push(cluster.task());
        if number >= 15 {
            batch[3].fingerprint = [9; 16];
        }
        let tenant = cluster.tenant.clone();
        asked.push(tokio::spawn(async move { node.enqueue(&tenant, batch).await.unwrap() }));
    }
    let mut new = 0;
    for asked in asked {
        let answers = asked.await.unwrap();
        let conflicts = answers.iter().any(|answer| matches!(answer, Enqueued::Conflict(_)));
        let created = answers.iter().filter(|answer| matches!(answer, Enqueued::Created(_)));
        let created = created.count();
        assert!(!conflicts || created == 0, "{answers:?}");
        new += created;
    }
    assert_eq!(cluster.stored().await.len(), new);
}

pub(super) async fn a_stale_owner_is_fenced_when_another_node_has_taken_over<P: Place>(place: P) {
    let (cluster, clock) = Cluster::clocked(place, 2).await;
    let [slow, other] = [&cluster.nodes[0], &cluster.nodes[1]];
    let id = created(slow.enqueue(&cluster.tenant, vec![cluster.task()]).await.unwrap()[0]);
    let claimed = slow.claim(cluster.wants(Turn::First, 1)).await.unwrap().claimed.remove(0);
    assert!(other.claim(cluster.wants(Turn::First, 1)).await.unwrap().claimed.is_empty());
    clock.advance(LEASE);
    let swept = other.sweep(10).await.unwrap().remove(0);
    assert!(slow.sweep(10).await.unwrap().is_empty(), "it is taken over once");
    let late = success(&claimed, clock.now());
    assert_eq!(slow.record(vec![late]).await, Ok(vec![Recorded::Stale]));
    let again = retry(swept.lease, &swept.history, 0, clock.now(), clock.now());
    assert_eq!(other.record(vec![again]).await, Ok(vec![Recorded::Applied]));
    let claimed = slow.claim(cluster.wants(Turn::Retry, 1)).await.unwrap().claimed.remove(0);
    assert_eq!(claimed.history.attempts(), 2);
    assert_eq!(
        slow.record(vec![success(&claimed, clock.now())]).await,
        Ok(vec![Recorded::Applied])
    );
    let task = other.task(&cluster.tenant, id).await.unwrap().unwrap();
    assert_eq!((task.state, task.attempts), (State::Succeeded, 2));
    assert_eq!(other.attempts(&cluster.tenant, id).await.unwrap().unwrap().len(), 2);
}

pub(super) async fn what_a_node_held_when_it_was_closed_is_taken_over_at_once<P: Place>(place: P) {
    let mut cluster = Cluster::new(place, 2, P::alone).await;
    let tasks = vec![cluster.task(); 2];
    cluster.nodes[0].enqueue(&cluster.tenant, tasks).await.unwrap();
    let leaving = cluster.nodes.remove(1);
    let held = leaving.claim(cluster.wants(Turn::First, 1)).await.unwrap().claimed.remove(0);
    let own = cluster.nodes[0].claim(cluster.wants(Turn::First, 1)).await.unwrap().claimed;
    drop(leaving);
    let swept = cluster.nodes[0].sweep(10).await.unwrap();
    let swept: Vec<_> = swept.iter().map(|swept| swept.lease.task).collect();
    assert_eq!(swept, [held.lease.task]);
    assert_ne!(own[0].lease.task, held.lease.task);
}

/// One node, whose connections are cut again and again in the middle of whatever it does.
pub(crate) async fn survive_cuts<P: Place>(place: P, cut: impl Fn(&P)) {
    let cluster = Cluster::new(place, 1, |options| options).await;
    let node = &cluster.nodes[0];
    let (mut told, mut refused) = (Vec::new(), 0);
    for round in 0..60 {
        if round % 20 == 10 {
            cut(&cluster.place);
        }
        match node.enqueue(&cluster.tenant, vec![cluster.task()]).await {
            Ok(answers) => told.push(created(answers[0])),
            Err(Error::Unavailable(_)) => refused += 1,
            Err(other) => panic!("{other:?}"),
        }
        let claimed = node.claim(cluster.wants(Turn::First, 1)).await;
        let (Ok(_) | Err(Error::Unavailable(_))) = claimed else { panic!("{claimed:?}") };
    }
    assert!(refused <= 6, "{refused} refused for three cuts");
    assert_eq!(node.check().await, Ok(()));
    let stored = cluster.stored().await;
    assert!(told.iter().all(|id| stored.contains(id)));
}

/// Whether another node hears of a new task.
async fn hears_of_others<P: Place>(place: P, options: fn(P::Options) -> P::Options) {
    let cluster = Cluster::new(place, 2, options).await;
    let (told, mut heard) = mpsc::unbounded_channel();
    cluster.nodes[1].listen(Arc::new(Told(told)));
    for _ in 0..3 {
        cluster.nodes[0].enqueue(&cluster.tenant, vec![cluster.task()]).await.unwrap();
        let due = tokio::time::timeout(PATIENCE, heard.recv()).await.unwrap().unwrap();
        assert_eq!((due.lane, due.turn), (cluster.lane, Turn::First));
        let claimed = cluster.nodes[1].claim(cluster.wants(Turn::First, 5)).await.unwrap();
        assert!(!claimed.claimed.is_empty(), "what is told can be claimed");
        while heard.try_recv().is_ok() {}
    }
}

pub(super) async fn a_node_hears_of_what_another_stores<P: Place>(place: P) {
    hears_of_others(place, |options| options).await;
}

pub(super) async fn a_node_that_cannot_listen_looks<P: Place>(place: P) {
    hears_of_others(place, P::alone).await;
}

pub(super) async fn a_node_that_joins_finds_the_work_within_a_second<P: Place>(place: P) {
    let cluster = Cluster::new(place, 1, |options| options).await;
    cluster.nodes[0].enqueue(&cluster.tenant, vec![cluster.task()]).await.unwrap();
    let options = || cluster.place.options();
    for options in [options(), P::alone(options())] {
        let joining = cluster.place.connect(options);
        let (told, mut heard) = mpsc::unbounded_channel();
        joining.listen(Arc::new(Told(told)));
        let due = tokio::time::timeout(SECOND, heard.recv()).await.expect("nobody was told");
        assert_eq!(due.map(|due| (due.lane, due.turn)), Some((cluster.lane, Turn::First)));
    }
}

pub(super) async fn what_another_node_made_is_known<P: Place>(place: P) {
    let cluster = Cluster::new(place, 2, P::alone).await;
    // This node has neither opened the lane nor stored the policy.
    let answers = cluster.nodes[1].enqueue(&cluster.tenant, vec![cluster.task()]).await.unwrap();
    created(answers[0]);
    let unknown = NewTask { lane: LaneId::from_u32(77), ..cluster.task() };
    let refused = cluster.nodes[1].enqueue(&cluster.tenant, vec![unknown]).await;
    assert!(matches!(refused, Err(Error::Damaged(_))), "{refused:?}");
}

pub(super) async fn nodes_that_start_together_make_one_store<P: Place + Sync>(place: P) {
    let nodes = std::thread::scope(|scope| {
        let starting = || place.connect(P::alone(place.options()));
        let starting: Vec<_> = (0..4).map(|_| scope.spawn(starting)).collect();
        starting.into_iter().map(|node| node.join().unwrap()).collect::<Vec<_>>()
    });
    let tenant = TenantId::default_tenant();
    let stored = nodes[0].put_policy(&tenant, policy("webhooks", "{}")).await.unwrap();
    for node in &nodes {
        let again = node.put_policy(&tenant, policy("webhooks", "{}")).await.unwrap();
        assert_eq!(again.key, stored.key);
    }
}
