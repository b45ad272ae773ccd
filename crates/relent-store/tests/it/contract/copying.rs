//! Moving everything to another store, and going on there. REQ-S7, REQ-S4.

use bytes::Bytes;
use relent_policy::Turn::{First, Retry};
use relent_policy::{Breaker, BreakerRules, Budget, BudgetRules};
use relent_store::{
    BreakerSwap, Cancelled, Copying, Enqueued, Error, Extent, LaneChange, LaneRecord, MemoryStore,
    NODE_TTL, PolicyRecord, Redrive, Redriven, State, StoredRequest, SweptBecause, TaskId,
    TenantId, WholeTask,
};

use crate::world::{HOUR, LEASE, MINUTE, SECOND, World, created, key, policy};

/// Everything that a store has.
#[derive(Debug, PartialEq)]
struct Everything {
    policies: Vec<(TenantId, PolicyRecord)>,
    lanes: Vec<LaneRecord>,
    tasks: Vec<WholeTask>,
    extent: Extent,
}

async fn everything(store: &dyn Copying) -> Everything {
    let (mut tasks, mut after) = (Vec::new(), None);
    loop {
        let batch: Vec<WholeTask> = store.export(after, 3).await.unwrap();
        assert!(batch.len() <= 3);
        let Some(last) = batch.last() else { break };
        after = Some(last.task.id);
        tasks.extend(batch);
    }
    Everything {
        policies: store.export_policies().await.unwrap(),
        lanes: store.lanes().await.unwrap(),
        tasks,
        extent: store.extent().await.unwrap(),
    }
}

async fn import(store: &dyn Copying, all: Everything) -> (u64, u64, u64) {
    let policies = store.import_policies(all.policies).await.unwrap();
    let lanes = store.import_lanes(all.lanes).await.unwrap();
    let mut tasks = 0;
    for batch in all.tasks.chunks(2) {
        tasks += store.import(batch.to_vec()).await.unwrap();
    }
    (policies, lanes, tasks)
}

/// Copies through the model into an empty store of the same kind.
async fn copied(world: &World) -> World {
    let all = everything(&*world.copying()).await;
    let model = MemoryStore::new();
    let counts = import(&model, all).await;
    let extent = world.copying().extent().await.unwrap();
    assert_eq!(counts, (extent.policies, extent.lanes, extent.tasks()));
    let elsewhere = world.elsewhere();
    import(&*elsewhere.copying(), everything(&model).await).await;
    elsewhere
}

/// A task in each state, and one of everything else. Returns the tasks by what they do.
struct Tasks {
    later: TaskId,
    retried: TaskId,
    in_flight: TaskId,
    called_off: TaskId,
    dead: TaskId,
    redriven: TaskId,
    overdue: TaskId,
}

async fn fill(world: &World) -> Tasks {
    let (store, tenant) = (world.store(), &world.tenant);
    store.put_policy(tenant, policy("webhooks", "{\"n\":2}")).await.unwrap();
    store.put_policy(tenant, policy("gone", "{}")).await.unwrap();
    assert_eq!(store.delete_policy(tenant, "gone").await, Ok(true));
    let (neighbour, lane) = world.neighbour().await;
    let theirs = relent_store::NewTask { lane, ..world.keyed("later") };
    store.enqueue(&neighbour, vec![theirs]).await.unwrap();
    let limits = LaneChange::Limits {
        in_flight_max: None,
        retries_in_flight_max: None,
        rate_per_second: Some(7),
    };
    for change in [LaneChange::Paused(true), limits] {
        assert!(store.change_lane(&neighbour, lane, change).await.unwrap().is_some());
    }
    let budget = Budget::new(BudgetRules::default()).snapshot();
    store.save_budgets(vec![(world.lane, budget)]).await.unwrap();
    let breaker = Breaker::new(BreakerRules::default()).snapshot();
    let swap = BreakerSwap { lane: world.lane, seen: 0, breaker };
    store.swap_breakers(vec![swap]).await.unwrap();

    world.add(world.keyed("delivered")).await;
    world.succeed(&world.claim_one(First).await).await;
    let dead = world.dead_letter(world.keyed("dead")).await;
    let redriven = world.dead_letter(world.keyed("redriven")).await;
    world.advance(SECOND);
    let redrive = Redrive { task: redriven, after: MINUTE, policy: None };
    assert_eq!(store.redrive(tenant, vec![redrive]).await, Ok(vec![Redriven::Pending]));
    let retried = world.add(world.keyed("retried")).await;
    world.retry_at(&world.claim_one(First).await, world.now() + MINUTE).await;
    world.advance(SECOND);
    let cancelled = world.add(world.keyed("cancelled")).await;
    assert_eq!(store.cancel(tenant, cancelled).await, Ok(Cancelled::Now));
    let overdue = relent_store::NewTask { lifetime: SECOND, ..world.keyed("overdue") };
    let overdue = world.add(overdue).await;
    world.advance(SECOND);
    let swept = world.sweep().await;
    assert_eq!((swept.len(), swept[0].because), (1, SweptBecause::DeadlinePassed));
    let called_off = world.add(world.keyed("called-off")).await;
    world.claim_one(First).await;
    assert_eq!(store.cancel(tenant, called_off).await, Ok(Cancelled::AfterAttempt));
    let in_flight = world.add(world.keyed("in-flight")).await;
    world.claim_one(First).await;
    let later = relent_store::NewTask { key: Some(key("later")), ..world.task_after(2 * HOUR) };
    let later = world.add(later).await;
    Tasks { later, retried, in_flight, called_off, dead, redriven, overdue }
}

