//! A Redis Cluster of three masters.

use super::everything_works;
use crate::rig::{Shared, Way};

#[tokio::test]
async fn everything_works_on_a_redis_cluster() {
    let Some(shared) = Shared::by(Way::RedisCluster) else { return };
    everything_works(&shared).await;
}

#[tokio::test]
async fn a_cluster_is_examined_and_must_be_one() {
    let (Some(cluster), Some(one)) = (Shared::by(Way::RedisCluster), Shared::by(Way::Redis)) else {
        return;
    };
    let checked = cluster.run(&["store", "check", "--json"], &[]).await.exit(0);
    assert_eq!(checked.json()["store"], "redis", "{checked:?}");
    one.run(&["store", "check"], &[])
        .await
        .exit(0)
        .says("TLS off good: nothing leaves this machine");

    // The one is not taken for the other.
    let seeds = std::env::var("RELENT_TEST_REDIS_CLUSTER").unwrap();
    let seed = seeds.trim_start_matches("redis+cluster://").split(',').next().unwrap();
    let as_one = Shared::on_redis(&format!("redis://{seed}"), &[]).refused().await;
    as_one.says("is part of a Cluster; its address is redis+cluster://");
}
