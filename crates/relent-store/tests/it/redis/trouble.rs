//! What can happen to a Redis, and what must not come of it. REQ-S3, REQ-S4, REQ-S7.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use relent_policy::Turn;
use relent_store::{
    Enqueued, Error, NewTask, Recorded, RedisConnectError, RedisOptions, Severity, State, Store,
    StoredRequest, Survives, TaskFilter, TaskId, Tasks, Upkeep, WaitFor,
};
use tokio::task::JoinSet;

use super::server::Server;
use super::{Prefix, is_there};
use crate::nodes::{Cluster, Place as _, survive_cuts};
use crate::world::{SECOND, created, success};

async fn one_node(server: &Server) -> Cluster<Prefix> {
    Cluster::new(Prefix::at(server.url()), 1, Prefix::alone).await
}

fn expect_unavailable<T: std::fmt::Debug>(answer: Result<T, Error>, because: &str) {
    match answer {
        Err(Error::Unavailable(text)) if text.contains(because) => {}
        other => panic!("expected to hear of `{because}`, got {other:?}"),
    }
}

#[tokio::test]
async fn forgotten_scripts_are_sent_again() {
    if !is_there() {
        return;
    }
    let server = Server::start(&[]);
    let cluster = one_node(&server).await;
    let node = &cluster.nodes[0];
    for _ in 0..3 {
        let id = created(node.enqueue(&cluster.tenant, vec![cluster.task()]).await.unwrap()[0]);
        server.ask::<String>(&["SCRIPT", "FLUSH"]);
        let claimed = node.claim(cluster.wants(Turn::First, 1)).await.unwrap().claimed.remove(0);
        assert_eq!(claimed.lease.task, id);
        server.ask::<String>(&["SCRIPT", "FLUSH"]);
        let recorded = node.record(vec![success(&claimed, node.now())]).await;
        assert_eq!(recorded, Ok(vec![Recorded::Applied]));
    }
}

#[tokio::test]
async fn flushed_data_is_refused_until_the_loss_is_accepted() {
    if !is_there() {
        return;
    }
    let server = Server::start(&[]);
    let cluster = one_node(&server).await;
    let (node, tenant) = (&cluster.nodes[0], &cluster.tenant);
    let id = created(node.enqueue(tenant, vec![cluster.keyed("a")]).await.unwrap()[0]);
    server.ask::<String>(&["FLUSHALL"]);
    for _ in 0..2 {
        expect_unavailable(node.enqueue(tenant, vec![cluster.keyed("a")]).await, "replaced");
        expect_unavailable(node.claim(cluster.wants(Turn::First, 1)).await, "replaced");
        expect_unavailable(node.task(tenant, id).await, "replaced");
        expect_unavailable(node.list(tenant, TaskFilter::default(), None, 9).await, "replaced");
        expect_unavailable(node.sweep(9).await, "replaced");
        expect_unavailable(node.check().await, "replaced");
    }
    assert_eq!(server.ask::<i64>(&["DBSIZE"]), 0, "nothing was written into the emptiness");
    node.accept_data_loss().await.unwrap();
    assert_eq!(node.task(tenant, id).await, Ok(None));
    assert_eq!(node.check().await, Ok(()));
}

#[tokio::test]
async fn a_node_does_not_mix_its_data_with_anothers() {
    if !is_there() {
        return;
    }
    let server = Server::start(&[]);
    let cluster = one_node(&server).await;
    server.ask::<String>(&["FLUSHALL"]);
    // Another node finds an empty Redis and makes a store.
    let other = server.connect(Prefix::alone(cluster.place.options()));
    assert_eq!(other.check().await, Ok(()));
    expect_unavailable(cluster.nodes[0].check().await, "replaced");
    cluster.nodes[0].accept_data_loss().await.unwrap();
    assert_eq!(other.check().await, Ok(()), "they share it now");
    assert_eq!(cluster.nodes[0].check().await, Ok(()));
}

