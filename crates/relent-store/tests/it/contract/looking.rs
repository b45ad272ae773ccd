//! Looking at tasks, a page at a time. REQ-S2, REQ-O1, REQ-D3.

use std::collections::BTreeMap;

use relent_policy::GiveUpReason;
use relent_policy::Turn::{First, Retry};
use relent_store::{
    Cancelled, Counts, LaneChange, LaneDue, NewTask, Redrive, Redriven, State, TaskFilter, TaskId,
};

use crate::world::{HOUR, MINUTE, SECOND, World, key, policy, request};

pub(crate) async fn tenants_do_not_see_each_other(world: World) {
    let id = world.dead_letter(world.keyed("order-17")).await;
    let before = world.get(id).await;
    let (stranger, _) = world.neighbour().await;
    let store = world.store();
    assert_eq!(store.task(&stranger, id).await, Ok(None));
    assert_eq!(store.attempts(&stranger, id).await, Ok(None));
    assert_eq!(store.task_by_key(&stranger, &key("order-17")).await, Ok(None));
    let page = store.list(&stranger, TaskFilter::default(), None, 100).await.unwrap();
    assert!(page.items.is_empty());
    let lanes = TaskFilter { lanes: Some(vec![world.lane]), ..TaskFilter::default() };
    assert!(store.list(&stranger, lanes, None, 100).await.unwrap().items.is_empty());
    let policies = store.policies(&stranger).await.unwrap();
    assert!(policies.iter().all(|policy| policy.key != world.policy), "{policies:?}");
    assert_eq!(world.get(id).await, before);
}

pub(crate) async fn tenants_do_not_touch_each_other(world: World) {
    let dead = world.dead_letter(world.task()).await;
    let waiting = world.add(world.task()).await;
    let before = (world.get(dead).await, world.get(waiting).await);
    let (stranger, _) = world.neighbour().await;
    let store = world.store();
    assert_eq!(store.cancel(&stranger, waiting).await, Ok(Cancelled::NotFound));
    let wish = Redrive { task: dead, after: SECOND, policy: None };
    assert_eq!(store.redrive(&stranger, vec![wish]).await, Ok(vec![Redriven::NotFound]));
    assert_eq!(store.purge(&stranger, vec![dead]).await, Ok(0));
    let paused = LaneChange::Paused(true);
    assert_eq!(store.change_lane(&stranger, world.lane, paused).await, Ok(None));
    let lanes = store.lanes().await.unwrap();
    assert!(lanes.iter().all(|lane| !lane.settings.paused));
    let own = store.put_policy(&stranger, policy("theirs", "{}")).await.unwrap();
    assert_eq!(store.delete_policy(&world.tenant, &own.policy_id).await, Ok(false));
    assert_eq!((world.get(dead).await, world.get(waiting).await), before);
}

pub(crate) async fn pages_join_up_to_the_whole_latest_first(world: World) {
    let mut ids = Vec::new();
    for _ in 0..7 {
        ids.push(world.add(world.task()).await);
        world.advance(SECOND);
    }
    ids.reverse();
    assert_eq!(listed(&world, TaskFilter::default()).await, ids);
}

pub(crate) async fn a_list_is_without_bodies(world: World) {
    let id = world.add(world.keyed("order-17")).await;
    let mut expected = world.get(id).await;
    expected.request.body = bytes::Bytes::new();
    assert_eq!(world.list(TaskFilter::default()).await, [expected.clone()]);
    assert_eq!(expected.body_bytes, request().body.len() as u64);
}

pub(crate) async fn what_comes_between_two_pages_moves_nothing(world: World) {
    let mut ids = Vec::new();
    for _ in 0..4 {
        ids.push(world.add(world.task()).await);
    }
    let store = world.store();
    let list = |after| store.list(&world.tenant, TaskFilter::default(), after, 2);
    let page = list(None).await.unwrap();
    world.add(world.task()).await;
    store.cancel(&world.tenant, ids[2]).await.unwrap();
    store.purge(&world.tenant, vec![ids[2]]).await.unwrap();
    let next = list(page.next).await.unwrap();
    let found: Vec<_> = page.items.iter().chain(&next.items).map(|task| task.id).collect();
    assert_eq!(found, [ids[3], ids[2], ids[1], ids[0]]);
}

pub(crate) async fn a_list_is_narrowed_by_state(world: World) {
    let dead = world.dead_letter(world.task()).await;
    let done = world.add(world.task()).await;
    let claimed = world.claim_one(First).await;
    world.succeed(&claimed).await;
    let called_off = world.add(world.task()).await;
    world.store().cancel(&world.tenant, called_off).await.unwrap();
    let in_flight = world.add(world.task()).await;
    world.claim_one(First).await;
    let waiting = world.add(world.task()).await;
    let states = [
        (State::Exhausted, dead),
        (State::Succeeded, done),
        (State::Cancelled, called_off),
        (State::InFlight, in_flight),
        (State::Pending, waiting),
    ];
    for (state, id) in states {
        let filter = TaskFilter { states: vec![state], ..TaskFilter::default() };
        assert_eq!(listed(&world, filter).await, [id]);
    }
    let states = vec![State::Pending, State::Exhausted];
    let filter = TaskFilter { states, ..TaskFilter::default() };
    assert_eq!(listed(&world, filter).await, [waiting, dead]);
}

