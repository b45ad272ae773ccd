//! What a lane's [leeway](crate::Leeway) asks of its breaker.

use super::{Breaker, Phase};

impl Breaker {
    /// Until when a success only counts, in the slot that is running now, in nanoseconds; `None` unless
    /// the breaker is closed and done with its ramp.
    #[inline]
    pub(crate) fn counts_until(&self) -> Option<u64> {
        match self.phase {
            Phase::Closed => Some(self.window.ends_at()),
            _ => None,
        }
    }

    /// As many successes now.
    pub(crate) fn count_successes(&mut self, times: u32) {
        self.window.count_all_here(times);
    }
}
