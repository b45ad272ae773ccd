//! Policies, lanes, and what must be there after a restart. REQ-S1, REQ-S7, REQ-G2, REQ-K2.

use std::time::Duration;

use relent_policy::Turn::First;
use relent_policy::{
    Breaker, BreakerRules, BreakerSnapshot, Budget, BudgetRules, Health, Share, Timestamp,
};
use relent_store::BreakerSwapped::{Done, Lost, Unknown};
use relent_store::{
    BreakerSwap, Enqueued, Error, LaneChange, LaneId, LaneSettings, NewPolicy, PolicyKey,
    TaskFilter, TenantId,
};

use crate::world::{HOUR, LEASE, MINUTE, SECOND, World, failure, policy};

pub(crate) async fn a_policy_gets_a_version_for_each_document(world: World) {
    let (store, tenant) = (world.store(), &world.tenant);
    let first = store.put_policy(tenant, policy("a", "{\"n\":1}")).await.unwrap();
    world.advance(SECOND);
    let second = store.put_policy(tenant, policy("a", "{\"n\":2}")).await.unwrap();
    let back = store.put_policy(tenant, policy("a", "{\"n\":1}")).await.unwrap();
    assert_eq!((first.version, second.version, back.version), (1, 2, 3));
    assert!(first.key != second.key && second.key != back.key && first.key != back.key);
    assert_eq!((&*second.policy_id, &*second.document), ("a", "{\"n\":2}"));
    assert_eq!((second.lease, second.created_at, second.deleted), (LEASE, world.now(), false));
    assert_eq!(store.policy(first.key).await, Ok(Some(first)), "an old version does not change");
}

pub(crate) async fn the_same_document_is_the_same_version(world: World) {
    let (store, tenant) = (world.store(), &world.tenant);
    let first = store.put_policy(tenant, policy("a", "{}")).await.unwrap();
    world.advance(SECOND);
    assert_eq!(store.put_policy(tenant, policy("a", "{}")).await, Ok(first));
}

pub(crate) async fn policies_are_listed_by_id_and_version(world: World) {
    let tenant = TenantId::try_new("fresh").unwrap();
    let store = world.store();
    let mut puts = Vec::new();
    for (id, document) in [("b", "1"), ("a", "1"), ("b", "2")] {
        puts.push(store.put_policy(&tenant, policy(id, document)).await.unwrap());
    }
    let expected = vec![puts[1].clone(), puts[0].clone(), puts[2].clone()];
    assert_eq!(store.policies(&tenant).await, Ok(expected));
}

pub(crate) async fn a_deleted_policy_comes_back_as_a_new_version(world: World) {
    let (store, tenant) = (world.store(), &world.tenant);
    let first = store.put_policy(tenant, policy("a", "{}")).await.unwrap();
    assert_eq!(store.delete_policy(tenant, "a").await, Ok(true));
    assert_eq!(store.delete_policy(tenant, "a").await, Ok(false));
    assert_eq!(store.delete_policy(tenant, "unknown").await, Ok(false));
    assert!(store.policy(first.key).await.unwrap().unwrap().deleted);
    let second = store.put_policy(tenant, policy("a", "{}")).await.unwrap();
    assert_eq!((second.version, second.deleted), (2, false));
    assert_ne!(second.key, first.key);
}

pub(crate) async fn a_task_keeps_its_deleted_policy(world: World) {
    world.add(world.task()).await;
    assert_eq!(world.store().delete_policy(&world.tenant, "webhooks").await, Ok(true));
    let claimed = world.claim_one(First).await;
    assert_eq!((claimed.policy, claimed.lease.until), (world.policy, world.now() + LEASE));
}

pub(crate) async fn a_policy_that_is_not_there_is_not_found(world: World) {
    let key = PolicyKey::from_u32(4_000_000);
    assert_eq!(world.store().policy(key).await, Ok(None));
}

pub(crate) async fn a_long_lease_is_kept_to_the_nanosecond(mut world: World) {
    let lease = Duration::new(86_400, 123_456_789);
    let new = NewPolicy { lease, ..policy("long", "{}") };
    let stored = world.store().put_policy(&world.tenant, new).await.unwrap();
    world.reopen().await;
    assert_eq!(world.store().policy(stored.key).await.unwrap().unwrap().lease, lease);
}