pub(crate) async fn a_list_is_narrowed_by_lane_and_policy(world: World) {
    let lane = world.open_lane("slow.example.com").await;
    let patient = world.store().put_policy(&world.tenant, policy("patient", "{}")).await.unwrap();
    let first = world.add(world.task()).await;
    let second = world.add(NewTask { lane, ..world.task() }).await;
    let third = world.add(NewTask { policy: patient.key, ..world.task() }).await;
    let in_lanes = |lanes| TaskFilter { lanes: Some(lanes), ..TaskFilter::default() };
    assert_eq!(listed(&world, in_lanes(vec![lane])).await, [second]);
    assert_eq!(listed(&world, in_lanes(vec![lane, world.lane])).await, [third, second, first]);
    assert!(listed(&world, in_lanes(Vec::new())).await.is_empty());
    let under = |keys| TaskFilter { policies: Some(keys), ..TaskFilter::default() };
    assert_eq!(listed(&world, under(vec![patient.key])).await, [third]);
    assert!(listed(&world, under(Vec::new())).await.is_empty());
    let filter = TaskFilter { lanes: Some(vec![lane]), ..under(vec![patient.key]) };
    assert!(listed(&world, filter).await.is_empty());
}

pub(crate) async fn a_list_is_narrowed_by_the_time_of_storing(world: World) {
    let first = world.add(world.task()).await;
    world.advance(SECOND);
    let (second, at) = (world.add(world.task()).await, world.now());
    world.advance(SECOND);
    let third = world.add(world.task()).await;
    let after = TaskFilter { created_after: Some(at), ..TaskFilter::default() };
    assert_eq!(listed(&world, after.clone()).await, [third, second]);
    let before = TaskFilter { created_before: Some(at), ..TaskFilter::default() };
    assert_eq!(listed(&world, before).await, [first]);
    let between = TaskFilter { created_before: Some(at + SECOND), ..after };
    assert_eq!(listed(&world, between).await, [second]);
}

pub(crate) async fn a_list_is_narrowed_by_the_reason(world: World) {
    let dead = world.dead_letter(world.task()).await;
    world.add(world.task()).await;
    let because = |reason| TaskFilter { because: Some(reason), ..TaskFilter::default() };
    assert_eq!(listed(&world, because(GiveUpReason::AttemptsExhausted)).await, [dead]);
    assert!(listed(&world, because(GiveUpReason::Permanent)).await.is_empty());
}

pub(crate) async fn counts_tell_where_tasks_are(world: World) {
    assert_eq!(counts(&world).await, BTreeMap::new());
    let other = world.open_lane("slow.example.com").await;
    world.dead_letter(world.task()).await;
    world.enqueue(vec![world.task(); 5]).await;
    world.add(NewTask { lane: other, ..world.task_after(HOUR) }).await;
    let claimed = world.claim(First, 4).await;
    world.retry_at(&claimed[0], world.now() + MINUTE).await;
    world.succeed(&claimed[1]).await;
    let here = Counts { first: 1, retries: 1, in_flight: 2, dead_letters: 1 };
    let there = Counts { first: 1, ..Counts::default() };
    let expected = BTreeMap::from([(world.lane, here), (other, there)]);
    assert_eq!(counts(&world).await, expected);
}

pub(crate) async fn counts_follow_every_change(mut world: World) {
    let id = world.add(world.task()).await;
    let count = async |world: &World| counts(world).await.get(&world.lane).copied();
    let first = Counts { first: 1, ..Counts::default() };
    let in_flight = Counts { in_flight: 1, ..Counts::default() };
    let dead = Counts { dead_letters: 1, ..Counts::default() };
    assert_eq!(count(&world).await, Some(first));
    world.claim_one(First).await;
    assert_eq!(count(&world).await, Some(in_flight));
    world.reopen().await;
    assert_eq!(count(&world).await, Some(in_flight), "lost, and not yet taken over");
    let swept = world.sweep().await.remove(0);
    assert_eq!(count(&world).await, Some(in_flight));
    world.record(crate::world::too_late(&swept)).await;
    assert_eq!(count(&world).await, Some(dead));
    let wish = Redrive { task: id, after: SECOND, policy: None };
    world.store().redrive(&world.tenant, vec![wish]).await.unwrap();
    assert_eq!(count(&world).await, Some(first));
    world.store().cancel(&world.tenant, id).await.unwrap();
    assert_eq!(count(&world).await, None);
}

pub(crate) async fn a_starting_service_learns_what_waits(mut world: World) {
    assert_eq!(world.store().lines().await, Ok(Vec::new()));
    world.enqueue(vec![world.task(), world.task_after(HOUR), world.task_after(MINUTE)]).await;
    let claimed = world.claim_one(First).await;
    world.retry_at(&claimed, world.now() + 2 * SECOND).await;
    world.reopen().await;
    let lines = world.store().lines().await.unwrap();
    assert_eq!(lines.len(), 2);
    let lane = world.lane;
    assert!(lines.contains(&LaneDue { lane, turn: First, at: world.now() + MINUTE }));
    assert!(lines.contains(&LaneDue { lane, turn: Retry, at: world.now() + 2 * SECOND }));
}

async fn listed(world: &World, filter: TaskFilter) -> Vec<TaskId> {
    world.list(filter).await.iter().map(|task| task.id).collect()
}

/// Lanes with nothing in them may be left out or not.
async fn counts(world: &World) -> BTreeMap<relent_store::LaneId, Counts> {
    let counts = world.store().counts().await.unwrap().into_iter();
    counts.filter(|(_, counts)| *counts != Counts::default()).collect()
}
