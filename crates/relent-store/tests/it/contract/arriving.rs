//! What came from a store of another kind: ids and an order in which this one would not have made it.
//! REQ-S7, REQ-S4.

use std::collections::HashSet;
use std::time::Duration;

use relent_policy::Turn::{First, Retry};
use relent_store::{
    Cancelled, Counts, Enqueued, Error, LaneId, NewTask, Recorded, Redrive, Redriven, Retention,
    State, SweptBecause, TaskFilter, TaskId, TenantId, WholeTask,
};

use crate::world::{HOUR, LEASE, MINUTE, SECOND, World, created, exhaustion, key, retry, success};

const DAY: Duration = Duration::from_secs(86_400);

async fn export(world: &World) -> Vec<WholeTask> {
    world.copying().export(None, 100).await.unwrap()
}

/// Gives tasks ids in the same order whose lowest bytes, from 100 on, are no shard's number.
fn renumber(tasks: &mut [WholeTask]) -> Vec<TaskId> {
    let first = tasks[0].task.id.as_u64() | 0xff;
    for (n, whole) in (0..).zip(tasks.iter_mut()) {
        whole.task.id = TaskId::from_u64(first + 101 + 257 * n).unwrap();
    }
    tasks.iter().map(|whole| whole.task.id).collect()
}

/// Policies, lanes, and these tasks, in an empty store of the same kind.
async fn brought(world: &World, tasks: &[WholeTask], batch: usize) -> World {
    let (from, elsewhere) = (world.copying(), world.elsewhere());
    let to = elsewhere.copying();
    to.import_policies(from.export_policies().await.unwrap()).await.unwrap();
    to.import_lanes(from.lanes().await.unwrap()).await.unwrap();
    for batch in tasks.chunks(batch) {
        assert_eq!(to.import(batch.to_vec()).await, Ok(batch.len() as u64));
    }
    elsewhere
}

/// Everything of the world, elsewhere and under other ids.
async fn moved(world: &World) -> (World, Vec<TaskId>) {
    let mut tasks = export(world).await;
    let ids = renumber(&mut tasks);
    (brought(world, &tasks, 2).await, ids)
}

async fn counts(world: &World, lane: LaneId) -> Counts {
    let all = world.store().counts().await.unwrap();
    let found = all.into_iter().find(|(other, _)| *other == lane);
    found.map(|(_, counts)| counts).unwrap_or_default()
}

/// Prunes until nothing is left to prune.
async fn prune(world: &World) {
    while world.store().prune(Retention::default(), 2).await.unwrap() > 0 {}
}

pub(crate) async fn an_id_from_elsewhere_is_as_good_as_an_own_one(world: World) {
    for name in ["delivered", "retried", "called-off", "given-up"] {
        world.add(world.keyed(name)).await;
    }
    let (neighbour, lane) = world.neighbour().await;
    let theirs = NewTask { lane, ..world.keyed("theirs") };
    world.store().enqueue(&neighbour, vec![theirs]).await.unwrap();
    let (world, ids) = moved(&world).await;
    let [delivered, retried, called_off, given_up, theirs] = ids[..] else { panic!("{ids:?}") };

    assert_eq!(world.store().cancel(&world.tenant, called_off).await, Ok(Cancelled::Now));
    let claimed = world.claim(First, 10).await;
    let order: Vec<TaskId> = claimed.iter().map(|claimed| claimed.lease.task).collect();
    assert_eq!(order, [delivered, retried, given_up]);
    let records = vec![
        success(&claimed[0], world.now()),
        retry(claimed[1].lease, &claimed[1].history, 0, world.now(), world.now() + MINUTE),
        exhaustion(&claimed[2], world.now()),
    ];
    let recorded = world.store().record(records).await.unwrap();
    assert_eq!(recorded, [Recorded::Applied; 3]);
    assert_eq!(world.succeed(&claimed[0]).await, Recorded::Stale, "it is written once");
    let states = [delivered, retried, called_off, given_up];
    let expected = [State::Succeeded, State::Pending, State::Cancelled, State::Exhausted];
    for (id, state) in states.into_iter().zip(expected) {
        assert_eq!(world.get(id).await.state, state);
        assert_eq!(world.attempts(id).await.len(), usize::from(id != called_off));
    }
    assert_eq!(world.find(theirs).await, None, "it is another tenant's");
    let task = world.store().task(&neighbour, theirs).await.unwrap().unwrap();
    assert_eq!((task.key, task.state), (Some(key("theirs")), State::Pending));

    world.advance(MINUTE);
    let again = world.claim_one(Retry).await;
    assert_eq!((again.lease.task, again.history.attempts()), (retried, 2));
    assert_eq!(world.store().cancel(&world.tenant, retried).await, Ok(Cancelled::AfterAttempt));
    assert_eq!(world.retry_at(&again, world.now() + MINUTE).await, Recorded::Cancelled);
    let dead = Counts { dead_letters: 1, ..Counts::default() };
    assert_eq!(counts(&world, world.lane).await, dead);
    let purged = world.store().purge(&world.tenant, vec![given_up, retried, theirs]).await;
    assert_eq!(purged, Ok(2), "theirs is another tenant's");
    assert_eq!(counts(&world, world.lane).await, Counts::default());
    let waits = Counts { first: 1, ..Counts::default() };
    assert_eq!(counts(&world, lane).await, waits);
}

