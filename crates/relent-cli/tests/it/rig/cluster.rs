//! Nodes of the service that share a store, each with a network of its own to it.

use std::net::SocketAddr;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use serde_json::json;

use super::proxy::{Fault, Proxy};
use super::{Client, Kind, Relent, SOON, StoreServer, stretched, wait_until};

/// Nodes, and what is between them and their store. Dropped, all of it is gone.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) nodes: Vec<Node>,
    pub(crate) store: StoreServer,
    places: Places,
}

#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) relent: Relent,
    proxy: Proxy,
}

/// Where the nodes are to be found at present. A node that was started again is somewhere else.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places(Arc<RwLock<Vec<SocketAddr>>>);

impl Places {
    pub(crate) fn of(&self, node: usize) -> SocketAddr {
        self.0.read().unwrap()[node]
    }
}

impl Cluster {
    /// So many nodes on a fresh store, each with these arguments to `serve`. `None` where tests that
    /// need servers are not run.
    pub(crate) async fn start(kind: Kind, nodes: usize, arguments: &[&str]) -> Option<Cluster> {
        let store = StoreServer::start(kind).await?;
        let mut cluster = Cluster { nodes: Vec::new(), store, places: Places::default() };
        for _ in 0..nodes {
            cluster.add(arguments).await;
        }
        Some(cluster)
    }

    /// One node more; its number.
    pub(crate) async fn add(&mut self, arguments: &[&str]) -> usize {
        let proxy = Proxy::to(self.store.socket()).await;
        let mut all = self.store.arguments(proxy.address);
        all.extend(arguments.iter().map(ToString::to_string));
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        let relent = Relent::start_with(&all).await;
        self.places.0.write().unwrap().push(relent.address);
        self.nodes.push(Node { relent, proxy });
        self.nodes.len() - 1
    }

    pub(crate) fn places(&self) -> Places {
        self.places.clone()
    }

    /// A client of one node.
    pub(crate) fn client(&self, node: usize) -> Client {
        self.nodes[node].relent.client()
    }

    /// Starts a node again, after it has ended.
    pub(crate) async fn restart(&mut self, node: usize) {
        let relent = &mut self.nodes[node].relent;
        relent.restart().await;
        self.places.0.write().unwrap()[node] = relent.address;
    }

    /// What is wrong between one node and the store.
    pub(crate) fn fault(&self, node: usize, fault: Fault) {
        self.nodes[node].proxy.set(fault);
    }

    /// Waits until a node says that it can be used.
    pub(crate) async fn until_ready(&self, node: usize, within: Duration) {
        let client = self.client(node);
        wait_until(stretched(within), "the node is ready", async || {
            (client.get("/readyz").await.status == 200).then_some(())
        })
        .await;
    }

    /// Waits until a node says that it cannot be used, because of its store; it lives all the same.
    pub(crate) async fn until_unready(&self, node: usize) {
        let client = self.client(node);
        wait_until(stretched(SOON), "the node says that it is not ready", async || {
            let ready = client.get("/readyz").await;
            (ready.status == 503).then(|| assert_eq!(ready.problem(503), "store_unavailable"))
        })
        .await;
        assert_eq!(client.get("/livez").await.status, 200);
    }

    /// Sets how many attempts of a lane may be in flight, and waits until every node knows.
    pub(crate) async fn limit(&self, lane: &str, in_flight_max: usize) {
        let (path, limits) = (format!("/lanes/{lane}"), json!({"inFlightMax": in_flight_max}));
        self.client(0).put(&format!("{path}/limits"), &limits).await.expect(200);
        for node in 0..self.nodes.len() {
            let client = self.client(node);
            wait_until(SOON, "the limit is known on every node", async || {
                let lane = client.get(&path).await.expect(200);
                (lane["limits"]["inFlightMax"] == in_flight_max).then_some(())
            })
            .await;
        }
    }

    /// What a node counts.
    pub(crate) async fn metrics(&self, node: usize) -> Metrics {
        Metrics::of(&self.client(node)).await
    }
}

/// What a node counts, by name.
#[derive(Debug)]
pub(crate) struct Metrics(String);

impl Metrics {
    pub(crate) async fn of(client: &Client) -> Metrics {
        Metrics(client.get("/metrics").await.text())
    }

    /// The sum over all labels; 0 if there is none.
    pub(crate) fn sum(&self, name: &str) -> f64 {
        let of_name = |line: &&str| {
            let rest = line.strip_prefix(name);
            rest.is_some_and(|rest| rest.starts_with([' ', '{']))
        };
        let values = self.0.lines().filter(of_name);
        values.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
    }
}
