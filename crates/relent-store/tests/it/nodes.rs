//! Several nodes on one store: the facts that hold on every store that nodes can share.
//!
//! A fact is a function that gets a fresh [`Place`]. It is listed here once, and run on each.
//! REQ-S3, REQ-S4, REQ-S7.

mod members;
mod working;

use std::sync::Arc;

use relent_policy::{Repeatable, Timestamp, Turn};
use relent_store::{
    DueListener, FirstAttempt, LaneDue, LaneId, Lanes as _, NewTask, Policies as _, PolicyKey,
    Store, TaskFilter, TaskId, Tasks as _, TenantId, Want,
};
use tokio::sync::mpsc;

pub(crate) use working::survive_cuts;

use crate::backend::Clock;
use crate::world::{HOUR, key, policy, request};

/// What tells the time to a node.
pub(crate) type Reading = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Where nodes meet: a schema, a prefix. What they left there is gone with the value.
pub(crate) trait Place {
    type Options;
    type Node: Store + 'static;

    fn options(&self) -> Self::Options;

    fn connect(&self, options: Self::Options) -> Self::Node;

    /// The same for a node that does not listen to the others.
    fn alone(options: Self::Options) -> Self::Options;

    /// The same for a node on this clock.
    fn on_clock(options: Self::Options, clock: Reading) -> Self::Options;
}

/// Nodes that share a place, a tenant, a policy and a lane.
pub(crate) struct Cluster<P: Place> {
    pub(crate) nodes: Vec<Arc<P::Node>>,
    pub(crate) tenant: TenantId,
    pub(crate) policy: PolicyKey,
    pub(crate) lane: LaneId,
    pub(crate) place: P,
}

impl<P: Place> Cluster<P> {
    pub(crate) async fn new(
        place: P,
        nodes: usize,
        options: impl Fn(P::Options) -> P::Options,
    ) -> Cluster<P> {
        let connect = |_| Arc::new(place.connect(options(place.options())));
        let nodes: Vec<_> = (0..nodes).map(connect).collect();
        let (tenant, first) = (TenantId::default_tenant(), &nodes[0]);
        let policy = first.put_policy(&tenant, policy("webhooks", "{}")).await.unwrap().key;
        let lane = first.open_lane(&tenant, "api.example.com", policy).await.unwrap().id;
        Cluster { nodes, tenant, policy, lane, place }
    }

    /// Nodes on a clock that the test moves.
    pub(crate) async fn clocked(place: P, nodes: usize) -> (Cluster<P>, Clock) {
        let clock = Clock::new();
        let on_clock = |options| P::on_clock(P::alone(options), clock.reading());
        (Cluster::new(place, nodes, on_clock).await, clock)
    }

    pub(crate) fn task(&self) -> NewTask {
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

    pub(crate) fn keyed(&self, name: &str) -> NewTask {
        NewTask { key: Some(key(name)), ..self.task() }
    }

    pub(crate) fn wants(&self, turn: Turn, max: u32) -> Vec<Want> {
        vec![Want::due(self.lane, turn, max)]
    }

    pub(crate) async fn stored(&self) -> Vec<TaskId> {
        let list = self.nodes[0].list(&self.tenant, TaskFilter::default(), None, 10_000);
        list.await.unwrap().items.iter().map(|task| task.id).collect()
    }
}

/// Passes on what a node hears.
pub(crate) struct Told(pub(crate) mpsc::UnboundedSender<LaneDue>);

impl DueListener for Told {
    fn due(&self, dues: &[LaneDue]) {
        for due in dues {
            let _ = self.0.send(*due);
        }
    }
}

macro_rules! facts {
    ($($about:ident { $($fact:ident)+ })+) => {
        facts! { @on postgres crate::postgres::Schema::new, $($about { $($fact)+ })+ }
        facts! { @on postgres_pooled crate::postgres::Schema::pooled, $($about { $($fact)+ })+ }
        facts! { @on redis crate::redis::Prefix::new, $($about { $($fact)+ })+ }
        facts! { @on redis_cluster crate::redis::Prefix::in_cluster, $($about { $($fact)+ })+ }
    };
    (@on $store:ident $place:path, $($about:ident { $($fact:ident)+ })+) => {
        mod $store {$(
            mod $about {$(
                #[tokio::test]
                async fn $fact() {
                    if crate::contract::is_there(stringify!($store)) {
                        crate::nodes::$about::$fact($place()).await;
                    }
                }
            )+}
        )+}
    };
}

facts! {
    working {
        eight_nodes_never_claim_a_task_twice_nor_more_than_they_want
        the_same_key_on_several_nodes_at_once_is_one_task
        batches_with_the_same_keys_on_several_nodes_are_stored_whole_or_not_at_all
        a_stale_owner_is_fenced_when_another_node_has_taken_over
        what_a_node_held_when_it_was_closed_is_taken_over_at_once
        a_node_hears_of_what_another_stores
        a_node_that_cannot_listen_looks
        a_node_that_joins_finds_the_work_within_a_second
        what_another_node_made_is_known
        nodes_that_start_together_make_one_store
    }
    members {
        nodes_divide_the_work_among_those_that_are_there
        what_one_node_changes_the_others_hear
        of_many_nodes_that_want_to_probe_one_may
    }
}
