//! Deleting what is no longer needed. REQ-S2, REQ-D3.

use relent_policy::Turn::{First, Retry};
use relent_store::{Enqueued, Retention, State, TaskFilter, TaskId};

use crate::world::{HOUR, NANOSECOND, World};

const DAY: std::time::Duration = std::time::Duration::from_secs(86_400);

/// Prunes until nothing is left to prune.
async fn prune(world: &World, max: u32) -> u64 {
    let mut rows = 0;
    loop {
        let some = world.store().prune(Retention::default(), max).await.unwrap();
        assert!(some <= u64::from(max), "{some} rows in one chunk of {max}");
        if some == 0 {
            return rows;
        }
        rows += some;
    }
}

async fn deliver(world: &World) -> TaskId {
    let id = world.add(world.task()).await;
    let claimed = world.claim_one(First).await;
    world.succeed(&claimed).await;
    id
}

pub(crate) async fn only_what_has_ended_is_purged(world: World) {
    let done = deliver(&world).await;
    let dead = world.dead_letter(world.task()).await;
    let called_off = world.add(world.task()).await;
    world.store().cancel(&world.tenant, called_off).await.unwrap();
    let in_flight = world.add(world.task()).await;
    world.claim_one(First).await;
    let waiting = world.add(world.task()).await;
    let missing = TaskId::from_u64(77).unwrap();
    let all = vec![done, dead, called_off, in_flight, waiting, missing, dead];
    assert_eq!(world.store().purge(&world.tenant, all.clone()).await, Ok(3));
    assert_eq!(world.store().purge(&world.tenant, all).await, Ok(0));
    let left: Vec<_> = world.list(TaskFilter::default()).await.iter().map(|task| task.id).collect();
    assert_eq!(left, [waiting, in_flight]);
}

pub(crate) async fn a_purge_takes_the_attempts_along(world: World) {
    let id = world.dead_letter(world.task()).await;
    world.store().purge(&world.tenant, vec![id]).await.unwrap();
    assert_eq!(world.find(id).await, None);
    assert_eq!(world.store().attempts(&world.tenant, id).await, Ok(None));
}

pub(crate) async fn what_was_purged_stays_away_after_a_restart(mut world: World) {
    let id = world.dead_letter(world.keyed("order-17")).await;
    world.store().purge(&world.tenant, vec![id]).await.unwrap();
    world.reopen().await;
    assert_eq!(world.find(id).await, None);
    assert!(matches!(world.enqueue(vec![world.keyed("order-17")]).await[0], Enqueued::Created(_)));
}

pub(crate) async fn retention_deletes_in_chunks_and_never_what_is_live(world: World) {
    for _ in 0..10 {
        deliver(&world).await;
    }
    let in_flight = world.add(world.task()).await;
    world.claim_one(First).await;
    let waiting = world.add(world.task()).await;
    let later = world.add(world.task_after(100 * DAY)).await;
    world.advance(40 * DAY);
    assert!(prune(&world, 3).await >= 10);
    let left: Vec<_> = world.list(TaskFilter::default()).await.iter().map(|task| task.id).collect();
    assert_eq!(left, [later, waiting, in_flight]);
    assert_eq!(prune(&world, 3).await, 0);
}

pub(crate) async fn retention_counts_from_the_end_of_the_task(world: World) {
    let id = world.add(world.task()).await;
    world.advance(HOUR / 2);
    let claimed = world.claim_one(First).await;
    world.succeed(&claimed).await;
    world.advance(7 * DAY);
    assert_eq!(prune(&world, 100).await, 0);
    world.advance(NANOSECOND);
    assert!(prune(&world, 100).await > 0);
    assert_eq!(world.find(id).await, None);
    assert_eq!(world.store().attempts(&world.tenant, id).await, Ok(None));
}

pub(crate) async fn dead_letters_are_kept_for_a_time_of_their_own(world: World) {
    let dead = world.dead_letter(world.keyed("order-17")).await;
    let called_off = world.add(world.task()).await;
    world.store().cancel(&world.tenant, called_off).await.unwrap();
    world.advance(30 * DAY);
    prune(&world, 100).await;
    assert_eq!(world.get(dead).await.state, State::Exhausted);
    assert_eq!(world.find(called_off).await, None);
    world.advance(NANOSECOND);
    prune(&world, 100).await;
    assert_eq!(world.find(dead).await, None);
    let again = world.enqueue(vec![world.keyed("order-17")]).await;
    assert!(matches!(again[0], Enqueued::Created(_)), "the key went with its task: {again:?}");
}

pub(crate) async fn old_rows_of_a_live_task_are_deleted_and_the_task_is_not(world: World) {
    let id = world.add(relent_store::NewTask { lifetime: 90 * DAY, ..world.task() }).await;
    let claimed = world.claim_one(First).await;
    world.retry_at(&claimed, world.now() + 8 * DAY).await;
    world.advance(8 * DAY);
    let claimed = world.claim_one(Retry).await;
    world.retry_at(&claimed, world.now() + HOUR).await;
    assert_eq!(prune(&world, 1).await, 1);
    let numbers: Vec<_> = world.attempts(id).await.iter().map(|row| row.number).collect();
    assert_eq!(numbers, [2]);
    assert_eq!(world.get(id).await.attempts, 2);
    world.advance(HOUR);
    assert_eq!(world.claim_one(Retry).await.history.attempts(), 3);
}

pub(crate) async fn a_redriven_task_is_live_again(world: World) {
    let id = world.dead_letter(world.task()).await;
    world.advance(29 * DAY);
    let redrive = relent_store::Redrive { task: id, after: 5 * DAY, policy: None };
    world.store().redrive(&world.tenant, vec![redrive]).await.unwrap();
    world.advance(4 * DAY);
    prune(&world, 100).await;
    assert_eq!(world.get(id).await.state, State::Pending);
}
