//! Writing down what came of attempts. REQ-O1, REQ-S1, REQ-S3, REQ-S4.

use std::time::Duration;

use bytes::Bytes;
use relent_policy::Turn::{First, Retry};
use relent_policy::{Class, FailureKind, Fault, GiveUpReason, Hop, Timestamp};
use relent_store::{AttemptRecord, Ended, Phases, Record, Recorded, State, Then, Waiting};

use crate::world::{HOUR, LEASE, SECOND, World, attempt, failure, key, request, success};

pub(crate) async fn a_delivered_task_has_ended(world: World) {
    let id = world.add(world.task()).await;
    let claimed = world.claim_one(First).await;
    world.advance(SECOND);
    assert_eq!(world.succeed(&claimed).await, Recorded::Applied);
    let task = world.get(id).await;
    assert_eq!((task.state, task.ended_at), (State::Succeeded, Some(world.now())));
    assert_eq!((task.last_status, task.because, task.attempts), (Some(200), None, 1));
    assert!(world.claim(Retry, 10).await.is_empty());
}

pub(crate) async fn a_retry_waits_with_what_it_remembers(world: World) {
    let id = world.add(world.task()).await;
    let claimed = world.claim_one(First).await;
    let at = world.now() + Duration::new(3, 141_592_653);
    let history = claimed.history.with_hop(Hop::RetriedAbove).with_deadline(at + HOUR);
    let then = Then::RetryAt { at, waiting: Waiting::RetryAfter, history };
    let record = Record { then, ..failure(&claimed, world.now(), at) };
    assert_eq!(world.record(record).await, Recorded::Applied);
    let task = world.get(id).await;
    assert_eq!((task.state, task.due_at), (State::Pending, at));
    assert_eq!((task.waiting, task.last_status), (Waiting::RetryAfter, Some(503)));
    assert_eq!((task.attempts, task.ended_at), (1, None));
    world.advance(4 * SECOND);
    let again = world.claim_one(Retry).await;
    assert_eq!(again.history, history.begin_attempt());
    assert_eq!((again.due_at, again.previous_status), (at, Some(503)));
}

pub(crate) async fn a_retry_moves_neither_its_start_nor_its_deadline(world: World) {
    let id = world.add(world.task()).await;
    let before = world.get(id).await;
    let claimed = world.claim_one(First).await;
    world.retry_at(&claimed, world.now() + HOUR * 24).await;
    let after = world.get(id).await;
    assert_eq!(
        (after.started_at, after.deadline_at, after.generation),
        (before.started_at, before.deadline_at, before.generation),
    );
}

pub(crate) async fn a_task_that_gave_up_is_kept_with_everything(world: World) {
    let id = world.dead_letter(world.keyed("order-17")).await;
    let task = world.get(id).await;
    assert_eq!((task.state, task.ended_at), (State::Exhausted, Some(world.now())));
    assert_eq!(task.because, Some(GiveUpReason::AttemptsExhausted));
    assert_eq!((task.request, task.key), (request(), Some(key("order-17"))));
    assert_eq!(world.attempts(id).await.len(), 1);
}

pub(crate) async fn every_reason_to_give_up_is_kept(world: World) {
    for because in GiveUpReason::ALL.iter().copied() {
        let id = world.add(world.task()).await;
        let claimed = world.claim_one(First).await;
        let row = AttemptRecord {
            ended: Ended::GaveUp { because },
            ..attempt(&claimed.history, 0, world.now())
        };
        let then = Then::Exhaust { because };
        world.record(Record { lease: claimed.lease, attempt: Some(row.clone()), then }).await;
        assert_eq!(world.get(id).await.because, Some(because));
        assert_eq!(world.attempts(id).await, [row]);
    }
}

pub(crate) async fn every_kind_of_failure_is_kept(world: World) {
    let judged = [Class::Retryable, Class::Permanent, Class::Unknown].map(FailureKind::Judged);
    let plain = [FailureKind::Http(100), FailureKind::Http(599), FailureKind::Grpc(16)];
    let faults = Fault::ALL.iter().copied().map(FailureKind::Fault);
    for kind in faults.chain(judged).chain(plain) {
        let id = world.add(world.task()).await;
        let claimed = world.claim_one(First).await;
        let mut record = failure(&claimed, world.now(), world.now() + HOUR);
        record.attempt.as_mut().unwrap().failure = Some(kind);
        world.record(record).await;
        assert_eq!(world.attempts(id).await[0].failure, Some(kind));
    }
}

pub(crate) async fn a_row_comes_back_as_it_was_written(world: World) {
    let id = world.add(world.task()).await;
    let claimed = world.claim_one(First).await;
    let row = AttemptRecord {
        generation: 0,
        number: 1,
        started_at: world.now(),
        took: Duration::new(12, 345_678_901),
        status: Some(429),
        failure: Some(FailureKind::Http(429)),
        ended: Ended::RetryAt { at: world.now() + SECOND, waiting: Waiting::RetryAfter },
        roll: u64::MAX,
        phases: Phases {
            dns: Some(Duration::ZERO),
            connect: Some(Duration::from_nanos(1)),
            tls: None,
            first_byte: Some(Duration::from_millis(30_000)),
        },
        preview: Some(Bytes::from_static(b"\0slow down\xff")),
    };
    let record =
        Record { attempt: Some(row.clone()), ..failure(&claimed, world.now(), world.now()) };
    world.record(record).await;
    let claimed = world.claim_one(Retry).await;
    let empty = AttemptRecord {
        number: 2,
        took: Duration::ZERO,
        status: None,
        failure: None,
        ended: Ended::Done,
        roll: 0,
        phases: Phases::default(),
        preview: Some(Bytes::new()),
        ..row.clone()
    };
    world.record(Record { attempt: Some(empty.clone()), ..success(&claimed, world.now()) }).await;
    assert_eq!(world.attempts(id).await, [row, empty]);
}

