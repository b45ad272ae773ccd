//! What only Redis can get wrong about copying: ids and batches over many shards. REQ-S7.

use relent_policy::Turn::First;
use relent_store::{Copying as _, NewTask, RedisOptions, Store, TaskId, TenantId};

use super::{Prefix, is_there};
use crate::backend::{Backend, Clock};
use crate::world::{HOUR, World, created};

/// A tenant of this name with a lane of its own, and a task in it.
async fn add(world: &World, store: &dyn Store, tenant: &TenantId) -> TaskId {
    let lane = store.open_lane(tenant, "api.example.com", world.policy).await.unwrap().id;
    let task = NewTask { lane, ..world.task_after(HOUR) };
    created(store.enqueue(tenant, vec![task]).await.unwrap()[0])
}

fn tenants(count: usize) -> Vec<TenantId> {
    (0..count).map(|n| TenantId::try_new(&format!("tenant-{n}")).unwrap()).collect()
}

async fn ids_of_all_tenants(world: &World) {
    let mut ids = Vec::new();
    for _ in 0..2 {
        for tenant in tenants(150) {
            ids.push(add(world, &**world.store(), &tenant).await);
        }
    }
    let (store, mut found, mut after) = (world.copying(), Vec::new(), None);
    loop {
        let batch = store.export(after, 37).await.unwrap();
        let Some(last) = batch.last() else { break };
        assert!(batch.len() == 37 || found.len() + batch.len() == ids.len(), "{}", batch.len());
        after = Some(last.task.id);
        found.extend(batch.iter().map(|whole| whole.task.id));
    }
    ids.sort_unstable();
    assert_eq!(found, ids);
    assert_eq!(store.extent().await.unwrap().pending, 300);
}

#[tokio::test]
async fn tasks_of_all_tenants_come_in_the_order_of_ids() {
    if is_there() {
        ids_of_all_tenants(&World::new(Backend::redis).await).await;
    }
}

#[tokio::test]
async fn tasks_of_all_shards_come_in_the_order_of_ids() {
    if is_there() {
        ids_of_all_tenants(&World::new(Backend::redis_cluster).await).await;
    }
}

#[tokio::test]
async fn new_ids_in_every_shard_come_after_those_that_were_copied() {
    if !is_there() {
        return;
    }
    let world = World::new(Backend::redis_cluster).await;
    let tenants = tenants(40);
    for tenant in &tenants {
        add(&world, &**world.store(), tenant).await;
    }
    let (from, prefix) = (world.copying(), Prefix::in_cluster());
    let options = RedisOptions { clock: Some(Clock::new().reading()), ..prefix.options() };
    let (to, other) = (prefix.connect(options.clone()), prefix.connect(options));
    to.import_policies(from.export_policies().await.unwrap()).await.unwrap();
    to.import_lanes(from.lanes().await.unwrap()).await.unwrap();
    // The clock of where it comes from is ahead; it is in one shard, and every shard hears of it.
    let mut tasks = from.export(None, 1).await.unwrap();
    let highest = TaskId::from_u64(TaskId::first_at(world.now() + HOUR).as_u64() + 777).unwrap();
    tasks[0].task.id = highest;
    assert_eq!(to.import(tasks).await, Ok(1));
    // Also from a node that was there before and has not heard of it; it would in the first one's shard.
    for tenant in tenants.iter().rev() {
        let new = add(&world, &other, tenant).await;
        assert!(new > highest, "{new} is not after {highest}");
    }
}

#[tokio::test]
async fn the_leases_of_what_was_copied_do_not_end_with_who_copied() {
    if !is_there() {
        return;
    }
    let world = World::new(Backend::redis).await;
    world.add(world.task()).await;
    world.claim_one(First).await;
    let (from, mut elsewhere) = (world.copying(), world.elsewhere());
    let to = elsewhere.copying();
    to.import_policies(from.export_policies().await.unwrap()).await.unwrap();
    to.import_lanes(from.lanes().await.unwrap()).await.unwrap();
    let before = from.export(None, 1).await.unwrap();
    assert_eq!(to.import(before.clone()).await, Ok(1));
    drop(to);
    elsewhere.reopen().await;
    assert_eq!(elsewhere.copying().export(None, 1).await.unwrap(), before);
}
