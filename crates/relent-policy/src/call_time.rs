//! How long an attempt is likely to take, from the recent ones. REQ-L3.

use core::time::Duration;

/// A moving average that gives each new attempt an eighth of the weight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CallTime {
    average: Option<u64>,
}

impl CallTime {
    #[inline]
    pub(crate) fn note(&mut self, took: u64) {
        self.average = Some(match self.average {
            None => took,
            Some(average) => average - average / 8 + took / 8,
        });
    }

    /// So many attempts that took no time.
    pub(crate) fn note_none(&mut self, times: u32) {
        for _ in 0..times {
            self.note(0);
            if self.average.is_some_and(|average| average < 8) {
                return; // as low as it gets
            }
        }
    }

    /// Zero until an attempt has ended.
    #[inline]
    pub(crate) fn estimate(self) -> Duration {
        Duration::from_nanos(self.average.unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_average_follows_a_change_within_some_thirty_attempts() {
        let mut call_time = CallTime::default();
        call_time.note(1_000);
        assert_eq!(call_time.estimate(), Duration::from_nanos(1_000));
        (0..30).for_each(|_| call_time.note(9_000));
        assert!(call_time.estimate() > Duration::from_nanos(8_800));
    }

    #[test]
    fn the_longest_call_does_not_overflow() {
        let mut call_time = CallTime::default();
        (0..100).for_each(|_| call_time.note(u64::MAX));
        assert!(call_time.estimate() <= Duration::from_nanos(u64::MAX));
    }
}
