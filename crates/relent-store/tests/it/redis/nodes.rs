//! Several nodes on one Redis. REQ-S3, REQ-S4, REQ-S7.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use relent_policy::{Repeatable, Turn};
use relent_store::{
    DueListener, Enqueued, Error, FirstAttempt, LaneDue, LaneId, NewTask, PolicyKey, Recorded,
    RedisOptions, RedisStore, State, Store, TaskFilter, Tasks, TenantId, Upkeep, Want,
};
use tokio::sync::mpsc;

use super::server::Server;
use super::{Prefix, is_there};
use crate::backend::Clock;
use crate::world::{HOUR, LEASE, created, key, policy, request, retry, success};

const PATIENCE: Duration = Duration::from_secs(30);

/// Nodes that share their keys.
pub(super) struct Cluster {
    pub(super) nodes: Vec<Arc<RedisStore>>,
    pub(super) tenant: TenantId,
    pub(super) policy: PolicyKey,
    pub(super) lane: LaneId,
    pub(super) prefix: Prefix,
}

impl Cluster {
    pub(super) async fn new(
        nodes: usize,
        options: impl Fn(RedisOptions) -> RedisOptions,
    ) -> Cluster {
        Cluster::at(Prefix::new(), nodes, options).await
    }

    pub(super) async fn at(
        prefix: Prefix,
        nodes: usize,
        options: impl Fn(RedisOptions) -> RedisOptions,
    ) -> Cluster {
        let connect = |_| Arc::new(prefix.connect(options(prefix.options())));
        let nodes: Vec<_> = (0..nodes).map(connect).collect();
        let (tenant, first) = (TenantId::default_tenant(), Arc::clone(&nodes[0]));
        let first: Arc<dyn Store> = first;
        let policy = first.put_policy(&tenant, policy("webhooks", "{}")).await.unwrap().key;
        let lane = first.open_lane(&tenant, "api.example.com", policy).await.unwrap().id;
        Cluster { nodes, tenant, policy, lane, prefix }
    }

    pub(super) fn options(&self) -> RedisOptions {
        self.prefix.options()
    }

    pub(super) fn task(&self) -> NewTask {
        NewTask {
            lane: self.lane,
            policy: self.policy,
            key: None,
            fingerprint: *b"0123456789abcdef",
            first: FirstAttempt::Now,
            lifetime: HOUR,
            repeatable: Repeatable::ByKey,
            request: request(),
        }
    }

    pub(super) fn keyed(&self, name: &str) -> NewTask {
        NewTask { key: Some(key(name)), ..self.task() }
    }

    pub(super) fn wants(&self, turn: Turn, max: u32) -> Vec<Want> {
        vec![Want { lane: self.lane, turn, max }]
    }

    async fn stored(&self) -> Vec<relent_store::TaskId> {
        let list = self.nodes[0].list(&self.tenant, TaskFilter::default(), None, 10_000);
        list.await.unwrap().items.iter().map(|task| task.id).collect()
    }
}

pub(super) fn alone(options: RedisOptions) -> RedisOptions {
    RedisOptions { listen: false, ..options }
}

#[tokio::test]
async fn eight_nodes_never_claim_a_task_twice_nor_more_than_they_want() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::new(8, alone).await;
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

#[tokio::test]
async fn the_same_key_on_several_nodes_at_once_is_one_task() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::new(3, alone).await;
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

#[tokio::test]
async fn batches_with_the_same_keys_on_several_nodes_are_stored_whole_or_not_at_all() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::new(3, alone).await;
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

#[tokio::test]
async fn a_stale_owner_is_fenced_when_another_node_has_taken_over() {
    if !is_there() {
        return;
    }
    let clock = Clock::new();
    let on_clock = |options| RedisOptions { clock: Some(clock.reading()), ..alone(options) };
    let cluster = Cluster::new(2, on_clock).await;
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

#[tokio::test]
async fn what_a_node_held_when_it_was_closed_is_taken_over_at_once() {
    if !is_there() {
        return;
    }
    let mut cluster = Cluster::new(2, alone).await;
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

#[tokio::test]
async fn connections_that_are_cut_heal_and_nothing_acknowledged_is_lost() {
    if !is_there() {
        return;
    }
    let server = Server::start(&[]);
    let cluster = Cluster::at(Prefix::at(server.url()), 1, |options| options).await;
    let node = &cluster.nodes[0];
    let (mut told, mut refused) = (Vec::new(), 0);
    for round in 0..60 {
        if round % 20 == 10 {
            server.ask::<i64>(&["CLIENT", "KILL", "TYPE", "normal"]);
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

struct Told(mpsc::UnboundedSender<LaneDue>);

impl DueListener for Told {
    fn due(&self, dues: &[LaneDue]) {
        for due in dues {
            let _ = self.0.send(*due);
        }
    }
}

/// Whether another node hears of a new task, and how soon.
async fn hears_of_others(options: fn(RedisOptions) -> RedisOptions) -> Duration {
    let cluster = Cluster::new(2, options).await;
    let (told, mut heard) = mpsc::unbounded_channel();
    cluster.nodes[1].listen(Arc::new(Told(told)));
    let asked = tokio::time::Instant::now();
    let mut took = Duration::MAX;
    for _ in 0..3 {
        cluster.nodes[0].enqueue(&cluster.tenant, vec![cluster.task()]).await.unwrap();
        let due = tokio::time::timeout(PATIENCE, heard.recv()).await.unwrap().unwrap();
        assert_eq!((due.lane, due.turn), (cluster.lane, Turn::First));
        took = took.min(asked.elapsed());
        let claimed = cluster.nodes[1].claim(cluster.wants(Turn::First, 5)).await.unwrap();
        assert!(!claimed.claimed.is_empty(), "what is told can be claimed");
        while heard.try_recv().is_ok() {}
    }
    took
}

#[tokio::test]
async fn a_node_hears_of_what_another_stores() {
    if is_there() {
        hears_of_others(|options| options).await;
    }
}

#[tokio::test]
async fn a_node_that_cannot_listen_looks() {
    if is_there() {
        hears_of_others(alone).await;
    }
}

#[tokio::test]
async fn what_another_node_made_is_known() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::new(2, alone).await;
    // This node has neither opened the lane nor stored the policy.
    let answers = cluster.nodes[1].enqueue(&cluster.tenant, vec![cluster.task()]).await.unwrap();
    created(answers[0]);
    let unknown = NewTask { lane: LaneId::from_u32(77), ..cluster.task() };
    let refused = cluster.nodes[1].enqueue(&cluster.tenant, vec![unknown]).await;
    assert!(matches!(refused, Err(Error::Damaged(_))), "{refused:?}");
}

#[test]
fn nodes_that_start_together_make_one_store() {
    if !is_there() {
        return;
    }
    let prefix = Prefix::in_cluster();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| drop(prefix.connect(alone(prefix.options()))));
        }
    });
}
