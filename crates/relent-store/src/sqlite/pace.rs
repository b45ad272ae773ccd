//! How much one turn of the writer may be: see the head of [`writer`](super::writer). REQ-S3.

use std::time::Duration;

use super::rows::nanos;

const ROWS_MAX: usize = 4_096;
/// However fast the disk is, a turn takes at least this many rows and works for at least this long.
const ROWS_MIN: usize = 64;
const WORK_MIN: Duration = Duration::from_millis(1);

/// How fast the writer is, and its disk: averages over the last few turns, in nanoseconds.
#[derive(Default)]
pub(super) struct Pace {
    row: u64,
    flush: u64,
}

impl Pace {
    /// How many rows the next turn may have.
    pub(super) fn rows_max(&self) -> usize {
        let work = (2 * self.flush).max(nanos(WORK_MIN));
        let rows = work.checked_div(self.row).unwrap_or(u64::MAX);
        usize::try_from(rows).unwrap_or(usize::MAX).clamp(ROWS_MIN, ROWS_MAX)
    }

    /// What the last turn wrote, and how long that and its flush took.
    pub(super) fn learn(&mut self, rows: u64, work: Duration, flush: Duration) {
        let average = |old: u64, new: u64| if old == 0 { new } else { (7 * old + new) / 8 };
        if let Some(row) = nanos(work).checked_div(rows) {
            self.row = average(self.row, row.max(1));
        }
        self.flush = average(self.flush, nanos(flush));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_disk_gets_large_groups_and_a_fast_one_small_ones() {
        let rows_after = |flush| {
            let mut pace = Pace::default();
            pace.learn(100, Duration::from_micros(500), flush);
            pace.rows_max()
        };
        assert_eq!(rows_after(Duration::ZERO), 200);
        assert_eq!(rows_after(Duration::from_millis(4)), 1_600);
        assert_eq!(rows_after(Duration::from_millis(100)), ROWS_MAX);
    }

    #[test]
    fn a_turn_that_knows_nothing_or_is_slow_takes_some() {
        assert_eq!(Pace::default().rows_max(), ROWS_MAX);
        let mut pace = Pace::default();
        pace.learn(1, Duration::from_secs(1), Duration::ZERO);
        assert_eq!(pace.rows_max(), ROWS_MIN);
        pace.learn(0, Duration::from_secs(1), Duration::ZERO);
        assert_eq!(pace.rows_max(), ROWS_MIN);
    }
}
