//! Claiming due tasks. REQ-S3, REQ-S4, REQ-L6.

use std::collections::BTreeSet;
use std::time::Duration;

use relent_policy::Turn::{First, Retry};
use relent_store::{Claimed, NewTask, State, SweptBecause, Want};

use crate::world::{HOUR, LEASE, MINUTE, NANOSECOND, SECOND, World, key, request};

pub(crate) async fn nothing_is_claimed_before_its_time(world: World) {
    world.add(world.task_after(SECOND)).await;
    world.advance(SECOND - NANOSECOND);
    assert!(world.claim(First, 10).await.is_empty());
    world.advance(NANOSECOND);
    assert_eq!(world.claim(First, 10).await.len(), 1);
}

pub(crate) async fn no_retry_is_claimed_before_its_time(world: World) {
    world.add(world.task()).await;
    let claimed = world.claim_one(First).await;
    world.retry_at(&claimed, world.now() + SECOND).await;
    world.advance(SECOND - NANOSECOND);
    assert!(world.claim(Retry, 10).await.is_empty());
    world.advance(NANOSECOND);
    assert_eq!(world.claim(Retry, 10).await.len(), 1);
}

pub(crate) async fn what_is_wanted_ahead_is_claimed_ahead_and_no_more(world: World) {
    let second = world.add(world.task_after(SECOND + NANOSECOND)).await;
    let first = world.add(world.task_after(SECOND)).await;
    let third = world.add(world.task_after(MINUTE)).await;
    let due_at = world.now() + SECOND;
    let want = |ahead| vec![Want { ahead, ..Want::due(world.lane, First, 10) }];
    let claims = world.store().claim(want(SECOND - NANOSECOND)).await.unwrap();
    assert_eq!((ids(&claims.claimed), claims.next), (vec![], vec![Some(due_at)]));
    let claims = world.store().claim(want(SECOND)).await.unwrap();
    assert_eq!((ids(&claims.claimed), claims.claimed[0].due_at), (vec![first], due_at));
    assert_eq!(claims.next, [Some(due_at + NANOSECOND)]);
    assert_eq!(claims.claimed[0].lease.until, world.now() + LEASE, "from the claim on");
    assert_eq!(world.get(first).await.state, State::InFlight);

    // Whoever comes later with something due earlier is not passed over.
    let claims = world.store().claim(want(SECOND + NANOSECOND)).await.unwrap();
    assert_eq!(ids(&claims.claimed), [second]);
    let fresh = world.add(world.task()).await;
    assert_eq!(ids(&world.claim(First, 10).await), [fresh]);
    world.advance(MINUTE);
    assert_eq!(ids(&world.claim(First, 10).await), [third]);
}

pub(crate) async fn what_was_claimed_ahead_and_lost_began_no_earlier_than_it_was_due(world: World) {
    world.add(world.task_after(SECOND)).await;
    let due_at = world.now() + SECOND;
    let want = Want { ahead: SECOND, ..Want::due(world.lane, First, 1) };
    assert_eq!(world.store().claim(vec![want]).await.unwrap().claimed.len(), 1);
    world.advance(LEASE);
    let swept = world.sweep().await;
    let because: Vec<_> = swept.iter().map(|swept| swept.because).collect();
    assert_eq!(because, [SweptBecause::LeaseExpired { began_at: due_at }]);
}

pub(crate) async fn a_claim_counts_the_attempt_before_anything_is_sent(mut world: World) {
    let id = world.add(world.task()).await;
    let claimed = world.claim_one(First).await;
    assert_eq!(claimed.history.attempts(), 1);
    assert_eq!(world.get(id).await.attempts, 1);
    assert_eq!(world.get(id).await.state, State::InFlight);
    world.reopen().await;
    assert_eq!(world.get(id).await.attempts, 1);
}

pub(crate) async fn a_claim_brings_everything_that_the_attempt_needs(world: World) {
    let id = world.add(world.keyed("order-17")).await;
    let due_at = world.now();
    world.advance(SECOND);
    let claimed = world.claim_one(First).await;
    assert_eq!(claimed.lease.task, id);
    assert_eq!((claimed.lane, claimed.policy), (world.lane, world.policy));
    assert_eq!((claimed.generation, claimed.previous_status), (0, None));
    assert_eq!(claimed.due_at, due_at);
    assert_eq!(claimed.history.created_at(), due_at);
    assert_eq!(claimed.key, Some(key("order-17")));
    assert_eq!(claimed.request, request());
}

