//! Rows that make no sense do no harm to others, and are never sent as something else. REQ-S4.

use relent_policy::Turn;
use relent_store::{Error, Tasks};

use super::Place;
use crate::world::failure;

#[tokio::test]
async fn a_history_that_cannot_be_read_still_counts_its_attempts() {
    let mut place = Place::new().await;
    place.add(place.task()).await;
    let claimed = place.claim(1).await.remove(0);
    let now = place.now();
    place.store().record(vec![failure(&claimed, now, now)]).await.unwrap();
    for history in ["", "{", "{\"version\":2}"] {
        place
            .reopen_after(|file| {
                file.execute("UPDATE tasks SET history = ?1", [history]).unwrap();
            })
            .await;
        let again = place.claims(Turn::Retry, 1).await.claimed.remove(0);
        let attempts = again.history.attempts();
        assert!(attempts >= 2);
        place.store().record(vec![failure(&again, now, now)]).await.unwrap();
    }
}

#[tokio::test]
async fn a_task_without_readable_headers_is_not_sent() {
    let mut place = Place::new().await;
    let damaged = place.add(place.task()).await;
    let sound = place.add(place.task()).await;
    place
        .reopen_after(|file| {
            let id = i64::try_from(damaged.as_u64()).unwrap();
            file.execute("UPDATE payloads SET headers = '[' WHERE id = ?1", [id]).unwrap();
        })
        .await;
    let claimed = place.claim(10).await;
    assert_eq!(claimed.len(), 1);
    assert_eq!(claimed[0].lease.task, sound);
    let looked_at = place.store().task(&place.tenant, damaged).await;
    assert!(matches!(looked_at, Err(Error::Damaged(_))), "{looked_at:?}");
}

#[tokio::test]
async fn a_lane_that_remembers_nonsense_starts_afresh() {
    use relent_store::Lanes;
    let mut place = Place::new().await;
    place
        .reopen_after(|file| {
            file.execute("UPDATE lanes SET budget = 'x', breaker = '{}'", []).unwrap();
        })
        .await;
    let lanes = place.store().lanes().await.unwrap();
    assert_eq!((lanes[0].budget, lanes[0].breaker), (None, None));
}
