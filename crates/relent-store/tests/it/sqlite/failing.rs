//! A disk that is full, a queue that is full, a listener that fails. REQ-S4.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use relent_store::{
    DueListener, Enqueued, Error, LaneDue, NewTask, Recorded, SqliteOptions, State, Store,
    StoredRequest, TaskId, Tasks, Upkeep,
};

use super::Place;
use crate::world::success;

fn large(place: &Place) -> NewTask {
    let request = StoredRequest { body: vec![b'x'; 10_000].into(), ..place.task().request };
    NewTask { request, ..place.task() }
}

/// Stores batches until the store refuses, and returns the tasks of those it took.
async fn fill(place: &Place, batch: usize) -> Vec<TaskId> {
    let mut ids = Vec::new();
    loop {
        let answer = place.store().enqueue(&place.tenant, vec![large(place); batch]).await;
        match answer {
            Ok(answers) => ids.extend(answers.into_iter().map(crate::world::created)),
            Err(Error::Unavailable(text)) => {
                assert!(text.contains("full"), "{text}");
                return ids;
            }
            Err(other) => panic!("{other}"),
        }
    }
}

/// A store whose file may not become large, and that keeps nothing in reserve.
async fn small_store() -> Place {
    let (size_bytes_max, free_bytes_min) = (Some(1 << 20), 0);
    Place::with(SqliteOptions { size_bytes_max, free_bytes_min, ..SqliteOptions::default() }).await
}

#[tokio::test]
async fn a_full_disk_takes_nothing_new_and_loses_nothing() {
    let mut place = small_store().await;
    let ids = fill(&place, 7).await;
    assert!(ids.len() >= 7 && ids.len().is_multiple_of(7));
    for _ in 0..2 {
        let counts = place.store().counts().await;
        // Shortly after the failure everything is refused; a check asks again.
        if counts.is_err() {
            place.store().check().await.unwrap();
        }
        let counts = place.store().counts().await.unwrap();
        assert_eq!(counts[0].1.first, u64::try_from(ids.len()).unwrap());
        for id in &ids {
            assert_eq!(place.state(*id).await, State::Pending);
        }
        place.reopen().await;
    }
}

#[tokio::test]
async fn a_full_store_goes_on_when_there_is_room_again() {
    let place = small_store().await;
    let ids = fill(&place, 5).await;
    place.store().check().await.unwrap();
    // Claims and records go on in the rows that are there.
    let claimed = place.claim(u32::try_from(ids.len()).unwrap()).await;
    assert_eq!(claimed.len(), ids.len());
    let records = claimed.iter().map(|claimed| success(claimed, place.now()));
    let records: Vec<_> = records.take(20).collect();
    let recorded = place.store().record(records).await.unwrap();
    assert!(recorded.iter().all(|recorded| *recorded == Recorded::Applied));
    let done = claimed.iter().take(20).map(|claimed| claimed.lease.task).collect();
    assert_eq!(place.store().purge(&place.tenant, done).await.unwrap(), 20);
    place.enqueue(vec![large(&place); 5]).await;
}

#[tokio::test]
async fn leases_outlive_a_failure_of_the_disk() {
    let place = small_store().await;
    place.enqueue(vec![place.task(); 3]).await;
    let claimed = place.claim(3).await;
    fill(&place, 1).await;
    place.store().check().await.unwrap();
    let recorded = place.store().record(vec![success(&claimed[1], place.now())]).await.unwrap();
    assert_eq!(recorded, [Recorded::Applied]);
    assert_eq!(place.store().sweep(10).await.unwrap(), []);
    place.clock.advance(Duration::from_secs(60));
    assert_eq!(place.store().sweep(10).await.unwrap().len(), 2);
}

#[tokio::test]
async fn batches_that_meet_a_full_disk_together_are_each_whole_or_not_there() {
    let mut place = small_store().await;
    for round in 0..20_u8 {
        let mut batches = Vec::new();
        for batch in 0..10_u8 {
            let body = Bytes::from([round, batch].repeat(1_000));
            let request = StoredRequest { body, ..place.task().request };
            let tasks = vec![NewTask { request, ..place.task() }; 3];
            batches.push(place.store().enqueue(&place.tenant, tasks));
        }
        for batch in batches {
            match batch.await {
                Ok(answers) => assert_eq!(answers.len(), 3),
                Err(error) => assert!(matches!(error, Error::Unavailable(_)), "{error}"),
            }
        }
    }
    place.reopen().await;
    let file = rusqlite::Connection::open(place.path().join("relent.db")).unwrap();
    let torn: i64 = file
        .query_row(
            "SELECT count(*) FROM (SELECT count(*) AS n FROM payloads GROUP BY body HAVING n <> 3)",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(torn, 0);
}

/// Holds the writer until the test lets it go.
struct Slow {
    entered: Sender<()>,
    go_on: Mutex<Receiver<()>>,
    is_over: AtomicBool,
}

impl DueListener for Slow {
    fn due(&self, _: &[LaneDue]) {
        if !self.is_over.swap(true, Ordering::SeqCst) {
            self.entered.send(()).unwrap();
            self.go_on.lock().unwrap().recv().unwrap();
        }
    }
}

#[tokio::test]
async fn a_full_queue_refuses_new_tasks_at_once_and_still_takes_results() {
    let place = Place::with(SqliteOptions { queue_max: 8, ..SqliteOptions::default() }).await;
    let ((entered, has_entered), (go, go_on)) = (channel(), channel());
    let go_on = Mutex::new(go_on);
    place.store().listen(Arc::new(Slow { entered, go_on, is_over: AtomicBool::new(false) }));
    let first = place.add(place.task()).await;
    let answers = tokio::task::spawn_blocking(move || has_entered.recv().unwrap());
    answers.await.unwrap();
    let waiting: Vec<_> =
        (0..4).map(|_| place.store().enqueue(&place.tenant, vec![place.task()])).collect();
    let refused = place.store().enqueue(&place.tenant, vec![place.task()]).await;
    assert_eq!(refused, Err(Error::Overloaded));
    let cancel = place.store().cancel(&place.tenant, first);
    go.send(()).unwrap();
    cancel.await.unwrap();
    for answer in waiting {
        assert!(matches!(answer.await.unwrap()[..], [Enqueued::Created(_)]));
    }
    place.add(place.task()).await;
}

struct Broken;

impl DueListener for Broken {
    fn due(&self, _: &[LaneDue]) {
        panic!("as it does");
    }
}

#[tokio::test]
async fn a_listener_that_panics_does_not_end_the_store() {
    let place = Place::new().await;
    place.store().listen(Arc::new(Broken));
    let id = place.add(place.task()).await;
    assert_eq!(place.state(id).await, State::Pending);
    assert_eq!(place.claim(1).await.len(), 1);
}

#[tokio::test]
async fn an_operation_whose_asker_has_gone_is_done() {
    let place = Place::new().await;
    for _ in 0..10 {
        drop(place.store().enqueue(&place.tenant, vec![place.task()]));
    }
    place.store().check().await.unwrap();
    assert_eq!(place.claim(100).await.len(), 10);
}
