//! Taking tasks in. REQ-S1, REQ-S4.

use std::time::Duration;

use relent_policy::{Repeatable, Timestamp, Turn};
use relent_store::{Enqueued, FirstAttempt, NewTask, State, TaskFilter, Waiting};

use crate::world::{HOUR, NANOSECOND, SECOND, World, created, key, request};

const OTHER: [u8; 16] = [7; 16];

pub(crate) async fn a_task_is_kept_as_it_was_given(world: World) {
    let id = world.add(world.keyed("order-17")).await;
    let task = world.get(id).await;
    assert_eq!(task.request, request());
    assert_eq!(task.body_bytes, request().body.len() as u64);
    assert_eq!(task.key, Some(key("order-17")));
    assert_eq!(task.fingerprint, world.task().fingerprint);
    assert_eq!((task.id, task.lane, task.policy), (id, world.lane, world.policy));
    assert_eq!((task.state, task.generation, task.attempts), (State::Pending, 0, 0));
    assert_eq!((task.due_at, task.started_at), (world.now(), world.now()));
    assert_eq!((task.waiting, task.cancel_requested), (Waiting::Scheduled, false));
    assert_eq!((task.ended_at, task.because, task.last_status), (None, None, None));
}

pub(crate) async fn a_request_without_anything_is_kept_too(world: World) {
    let mut task = world.task();
    task.request.headers.clear();
    task.request.body = bytes::Bytes::new();
    task.request.correlation_id = None;
    let id = world.add(task.clone()).await;
    assert_eq!(world.get(id).await.request, task.request);
    assert_eq!(world.get(id).await.body_bytes, 0);
}

pub(crate) async fn every_reason_to_repeat_is_kept(world: World) {
    use Repeatable::{ByKey, ByMethod, Declared, No};
    for repeatable in [No, ByMethod, ByKey, Declared] {
        world.add(NewTask { repeatable, ..world.task() }).await;
        assert_eq!(world.claim_one(Turn::First).await.history.repeatable(), repeatable);
    }
}

pub(crate) async fn a_first_attempt_is_due_when_it_was_asked_for(world: World) {
    let wait = Duration::new(5, 1);
    let at = world.now() + HOUR + NANOSECOND;
    let now = world.add(world.task()).await;
    let after = world.add(world.task_after(wait)).await;
    let then = NewTask { first: FirstAttempt::NotBefore(at), ..world.task() };
    let not_before = world.add(then).await;
    assert_eq!(world.get(now).await.due_at, world.now());
    assert_eq!(world.get(after).await.due_at, world.now() + wait);
    assert_eq!(world.get(not_before).await.due_at, at);
}

pub(crate) async fn a_time_that_has_passed_is_now(world: World) {
    let first = FirstAttempt::NotBefore(Timestamp::from_secs(1));
    let id = world.add(NewTask { first, ..world.task() }).await;
    let task = world.get(id).await;
    assert_eq!((task.due_at, task.started_at), (world.now(), world.now()));
}

pub(crate) async fn a_deadline_counts_from_the_first_due_time(world: World) {
    let lifetime = Duration::new(90, 123_456_789);
    let id = world.add(NewTask { lifetime, ..world.task_after(HOUR) }).await;
    let task = world.get(id).await;
    assert_eq!(task.started_at, world.now() + HOUR);
    assert_eq!(task.deadline_at, world.now() + HOUR + lifetime);
}

pub(crate) async fn a_repeated_key_is_the_same_task(world: World) {
    let id = world.add(world.keyed("order-17")).await;
    world.advance(SECOND);
    let again = world.enqueue(vec![world.keyed("order-17")]).await;
    assert_eq!(again, [Enqueued::Existing(id)]);
    assert_eq!(world.list(TaskFilter::default()).await.len(), 1);
}

pub(crate) async fn a_key_with_other_content_stores_nothing(world: World) {
    let id = world.add(world.keyed("order-17")).await;
    let before = world.get(id).await;
    let other = NewTask { fingerprint: OTHER, ..world.keyed("order-17") };
    assert_eq!(world.enqueue(vec![other]).await, [Enqueued::Conflict(Some(id))]);
    assert_eq!(world.get(id).await, before);
    assert_eq!(world.list(TaskFilter::default()).await.len(), 1);
}

