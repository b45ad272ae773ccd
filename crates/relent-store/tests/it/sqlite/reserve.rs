//! A disk that is nearly full: what new tasks may not use up. REQ-S4.

use std::time::Duration;

use relent_store::{
    Cancelled, Claimed, Error, NewTask, Recorded, SqliteOptions, State, StoredRequest, TaskId,
    Tasks, Upkeep,
};

use super::Place;
use crate::world::{created, retry, success};

const ATTEMPTS: usize = 3;

/// A task with a body of so many bytes.
fn sized(place: &Place, bytes: usize) -> NewTask {
    let request = StoredRequest { body: vec![b'x'; bytes].into(), ..place.task().request };
    NewTask { request, ..place.task() }
}

/// Stores tasks until they are refused; those that were stored, and why no more are.
async fn fill(place: &Place, bytes: usize) -> (Vec<TaskId>, Error) {
    let mut ids = Vec::new();
    loop {
        assert!(ids.len() < 10_000, "there is always room");
        match place.store().enqueue(&place.tenant, vec![sized(place, bytes)]).await {
            Ok(answers) => ids.extend(answers.into_iter().map(created)),
            Err(refused) => return (ids, refused),
        }
    }
}

#[tokio::test]
async fn a_file_that_is_nearly_full_takes_nothing_new_and_lets_the_others_end() {
    let options = SqliteOptions { size_bytes_max: Some(4 << 20), ..SqliteOptions::default() };
    let mut place = Place::with(options).await;
    let (mut ids, _) = fill(&place, 10_000).await;
    // A smaller one may still find room.
    let (more, refused) = fill(&place, 100).await;
    ids.extend(more);
    let Error::Full(shortage) = refused else { panic!("{refused}") };
    assert!(shortage.contains("of 4194304 are free in the file"), "{shortage}");
    assert!(ids.len() > 200, "{}", ids.len());
    assert!(matches!(place.store().check().await, Err(Error::Full(_))));
    // Nothing else is refused, not even for a moment.
    let (last, others) = ids.split_last().unwrap();
    assert_eq!(place.store().cancel(&place.tenant, *last).await, Ok(Cancelled::Now));
    let mut claimed = place.claim(10_000).await;
    for _ in 1..ATTEMPTS {
        assert_eq!(claimed.len(), others.len());
        let again = |claimed: &Claimed| {
            let Claimed { lease, history, generation, .. } = claimed;
            retry(*lease, history, *generation, place.now(), place.now())
        };
        let records = claimed.iter().map(again).collect();
        let recorded = place.store().record(records).await.unwrap();
        assert!(recorded.iter().all(|recorded| *recorded == Recorded::Applied));
        claimed = place.claims(relent_policy::Turn::Retry, 10_000).await.claimed;
    }
    let records = claimed.iter().map(|claimed| success(claimed, place.now())).collect();
    let recorded = place.store().record(records).await.unwrap();
    assert!(recorded.iter().all(|recorded| *recorded == Recorded::Applied));
    place.reopen().await;
    for id in others {
        assert_eq!(place.state(*id).await, State::Succeeded);
        let attempts = place.store().attempts(&place.tenant, *id).await.unwrap();
        assert_eq!(attempts.map(|rows| rows.len()), Some(ATTEMPTS));
    }
    // Room in the file is room, also if the file does not become smaller.
    assert!(matches!(place.store().check().await, Err(Error::Full(_))));
    place.store().purge(&place.tenant, ids).await.unwrap();
    until_there_is_room(&place).await;
    assert!(fill(&place, 10_000).await.0.len() > 100);
}

#[tokio::test]
async fn a_disk_that_is_nearly_full_takes_nothing_new() {
    let mut place = Place::new().await;
    let id = place.add(place.task()).await;
    place.options.free_bytes_min = u64::MAX;
    place.reopen().await;
    let refused = place.store().enqueue(&place.tenant, vec![place.task()]).await;
    let Err(Error::Full(shortage)) = refused else { panic!("{refused:?}") };
    assert!(shortage.contains("bytes are free on the disk"), "{shortage}");
    assert!(matches!(place.store().check().await, Err(Error::Full(_))));
    let claimed = place.claim(1).await;
    assert_eq!(claimed[0].lease.task, id);
    let recorded = place.store().record(vec![success(&claimed[0], place.now())]).await;
    assert_eq!(recorded, Ok(vec![Recorded::Applied]));
    place.options.free_bytes_min = 0;
    place.reopen().await;
    assert_eq!(place.state(id).await, State::Succeeded);
    place.add(place.task()).await;
}

#[tokio::test]
async fn a_task_that_is_larger_than_what_is_left_does_not_keep_out_smaller_ones() {
    let options = SqliteOptions { size_bytes_max: Some(4 << 20), ..SqliteOptions::default() };
    let place = Place::with(options).await;
    let large = place.store().enqueue(&place.tenant, vec![sized(&place, 5 << 20)]).await;
    assert!(matches!(large, Err(Error::Full(_))), "{large:?}");
    place.add(sized(&place, 10_000)).await;
}

/// It is looked at now and then only.
async fn until_there_is_room(place: &Place) {
    for _ in 0..500 {
        if place.store().check().await.is_ok() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("there is no room again");
}
