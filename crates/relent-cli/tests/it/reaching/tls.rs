//! PostgreSQL and Redis through TLS, with an authority that only this test knows.

use super::everything_works;
use crate::rig::{Authority, PostgresServer, RedisServer, Shared, Way, can_start, free_port};

#[tokio::test]
async fn postgres_is_reached_through_tls_and_verified() {
    if !can_start(Way::Postgres) {
        return;
    }
    let (port, authority) = (free_port(), Authority::new());
    let server = PostgresServer::start_with_tls(port, &authority).await;
    let trust = format!("store.postgres.root_certificates_file={}", authority.file());
    let url = |host: &str, query: &str| format!("postgres://relent@{host}:{port}/postgres{query}");
    let is = async |tls: &str, url: &str, settings: &[&str]| {
        let checked = Shared::at(url, settings).run(&["store", "check"], &[]).await;
        checked.exit(0).says(&format!("TLS {tls}"));
    };
    for mode in ["require", "verify-ca", "verify-full"] {
        let query = format!("?sslmode={mode}");
        is("on good: the server's certificate was verified", &url("localhost", &query), &[&trust])
            .await;
        let unknown = Shared::at(&url("localhost", &query), &[]).refused().await;
        unknown.says("invalid peer certificate: UnknownIssuer").says("root_certificates_file");
        let misnamed = Shared::at(&url("127.0.0.1", &query), &[&trust]).refused().await;
        misnamed.says("certificate not valid for name \"127.0.0.1\"");
    }
    // As libpq is told whom to trust.
    let libpq = format!("?sslmode=verify-full&sslrootcert={}", authority.file());
    is("on", &url("localhost", &libpq), &[]).await;
    let stranger = Authority::new();
    let another = format!("store.postgres.root_certificates_file={}", stranger.file());
    let wrong = Shared::at(&url("localhost", &libpq), &[&another]).refused().await;
    wrong.says("invalid peer certificate");
    // On this machine nobody asks for it.
    is("off good: nothing leaves this machine", &url("localhost", ""), &[]).await;
    let unknown_word = Shared::at(&url("localhost", "?sslmode=verify"), &[]).refused().await;
    unknown_word.says("sslmode");

    everything_works(&Shared::at(&url("localhost", "?sslmode=verify-full"), &[&trust])).await;

    // A server that has none is not talked to in the open.
    server.set_tls(false).await;
    let none = Shared::at(&url("localhost", "?sslmode=verify-full"), &[&trust]).refused().await;
    none.says("server does not support TLS");
}

#[tokio::test]
async fn redis_is_reached_through_tls_and_verified() {
    if !can_start(Way::Redis) {
        return;
    }
    let (folder, authority) = (tempfile::tempdir().unwrap(), Authority::new());
    let files = authority.issue(folder.path(), &["localhost"]);
    let port = free_port();
    let _server = RedisServer::start_with_tls(port, &authority, &files, &[]).await;
    let trust = format!("store.redis.root_certificates_file={}", authority.file());
    let url = |host: &str| format!("rediss://{host}:{port}");

    let unknown = Shared::on_redis(&url("localhost"), &[]).refused().await;
    unknown.says("invalid peer certificate: UnknownIssuer").says("root_certificates_file");
    let misnamed = Shared::on_redis(&url("127.0.0.1"), &[&trust]).refused().await;
    misnamed.says("certificate not valid for name \"127.0.0.1\"");
    let another = format!("store.redis.root_certificates_file={}", Authority::new().file());
    Shared::on_redis(&url("localhost"), &[&another]).refused().await;
    let insecure = format!("{}/#insecure", url("localhost"));
    Shared::on_redis(&insecure, &[]).refused().await.says("invalid peer certificate");

    let shared = Shared::on_redis(&url("localhost"), &[&trust]);
    shared.run(&["store", "check"], &[]).await.exit(0).says("TLS on good:");
    everything_works(&shared).await;
}

#[tokio::test]
async fn a_redis_cluster_is_reached_through_tls_and_verified() {
    if !can_start(Way::RedisCluster) {
        return;
    }
    let (folder, authority) = (tempfile::tempdir().unwrap(), Authority::new());
    let files = authority.issue(folder.path(), &["localhost"]);
    let (_servers, ports) = RedisServer::start_cluster(&authority, &files).await;
    let seeds = format!("localhost:{},localhost:{}", ports[0], ports[1]);
    let url = format!("rediss+cluster://{seeds}");
    let trust = format!("store.redis.root_certificates_file={}", authority.file());
    let unknown = Shared::on_redis(&url, &[]).refused().await;
    unknown.says("invalid peer certificate: UnknownIssuer");
    let shared = Shared::on_redis(&url, &[&trust]);
    shared.run(&["store", "check"], &[]).await.exit(0).says("TLS on good:");
    everything_works(&shared).await;
}