pub(crate) async fn a_batch_is_stored_whole_or_not_at_all(world: World) {
    let taken = world.add(world.keyed("taken")).await;
    let known = world.add(world.keyed("known")).await;
    let batch = vec![
        world.task(),
        world.keyed("known"),
        NewTask { fingerprint: OTHER, ..world.keyed("taken") },
        world.keyed("new"),
    ];
    let answers = world.enqueue(batch).await;
    let expected = [
        Enqueued::Withheld,
        Enqueued::Existing(known),
        Enqueued::Conflict(Some(taken)),
        Enqueued::Withheld,
    ];
    assert_eq!(answers, expected);
    assert_eq!(world.list(TaskFilter::default()).await.len(), 2);
    let new = world.store().task_by_key(&world.tenant, &key("new")).await.unwrap();
    assert_eq!(new, None);
}

pub(crate) async fn a_refused_batch_can_be_sent_again_without_its_conflict(world: World) {
    world.add(world.keyed("taken")).await;
    let conflict = NewTask { fingerprint: OTHER, ..world.keyed("taken") };
    world.enqueue(vec![world.keyed("a"), conflict, world.keyed("b")]).await;
    let answers = world.enqueue(vec![world.keyed("a"), world.keyed("b")]).await;
    assert_ne!(created(answers[0]), created(answers[1]));
}

pub(crate) async fn a_repetition_within_a_batch_is_the_same_task(world: World) {
    let answers = world.enqueue(vec![world.keyed("a"), world.task(), world.keyed("a")]).await;
    assert_eq!(answers[2], Enqueued::Existing(created(answers[0])));
    assert_eq!(world.list(TaskFilter::default()).await.len(), 2);
}

pub(crate) async fn a_conflict_within_a_batch_stores_nothing(world: World) {
    let other = NewTask { fingerprint: OTHER, ..world.keyed("a") };
    let answers = world.enqueue(vec![world.keyed("a"), other, world.keyed("a")]).await;
    assert_eq!(answers, [Enqueued::Withheld, Enqueued::Conflict(None), Enqueued::Withheld]);
    assert!(world.list(TaskFilter::default()).await.is_empty());
}

pub(crate) async fn a_key_is_its_tenants(world: World) {
    let (neighbour, lane) = world.neighbour().await;
    let own = world.add(world.keyed("order-17")).await;
    let theirs = NewTask { lane, fingerprint: OTHER, ..world.keyed("order-17") };
    let answers = world.store().enqueue(&neighbour, vec![theirs]).await.unwrap();
    assert_ne!(created(answers[0]), own);
}

pub(crate) async fn tasks_without_a_key_are_never_the_same(world: World) {
    let answers = world.enqueue(vec![world.task(), world.task()]).await;
    assert_ne!(created(answers[0]), created(answers[1]));
}

pub(crate) async fn an_empty_batch_is_answered_with_nothing(world: World) {
    assert_eq!(world.enqueue(Vec::new()).await, []);
}

pub(crate) async fn ids_grow_and_tell_when_a_task_was_stored(world: World) {
    let answers = world.enqueue(vec![world.task(), world.task()]).await;
    world.advance(SECOND);
    let later = world.add(world.task()).await;
    assert!(created(answers[0]) < created(answers[1]) && created(answers[1]) < later);
    assert_eq!(later.created_at().as_millis(), world.now().as_millis());
}

pub(crate) async fn an_id_is_never_given_twice(mut world: World) {
    let first = world.dead_letter(world.task()).await;
    assert_eq!(world.store().purge(&world.tenant, vec![first]).await, Ok(1));
    let second = world.dead_letter(world.task()).await;
    assert!(second > first);
    assert_eq!(world.store().purge(&world.tenant, vec![second]).await, Ok(1));
    world.reopen().await;
    assert!(world.add(world.task()).await > second);
}

pub(crate) async fn a_task_is_found_by_its_key(world: World) {
    let id = world.add(world.keyed("order-17")).await;
    let (known, unknown) = (key("order-17"), key("order-18"));
    assert_eq!(world.store().task_by_key(&world.tenant, &known).await, Ok(Some(id)));
    assert_eq!(world.store().task_by_key(&world.tenant, &unknown).await, Ok(None));
}

pub(crate) async fn a_key_stays_taken_when_its_task_has_ended(world: World) {
    let id = world.dead_letter(world.keyed("order-17")).await;
    let again = world.enqueue(vec![world.keyed("order-17")]).await;
    assert_eq!(again, [Enqueued::Existing(id)]);
}

pub(crate) async fn a_key_is_free_again_when_its_task_is_deleted(world: World) {
    let id = world.dead_letter(world.keyed("order-17")).await;
    assert_eq!(world.store().purge(&world.tenant, vec![id]).await, Ok(1));
    let other = NewTask { fingerprint: OTHER, ..world.keyed("order-17") };
    let new = world.add(other).await;
    assert_ne!(new, id);
    let found = world.store().task_by_key(&world.tenant, &key("order-17")).await;
    assert_eq!(found, Ok(Some(new)));
}