#[test]
fn a_part_of_a_cluster_that_lost_its_data_is_noticed_at_the_start() {
    if !is_there() {
        return;
    }
    let prefix = Prefix::in_cluster();
    drop(prefix.connect(Prefix::alone(prefix.options())));
    let lost = format!("{{{}:3}}:e", prefix.name);
    assert_eq!(prefix.ask::<i64>(&["DEL", &lost], &lost), 1);
    let refused = prefix.try_connect(Prefix::alone(prefix.options()));
    assert!(matches!(refused, Err(RedisConnectError::Reset { .. })), "{refused:?}");
    let accepting = RedisOptions { accept_data_loss: true, ..Prefix::alone(prefix.options()) };
    drop(prefix.connect(accepting));
    drop(prefix.connect(Prefix::alone(prefix.options())));
}

#[test]
fn settings_that_lose_tasks_are_refused() {
    if !is_there() {
        return;
    }
    let cases: [(&[&str], &str); 4] = [
        (&["--maxmemory-policy", "allkeys-lru"], "maxmemory-policy"),
        (&["--maxmemory-policy", "volatile-ttl"], "maxmemory-policy"),
        (&["--appendonly", "no"], "appendonly"),
        (&["--appendfsync", "no"], "appendfsync"),
    ];
    for (settings, name) in cases {
        let server = Server::start(settings);
        match server.try_connect(RedisOptions::default()) {
            Err(RedisConnectError::Dangerous(found)) => {
                assert_eq!(found.iter().map(|danger| danger.name).collect::<Vec<_>>(), [name]);
            }
            other => panic!("{settings:?}: {other:?}"),
        }
        assert_eq!(server.ask::<i64>(&["DBSIZE"]), 0);
        let knowing = RedisOptions { allow_danger: true, ..RedisOptions::default() };
        let store = server.connect(knowing);
        assert_eq!(store.assurance().severity(), Severity::Danger);
    }
}

#[test]
fn what_a_redis_guarantees_can_be_asked_without_opening_it() {
    if !is_there() {
        return;
    }
    let server = Server::start(&["--appendfsync", "always", "--maxmemory", "100mb"]);
    let found = relent_store::RedisStore::examine(&server.url(), &RedisOptions::default()).unwrap();
    assert_eq!((found.store, found.severity()), ("redis", Severity::Caution), "{found:?}");
    assert_eq!(
        (found.survives.store_crash, found.survives.power_loss),
        (Survives::Yes, Survives::Yes)
    );
    assert_eq!(server.ask::<i64>(&["DBSIZE"]), 0);
}