pub(crate) async fn an_attempt_from_elsewhere_is_taken_over_and_written(world: World) {
    for name in ["one", "two"] {
        world.add(world.keyed(name)).await;
    }
    let before = world.claim(First, 2).await;
    let overdue = NewTask { lifetime: SECOND, ..world.keyed("overdue") };
    world.add(overdue).await;
    let claimed_at = world.now();
    let (world, ids) = moved(&world).await;
    let [one, two, overdue] = ids[..] else { panic!("{ids:?}") };
    assert_eq!(counts(&world, world.lane).await.in_flight, 2);
    world.advance(LEASE);
    let mut swept = world.sweep().await;
    swept.sort_by_key(|swept| swept.lease.task);
    let lost: Vec<_> = swept.iter().map(|swept| (swept.lease.task, swept.because)).collect();
    let expired = SweptBecause::LeaseExpired { began_at: claimed_at };
    assert_eq!(lost, [(one, expired), (two, expired), (overdue, SweptBecause::DeadlinePassed)]);
    let stale = relent_store::Lease { task: one, ..before[0].lease };
    let late = retry(stale, &before[0].history, 0, world.now(), world.now());
    assert_eq!(world.record(late).await, Recorded::Stale, "its owner is elsewhere");
    let again = |n: usize| retry(swept[n].lease, &swept[n].history, 0, world.now(), world.now());
    assert_eq!(world.record(again(0)).await, Recorded::Applied);
    assert_eq!(world.record(crate::world::too_late(&swept[2])).await, Recorded::Applied);
    let claimed = world.claim_one(Retry).await;
    assert_eq!((claimed.lease.task, claimed.history.attempts()), (one, 2));
    assert_eq!(world.succeed(&claimed).await, Recorded::Applied);
    assert_eq!(world.get(overdue).await.state, State::Exhausted);
    let left = Counts { in_flight: 1, dead_letters: 1, ..Counts::default() };
    assert_eq!(counts(&world, world.lane).await, left);
}

pub(crate) async fn a_dead_letter_from_elsewhere_is_redriven(world: World) {
    world.dead_letter(world.keyed("dead")).await;
    world.add(world.task_after(HOUR)).await;
    let (world, ids) = moved(&world).await;
    let [dead, waiting] = ids[..] else { panic!("{ids:?}") };
    let redrive = |task| Redrive { task, after: Duration::ZERO, policy: None };
    let redriven =
        world.store().redrive(&world.tenant, vec![redrive(dead), redrive(waiting)]).await;
    assert_eq!(redriven, Ok(vec![Redriven::Pending, Redriven::NotDead(State::Pending)]));
    let claimed = world.claim_one(First).await;
    assert_eq!((claimed.lease.task, claimed.generation), (dead, 1));
    assert_eq!(world.exhaust(&claimed).await, Recorded::Applied);
    assert_eq!(world.attempts(dead).await.len(), 2);
    // The first end is forgotten; the second counts.
    world.advance(30 * DAY);
    prune(&world).await;
    assert_eq!(world.get(dead).await.state, State::Exhausted);
    world.advance(SECOND);
    prune(&world).await;
    assert_eq!(world.find(dead).await, None);
}