pub(crate) async fn a_claimed_task_is_nobody_elses(world: World) {
    world.add(world.task()).await;
    assert_eq!(world.claim(First, 10).await.len(), 1);
    world.advance(HOUR - SECOND);
    assert!(world.claim(First, 10).await.is_empty());
    assert!(world.claim(Retry, 10).await.is_empty());
}

pub(crate) async fn claims_at_the_same_time_share_nothing(world: World) {
    world.enqueue(vec![world.task(); 10]).await;
    let claim = || {
        let (store, lane) = (world.store().clone(), world.lane);
        let wants = vec![Want::due(lane, First, 3)];
        tokio::spawn(async move { store.claim(wants).await.unwrap().claimed })
    };
    let mut claimed = Vec::new();
    for claim in [claim(), claim(), claim(), claim(), claim()] {
        let some = claim.await.unwrap();
        assert!(some.len() <= 3);
        claimed.extend(ids(&some));
    }
    assert_eq!(claimed.len(), 10);
    assert_eq!(claimed.into_iter().collect::<BTreeSet<_>>().len(), 10);
}

pub(crate) async fn a_claim_whose_caller_has_gone_loses_no_task(world: World) {
    let id = world.add(world.task()).await;
    drop(world.store().claim(vec![Want::due(world.lane, First, 1)]));
    // What was handed over before this is done when it is answered.
    world.next(Retry).await;
    world.advance(LEASE);
    let claimed = ids(&world.claim(First, 1).await);
    let swept = world.sweep().await.into_iter().map(|swept| swept.lease.task);
    assert_eq!(claimed.into_iter().chain(swept).collect::<Vec<_>>(), [id]);
}

pub(crate) async fn tasks_are_claimed_in_order_of_due_time(world: World) {
    let third = world.add(world.task_after(3 * SECOND)).await;
    let first = world.add(world.task_after(SECOND)).await;
    let second = world.add(world.task_after(2 * SECOND)).await;
    world.advance(MINUTE);
    assert_eq!(ids(&world.claim(First, 2).await), [first, second]);
    assert_eq!(ids(&world.claim(First, 2).await), [third]);
}

pub(crate) async fn tasks_due_together_are_claimed_in_order_of_storing(world: World) {
    let first = world.add(world.task_after(SECOND)).await;
    world.advance(SECOND / 2);
    let second = world.add(world.task_after(SECOND / 2)).await;
    let third = world.add(world.task_after(SECOND / 2)).await;
    world.advance(SECOND);
    assert_eq!(ids(&world.claim(First, 10).await), [first, second, third]);
}

pub(crate) async fn retries_are_claimed_in_order_of_due_time(world: World) {
    let answers = [world.add(world.task()).await, world.add(world.task()).await];
    let claimed = world.claim(First, 2).await;
    world.retry_at(&claimed[0], world.now() + 2 * SECOND).await;
    world.retry_at(&claimed[1], world.now() + SECOND).await;
    world.advance(MINUTE);
    assert_eq!(ids(&world.claim(Retry, 10).await), [answers[1], answers[0]]);
}

pub(crate) async fn a_claim_takes_no_more_than_was_wanted(world: World) {
    world.enqueue(vec![world.task(); 5]).await;
    assert_eq!(world.claim(First, 0).await.len(), 0);
    assert_eq!(world.claim(First, 3).await.len(), 3);
    assert_eq!(world.claim(First, 3).await.len(), 2);
}

pub(crate) async fn retries_do_not_stand_behind_first_attempts(world: World) {
    let id = world.add(world.task()).await;
    let claimed = world.claim_one(First).await;
    world.enqueue(vec![world.task(); 50]).await;
    world.retry_at(&claimed, world.now() + SECOND).await;
    world.advance(SECOND);
    assert_eq!(ids(&world.claim(Retry, 1).await), [id]);
    assert_eq!(world.claim(First, 100).await.len(), 50);
}

pub(crate) async fn lanes_have_lines_of_their_own(world: World) {
    let other = world.open_lane("slow.example.com").await;
    world.enqueue(vec![world.task(); 5]).await;
    let id = world.add(NewTask { lane: other, ..world.task() }).await;
    let wants = vec![Want::due(other, First, 10)];
    let claims = world.store().claim(wants).await.unwrap();
    assert_eq!(ids(&claims.claimed), [id]);
    assert_eq!(claims.claimed[0].lane, other);
    assert_eq!(claims.next, [None]);
}