pub(crate) async fn a_lane_is_opened_once(world: World) {
    let (store, tenant) = (world.store(), &world.tenant);
    let other = store.put_policy(tenant, policy("other", "{}")).await.unwrap().key;
    let again = store.open_lane(tenant, "api.example.com", other).await.unwrap();
    assert_eq!((again.id, again.policy), (world.lane, world.policy));
    let (neighbour, theirs) = world.neighbour().await;
    assert_ne!(theirs, world.lane);
    let lanes = store.lanes().await.unwrap();
    let mut owners: Vec<_> = lanes.iter().map(|lane| (lane.id, &lane.tenant)).collect();
    owners.sort_unstable();
    assert_eq!(owners, [(world.lane, tenant), (theirs, &neighbour)]);
    assert!(lanes.iter().all(|lane| lane.dependency == "api.example.com"));
    assert!(lanes.iter().all(|lane| lane.settings == LaneSettings::default()));
    assert!(lanes.iter().all(|lane| lane.budget.is_none() && lane.breaker.is_none()));
}

pub(crate) async fn what_people_set_on_a_lane_stays(mut world: World) {
    let (tenant, lane, nothing) = (world.tenant.clone(), world.lane, LaneSettings::default());
    let limits = LaneChange::Limits {
        in_flight_max: Some(7),
        retries_in_flight_max: Some(0),
        rate_per_second: None,
    };
    let limited =
        LaneSettings { in_flight_max: Some(7), retries_in_flight_max: Some(0), ..nothing };
    let none = LaneChange::Limits {
        in_flight_max: None,
        retries_in_flight_max: None,
        rate_per_second: None,
    };
    // Each leaves alone what the other is about.
    for (change, settings) in [
        (LaneChange::Paused(true), LaneSettings { paused: true, ..nothing }),
        (limits, LaneSettings { paused: true, ..limited }),
        (LaneChange::Paused(false), limited),
        (LaneChange::Paused(true), LaneSettings { paused: true, ..limited }),
        (none, LaneSettings { paused: true, ..nothing }),
        (limits, LaneSettings { paused: true, ..limited }),
    ] {
        assert_eq!(world.store().change_lane(&tenant, lane, change).await, Ok(Some(settings)));
        assert_eq!(world.store().lanes().await.unwrap()[0].settings, settings);
    }
    world.reopen().await;
    let kept = world.store().lanes().await.unwrap()[0].settings;
    assert_eq!(kept, LaneSettings { paused: true, ..limited });
}

pub(crate) async fn budgets_and_breakers_remember_over_a_restart(mut world: World) {
    let now = world.now();
    let mut budget = Budget::new(BudgetRules::default());
    budget.count_first_attempt(now);
    budget.note(Health::Failing);
    let mut breaker = Breaker::new(BreakerRules::default());
    let admission = breaker.admit(now).unwrap();
    breaker.record(admission, Health::Failing, now, 7);
    let (budget, breaker) = (budget.snapshot(), breaker.snapshot());
    let store = world.store();
    assert_eq!(store.save_budgets(vec![(world.lane, budget)]).await, Ok(()));
    let swap = BreakerSwap { lane: world.lane, seen: 0, breaker };
    assert_eq!(store.swap_breakers(vec![swap]).await, Ok(vec![Done { revision: 1 }]));
    world.reopen().await;
    let lane = world.store().lanes().await.unwrap().remove(0);
    assert_eq!((lane.budget, lane.breaker), (Some(budget), Some(breaker)));
    assert_eq!(lane.breaker_revision, 1);
}

pub(crate) async fn a_breaker_is_changed_only_by_who_has_seen_its_last_change(world: World) {
    let (store, lane) = (world.store(), world.lane);
    let [first, second] = [3, 4].map(|failures| failed_breaker(failures, world.now()));
    let swap = |seen, breaker| store.swap_breakers(vec![BreakerSwap { lane, seen, breaker }]);
    let never = Lost { revision: 0, breaker: None };
    assert_eq!(swap(7, first).await, Ok(vec![never]), "a revision that was never there");
    assert_eq!(swap(0, first).await, Ok(vec![Done { revision: 1 }]));
    let lost = Lost { revision: 1, breaker: Some(first) };
    assert_eq!(swap(0, second).await, Ok(vec![lost]));
    assert_eq!(store.lanes().await.unwrap()[0].breaker, Some(first));
    assert_eq!(swap(1, second).await, Ok(vec![Done { revision: 2 }]));
    assert_eq!(store.lanes().await.unwrap()[0].breaker, Some(second));
}

