//! Trying dead letters again. REQ-S2, REQ-D3.

use std::time::Duration;

use relent_policy::Turn::{First, Retry};
use relent_store::{Enqueued, NewPolicy, Redrive, Redriven, State, TaskId, Waiting};

use crate::world::{HOUR, MINUTE, SECOND, World, key, policy, request};

fn now(task: TaskId) -> Redrive {
    Redrive { task, after: Duration::ZERO, policy: None }
}

async fn redrive(world: &World, redrive: Redrive) -> Redriven {
    world.store().redrive(&world.tenant, vec![redrive]).await.unwrap()[0]
}

pub(crate) async fn a_redriven_task_keeps_key_policy_and_payload(world: World) {
    let id = world.dead_letter(world.keyed("order-17")).await;
    assert_eq!(redrive(&world, now(id)).await, Redriven::Pending);
    let claimed = world.claim_one(First).await;
    assert_eq!(claimed.lease.task, id);
    assert_eq!((claimed.policy, claimed.lane), (world.policy, world.lane));
    assert_eq!((claimed.key, claimed.request), (Some(key("order-17")), request()));
    let again = world.enqueue(vec![world.keyed("order-17")]).await;
    assert_eq!(again, [Enqueued::Existing(id)]);
}

pub(crate) async fn a_redriven_task_starts_over(world: World) {
    let id = world.dead_letter(world.task()).await;
    world.advance(MINUTE);
    redrive(&world, now(id)).await;
    let task = world.get(id).await;
    assert_eq!((task.state, task.generation, task.attempts), (State::Pending, 1, 0));
    assert_eq!((task.due_at, task.started_at), (world.now(), world.now()));
    assert_eq!(task.deadline_at, world.now() + HOUR);
    assert_eq!((task.ended_at, task.because, task.last_status), (None, None, None));
    assert_eq!(task.waiting, Waiting::Scheduled);
    let claimed = world.claim_one(First).await;
    assert_eq!((claimed.generation, claimed.previous_status), (1, None));
    assert_eq!((claimed.history.attempts(), claimed.history.created_at()), (1, world.now()));
}

pub(crate) async fn a_redriven_task_forgets_its_past(world: World) {
    let id = world.add(world.task()).await;
    let claimed = world.claim_one(First).await;
    world.retry_at(&claimed, world.now()).await;
    let claimed = world.claim_one(Retry).await;
    world.exhaust(&claimed).await;
    redrive(&world, now(id)).await;
    assert_eq!(world.get(id).await.waiting, Waiting::Scheduled);
    assert!(world.claim(Retry, 10).await.is_empty());
    assert_eq!(world.claim_one(First).await.history.attempts(), 1);
}

pub(crate) async fn a_redrive_can_be_delayed(world: World) {
    let id = world.dead_letter(world.task()).await;
    redrive(&world, Redrive { after: MINUTE, ..now(id) }).await;
    let task = world.get(id).await;
    assert_eq!((task.due_at, task.started_at), (world.now() + MINUTE, world.now() + MINUTE));
    assert_eq!(task.deadline_at, world.now() + MINUTE + HOUR);
    assert!(world.claim(First, 10).await.is_empty());
    world.advance(MINUTE);
    assert_eq!(world.claim(First, 10).await.len(), 1);
}

pub(crate) async fn a_redrive_can_bring_its_own_policy_and_time(world: World) {
    let id = world.dead_letter(world.task()).await;
    let new = NewPolicy { lease: 7 * SECOND, ..policy("patient", "{}") };
    let patient = world.store().put_policy(&world.tenant, new).await.unwrap().key;
    redrive(&world, Redrive { policy: Some((patient, 9 * HOUR)), ..now(id) }).await;
    let task = world.get(id).await;
    assert_eq!((task.policy, task.deadline_at), (patient, world.now() + 9 * HOUR));
    let claimed = world.claim_one(First).await;
    assert_eq!((claimed.policy, claimed.lease.until), (patient, world.now() + 7 * SECOND));
}

pub(crate) async fn only_dead_letters_are_redriven(world: World) {
    let done = world.add(world.task()).await;
    let claimed = world.claim_one(First).await;
    let redriven = redrive(&world, now(done)).await;
    assert_eq!(redriven, Redriven::NotDead(State::InFlight));
    world.succeed(&claimed).await;
    let waiting = world.add(world.task()).await;
    let cancelled = world.add(world.task()).await;
    world.store().cancel(&world.tenant, cancelled).await.unwrap();
    let missing = TaskId::from_u64(77).unwrap();
    let wishes = [done, waiting, cancelled, missing].map(now).to_vec();
    let answers = world.store().redrive(&world.tenant, wishes).await.unwrap();
    let expected = [
        Redriven::NotDead(State::Succeeded),
        Redriven::NotDead(State::Pending),
        Redriven::NotDead(State::Cancelled),
        Redriven::NotFound,
    ];
    assert_eq!(answers, expected);
}

pub(crate) async fn a_dead_letter_is_redriven_once(world: World) {
    let id = world.dead_letter(world.task()).await;
    let wishes = vec![now(id), now(id)];
    let answers = world.store().redrive(&world.tenant, wishes).await.unwrap();
    assert_eq!(answers, [Redriven::Pending, Redriven::NotDead(State::Pending)]);
    assert_eq!(world.get(id).await.generation, 1);
}

pub(crate) async fn attempts_of_all_generations_stay_in_the_log(world: World) {
    let id = world.dead_letter(world.task()).await;
    redrive(&world, now(id)).await;
    let claimed = world.claim_one(First).await;
    world.retry_at(&claimed, world.now()).await;
    let claimed = world.claim_one(Retry).await;
    world.exhaust(&claimed).await;
    redrive(&world, now(id)).await;
    let claimed = world.claim_one(First).await;
    world.succeed(&claimed).await;
    let rows = world.attempts(id).await;
    let numbers: Vec<_> = rows.iter().map(|row| (row.generation, row.number)).collect();
    assert_eq!(numbers, [(0, 1), (1, 1), (1, 2), (2, 1)]);
}

pub(crate) async fn a_redrive_forgets_the_wish_to_cancel(world: World) {
    let id = world.add(world.task()).await;
    let claimed = world.claim_one(First).await;
    world.store().cancel(&world.tenant, id).await.unwrap();
    world.exhaust(&claimed).await;
    redrive(&world, now(id)).await;
    assert!(!world.get(id).await.cancel_requested);
    let claimed = world.claim_one(First).await;
    world.retry_at(&claimed, world.now()).await;
    assert_eq!(world.get(id).await.state, State::Pending);
}

pub(crate) async fn a_redrive_survives_a_restart(mut world: World) {
    let id = world.dead_letter(world.task()).await;
    redrive(&world, Redrive { after: MINUTE, ..now(id) }).await;
    let before = world.get(id).await;
    world.reopen().await;
    assert_eq!(world.get(id).await, before);
    world.advance(MINUTE);
    assert_eq!(world.claim_one(First).await.generation, 1);
}

pub(crate) async fn an_owner_of_an_earlier_generation_changes_nothing(world: World) {
    let id = world.add(world.task()).await;
    let claimed = world.claim_one(First).await;
    world.exhaust(&claimed).await;
    redrive(&world, now(id)).await;
    assert_eq!(world.succeed(&claimed).await, relent_store::Recorded::Stale);
    world.claim_one(First).await;
    assert_eq!(world.succeed(&claimed).await, relent_store::Recorded::Stale);
    assert_eq!(world.get(id).await.state, State::InFlight);
}