pub(crate) async fn a_stale_owner_changes_nothing(world: World) {
    let id = world.add(world.task()).await;
    let slow = world.claim_one(First).await;
    world.advance(LEASE);
    let swept = world.sweep().await.remove(0);
    let (before, rows) = (world.get(id).await, world.attempts(id).await);
    assert_eq!(world.succeed(&slow).await, Recorded::Stale);
    assert_eq!(world.retry_at(&slow, world.now()).await, Recorded::Stale);
    assert_eq!(world.exhaust(&slow).await, Recorded::Stale);
    assert_eq!((world.get(id).await, world.attempts(id).await), (before, rows));

    let retry = crate::world::retry(swept.lease, &swept.history, 0, world.now(), world.now());
    assert_eq!(world.record(retry).await, Recorded::Applied);
    assert_eq!(world.succeed(&slow).await, Recorded::Stale, "while it waits");
    let second = world.claim_one(Retry).await;
    assert_eq!(world.succeed(&slow).await, Recorded::Stale, "while another attempts it");
    assert_eq!(world.succeed(&second).await, Recorded::Applied);
    assert_eq!(world.exhaust(&slow).await, Recorded::Stale, "when it has ended");
    assert_eq!(world.get(id).await.state, State::Succeeded);
    assert_eq!(world.attempts(id).await.len(), 2);
}

pub(crate) async fn a_record_is_written_once(world: World) {
    let id = world.add(world.task()).await;
    let claimed = world.claim_one(First).await;
    let record = failure(&claimed, world.now(), world.now() + SECOND);
    let answers = world.store().record(vec![record.clone(), record.clone()]).await.unwrap();
    assert_eq!(answers, [Recorded::Applied, Recorded::Stale]);
    assert_eq!(world.record(record).await, Recorded::Stale);
    assert_eq!(world.attempts(id).await.len(), 1);
}

pub(crate) async fn a_lease_that_ran_out_writes_until_it_is_taken_over(world: World) {
    let id = world.add(world.task()).await;
    let claimed = world.claim_one(First).await;
    world.advance(LEASE + SECOND);
    assert_eq!(world.succeed(&claimed).await, Recorded::Applied);
    assert_eq!(world.get(id).await.state, State::Succeeded);
    assert!(world.sweep().await.is_empty());
}

pub(crate) async fn a_record_about_a_deleted_task_is_stale(world: World) {
    let id = world.add(world.task()).await;
    let claimed = world.claim_one(First).await;
    world.exhaust(&claimed).await;
    world.store().purge(&world.tenant, vec![id]).await.unwrap();
    assert_eq!(world.succeed(&claimed).await, Recorded::Stale);
    assert_eq!(world.find(id).await, None);
}

pub(crate) async fn a_stale_record_holds_up_no_other(world: World) {
    world.enqueue(vec![world.task(); 3]).await;
    let claimed = world.claim(First, 3).await;
    world.succeed(&claimed[1]).await;
    let records = claimed.iter().map(|claimed| success(claimed, world.now())).collect();
    let answers = world.store().record(records).await.unwrap();
    assert_eq!(answers, [Recorded::Applied, Recorded::Stale, Recorded::Applied]);
}

pub(crate) async fn an_attempt_without_an_answer_leaves_the_last_status(world: World) {
    let id = world.add(world.task()).await;
    let claimed = world.claim_one(First).await;
    world.retry_at(&claimed, world.now()).await;
    let claimed = world.claim_one(Retry).await;
    let mut record = failure(&claimed, world.now(), world.now());
    record.attempt.as_mut().unwrap().status = None;
    world.record(record).await;
    assert_eq!(world.get(id).await.last_status, Some(503));
    assert_eq!(world.claim_one(Retry).await.previous_status, Some(503));
    assert_eq!(world.attempts(id).await[1].status, None);
}

pub(crate) async fn a_retry_may_be_due_at_any_time(world: World) {
    for at in [Timestamp::ZERO, world.now(), world.now() + 4_000 * HOUR] {
        let id = world.add(world.task()).await;
        let claimed = world.claim_one(First).await;
        world.retry_at(&claimed, at).await;
        assert_eq!(world.get(id).await.due_at, at);
    }
    assert_eq!(world.claim(Retry, 10).await.len(), 2);
}

pub(crate) async fn attempt_rows_are_contiguous_lost_ones_included(world: World) {
    let id = world.add(world.task()).await;
    let claimed = world.claim_one(First).await;
    world.retry_at(&claimed, world.now()).await;
    for _ in 0..3 {
        world.claim_one(Retry).await;
        world.advance(LEASE);
        let swept = world.sweep().await.remove(0);
        let mut record =
            crate::world::retry(swept.lease, &swept.history, 0, world.now(), world.now());
        record.attempt.as_mut().unwrap().status = None;
        world.record(record).await;
    }
    let claimed = world.claim_one(Retry).await;
    world.succeed(&claimed).await;
    let numbers: Vec<u32> = world.attempts(id).await.iter().map(|row| row.number).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5]);
    assert_eq!(world.get(id).await.attempts, 5);
}
