//! How a Redis is reached: plain, through TLS, in a Cluster whose slots move. REQ-S7.

use std::fs;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use relent_policy::Turn;
use relent_store::{Error, RedisConnectError, RedisOptions, RedisStore, Tasks, Upkeep};

use super::server::Server;
use super::{Prefix, ask, is_there, servers};
use crate::nodes::{Cluster, Place as _};
use crate::world::{SECOND, created};

#[tokio::test]
async fn a_port_is_as_good_as_a_socket() {
    if !is_there() {
        return;
    }
    let server = Server::start_on_a_port(&[]);
    let url = format!("redis://127.0.0.1:{}/0", server.port.unwrap());
    let store = RedisStore::connect(&url, RedisOptions::default()).unwrap();
    assert_eq!(store.check().await, Ok(()));
}

#[test]
fn a_password_is_asked_for() {
    if !is_there() {
        return;
    }
    let server = Server::start_on_a_port(&[]);
    let port = server.port.unwrap();
    server.ask::<String>(&["CONFIG", "SET", "requirepass", "secret"]);
    let connect = |user: &str| {
        RedisStore::connect(&format!("redis://{user}127.0.0.1:{port}"), RedisOptions::default())
    };
    assert!(matches!(connect(""), Err(RedisConnectError::Unavailable(_))));
    assert!(matches!(connect(":wrong@"), Err(RedisConnectError::Unavailable(_))));
    assert!(connect(":secret@").is_ok());
}

#[tokio::test]
async fn tls_is_verified() {
    if !is_there() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name);
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    let own_key = KeyPair::generate().unwrap();
    let own = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let own = own.signed_by(&own_key, &authority).unwrap();
    fs::write(file("ca.pem"), authority.pem()).unwrap();
    fs::write(file("own.pem"), own.pem()).unwrap();
    fs::write(file("key.pem"), own_key.serialize_pem()).unwrap();
    let path = |name: &str| file(name).display().to_string();
    let (ca, own, key) = (path("ca.pem"), path("own.pem"), path("key.pem"));
    let server = Server::start_on_a_port(&[
        "--tls-ca-cert-file",
        &ca,
        "--tls-cert-file",
        &own,
        "--tls-key-file",
        &key,
        "--tls-auth-clients",
        "no",
        "--tls-port",
    ]);
    let port = server.port.unwrap();
    let trusting =
        || RedisOptions { root_certificates: Some(file("ca.pem")), ..RedisOptions::default() };
    let url = format!("rediss://localhost:{port}");
    let store = RedisStore::connect(&url, trusting()).unwrap();
    assert_eq!(store.check().await, Ok(()));
    let stranger = RedisStore::connect(&url, RedisOptions::default());
    assert!(matches!(stranger, Err(RedisConnectError::Unavailable(_))), "{stranger:?}");
    let other_name = format!("rediss://127.0.0.1:{port}");
    let other_name = RedisStore::connect(&other_name, trusting());
    assert!(matches!(other_name, Err(RedisConnectError::Unavailable(_))), "{other_name:?}");
}

#[tokio::test]
async fn a_shard_that_moves_to_another_server_waits_and_loses_nothing() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::new(Prefix::in_cluster(), 1, |options| RedisOptions {
        shards: Some(1),
        ..Prefix::alone(options)
    })
    .await;
    let (node, tenant) = (&cluster.nodes[0], &cluster.tenant);
    let mut ids = Vec::new();
    for _ in 0..20 {
        ids.push(created(node.enqueue(tenant, vec![cluster.task()]).await.unwrap()[0]));
    }
    let all = servers(&cluster.place.url);
    let key = format!("{{{}:0}}:e", cluster.place.name);
    let slot = ask::<i64>(&all[0], &["CLUSTER", "KEYSLOT", &key]).to_string();
    let count = |server: &String| ask::<i64>(server, &["CLUSTER", "COUNTKEYSINSLOT", &slot]);
    let from = all.iter().find(|server| count(server) > 0).unwrap();
    let to = all.iter().find(|server| count(server) == 0).unwrap();
    let name = |server: &String| ask::<String>(server, &["CLUSTER", "MYID"]);
    let (from_name, to_name) = (name(from), name(to));
    ask::<String>(to, &["CLUSTER", "SETSLOT", &slot, "IMPORTING", &from_name]);
    ask::<String>(from, &["CLUSTER", "SETSLOT", &slot, "MIGRATING", &to_name]);
    let address = to.trim_start_matches("redis://").rsplit_once(':').unwrap();
    let mut moved = 0;
    loop {
        let refused = node.claim(cluster.wants(Turn::First, 5)).await;
        assert!(
            matches!(&refused, Err(Error::Unavailable(text)) if text.contains("moving")),
            "{refused:?}"
        );
        assert!(node.enqueue(tenant, vec![cluster.task()]).await.is_err());
        let keys: Vec<Vec<u8>> = ask(from, &["CLUSTER", "GETKEYSINSLOT", &slot, "7"]);
        if keys.is_empty() {
            break;
        }
        moved += keys.len();
        let mut migrate: Vec<Vec<u8>> = ["MIGRATE", address.0, address.1, "", "0", "5000", "KEYS"]
            .map(|part| part.as_bytes().to_vec())
            .to_vec();
        migrate.extend(keys);
        ask::<String>(from, &migrate);
    }
    assert!(moved > 20, "{moved} keys");
    for server in [to, from] {
        ask::<String>(server, &["CLUSTER", "SETSLOT", &slot, "NODE", &to_name]);
    }
    let claimed = async {
        loop {
            match node.claim(cluster.wants(Turn::First, 100)).await {
                Ok(claims) => return claims.claimed,
                Err(Error::Unavailable(_)) => tokio::time::sleep(Duration::from_millis(20)).await,
                Err(other) => panic!("{other:?}"),
            }
        }
    };
    let claimed = tokio::time::timeout(20 * SECOND, claimed).await.unwrap();
    let claimed: Vec<_> = claimed.iter().map(|claimed| claimed.lease.task).collect();
    assert_eq!(claimed, ids);
}
