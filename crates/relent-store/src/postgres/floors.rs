//! Where to begin reading a line.
//!
//! The index has an entry for every row that ever waited, until vacuum takes it away, which it cannot
//! while anybody in the database has a snapshot from before: a report that runs for two minutes
//! leaves half a million dead entries at the beginning of a busy line, and a claim that reads the
//! line from there reads all of them each time. So a claim begins a little before where the last one
//! ended. What is due earlier than that is rare, and is not lost: whoever makes it due tells (a retry
//! in the past, a transaction that was long under way), which moves the beginning back; and every few
//! seconds a line is read from its very beginning, as is everything by the looks of [`hints`]. What
//! is found there that was not known is told in the same way.
//!
//! [`hints`]: crate::hints
//!
//! REQ-S4, REQ-S5.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::rows::{from_line, from_time};
use crate::lane::LaneDue;

/// Statements that began together end in any order: what one of them makes due may be seen so much
/// after the time it is due at.
const SLACK_NANOS: i64 = 1_000_000_000;
const READ_ALL_EVERY: Duration = Duration::from_secs(5);

#[derive(Default)]
pub(super) struct Floors(Mutex<HashMap<i64, Floor>>);

struct Floor {
    /// Nothing waits that is due earlier, as far as is known.
    at: i64,
    /// The earliest that was told since the claim under way began.
    told: i64,
    read_all: Instant,
}

impl Floors {
    /// From where on a claim is to read a line.
    pub(super) fn begin(&self, line: i64) -> i64 {
        let mut floors = self.lock();
        let Some(floor) = floors.get_mut(&line) else { return 0 };
        floor.told = i64::MAX;
        if floor.read_all.elapsed() >= READ_ALL_EVERY {
            floor.read_all = Instant::now();
            return 0;
        }
        floor.at
    }

    /// A claim has read a line up to this time.
    pub(super) fn end(&self, line: i64, read_to: i64) {
        let at = read_to.saturating_sub(SLACK_NANOS).max(0);
        let new = || Floor { at: 0, told: i64::MAX, read_all: Instant::now() };
        let mut floors = self.lock();
        let floor = floors.entry(line).or_insert_with(new);
        floor.at = at.min(floor.told);
    }

    /// Something became due, or was found.
    pub(super) fn told(&self, dues: &[LaneDue]) {
        let mut floors = self.lock();
        for due in dues {
            if let Some(floor) = floors.get_mut(&from_line(due.lane, due.turn)) {
                let at = from_time(due.at);
                floor.at = floor.at.min(at);
                floor.told = floor.told.min(at);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<i64, Floor>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use relent_policy::{Timestamp, Turn};

    use super::*;
    use crate::id::LaneId;

    const SECOND: i64 = 1_000_000_000;

    fn due(at: i64) -> [LaneDue; 1] {
        let at = Timestamp::from_nanos(at.cast_unsigned());
        [LaneDue { lane: LaneId::from_u32(1), turn: Turn::First, at }]
    }

    #[test]
    fn a_line_is_read_from_a_little_before_where_the_last_claim_ended() {
        let floors = Floors::default();
        assert_eq!(floors.begin(2), 0);
        floors.end(2, 100 * SECOND);
        assert_eq!((floors.begin(2), floors.begin(3)), (99 * SECOND, 0));
    }

    #[test]
    fn what_is_told_moves_the_beginning_back_also_during_a_claim() {
        let floors = Floors::default();
        floors.end(2, 100 * SECOND);
        floors.told(&due(50 * SECOND));
        assert_eq!(floors.begin(2), 50 * SECOND);
        floors.told(&due(40 * SECOND));
        floors.end(2, 100 * SECOND);
        assert_eq!(floors.begin(2), 40 * SECOND);
        floors.end(2, 100 * SECOND);
        assert_eq!(floors.begin(2), 99 * SECOND);
    }
}