#[tokio::test]
async fn a_replica_is_refused_also_when_it_becomes_one() {
    if !is_there() {
        return;
    }
    let (master, server) = (Server::start_on_a_port(&[]), Server::start(&[]));
    let cluster = one_node(&server).await;
    let node = &cluster.nodes[0];
    node.enqueue(&cluster.tenant, vec![cluster.task()]).await.unwrap();
    let port = master.port.unwrap().to_string();
    server.ask::<String>(&["REPLICAOF", "127.0.0.1", &port]);
    assert!(node.enqueue(&cluster.tenant, vec![cluster.task()]).await.is_err());
    expect_unavailable(node.enqueue(&cluster.tenant, vec![cluster.task()]).await, "replica");
    match server.try_connect(RedisOptions::default()) {
        Err(RedisConnectError::Dangerous(found)) => assert_eq!(found[0].name, "role"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_server_that_comes_back_without_its_log_is_refused() {
    if !is_there() {
        return;
    }
    let server = Server::start(&[]);
    let cluster = one_node(&server).await;
    server.ask::<String>(&["CONFIG", "SET", "appendonly", "no"]);
    server.ask::<i64>(&["CLIENT", "KILL", "TYPE", "normal"]);
    let node = &cluster.nodes[0];
    assert!(node.enqueue(&cluster.tenant, vec![cluster.task()]).await.is_err());
    expect_unavailable(node.enqueue(&cluster.tenant, vec![cluster.task()]).await, "appendonly");
    server.ask::<String>(&["CONFIG", "SET", "appendonly", "yes"]);
    let healed =
        async { while node.enqueue(&cluster.tenant, vec![cluster.task()]).await.is_err() {} };
    tokio::time::timeout(20 * SECOND, healed).await.expect("it does not heal");
}

#[tokio::test]
async fn full_memory_refuses_new_tasks_and_lets_the_others_end() {
    if !is_there() {
        return;
    }
    let server = Server::start(&["--maxmemory", "6mb"]);
    let cluster = one_node(&server).await;
    let (node, tenant) = (&cluster.nodes[0], &cluster.tenant);
    let body = bytes::Bytes::from(vec![b'x'; 10_000]);
    let request = StoredRequest { body, ..cluster.task().request };
    let mut stored = 0;
    let refused = loop {
        assert!(stored < 10_000, "memory is never full");
        let task = NewTask { request: request.clone(), ..cluster.task() };
        match node.enqueue(tenant, vec![task]).await {
            Ok(_) => stored += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(&refused, Error::Full(text) if text.contains("maxmemory")), "{refused}");
    for _ in 0..20 {
        let claimed = node.claim(cluster.wants(Turn::First, 10)).await.unwrap().claimed;
        assert_eq!(claimed.len(), 10);
        let records = claimed.iter().map(|claimed| success(claimed, node.now())).collect();
        assert_eq!(node.record(records).await, Ok(vec![Recorded::Applied; 10]));
        let ids: Vec<TaskId> = claimed.iter().map(|claimed| claimed.lease.task).collect();
        assert_eq!(node.purge(tenant, ids).await, Ok(10));
    }
    let task = NewTask { request, ..cluster.task() };
    assert!(node.enqueue(tenant, vec![task]).await.is_ok(), "there is room again");
    // Whether it has room is what a check asks.
    assert_eq!(node.check().await, Ok(()));
    server.ask::<String>(&["CONFIG", "SET", "maxmemory", "1mb"]);
    assert!(matches!(node.check().await, Err(Error::Full(_))));
}

#[tokio::test]
async fn connections_that_are_cut_heal_and_nothing_acknowledged_is_lost() {
    if !is_there() {
        return;
    }
    let server = Server::start(&[]);
    let cut = |_: &Prefix| {
        server.ask::<i64>(&["CLIENT", "KILL", "TYPE", "normal"]);
    };
    survive_cuts(Prefix::at(server.url()), cut).await;
}

/// Kills the server in the middle of its work, again and again, and looks for what was acknowledged.
async fn survive_kills(mut server: Server, rounds: u32) -> usize {
    let cluster = Arc::new(one_node(&server).await);
    let mut told: Vec<TaskId> = Vec::new();
    for _ in 0..rounds {
        let stop = Arc::new(AtomicBool::new(false));
        let mut callers = JoinSet::new();
        for _ in 0..32 {
            let (cluster, stop) = (Arc::clone(&cluster), Arc::clone(&stop));
            callers.spawn(async move {
                let mut told = Vec::new();
                while !stop.load(Ordering::SeqCst) {
                    let stored = cluster.nodes[0].enqueue(&cluster.tenant, vec![cluster.task()]);
                    match stored.await {
                        Ok(answers) => told.push(created(answers[0])),
                        Err(_) => tokio::task::yield_now().await,
                    }
                }
                told
            });
        }
        tokio::time::sleep(Duration::from_millis(fastrand::u64(300..700))).await;
        server.kill();
        stop.store(true, Ordering::SeqCst);
        server.restart();
        while let Some(some) = callers.join_next().await {
            told.extend(some.unwrap());
        }
    }
    let healed = async { while cluster.nodes[0].check().await.is_err() {} };
    tokio::time::timeout(20 * SECOND, healed).await.expect("it does not heal");
    for id in &told {
        let task = cluster.nodes[0].task(&cluster.tenant, *id).await.unwrap();
        assert_eq!(task.map(|task| task.state), Some(State::Pending), "{id} was acknowledged");
    }
    told.len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_redis_that_flushes_always_has_everything_that_was_acknowledged() {
    if !is_there() {
        return;
    }
    // On a disk.
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start_in(directory, &["--appendfsync", "always"]);
    assert!(survive_kills(server, 3).await > 100);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_redis_that_flushes_every_second_has_what_the_kernel_was_given() {
    if !is_there() {
        return;
    }
    // Redis holds its writes back while a flush is under way; in memory none is.
    let server = Server::start(&["--appendfsync", "everysec"]);
    assert!(survive_kills(server, 3).await > 100);
}

#[tokio::test]
async fn an_acknowledgement_waits_for_replicas_if_it_is_to() {
    if !is_there() {
        return;
    }
    let server = Server::start_on_a_port(&[]);
    let wait = WaitFor { replicas: 1, logged: false, timeout: Duration::from_millis(300) };
    let waiting = |options| RedisOptions { wait_for: Some(wait), ..Prefix::alone(options) };
    let cluster = Cluster::new(Prefix::at(server.url()), 1, waiting).await;
    let node = &cluster.nodes[0];
    let refused = node.enqueue(&cluster.tenant, vec![cluster.keyed("a")]).await;
    expect_unavailable(refused, "0 of 1 replicas");
    let port = server.port.unwrap().to_string();
    let replica = Server::start(&["--replicaof", "127.0.0.1", &port]);
    let synced = || replica.ask::<String>(&["INFO", "replication"]);
    while !synced().contains("master_link_status:up") {}
    let stored = async {
        loop {
            match node.enqueue(&cluster.tenant, vec![cluster.keyed("a")]).await {
                Ok(answers) => return answers[0],
                Err(Error::Unavailable(_)) => {}
                Err(other) => panic!("{other:?}"),
            }
        }
    };
    let stored = tokio::time::timeout(20 * SECOND, stored).await.unwrap();
    assert!(matches!(stored, Enqueued::Existing(_)), "it was there all the same: {stored:?}");
}

#[test]
fn waiting_for_the_log_needs_a_later_redis() {
    if !is_there() {
        return;
    }
    let server = Server::start(&[]);
    let version: String = server.ask(&["INFO", "server"]);
    let wait = WaitFor { replicas: 0, logged: true, timeout: SECOND };
    let opened =
        server.try_connect(RedisOptions { wait_for: Some(wait), ..RedisOptions::default() });
    let is_old = ["redis_version:7.0", "redis_version:7.1"].iter().any(|old| version.contains(old));
    match opened {
        Err(RedisConnectError::Unavailable(text)) => {
            assert!(is_old && text.contains("7.2"), "{text}");
        }
        Ok(_) => assert!(!is_old),
        Err(other) => panic!("{other:?}"),
    }
}

#[test]
fn data_that_is_divided_otherwise_or_newer_is_refused() {
    if !is_there() {
        return;
    }
    let prefix = Prefix::new();
    let divided = |shards| RedisOptions { shards: Some(shards), ..Prefix::alone(prefix.options()) };
    drop(prefix.connect(divided(4)));
    match prefix.try_connect(divided(5)) {
        Err(RedisConnectError::Shards { found: 4, asked: 5, .. }) => {}
        other => panic!("{other:?}"),
    }
    drop(prefix.connect(Prefix::alone(prefix.options())));
    assert!(matches!(prefix.try_connect(divided(0)), Err(RedisConnectError::BadShards(0))));
    let meta = format!("{{{}:0}}:meta", prefix.name);
    prefix.ask::<i64>(&["HSET", &meta, "version", "999"], &meta);
    let refused = prefix.try_connect(Prefix::alone(prefix.options()));
    assert!(matches!(refused, Err(RedisConnectError::Newer { found: 999, .. })), "{refused:?}");
}
