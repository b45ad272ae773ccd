//! Taking over what nobody else will end. REQ-S3, REQ-S4, REQ-S7.

use relent_policy::GiveUpReason;
use relent_policy::Turn::{First, Retry};
use relent_store::{NewTask, Recorded, SWEEP_LEASE, State, SweptBecause};

use crate::world::{
    HOUR, LEASE, MINUTE, NANOSECOND, SECOND, World, exhaustion, key, retry, success, too_late,
};

pub(crate) async fn a_lost_attempt_is_taken_over_when_its_lease_ends(world: World) {
    let id = world.add(world.keyed("order-17")).await;
    world.advance(SECOND);
    let claimed_at = world.now();
    let claimed = world.claim_one(First).await;
    world.advance(LEASE - NANOSECOND);
    assert!(world.sweep().await.is_empty());
    world.advance(NANOSECOND);
    let swept = world.sweep().await;
    assert_eq!(swept.len(), 1);
    let swept = &swept[0];
    assert_eq!(swept.because, SweptBecause::LeaseExpired { began_at: claimed_at });
    assert_eq!((swept.lease.task, swept.lease.until), (id, world.now() + SWEEP_LEASE));
    assert_eq!((swept.lane, swept.policy, swept.generation), (world.lane, world.policy, 0));
    assert_eq!((swept.history, &swept.key), (claimed.history, &Some(key("order-17"))));
    assert!(swept.lease.token > claimed.lease.token);
    assert_eq!(world.get(id).await.state, State::InFlight);
    assert!(world.sweep().await.is_empty(), "it is taken over once");
}

pub(crate) async fn a_lost_attempt_has_been_spent(world: World) {
    let id = world.add(world.task()).await;
    world.claim_one(First).await;
    world.advance(LEASE);
    let swept = world.sweep().await.remove(0);
    assert_eq!((swept.history.attempts(), world.get(id).await.attempts), (1, 1));
    let record = retry(swept.lease, &swept.history, 0, world.now(), world.now());
    assert_eq!(world.record(record).await, Recorded::Applied);
    assert!(world.claim(First, 1).await.is_empty(), "it stands with the retries");
    assert_eq!(world.claim_one(Retry).await.history.attempts(), 2);
}

pub(crate) async fn a_lost_retry_keeps_its_past(world: World) {
    world.add(world.task()).await;
    let claimed = world.claim_one(First).await;
    world.retry_at(&claimed, world.now()).await;
    let claimed = world.claim_one(Retry).await;
    world.advance(LEASE);
    assert_eq!(world.sweep().await[0].history, claimed.history);
}

pub(crate) async fn who_takes_over_and_dies_is_taken_over_from(world: World) {
    world.add(world.task()).await;
    let claimed_at = world.now();
    world.claim_one(First).await;
    world.advance(LEASE);
    let first = world.sweep().await.remove(0);
    world.advance(SWEEP_LEASE);
    let second = world.sweep().await.remove(0);
    assert_eq!(second.because, SweptBecause::LeaseExpired { began_at: claimed_at });
    assert_eq!(second.history, first.history, "no attempt was made in between");
    let late = retry(first.lease, &first.history, 0, world.now(), world.now());
    assert_eq!(world.record(late).await, Recorded::Stale);
}

pub(crate) async fn a_deadline_ends_a_task_that_its_lane_holds_back(world: World) {
    let id = world.add(NewTask { lifetime: MINUTE, ..world.keyed("order-17") }).await;
    world.advance(MINUTE - NANOSECOND);
    assert!(world.sweep().await.is_empty());
    world.advance(NANOSECOND);
    let swept = world.sweep().await.remove(0);
    assert_eq!((swept.lease.task, swept.because), (id, SweptBecause::DeadlinePassed));
    assert_eq!(swept.lease.until, world.now() + SWEEP_LEASE);
    assert_eq!(swept.key, Some(key("order-17")));
    assert_eq!(world.get(id).await.state, State::InFlight);
    assert_eq!(world.record(too_late(&swept)).await, Recorded::Applied);
    let task = world.get(id).await;
    assert_eq!(task.state, State::Exhausted);
    assert_eq!(task.because, Some(GiveUpReason::DeadlineWouldPass));
}