pub(crate) async fn tasks_from_elsewhere_are_found_and_listed(world: World) {
    for name in ["a", "b", "c", "d", "e"] {
        world.dead_letter(world.keyed(name)).await;
        world.add(world.task_after(HOUR)).await;
    }
    let (world, mut ids) = moved(&world).await;
    assert_eq!(world.store().task_by_key(&world.tenant, &key("b")).await, Ok(Some(ids[2])));
    assert_eq!(world.enqueue(vec![world.keyed("b")]).await, [Enqueued::Existing(ids[2])]);
    world.advance(SECOND);
    ids.push(world.add(world.task_after(HOUR)).await);
    ids.reverse();
    let listed = |tasks: Vec<relent_store::TaskRecord>| -> Vec<TaskId> {
        tasks.iter().map(|task| task.id).collect()
    };
    assert_eq!(listed(world.list(TaskFilter::default()).await), ids);
    let dead = TaskFilter { states: vec![State::Exhausted], ..TaskFilter::default() };
    let expected: Vec<TaskId> = ids.iter().skip(2).step_by(2).copied().collect();
    assert_eq!(listed(world.list(dead).await), expected);
}

pub(crate) async fn tasks_from_elsewhere_are_found_by_who_opens_the_store_afterwards(world: World) {
    world.add(world.task()).await;
    world.retry_at(&world.claim_one(First).await, world.now()).await;
    world.add(world.task()).await;
    let (mut world, ids) = moved(&world).await;
    world.reopen().await;
    let lines = world.store().lines().await.unwrap();
    for turn in [First, Retry] {
        let due = lines.iter().find(|due| due.lane == world.lane && due.turn == turn);
        assert_eq!(due.map(|due| due.at), Some(world.now()));
    }
    let retried = world.claim_one(Retry).await;
    let first = world.claim_one(First).await;
    assert_eq!([retried.lease.task, first.lease.task], ids[..]);
    assert_eq!(world.succeed(&retried).await, Recorded::Applied);
    assert_eq!(world.succeed(&first).await, Recorded::Applied);
}

pub(crate) async fn an_id_from_elsewhere_is_not_given_again(world: World) {
    world.add(world.task_after(HOUR)).await;
    // From a store whose clock is ahead.
    let mut tasks = export(&world).await;
    tasks[0].task.id = TaskId::first_at(world.now() + HOUR);
    let mut ids = vec![tasks[0].task.id];
    let mut world = brought(&world, &tasks, 1).await;
    for wait in [Duration::ZERO, HOUR] {
        world.advance(wait);
        let new = world.enqueue(vec![world.task(), world.task(), world.task()]).await;
        ids.extend(new.into_iter().map(created));
        world.reopen().await;
    }
    let given: HashSet<TaskId> = ids.iter().copied().collect();
    assert_eq!(given.len(), 7, "{ids:?}");
    assert_eq!(world.list(TaskFilter::default()).await.len(), 7);
}

