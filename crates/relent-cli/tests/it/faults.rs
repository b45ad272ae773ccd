//! A cluster of three nodes under faults, and what must hold all the same: G1 to G10.
//!
//! Producers post to all nodes and keep in their own memory what was acknowledged. Nodes are killed,
//! stopped and replaced, the store is restarted and killed, and the network between them is broken.
//! Then everything may finish, and the target's own record is held against the producers' journal
//! and the service's log. Each scenario runs on every store that nodes can share, and prints what it
//! saw; `RELENT_TEST_FAULT_ROUNDS` makes it longer.

mod network;
mod nodes;
mod producers;
mod stores;
mod transactions;

use std::time::{Duration, Instant};

use fastrand::Rng;
use tokio::sync::{Semaphore, SemaphorePermit};

use self::producers::{Answer, Load};
use crate::load;
use crate::load::check::{self, Figures};
use crate::rig::{Cluster, Kind, seed, setting, stretched, wait_until};

const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(2);
/// The service adds 15 s to write down what came of an attempt.
const LEASE: Duration = Duration::from_secs(17);
/// How long after the end of a lease somebody else may need to take the task over.
const NOTICED_WITHIN: Duration = Duration::from_secs(2);
const NODES: usize = 3;
/// A post is answered within this, whatever the store does: 5 s, and the way.
const ANSWERED_WITHIN: Duration = Duration::from_secs(6);
/// How long what is left may take at the end.
const DRAINS_WITHIN: Duration = Duration::from_secs(90);

/// Three nodes under load.
struct World {
    cluster: Cluster,
    load: Load,
    rng: Rng,
    _place: SemaphorePermit<'static>,
}

impl World {
    async fn start(kind: Kind) -> Option<World> {
        // Not all at once, where tests share a process.
        static PLACES: Semaphore = Semaphore::const_new(2);
        let place = PLACES.acquire().await.unwrap();
        let mut rng = Rng::with_seed(seed());
        let settings = ["--set", "log.level=warn", "--set", "server.grace_ms=5000"];
        let cluster = Cluster::start(kind, NODES, &settings).await?;
        cluster.client(0).register(&load::policy(ATTEMPT_TIMEOUT)).await;
        let load = Load::start(&cluster, 2, rng.fork()).await;
        Some(World { cluster, load, rng, _place: place })
    }

    /// Waits until so many more tasks were acknowledged.
    async fn until_acked(&self, more: usize) {
        let enough = self.load.acked() + more;
        wait_until(stretched(DRAINS_WITHIN), "tasks are acknowledged", async || {
            (self.load.acked() >= enough).then_some(())
        })
        .await;
    }

    /// Waits until a node has refused a post because of the store, since then.
    async fn until_refused(&self, node: usize, since: Instant) {
        let refused = Answer::Refused("store_unavailable".to_owned());
        wait_until(stretched(2 * ANSWERED_WITHIN), "posts are refused", async || {
            let posts = self.load.posts(since, Instant::now());
            posts.iter().any(|post| post.node == node && post.answer == refused).then_some(())
        })
        .await;
    }

    /// Waits until a node has taken a post, since then.
    async fn until_taken(&self, node: usize, since: Instant, within: Duration) {
        wait_until(stretched(within), "posts are taken", async || {
            let posts = self.load.posts(since, Instant::now());
            posts
                .iter()
                .any(|post| post.node == node && post.answer == Answer::Stored)
                .then_some(())
        })
        .await;
    }

    /// Waits until a node has answered so many posts, since then.
    async fn until_answered(&self, node: usize, since: Instant, count: usize) {
        wait_until(stretched(2 * ANSWERED_WITHIN), "posts are answered", async || {
            let posts = self.load.posts(since, Instant::now());
            let answered = posts.iter().filter(|post| post.node == node).count();
            (answered >= count).then_some(())
        })
        .await;
    }

    /// Every post of this time was answered, and in time.
    fn assert_answered(&self, from: Instant, until: Instant) {
        let within = stretched(ANSWERED_WITHIN);
        let posts = self.load.posts(from, until);
        let slow = posts
            .iter()
            .find(|post| post.took > within || matches!(post.answer, Answer::Nothing(_)));
        assert!(slow.is_none(), "not answered, or not in time: {slow:?}");
    }

    /// Stops the producers, lets everything finish, and checks it.
    async fn end(&mut self, scenario: &str) -> Figures {
        self.load.stop().await;
        let client = self.cluster.client(0);
        let stopped = Instant::now();
        wait_until(stretched(DRAINS_WITHIN), "every task ends", async || {
            let open = client.get("/retry-tasks?status=PENDING,IN_FLIGHT&limit=1").await;
            let open = (open.status == 200).then(|| open.json())?;
            open["items"].as_array().unwrap().is_empty().then_some(())
        })
        .await;
        let drained = stopped.elapsed().as_secs_f64();
        let places = self.cluster.places();
        let nodes: Vec<_> = (0..NODES).map(|node| places.of(node)).collect();
        let tasks = check::tasks(&nodes).await;
        let seen = self.load.target.seen();
        let (mut figures, unanswered) = self
            .load
            .with_journal(|journal| (check::check(journal, &tasks, &seen), journal.unanswered));
        for node in 0..NODES {
            figures.stale += self.cluster.metrics(node).await.sum("retry_stale_results_total");
        }
        println!("{scenario}: {figures}, {unanswered} posts unanswered, drained in {drained:.1} s");
        figures
    }
}

/// So many times; more in a long run.
fn rounds(usual: usize) -> usize {
    setting("RELENT_TEST_FAULT_ROUNDS", usual)
}

/// Nobody took an attempt over before its lease had ended, and somebody did soon after; or soon after
/// the fault that kept everybody from it, if the lease ended during one. Faults are told by when they
/// began and were over, in milliseconds since the epoch.
fn assert_taken_over_in_time(figures: &Figures, faults: &[(f64, f64)]) {
    let [lease, soon] = [LEASE, stretched(NOTICED_WITHIN)].map(|time| time.as_secs_f64() * 1_000.0);
    for lost in &figures.abandoned {
        assert!(lost.noticed_after() >= lease - 2.0, "before its lease ended: {lost:?}");
        let lease_ended = lost.claimed_at + lease;
        let during =
            faults.iter().find(|(began, over)| (*began - soon..*over).contains(&lease_ended));
        let by = during.map_or(lease_ended, |(_, over)| *over) + soon;
        assert!(lost.taken_over_at <= by, "{} ms late: {lost:?}", lost.taken_over_at - by);
    }
}

/// Each scenario on each store.
macro_rules! on_every_store {
    ($($module:ident::$scenario:ident as $name:ident;)*) => {
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$module::$scenario(super::Kind::Postgres).await;
            })*
        }

        mod redis {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$module::$scenario(super::Kind::Redis).await;
            })*
        }
    };
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_transaction_rolls_back_is_never_sent() {
    transactions::committed_or_not(Kind::Postgres).await;
}

on_every_store! {
    nodes::killed as killed_nodes_lose_nothing_and_others_take_over;
    nodes::stopped as a_node_that_wakes_after_its_leases_ended_changes_nothing;
    nodes::replaced as nodes_are_replaced_without_anybody_noticing;
    stores::restarted as a_store_that_was_restarted_or_killed_has_everything;
    network::broken_for_one as a_node_that_is_cut_off_harms_nobody_else;
    network::stopped_without_store as a_node_without_its_store_can_be_stopped;
    network::broken_for_all as nodes_without_their_store_refuse_and_recover;
}