pub(crate) async fn wants_are_answered_in_order(world: World) {
    let other = world.open_lane("slow.example.com").await;
    let here = world.add(world.task()).await;
    let there = world.add(NewTask { lane: other, ..world.task() }).await;
    world.add(NewTask { lane: other, ..world.task_after(MINUTE) }).await;
    let want = |lane, turn| Want::due(lane, turn, 10);
    let wants = vec![want(other, First), want(world.lane, Retry), want(world.lane, First)];
    let claims = world.store().claim(wants).await.unwrap();
    assert_eq!(ids(&claims.claimed), [there, here]);
    assert_eq!(claims.next, [Some(world.now() + MINUTE), None, None]);
}

pub(crate) async fn a_lane_that_nobody_knows_has_nothing_due(world: World) {
    let lane = relent_store::LaneId::from_u32(4_000_000);
    let wants = vec![Want::due(lane, First, 10)];
    let claims = world.store().claim(wants).await.unwrap();
    assert_eq!((claims.claimed.len(), claims.next), (0, vec![None]));
}

pub(crate) async fn the_next_due_time_is_told_with_the_claim(world: World) {
    assert_eq!(world.next(First).await, None);
    world.enqueue(vec![world.task(), world.task(), world.task_after(MINUTE)]).await;
    let wants = || vec![Want::due(world.lane, First, 1)];
    let claims = world.store().claim(wants()).await.unwrap();
    assert_eq!(claims.next, [Some(world.now())], "one is due, and was not wanted");
    let claims = world.store().claim(wants()).await.unwrap();
    assert_eq!(claims.next, [Some(world.now() + MINUTE)], "in the future, and still next");
    assert_eq!(world.next(Retry).await, None);
    world.retry_at(&claims.claimed[0], world.now() + Duration::from_nanos(77)).await;
    assert_eq!(world.next(Retry).await, Some(world.now() + Duration::from_nanos(77)));
}

pub(crate) async fn what_was_called_off_is_not_next(world: World) {
    let id = world.add(world.task_after(MINUTE)).await;
    world.add(world.task_after(HOUR)).await;
    world.store().cancel(&world.tenant, id).await.unwrap();
    assert_eq!(world.next(First).await, Some(world.now() + HOUR));
}

pub(crate) async fn what_has_reached_its_deadline_is_neither_claimed_nor_next(world: World) {
    let due_at = world.now();
    world.add(NewTask { lifetime: MINUTE, ..world.task() }).await;
    world.advance(MINUTE - NANOSECOND);
    assert_eq!(world.next(First).await, Some(due_at));
    world.advance(NANOSECOND);
    assert_eq!(world.next(First).await, None);
    assert!(world.claim(First, 10).await.is_empty());
}

pub(crate) async fn a_lease_lasts_as_long_as_the_policy_says(world: World) {
    world.add(world.task()).await;
    let claimed = world.claim_one(First).await;
    assert_eq!(claimed.lease.until, world.now() + LEASE);
}

pub(crate) async fn tokens_grow(mut world: World) {
    world.enqueue(vec![world.task(); 2]).await;
    let first = world.claim(First, 2).await;
    assert!(first[0].lease.token < first[1].lease.token);
    world.reopen().await;
    let swept = world.sweep().await;
    assert!(swept.iter().all(|swept| swept.lease.token > first[1].lease.token), "{swept:?}");
}

pub(crate) async fn every_attempt_sends_the_same_bytes_under_the_same_key(world: World) {
    world.add(world.keyed("order-17")).await;
    let mut claimed = world.claim_one(First).await;
    for number in 2..6 {
        world.retry_at(&claimed, world.now() + SECOND).await;
        world.advance(SECOND);
        claimed = world.claim_one(Retry).await;
        assert_eq!(claimed.history.attempts(), number);
        assert_eq!(claimed.request, request());
        assert_eq!(claimed.key, Some(key("order-17")));
    }
}

fn ids(claimed: &[Claimed]) -> Vec<relent_store::TaskId> {
    claimed.iter().map(|claimed| claimed.lease.task).collect()
}