pub(crate) async fn everything_is_copied_as_it_was(world: World) {
    let tasks = fill(&world).await;
    let before = everything(&*world.copying()).await;
    let expected = Extent {
        policies: 4,
        lanes: 2,
        pending: 4,
        in_flight: 3,
        succeeded: 1,
        exhausted: 1,
        cancelled: 1,
    };
    assert_eq!(before.extent, expected);
    let find = |id: TaskId| before.tasks.iter().find(|whole| whole.task.id == id).unwrap();
    let until = find(tasks.in_flight).held.unwrap();
    assert_eq!((until.until, until.claimed_at), (world.now() + LEASE, Some(world.now())));
    assert_eq!(find(tasks.overdue).held.unwrap().claimed_at, None);
    assert!(find(tasks.retried).history.is_some() && find(tasks.later).held.is_none());
    assert_eq!(find(tasks.redriven).attempts.len(), 1);
    assert_eq!(find(tasks.dead).task, world.get(tasks.dead).await);
    let elsewhere = copied(&world).await;
    assert_eq!(everything(&*elsewhere.copying()).await, before);
    for id in [tasks.dead, tasks.retried, tasks.redriven] {
        assert_eq!(elsewhere.get(id).await, world.get(id).await);
        assert_eq!(elsewhere.attempts(id).await, world.attempts(id).await);
    }
    let counts = |world: &World| world.copying();
    let sorted = |mut counts: Vec<_>| {
        counts.sort_by_key(|(lane, _)| *lane);
        counts
    };
    let (there, here) = (counts(&elsewhere).counts().await, counts(&world).counts().await);
    assert_eq!(sorted(there.unwrap()), sorted(here.unwrap()));
}

/// Both at the same time from here on: what becomes due, and what is found.
async fn goes_on(world: &World, tasks: &Tasks) {
    let (store, copied_at) = (world.store(), world.now());
    world.advance(SECOND);
    assert!(world.claim(First, 10).await.is_empty() && world.claim(Retry, 10).await.is_empty());
    let repeated = world.enqueue(vec![world.keyed("dead")]).await;
    assert_eq!(repeated, [Enqueued::Existing(tasks.dead)]);
    let new = created(world.enqueue(vec![world.task_after(10 * HOUR)]).await[0]);
    assert!(new > tasks.later, "{new} is not after {}", tasks.later);
    let next = store.put_policy(&world.tenant, policy("webhooks", "{\"n\":3}")).await.unwrap();
    assert_eq!(next.version, 3);
    let all = world.copying().export_policies().await.unwrap();
    assert_eq!(all.iter().filter(|(_, policy)| policy.key == next.key).count(), 1);
    assert_eq!(all.len(), 5);
    let other = world.open_lane("another.example.com").await;
    assert!(other.as_u32() > world.lane.as_u32());

    world.advance(LEASE);
    let mut swept = world.sweep().await;
    swept.sort_by_key(|swept| swept.lease.task);
    let lost: Vec<TaskId> = swept.iter().map(|swept| swept.lease.task).collect();
    assert_eq!(lost, [tasks.overdue, tasks.called_off, tasks.in_flight]);
    assert_eq!(swept[0].because, SweptBecause::DeadlinePassed);
    assert_eq!(swept[2].because, SweptBecause::LeaseExpired { began_at: copied_at });
    assert_eq!(swept[2].history.attempts(), 1);

    world.advance(MINUTE);
    let claimed = world.claim_one(Retry).await;
    assert_eq!((claimed.lease.task, claimed.history.attempts()), (tasks.retried, 2));
    let claimed = world.claim_one(First).await;
    assert_eq!((claimed.lease.task, claimed.generation), (tasks.redriven, 1));
    assert_eq!(claimed.key, Some(key("redriven")));
    world.advance(2 * HOUR);
    let due: Vec<TaskId> =
        world.claim(First, 10).await.iter().map(|claimed| claimed.lease.task).collect();
    assert_eq!(due, [tasks.later]);
}

pub(crate) async fn what_was_copied_goes_on_where_it_was(world: World) {
    let tasks = fill(&world).await;
    let elsewhere = copied(&world).await;
    goes_on(&elsewhere, &tasks).await;
}