pub(crate) async fn a_passed_deadline_counts_no_attempt(world: World) {
    let id = world.add(world.task()).await;
    let claimed = world.claim_one(First).await;
    world.retry_at(&claimed, world.now()).await;
    world.advance(HOUR);
    let swept = world.sweep().await.remove(0);
    assert_eq!(swept.because, SweptBecause::DeadlinePassed);
    assert_eq!(swept.history, claimed.history);
    world.record(too_late(&swept)).await;
    assert_eq!(world.get(id).await.attempts, 1);
    assert_eq!(world.attempts(id).await.len(), 1);
}

pub(crate) async fn a_deadline_taken_over_twice_is_still_no_attempt(mut world: World) {
    let id = world.add(world.task()).await;
    world.advance(HOUR);
    world.sweep().await;
    world.advance(SWEEP_LEASE);
    let second = world.sweep().await.remove(0);
    assert_eq!(second.because, SweptBecause::DeadlinePassed);
    world.reopen().await;
    let third = world.sweep().await.remove(0);
    assert_eq!((third.because, third.history.attempts()), (SweptBecause::DeadlinePassed, 0));
    assert_eq!(world.record(too_late(&second)).await, Recorded::Stale);
    assert_eq!(world.get(id).await.attempts, 0);
}

pub(crate) async fn a_deadline_in_the_future_is_swept_when_it_comes(world: World) {
    let id = world.add(NewTask { lifetime: SECOND, ..world.task_after(24 * HOUR) }).await;
    world.advance(24 * HOUR);
    assert!(world.sweep().await.is_empty());
    world.advance(SECOND);
    assert_eq!(world.sweep().await[0].lease.task, id);
}

pub(crate) async fn an_attempt_under_way_may_outlast_the_deadline(world: World) {
    world.add(NewTask { lifetime: SECOND, ..world.task() }).await;
    let claimed = world.claim_one(First).await;
    world.advance(2 * SECOND);
    assert!(world.sweep().await.is_empty());
    assert_eq!(world.succeed(&claimed).await, Recorded::Applied);
}

pub(crate) async fn a_sweep_takes_no_more_than_it_was_asked_to(world: World) {
    world.enqueue(vec![world.task(); 3]).await;
    assert_eq!(world.claim(First, 2).await.len(), 2);
    world.advance(HOUR);
    let first = world.store().sweep(2).await.unwrap();
    assert_eq!(first.len(), 2);
    let lost = |because| matches!(because, SweptBecause::LeaseExpired { .. });
    assert!(first.iter().all(|swept| lost(swept.because)), "lost attempts come first");
    let second = world.store().sweep(2).await.unwrap();
    assert_eq!(second.len(), 1);
    assert_eq!(second[0].because, SweptBecause::DeadlinePassed);
}

pub(crate) async fn what_has_ended_is_never_swept(world: World) {
    world.enqueue(vec![world.task(); 3]).await;
    let claimed = world.claim(First, 2).await;
    let records = vec![success(&claimed[0], world.now()), exhaustion(&claimed[1], world.now())];
    world.store().record(records).await.unwrap();
    let waiting = world.list(relent_store::TaskFilter::default()).await;
    let waiting = waiting.iter().find(|task| task.state == State::Pending).unwrap().id;
    world.store().cancel(&world.tenant, waiting).await.unwrap();
    world.advance(24 * HOUR);
    assert!(world.sweep().await.is_empty());
}

pub(crate) async fn a_restart_ends_every_lease(mut world: World) {
    let id = world.add(world.task()).await;
    let claimed_at = world.now();
    let claimed = world.claim_one(First).await;
    world.reopen().await;
    assert!(world.claim(Retry, 1).await.is_empty() && world.claim(First, 1).await.is_empty());
    let swept = world.sweep().await.remove(0);
    assert_eq!((swept.lease.task, swept.history), (id, claimed.history));
    assert_eq!(swept.because, SweptBecause::LeaseExpired { began_at: claimed_at });
    assert_eq!(world.succeed(&claimed).await, Recorded::Stale);
}
