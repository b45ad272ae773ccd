//! Who is measured, with everything it needs: a server, and nodes of the service or workers of a peer.

use std::fmt;
use std::fs;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde_json::json;

use super::Stage;
use super::peer::{Peer, PeerProcess};
use super::server::{Counting, Server, StoreKind};
use crate::bench::figures::quantile;
use crate::bench::http::Connection;
use crate::bench::intake::{CONNECTIONS, Posting};
use crate::bench::requests::{Due, Request, Task};
use crate::bench::service::{Service, own_cpu_seconds, own_cpu_seconds_of};
use crate::bench::sink;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    Relent,
    Peer(Peer),
}

/// Who is measured, and in how many processes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) who: Who,
    pub(super) store: StoreKind,
    /// Nodes of the service, or workers of a peer.
    pub(super) nodes: u64,
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.nodes == 1 { "" } else { "s" };
        match self.who {
            who if self.nodes == 0 => write!(f, "{who}"),
            Who::Relent => write!(f, "relent, {} node{plural}", self.nodes),
            Who::Peer(peer) => write!(f, "{peer}, {} worker{plural}", self.nodes),
        }
    }
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Who::Relent => f.write_str("relent"),
            Who::Peer(peer) => write!(f, "{peer}"),
        }
    }
}

/// See the module's head.
#[derive(Debug)]
pub(super) struct Team<'s> {
    stage: &'s Stage,
    entry: Entry,
    // These go before what they are connected to.
    services: Vec<Service>,
    workers: Vec<PeerProcess>,
    pub(super) server: Server,
}

/// What came of adding tasks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Added {
    pub(super) seconds: f64,
    pub(super) ack_p50: f64,
    pub(super) ack_p99: f64,
    /// CPU time of whoever added them, in seconds.
    pub(super) cpu: f64,
}

/// CPU time since the start, in seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cpu {
    pub(super) store: f64,
    /// Nodes or workers.
    pub(super) nodes: f64,
}

impl Stage {
    /// Who takes part on a store: the service, and the peers if they were asked for.
    pub(super) fn entries(&self, store: StoreKind, nodes: &[u64]) -> Vec<Entry> {
        let peers = Peer::on(store).iter().filter(|_| self.peers.is_some());
        let all = [Who::Relent].into_iter().chain(peers.map(|peer| Who::Peer(*peer)));
        let is_meant = |who: &Who| match &self.options.only {
            Some(name) => who.to_string() == *name,
            None => true,
        };
        all.filter(is_meant)
            .flat_map(|who| nodes.iter().map(move |nodes| Entry { who, store, nodes: *nodes }))
            .collect()
    }

    /// A fresh server, and nodes or workers that are ready.
    pub(super) fn team(&self, entry: Entry, sink: SocketAddr) -> Result<Team<'_>> {
        self.counted_team(entry, sink, Counting::Nothing)
    }

    pub(super) fn counted_team(
        &self,
        entry: Entry,
        sink: SocketAddr,
        counting: Counting,
    ) -> Result<Team<'_>> {
        let server = self.server(entry.store, counting)?;
        let url = server.url();
        let (mut services, mut workers) = (Vec::new(), Vec::new());
        for node in 0..entry.nodes {
            match entry.who {
                Who::Relent => {
                    let data = self.directory.join(format!("node-{node}"));
                    fs::create_dir(&data)?;
                    services.push(Service::on(&self.binary, &url, &data)?);
                }
                Who::Peer(peer) => {
                    let peers = self.peers.as_ref().context("the peers are not installed")?;
                    workers.push(peers.worker(peer, &url, sink)?);
                }
            }
        }
        Ok(Team { stage: self, entry, server, services, workers })
    }
}