pub(crate) async fn breakers_are_swapped_each_for_itself(world: World) {
    let (store, lane) = (world.store(), world.lane);
    let other = world.open_lane("other.example.com").await;
    let breaker = failed_breaker(3, world.now());
    let swap = |lane, seen| BreakerSwap { lane, seen, breaker };
    let unknown = LaneId::from_u32(4_000_000);
    let swaps = vec![swap(other, 0), swap(unknown, 0), swap(lane, 1)];
    let answers = [Done { revision: 1 }, Unknown, Lost { revision: 0, breaker: None }];
    assert_eq!(store.swap_breakers(swaps).await, Ok(answers.to_vec()));
    assert_eq!(store.swap_breakers(Vec::new()).await, Ok(Vec::new()));
    let paused = store.change_lane(&world.tenant, other, LaneChange::Paused(true)).await;
    assert!(paused.unwrap().is_some_and(|settings| settings.paused));
    let lanes = store.lanes().await.unwrap();
    let found = lanes.iter().map(|lane| (lane.breaker, lane.breaker_revision));
    assert_eq!(found.collect::<Vec<_>>(), [(None, 0), (Some(breaker), 1)]);
}

pub(crate) async fn the_only_node_has_everything_to_itself(world: World) {
    for _ in 0..2 {
        let beat = world.store().beat(true).await.unwrap();
        assert_eq!(beat.share, Some(Share::WHOLE));
    }
    assert_eq!(world.store().beat(false).await.unwrap().share, None, "it does not send");
}

fn failed_breaker(failures: u32, now: Timestamp) -> BreakerSnapshot {
    let mut breaker = Breaker::new(BreakerRules::default());
    for _ in 0..failures {
        let admission = breaker.admit(now).unwrap();
        breaker.record(admission, Health::Failing, now, 7);
    }
    breaker.snapshot()
}

pub(crate) async fn everything_is_there_after_a_restart(mut world: World) {
    world.dead_letter(world.keyed("dead")).await;
    world.enqueue(vec![world.task(), world.keyed("waiting"), world.task_after(HOUR)]).await;
    let claimed = world.claim(First, 1).await.remove(0);
    let at = world.now() + Duration::from_nanos(1_000_000_007);
    world.record(failure(&claimed, world.now(), at)).await;
    let tasks = world.list(TaskFilter::default()).await;
    let mut rows = Vec::new();
    for task in &tasks {
        rows.push(world.attempts(task.id).await);
    }
    let policies = world.store().policies(&world.tenant).await;
    world.reopen().await;
    assert_eq!(world.list(TaskFilter::default()).await, tasks);
    for (task, rows) in tasks.iter().zip(rows) {
        assert_eq!(world.attempts(task.id).await, rows);
    }
    assert_eq!(world.store().policies(&world.tenant).await, policies);
}

pub(crate) async fn a_repeated_key_is_the_same_task_after_a_restart(mut world: World) {
    let id = world.add(world.keyed("order-17")).await;
    world.reopen().await;
    assert_eq!(world.enqueue(vec![world.keyed("order-17")]).await, [Enqueued::Existing(id)]);
    let other = relent_store::NewTask { fingerprint: [9; 16], ..world.keyed("order-17") };
    assert_eq!(world.enqueue(vec![other]).await, [Enqueued::Conflict(Some(id))]);
    assert_eq!(world.claim_one(First).await.lease.task, id, "stored and never sent would be lost");
}

pub(crate) async fn a_store_can_be_opened_many_times(mut world: World) {
    let id = world.add(world.task_after(MINUTE)).await;
    for _ in 0..3 {
        world.reopen().await;
        assert_eq!(world.next(First).await, Some(world.now() + MINUTE));
    }
    world.advance(MINUTE);
    assert_eq!(world.claim_one(First).await.lease.task, id);
}

pub(crate) async fn the_time_never_goes_back(mut world: World) {
    let before: Timestamp = world.store().now();
    assert_eq!(before, world.now());
    world.advance(SECOND);
    assert_eq!(world.store().now(), before + SECOND);
    world.reopen().await;
    assert!(world.store().now() >= before + SECOND);
}

pub(crate) async fn a_closed_store_says_so(world: World) {
    let store = world.store();
    assert_eq!(store.check().await, Ok(()));
    assert_eq!(store.close(10 * SECOND).await, Ok(()));
    assert!(matches!(store.check().await, Err(Error::Unavailable(_))));
    let refused = store.enqueue(&world.tenant, vec![world.task()]).await;
    assert!(matches!(refused, Err(Error::Unavailable(_))), "{refused:?}");
    assert_eq!(store.close(SECOND).await, Ok(()), "closing twice does no harm");
}
