//! Redis set up so that it may lose tasks: refused at the door, by `serve` and by `store check`.
//! PostgreSQL without fsync is refused in the tests of the service on PostgreSQL.

use crate::rig::{RedisServer, Shared, Target, Way, can_start, ok, task};

async fn is_refused(settings: &[&str], because: &str) {
    if !can_start(Way::Redis) {
        return;
    }
    let server = RedisServer::start_with(settings).await;
    let url = format!("redis+unix://{}", server.socket().display());
    let shared = Shared::on_redis(&url, &[]);
    let refused = shared.refused().await.says("it is not safe").says(because);
    refused.says("--allow-unsafe-store");
    shared.run(&["store", "check"], &[]).await.exit(1).says("danger:");

    let target = Target::start().await;
    target.on("/all-the-same", [ok()]);
    let relent = shared.node(&["--allow-unsafe-store"]).await;
    let client = relent.client();
    let id = client.create(&task(&target.url("/all-the-same"), "k", "webhook")).await;
    client.until_status(&id, "SUCCEEDED").await;
}

#[tokio::test]
async fn a_redis_without_a_log_is_refused() {
    is_refused(&["--appendonly", "no"], "appendonly is no").await;
}

#[tokio::test]
async fn a_redis_that_evicts_is_refused() {
    let evicting = ["--maxmemory", "64mb", "--maxmemory-policy", "allkeys-lru"];
    is_refused(&evicting, "maxmemory-policy is allkeys-lru").await;
}