impl Team<'_> {
    pub(super) fn addresses(&self) -> Vec<SocketAddr> {
        self.services.iter().map(|service| service.address).collect()
    }

    /// Adds tasks one by one, 64 at a time.
    pub(super) async fn add(&self, task: Task, first: u64, tasks: u64) -> Result<Added> {
        match self.entry.who {
            Who::Relent => {
                let request = Request::one(task);
                let posting = Posting { request, connections: CONNECTIONS, first, tasks };
                let before = generator_cpu_seconds()?;
                let posted = posting.spread(&self.addresses(), |_| 0).await?;
                Ok(Added {
                    seconds: posted.took.as_secs_f64(),
                    ack_p50: quantile(&posted.ack_millis, 0.5),
                    ack_p99: quantile(&posted.ack_millis, 0.99),
                    cpu: generator_cpu_seconds()? - before,
                })
            }
            Who::Peer(peer) => {
                let settings = json!({"callers": CONNECTIONS, "first": first, "tasks": tasks});
                self.produce(peer, "produce", settings)
            }
        }
    }

    /// Adds tasks in bulk: the first is due at this time, the others one after the other.
    pub(super) async fn schedule(
        &self,
        target: SocketAddr,
        (first, tasks): (u64, u64),
        (begins_at, every_millis): (u64, u64),
    ) -> Result<f64> {
        match self.entry.who {
            Who::Relent => {
                let task = Task { target, due: Due::At, headers: false };
                let request = Request::batch(task, 500);
                let posting = Posting { request, connections: 1, first, tasks };
                let due_at = move |number| begins_at + (number - first) * every_millis;
                Ok(posting.spread(&self.addresses(), due_at).await?.took.as_secs_f64())
            }
            Who::Peer(peer) => {
                let settings = json!({
                    "first": first, "tasks": tasks,
                    "beginsAt": begins_at, "everyMillis": every_millis,
                });
                Ok(self.produce(peer, "schedule", settings)?.seconds)
            }
        }
    }

    fn produce(&self, peer: Peer, role: &str, settings: serde_json::Value) -> Result<Added> {
        let peers = self.stage.peers.as_ref().context("the peers are not installed")?;
        let mut producer = peers.producer(peer, role, &self.server.url(), settings)?;
        let before = producer.cpu_seconds()?;
        let came = producer.result()?;
        let cpu = producer.cpu_seconds()? - before;
        let figure = |name: &str| came[name].as_f64().unwrap_or(f64::NAN);
        let (ack_p50, ack_p99) = (figure("ackP50"), figure("ackP99"));
        Ok(Added { seconds: figure("seconds"), ack_p50, ack_p99, cpu })
    }

    pub(super) fn cpu(&self) -> Result<Cpu> {
        let mut nodes = 0.0;
        for service in &self.services {
            nodes += service.cpu_seconds()?;
        }
        for worker in &self.workers {
            nodes += worker.cpu_seconds()?;
        }
        Ok(Cpu { store: self.server.cpu_seconds()?, nodes })
    }

    /// Waits until every task is recorded as delivered.
    pub(super) async fn recorded(&self, tasks: u64) -> Result<()> {
        let asked_at = Instant::now();
        loop {
            let ended = self.ended(tasks).await?;
            if ended == tasks {
                return Ok(());
            }
            if asked_at.elapsed() > Duration::from_secs(20) {
                bail!("{ended} of {tasks} tasks are recorded");
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn ended(&self, tasks: u64) -> Result<u64> {
        let mut ended = 0;
        for address in self.addresses() {
            let page = Connection::open(address).await?.get("/metrics").await?;
            let line =
                page.lines().find_map(|line| line.strip_prefix("retry_task_age_seconds_count "));
            ended += line.and_then(|count| count.parse().ok()).unwrap_or(0);
        }
        let left = match (&self.server, self.entry.who) {
            (_, Who::Relent) => return Ok(ended),
            (Server::Postgres(server), Who::Peer(Peer::PgBoss)) => {
                server.query("SELECT count(*) FROM pgboss.job WHERE state < 'completed'")?
            }
            (Server::Postgres(server), _) => {
                server.query("SELECT count(*) FROM graphile_worker.jobs")?
            }
            (Server::Redis(server), _) => server.ask(&["LLEN", "bull:bench:active"])?,
        };
        let left: u64 = left.parse().with_context(|| format!("expected a count, got `{left}`"))?;
        Ok(tasks.saturating_sub(left))
    }
}

/// CPU time of what adds tasks to the service: this process without its sinks.
fn generator_cpu_seconds() -> Result<f64> {
    Ok(own_cpu_seconds()? - own_cpu_seconds_of(sink::THREAD)?)
}