pub(crate) async fn what_was_copied_outlives_a_restart(world: World) {
    let tasks = fill(&world).await;
    let mut elsewhere = copied(&world).await;
    let before = everything(&*elsewhere.copying()).await;
    elsewhere.reopen().await;
    let mut after = everything(&*elsewhere.copying()).await;
    // A restart may end leases.
    for (after, before) in after.tasks.iter_mut().zip(&before.tasks) {
        after.held = before.held;
    }
    assert_eq!(after, before);
    let repeated = elsewhere.enqueue(vec![elsewhere.keyed("dead")]).await;
    assert_eq!(repeated, [Enqueued::Existing(tasks.dead)]);
    elsewhere.advance(2 * HOUR + MINUTE);
    let claimed = elsewhere.claim(First, 10).await;
    assert_eq!(claimed.last().map(|claimed| claimed.lease.task), Some(tasks.later));
}

pub(crate) async fn a_copy_can_be_repeated(world: World) {
    fill(&world).await;
    let (from, elsewhere) = (world.copying(), world.elsewhere());
    let to = elsewhere.copying();
    assert!(to.extent().await.unwrap().is_empty());
    // It ends in the middle.
    assert_eq!(to.import_policies(from.export_policies().await.unwrap()).await, Ok(4));
    assert_eq!(to.import_lanes(from.lanes().await.unwrap()).await, Ok(2));
    assert_eq!(to.import(from.export(None, 4).await.unwrap()).await, Ok(4));
    let all = everything(&*from).await;
    assert_eq!(import(&*to, everything(&*from).await).await, (0, 0, all.extent.tasks() - 4));
    assert_eq!(everything(&*to).await, all);
    assert_eq!(import(&*to, everything(&*from).await).await, (0, 0, 0));
    assert_eq!(everything(&*to).await, all);
}

pub(crate) async fn what_is_in_the_way_is_refused(world: World) {
    let first = world.add(world.keyed("a")).await;
    world.add(world.keyed("b")).await;
    let (from, elsewhere) = (world.copying(), world.elsewhere());
    let to = elsewhere.copying();
    let (policies, lanes) = (from.export_policies().await.unwrap(), from.lanes().await.unwrap());
    let tasks = from.export(None, 10).await.unwrap();
    let is_damaged = |answer: Result<u64, Error>| matches!(answer, Err(Error::Damaged(_)));
    assert!(is_damaged(to.import(tasks.clone()).await), "they have neither policy nor lane");
    to.import_policies(policies.clone()).await.unwrap();
    to.import_lanes(lanes.clone()).await.unwrap();

    let mut other = policies.clone();
    other[0].1.document = "{\"other\":1}".to_owned();
    assert!(is_damaged(to.import_policies(other).await));
    let mut other = lanes.clone();
    other[0].dependency = "other.example.com".to_owned();
    assert!(is_damaged(to.import_lanes(other).await));
    // Another task has the key, and the batch is refused as a whole.
    let mut other = tasks.clone();
    other[1].task.key = Some(key("c"));
    world.advance(SECOND);
    elsewhere.add(elsewhere.keyed("c")).await;
    assert!(is_damaged(to.import(other).await));
    assert_eq!(elsewhere.find(first).await, None);
    // It has gone on since it was copied.
    assert_eq!(to.import(tasks.clone()).await, Ok(2));
    let claimed = world.claim(First, 1).await;
    world.succeed(&claimed[0]).await;
    let now = from.export(None, 1).await.unwrap();
    assert_eq!(now[0].task.state, State::Succeeded);
    assert!(is_damaged(to.import(now).await));
    assert_eq!(elsewhere.get(first).await.state, State::Pending);
}

pub(crate) async fn large_bodies_come_a_few_at_a_time(world: World) {
    let body = Bytes::from(vec![7; 3 << 20]);
    for _ in 0..4 {
        let request = StoredRequest { body: body.clone(), ..crate::world::request() };
        world.add(relent_store::NewTask { request, ..world.task() }).await;
    }
    let (store, mut after, mut sizes) = (world.copying(), None, Vec::new());
    loop {
        let batch = store.export(after, 100).await.unwrap();
        let Some(last) = batch.last() else { break };
        after = Some(last.task.id);
        assert!(batch.iter().all(|whole| whole.task.request.body == body));
        sizes.push(batch.len());
    }
    assert_eq!(sizes, [3, 1]);
}

pub(crate) async fn nobody_is_at_work_on_a_store_that_nobody_uses(world: World) {
    assert_eq!(world.copying().nodes().await, Ok(0));
}

pub(crate) async fn whoever_works_on_a_shared_store_is_counted(world: World) {
    let store = world.copying();
    if !store.is_shared() {
        return;
    }
    for works in [true, false] {
        store.beat(works).await.unwrap();
        assert_eq!(store.nodes().await, Ok(1));
    }
    world.advance(NODE_TTL);
    assert_eq!(store.nodes().await, Ok(0));
}
