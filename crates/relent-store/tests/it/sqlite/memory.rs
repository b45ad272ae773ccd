//! What is not in memory is not forgotten. REQ-S3, REQ-S5, REQ-I2.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use relent_policy::Turn;
use relent_store::{
    DueListener, Enqueued, FirstAttempt, LaneDue, NewTask, SqliteOptions, Store, Tasks, Upkeep,
};

use super::Place;
use crate::world::{created, failure, success};

const HOUR: Duration = Duration::from_secs(3_600);

#[tokio::test]
async fn far_tasks_come_back_at_their_time() {
    let mut place = Place::new().await;
    let mut expected = Vec::new();
    for hours in [30, 1, 6, 29, 2, 6] {
        let task = NewTask { first: FirstAttempt::After(hours * HOUR), ..place.task() };
        expected.push((hours, place.add(task).await));
    }
    expected.sort_unstable();
    let began_at = place.now();
    for (round, (hours, task)) in expected.into_iter().enumerate() {
        if round % 2 == 0 {
            place.reopen().await;
        }
        let due_at = began_at + hours * HOUR;
        let waits_until = place.claims(Turn::First, 0).await.next[0];
        assert_eq!(waits_until, Some(due_at));
        let left = due_at.saturating_since(place.now());
        if !left.is_zero() {
            place.clock.advance(left - Duration::from_nanos(1));
            assert!(place.claim(10).await.is_empty());
            place.clock.advance(Duration::from_nanos(1));
        }
        let claimed = place.claim(1).await;
        assert_eq!(claimed[0].lease.task, task);
        place.store().record(vec![success(&claimed[0], place.now())]).await.unwrap();
    }
    assert_eq!(place.claims(Turn::First, 10).await.next[0], None);
}

#[tokio::test]
async fn a_far_retry_and_a_far_redrive_come_back_too() {
    let mut place = Place::new().await;
    let task = place.add(place.task()).await;
    let claimed = place.claim(1).await.remove(0);
    let at = place.now() + 5 * HOUR;
    place.store().record(vec![failure(&claimed, place.now(), at)]).await.unwrap();
    place.reopen().await;
    place.clock.advance(5 * HOUR);
    let again = place.claims(Turn::Retry, 5).await.claimed;
    assert_eq!(again.len(), 1);
    assert_eq!((again[0].lease.task, again[0].history.attempts()), (task, 2));
}

struct Heard(Mutex<Vec<LaneDue>>);

impl DueListener for Heard {
    fn due(&self, dues: &[LaneDue]) {
        self.0.lock().unwrap().extend(dues);
    }
}

#[tokio::test]
async fn a_far_task_is_told_after_a_restart() {
    let mut place = Place::new().await;
    let task = NewTask { first: FirstAttempt::After(9 * HOUR), ..place.task() };
    place.add(task).await;
    place.reopen().await;
    let heard = Arc::new(Heard(Mutex::default()));
    place.store().listen(heard.clone());
    // Who asks for what counts waits until everything is loaded.
    assert_eq!(place.store().counts().await.unwrap()[0].1.first, 1);
    let lines = place.store().lines().await.unwrap();
    let told = heard.0.lock().unwrap().clone();
    let due_at = place.now() + 9 * HOUR;
    assert!(lines.iter().chain(&told).any(|due| due.at == due_at), "{lines:?} {told:?}");
}

#[tokio::test]
async fn many_far_tasks_are_loaded_in_parts_and_none_is_lost() {
    let place = Place::with(SqliteOptions { horizon: HOUR, ..SqliteOptions::default() }).await;
    let far = NewTask { first: FirstAttempt::After(3 * HOUR), ..place.task() };
    for _ in 0..10 {
        place.enqueue(vec![far.clone(); 1_000]).await;
    }
    // Near, and not due: the bucket is loaded in parts, with new tasks in between.
    place.clock.advance(2 * HOUR);
    place.enqueue(vec![NewTask { first: FirstAttempt::After(HOUR), ..place.task() }; 10]).await;
    place.clock.advance(HOUR);
    let mut claimed = 0;
    loop {
        let some = place.claim(1_000).await.len();
        if some == 0 {
            break;
        }
        claimed += some;
    }
    assert_eq!(claimed, 10_010);
}

#[tokio::test]
async fn keys_on_disk_are_keys() {
    let options = SqliteOptions { keys_in_memory_max: 100, ..SqliteOptions::default() };
    let mut place = Place::with(options).await;
    let mut ids = Vec::new();
    for first in (0..3_000).step_by(50) {
        let tasks = (first..first + 50).map(|number| place.keyed(number)).collect();
        ids.extend(place.enqueue(tasks).await.into_iter().map(created));
    }
    for round in 0..2 {
        for (number, id) in ids.iter().enumerate() {
            let again = place.enqueue(vec![place.keyed(number)]).await;
            assert_eq!(again, [Enqueued::Existing(*id)], "{number} in round {round}");
            let other = NewTask { fingerprint: [8; 16], ..place.keyed(number) };
            assert_eq!(place.enqueue(vec![other]).await, [Enqueued::Conflict(Some(*id))]);
        }
        place.reopen().await;
    }
    let on_disk = rusqlite::Connection::open(place.path().join("relent.db")).unwrap();
    let flushed: i64 =
        on_disk.query_row("SELECT count(*) FROM keys", [], |row| row.get(0)).unwrap();
    assert!(flushed > 2_800, "{flushed}");
}

#[tokio::test]
async fn a_deleted_tasks_key_is_free_wherever_it_was() {
    let options = SqliteOptions { keys_in_memory_max: 10, ..SqliteOptions::default() };
    let mut place = Place::with(options).await;
    let tasks: Vec<NewTask> = (0..100).map(|number| place.keyed(number)).collect();
    for task in &tasks {
        place.add(task.clone()).await;
    }
    for claimed in place.claim(100).await {
        place.store().record(vec![success(&claimed, place.now())]).await.unwrap();
    }
    let ended: Vec<_> = place.enqueue(tasks.clone()).await;
    let ids = ended.iter().map(|answer| match answer {
        Enqueued::Existing(id) => *id,
        other => panic!("expected what is there, got {other:?}"),
    });
    let purged = place.store().purge(&place.tenant, ids.collect()).await.unwrap();
    assert_eq!(purged, 100);
    place.reopen().await;
    for task in tasks {
        place.add(task).await;
    }
}