pub(crate) async fn retention_goes_by_the_end_and_not_by_the_id(world: World) {
    // Of two of each kind, the first to come is the last to end.
    let late = world.add(world.task_after(3 * DAY)).await;
    let late_dead = world.add(world.task_after(3 * DAY)).await;
    world.add(world.task()).await;
    world.succeed(&world.claim_one(First).await).await;
    world.dead_letter(world.task()).await;
    world.advance(3 * DAY);
    let claimed = world.claim(First, 2).await;
    assert_eq!([claimed[0].lease.task, claimed[1].lease.task], [late, late_dead]);
    world.succeed(&claimed[0]).await;
    world.exhaust(&claimed[1]).await;
    let mut tasks = export(&world).await;
    let ids = renumber(&mut tasks);
    let [late, late_dead, early, early_dead] = ids[..] else { panic!("{ids:?}") };
    let world = brought(&world, &tasks, 1).await;
    let own = world.add(world.task()).await;
    world.succeed(&world.claim_one(First).await).await;

    let left = async |world: &World| -> Vec<TaskId> {
        prune(world).await;
        world.list(TaskFilter::default()).await.iter().map(|task| task.id).rev().collect()
    };
    assert_eq!(left(&world).await, [late, late_dead, early, early_dead, own]);
    world.advance(4 * DAY + SECOND);
    assert_eq!(left(&world).await, [late, late_dead, early_dead, own]);
    world.advance(3 * DAY);
    assert_eq!(left(&world).await, [late_dead, early_dead]);
    world.advance(20 * DAY);
    assert_eq!(left(&world).await, [late_dead]);
    world.advance(3 * DAY);
    assert_eq!(left(&world).await, []);
    assert_eq!(counts(&world, world.lane).await, Counts::default());
}

pub(crate) async fn rows_from_elsewhere_are_deleted_by_their_time(world: World) {
    let task = NewTask { lifetime: 90 * DAY, ..world.task() };
    world.add(task.clone()).await;
    // Two attempts at the same time, and a third after three days.
    world.retry_at(&world.claim_one(First).await, world.now()).await;
    world.retry_at(&world.claim_one(Retry).await, world.now() + 3 * DAY).await;
    world.advance(3 * DAY);
    world.retry_at(&world.claim_one(Retry).await, world.now() + DAY).await;
    let (world, ids) = moved(&world).await;
    world.advance(3 * DAY);
    world.retry_at(&world.claim_one(Retry).await, world.now() + 60 * DAY).await;
    let numbers = async |world: &World| -> Vec<u32> {
        prune(world).await;
        world.attempts(ids[0]).await.iter().map(|row| row.number).collect()
    };
    // A store may keep rows for a day longer than it must.
    assert_eq!(numbers(&world).await, [1, 2, 3, 4]);
    world.advance(2 * DAY + SECOND);
    assert_eq!(numbers(&world).await, [3, 4]);
    world.advance(3 * DAY);
    assert_eq!(numbers(&world).await, [4]);
    world.advance(3 * DAY);
    assert!(numbers(&world).await.is_empty());
    assert_eq!(world.get(ids[0]).await.state, State::Pending);
}

pub(crate) async fn an_id_that_is_anothers_is_refused(world: World) {
    world.add(world.keyed("a")).await;
    let (neighbour, lane) = world.neighbour().await;
    let other = NewTask { lane, fingerprint: *b"another another.", ..world.keyed("b") };
    world.store().enqueue(&neighbour, vec![other]).await.unwrap();
    let tasks = export(&world).await;
    let elsewhere = brought(&world, &tasks[..1], 1).await;
    let to = elsewhere.copying();
    let refuses = async |batch: Vec<WholeTask>, tenant: &TenantId, key_of: &str| {
        let refused = to.import(batch).await;
        assert!(matches!(refused, Err(Error::Damaged(_))), "{refused:?}");
        let found = elsewhere.store().task_by_key(tenant, &key(key_of)).await;
        assert_eq!(found, Ok(None), "nothing of the batch is stored");
    };
    // The id of another tenant's task, and before it one that would be new.
    let mut same_id = tasks[1].clone();
    same_id.task.id = tasks[0].task.id;
    let mut new = tasks[0].clone();
    new.task.id = TaskId::from_u64(tasks[1].task.id.as_u64() + 1_000).unwrap();
    new.task.key = Some(key("new"));
    refuses(vec![new.clone(), same_id], &elsewhere.tenant, "new").await;
    // What another task has its key comes with another tenant's that would be new.
    let mut same_key = new.clone();
    same_key.task.key = Some(key("a"));
    refuses(vec![tasks[1].clone(), same_key], &neighbour, "b").await;
    assert_eq!(to.extent().await.unwrap().tasks(), 1);
    assert_eq!(to.import(vec![tasks[1].clone(), new]).await, Ok(2));
}
