//! A replica that takes over, and has not received everything. REQ-G4, REQ-S4, REQ-S7.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use relent_policy::{Breaker, BreakerRules, Turn};
use relent_store::{
    BreakerSwap, BreakerSwapped, Error, LaneChange, Lanes as _, Nodes as _, RedisOptions, TaskId,
    Tasks as _, Upkeep as _, WaitFor,
};
use tempfile::TempDir;

use super::server::Server;
use super::{Prefix, is_there};
use crate::nodes::{Cluster, Place as _};
use crate::world::{SECOND, created};

/// A master, its replica, and the one address under which nodes know whoever is the master.
struct Pair {
    master: Server,
    replica: Server,
    directory: TempDir,
}

impl Pair {
    fn start() -> Pair {
        let master = Server::start_on_a_port(&["--repl-diskless-sync-delay", "0"]);
        let port = master.port.unwrap().to_string();
        let replica = Server::start(&["--replicaof", "127.0.0.1", &port]);
        let pair = Pair { master, replica, directory: tempfile::tempdir().unwrap() };
        symlink(pair.master.socket(), pair.address()).unwrap();
        pair.until_replica_has_all();
        pair
    }

    fn address(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    fn prefix(&self) -> Prefix {
        Prefix::at(format!("redis+unix://{}", self.address().display()))
    }

    fn until_replica_has_all(&self) {
        let offset = |server: &Server, name: &str| {
            let info: String = server.ask(&["INFO", "replication"]);
            let line = info.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
            (info.contains("master_link_status:up"), line)
        };
        let deadline = std::time::Instant::now() + 20 * SECOND;
        loop {
            let (_, wanted) = offset(&self.master, "master_repl_offset:");
            let (is_up, has) = offset(&self.replica, "slave_repl_offset:");
            if is_up && has == wanted {
                return;
            }
            assert!(std::time::Instant::now() < deadline, "the replica has {has:?} of {wanted:?}");
        }
    }

    /// The replica receives nothing more.
    fn part(&self) {
        self.until_replica_has_all();
        self.replica.ask::<String>(&["REPLICAOF", "NO", "ONE"]);
    }

    /// The master is gone, and the replica has taken over.
    fn fail_over(&mut self) {
        self.replica.ask::<String>(&["REPLICAOF", "NO", "ONE"]);
        self.master.kill();
        fs::remove_file(self.address()).unwrap();
        symlink(self.replica.socket(), self.address()).unwrap();
    }
}

async fn until_healed(cluster: &Cluster<Prefix>) {
    let healed = async {
        for node in &cluster.nodes {
            while node.check().await.is_err() {}
        }
    };
    tokio::time::timeout(20 * SECOND, healed).await.expect("it does not heal");
}

#[tokio::test]
async fn what_waited_for_a_replica_is_there_when_that_takes_over() {
    if !is_there() {
        return;
    }
    let mut pair = Pair::start();
    let wait = WaitFor { replicas: 1, logged: false, timeout: SECOND };
    let waiting = |options| RedisOptions { wait_for: Some(wait), ..Prefix::alone(options) };
    let cluster = Cluster::new(pair.prefix(), 1, waiting).await;
    let (node, tenant) = (&cluster.nodes[0], &cluster.tenant);
    let (mut told, mut refused) = (Vec::new(), 0);
    while told.len() < 50 {
        match node.enqueue(tenant, vec![cluster.task()]).await {
            Ok(answers) => told.push(created(answers[0])),
            Err(Error::Unavailable(_)) => refused += 1,
            Err(other) => panic!("{other:?}"),
        }
        assert!(refused <= 10, "the replica answers too late");
    }
    pair.part();
    let alone = node.enqueue(tenant, vec![cluster.task()]).await;
    assert!(matches!(alone, Err(Error::Unavailable(_))), "nobody else has it: {alone:?}");
    pair.fail_over();
    until_healed(&cluster).await;
    let claimed = node.claim(cluster.wants(Turn::First, 100)).await.unwrap().claimed;
    let is_there = |id: &TaskId| claimed.iter().any(|claimed| claimed.lease.task == *id);
    assert!(told.iter().all(is_there), "{} of {}", claimed.len(), told.len());
}

#[tokio::test]
async fn changes_that_a_failover_forgot_hide_none_that_come_after() {
    if !is_there() {
        return;
    }
    let mut pair = Pair::start();
    let cluster = Cluster::new(pair.prefix(), 2, Prefix::alone).await;
    let [here, there] = [&cluster.nodes[0], &cluster.nodes[1]];
    let pause = async |paused| {
        let change = LaneChange::Paused(paused);
        there.change_lane(&cluster.tenant, cluster.lane, change).await.unwrap().unwrap();
    };
    here.beat(true).await.unwrap();
    pair.part();
    for _ in 0..3 {
        pause(true).await;
        pause(false).await;
        here.beat(true).await.unwrap();
    }
    pair.fail_over();
    until_healed(&cluster).await;
    pause(true).await;
    let heard = here.beat(true).await.unwrap().lanes;
    let heard: Vec<_> = heard.iter().map(|lane| (lane.id, lane.settings.paused)).collect();
    assert_eq!(heard, [(cluster.lane, true)]);
    assert_eq!(here.beat(true).await.unwrap().lanes.len(), 0, "and hears of it once");
}

#[tokio::test]
async fn a_breaker_that_a_failover_set_back_is_told_to_whoever_knew_better() {
    if !is_there() {
        return;
    }
    let mut pair = Pair::start();
    let cluster = Cluster::new(pair.prefix(), 2, Prefix::alone).await;
    let (node, lane) = (&cluster.nodes[0], cluster.lane);
    let breaker = Breaker::new(BreakerRules::default()).snapshot();
    let swap = async |seen| {
        node.swap_breakers(vec![BreakerSwap { lane, seen, breaker }]).await.unwrap()[0]
    };
    assert_eq!(swap(0).await, BreakerSwapped::Done { revision: 1 });
    pair.part();
    assert_eq!(swap(1).await, BreakerSwapped::Done { revision: 2 });
    node.beat(true).await.unwrap();
    pair.fail_over();
    until_healed(&cluster).await;
    let lost = BreakerSwapped::Lost { revision: 1, breaker: Some(breaker) };
    assert_eq!(swap(2).await, lost);
    let heard = node.beat(true).await.unwrap().lanes;
    assert_eq!(heard.iter().map(|lane| lane.breaker_revision).collect::<Vec<_>>(), [1]);
}
