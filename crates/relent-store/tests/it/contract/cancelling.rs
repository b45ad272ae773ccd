//! Calling tasks off. REQ-S4.

use relent_policy::Turn::{First, Retry};
use relent_store::{Cancelled, Recorded, State, TaskId};

use crate::world::{HOUR, LEASE, SECOND, World, retry};

async fn cancel(world: &World, task: TaskId) -> Cancelled {
    world.store().cancel(&world.tenant, task).await.unwrap()
}

pub(crate) async fn a_cancelled_task_is_never_claimed(world: World) {
    let first = world.add(world.task()).await;
    let claimed = world.claim_one(First).await;
    world.retry_at(&claimed, world.now() + SECOND).await;
    let second = world.add(world.task_after(SECOND)).await;
    assert_eq!(cancel(&world, first).await, Cancelled::Now);
    assert_eq!(cancel(&world, second).await, Cancelled::Now);
    world.advance(SECOND);
    assert!(world.claim(First, 10).await.is_empty());
    assert!(world.claim(Retry, 10).await.is_empty());
    for id in [first, second] {
        let task = world.get(id).await;
        assert_eq!((task.state, task.because), (State::Cancelled, None));
        assert_eq!(task.ended_at.map(|at| at + SECOND), Some(world.now()));
    }
}

pub(crate) async fn a_cancelled_task_stays_cancelled_after_a_restart(mut world: World) {
    let id = world.add(world.task()).await;
    cancel(&world, id).await;
    world.reopen().await;
    assert!(world.claim(First, 10).await.is_empty());
    assert_eq!(world.get(id).await.state, State::Cancelled);
}

pub(crate) async fn an_attempt_under_way_is_cancelled_instead_of_repeated(world: World) {
    let id = world.add(world.task()).await;
    let claimed = world.claim_one(First).await;
    assert_eq!(cancel(&world, id).await, Cancelled::AfterAttempt);
    assert_eq!(cancel(&world, id).await, Cancelled::AfterAttempt);
    let task = world.get(id).await;
    assert_eq!((task.state, task.cancel_requested), (State::InFlight, true));
    assert_eq!(world.retry_at(&claimed, world.now()).await, Recorded::Cancelled);
    let task = world.get(id).await;
    assert_eq!((task.state, task.ended_at), (State::Cancelled, Some(world.now())));
    assert_eq!((task.cancel_requested, task.because), (false, None));
    assert_eq!(world.attempts(id).await.len(), 1, "the attempt is in the log");
    assert!(world.claim(Retry, 10).await.is_empty());
}

pub(crate) async fn an_attempt_that_delivers_wins_over_the_wish_to_cancel(world: World) {
    let id = world.add(world.task()).await;
    let claimed = world.claim_one(First).await;
    cancel(&world, id).await;
    assert_eq!(world.succeed(&claimed).await, Recorded::Applied);
    let task = world.get(id).await;
    assert_eq!((task.state, task.cancel_requested), (State::Succeeded, false));
}

pub(crate) async fn an_attempt_that_gives_up_is_a_dead_letter_all_the_same(world: World) {
    let id = world.add(world.task()).await;
    let claimed = world.claim_one(First).await;
    cancel(&world, id).await;
    assert_eq!(world.exhaust(&claimed).await, Recorded::Applied);
    let task = world.get(id).await;
    assert_eq!((task.state, task.cancel_requested), (State::Exhausted, false));
}

pub(crate) async fn the_wish_to_cancel_outlives_the_attempt(mut world: World) {
    let id = world.add(world.task()).await;
    world.claim_one(First).await;
    cancel(&world, id).await;
    world.advance(LEASE);
    world.sweep().await;
    world.reopen().await;
    assert!(world.get(id).await.cancel_requested);
    let swept = world.sweep().await.remove(0);
    let record = retry(swept.lease, &swept.history, 0, world.now(), world.now() + HOUR);
    assert_eq!(world.record(record).await, Recorded::Cancelled);
    assert_eq!(world.get(id).await.state, State::Cancelled);
}

pub(crate) async fn what_has_ended_cannot_be_called_off(world: World) {
    let dead = world.dead_letter(world.task()).await;
    let done = world.add(world.task()).await;
    let claimed = world.claim_one(First).await;
    world.succeed(&claimed).await;
    let called_off = world.add(world.task()).await;
    cancel(&world, called_off).await;
    world.advance(SECOND);
    let before = world.get(called_off).await;
    assert_eq!(cancel(&world, dead).await, Cancelled::Ended(State::Exhausted));
    assert_eq!(cancel(&world, done).await, Cancelled::Ended(State::Succeeded));
    assert_eq!(cancel(&world, called_off).await, Cancelled::Ended(State::Cancelled));
    assert_eq!(world.get(called_off).await, before);
}

pub(crate) async fn what_is_not_there_cannot_be_called_off(world: World) {
    let missing = TaskId::from_u64(77).unwrap();
    assert_eq!(cancel(&world, missing).await, Cancelled::NotFound);
}
