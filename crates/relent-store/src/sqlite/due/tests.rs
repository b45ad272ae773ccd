//! What the due index promises.

use super::*;

const LINE: LineId = LineId { lane: 3, retry: false };
const MINUTE: u64 = 60_000_000_000;

fn index() -> DueIndex {
    DueIndex::new(20 * MINUTE, 0)
}

#[test]
fn an_entry_is_24_bytes() {
    assert_eq!(size_of::<Entry>(), 24);
}

#[test]
fn the_head_is_the_earliest_and_of_equals_the_first_stored() {
    let mut index = index();
    for (id, due_at) in [(1, 50), (2, 40), (3, 40), (4, 60)] {
        assert_eq!(index.add(LINE, id, due_at, u64::MAX), 0);
    }
    let order: Vec<u64> = std::iter::from_fn(|| index.pop(LINE)).map(|entry| entry.id).collect();
    assert_eq!(order, [2, 3, 1, 4]);
}

#[test]
fn what_is_far_stays_out_of_memory_and_is_known_by_its_time() {
    let mut index = index();
    let due_at = 120 * MINUTE;
    let shelf = index.add(LINE, 1, due_at, u64::MAX);
    assert_eq!(shelf_bucket(shelf), Some(12));
    assert!(!index.is_near_shelf(shelf));
    assert_eq!(index.head(LINE), None);
    assert_eq!(index.earliest(LINE), Some(due_at));
    index.forget(LINE, shelf, due_at);
    assert_eq!(index.earliest(LINE), None);
}

#[test]
fn a_bucket_is_loaded_before_anything_in_it_is_due() {
    let mut index = index();
    let mut now = 0;
    let mut loaded = Vec::new();
    while now < 24 * 60 * MINUTE {
        now += index.next_load_in(now);
        let bucket = index.bucket_to_load(now).expect("it is time");
        assert!(!DueIndex::is_late(bucket, now));
        index.begin_load(bucket);
        loaded.push(bucket);
    }
    assert!(loaded.windows(2).all(|pair| pair[0] + 1 == pair[1]));
}

#[test]
fn after_a_long_pause_late_buckets_are_known_as_late() {
    let index = index();
    let now = 600 * MINUTE;
    let bucket = index.bucket_to_load(now).expect("it is time");
    assert!(DueIndex::is_late(bucket, now));
}

#[test]
fn overdue_entries_are_found_wherever_they_are() {
    let mut index = index();
    for id in 0..100_u64 {
        let deadline_at = if id % 10 == 0 { MINUTE } else { 2 * MINUTE };
        index.add(LINE, id, id, deadline_at);
    }
    assert!(index.take_overdue(MINUTE - 1).is_empty());
    assert_eq!(index.take_overdue(MINUTE + NANOS_PER_MILLI).len(), 10);
    assert_eq!(index.take_overdue(2 * MINUTE + NANOS_PER_MILLI).len(), 90);
    assert_eq!(index.head(LINE), None);
}

#[test]
fn a_deadline_never_seems_earlier_than_it_is() {
    for deadline_at in [7, 1_000_000, 1_000_001, u64::MAX - 1] {
        assert!(Entry::new(1, 5, deadline_at).deadline_at() >= deadline_at);
    }
}

#[test]
fn far_counts_that_arrive_late_meet_what_happened_meanwhile() {
    let mut index = index();
    index.add_far(LINE, 50, -1, 500 * MINUTE);
    assert_eq!(index.earliest(LINE), None);
    index.add_far(LINE, 50, 2, 501 * MINUTE);
    assert_eq!(index.earliest(LINE), Some(500 * MINUTE));
}

#[test]
fn shelves_of_different_kinds_do_not_meet() {
    let far = far_shelf(bucket(u64::MAX));
    assert!(far <= LIVE_SHELVES.1);
    assert!(ended_shelves(2).0 > LIVE_SHELVES.1);
    assert!(ended_shelf(2, u64::MAX) <= ended_shelves(2).1);
    assert!(ended_shelves(2).1 < ended_shelves(3).0);
    assert_eq!(shelf_bucket(0), None);
    assert_eq!(shelf_bucket(ended_shelf(2, 1)), None);
}
