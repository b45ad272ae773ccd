//! How much at once and how fast: attempts in flight and an optional rate. REQ-L6.
//!
//! Retries have a limit of their own inside the limit on all attempts, so that a dependency's
//! retries cannot take the places of its first attempts. The rate is a GCRA: one number instead of
//! a bucket and a timer.

use crate::time::{NANOS_PER_SEC, Timestamp};

/// How many attempts may run at once, and how many may start in a second.
///
/// # Default
///
/// - 1,000 in flight, of which 200 may be retries
/// - no rate limit
///
/// ```
/// use relent_policy::ConcurrencyLimits;
///
/// assert_eq!(ConcurrencyLimits::default().retries_in_flight_max, 200);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConcurrencyLimits {
    /// Attempts in flight, retries included.
    pub in_flight_max: u32,
    /// Retries in flight.
    pub retries_in_flight_max: u32,
    /// Attempts started in a second, evenly spaced with a tenth of a second's worth at once.
    pub rate_per_second: Option<u32>,
}

impl Default for ConcurrencyLimits {
    fn default() -> ConcurrencyLimits {
        ConcurrencyLimits {
            in_flight_max: 1_000,
            retries_in_flight_max: 200,
            rate_per_second: None,
        }
    }
}

/// Whether an attempt is a task's first or one after it.
///
/// ```
/// use relent_policy::Turn;
///
/// assert_eq!(Turn::of_attempt(1), Turn::First);
/// assert_eq!(Turn::of_attempt(2), Turn::Retry);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// The first attempt.
    First,
    /// Any attempt after it.
    Retry,
}

impl Turn {
    /// The turn of an attempt counted from 1.
    pub const fn of_attempt(attempt: u32) -> Turn {
        if attempt <= 1 { Turn::First } else { Turn::Retry }
    }
}

/// The attempts of one dependency that are under way, and the pace of new ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flow {
    limits: ConcurrencyLimits,
    in_flight: u32,
    retries_in_flight: u32,
    /// When the next attempt would start if all were evenly spaced, in nanoseconds.
    next_even_start: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlowRefusal {
    Concurrency,
    RateLimited { until: Timestamp },
}

impl Flow {
    pub(crate) fn new(limits: ConcurrencyLimits) -> Flow {
        Flow { limits, in_flight: 0, retries_in_flight: 0, next_even_start: 0 }
    }

    #[inline]
    pub(crate) fn admit(&mut self, turn: Turn, now: Timestamp) -> Result<(), FlowRefusal> {
        if !self.has_place(turn) {
            return Err(FlowRefusal::Concurrency);
        }
        if let Some(rate) = self.limits.rate_per_second {
            self.pace(rate, now)?;
        }
        self.in_flight += 1;
        self.retries_in_flight += u32::from(turn == Turn::Retry);
        Ok(())
    }

    #[inline]
    pub(crate) fn has_place(&self, turn: Turn) -> bool {
        let retries_full = self.retries_in_flight >= self.limits.retries_in_flight_max;
        self.in_flight < self.limits.in_flight_max && !(turn == Turn::Retry && retries_full)
    }

    pub(crate) fn finish(&mut self, turn: Turn) {
        self.in_flight = self.in_flight.saturating_sub(1);
        let retry = u32::from(turn == Turn::Retry);
        self.retries_in_flight = self.retries_in_flight.saturating_sub(retry);
    }

    /// How many more may be in flight; `None` where their pace counts too.
    #[inline]
    pub(crate) fn unpaced_places(&self) -> Option<u32> {
        match self.limits.rate_per_second {
            None => Some(self.limits.in_flight_max.saturating_sub(self.in_flight)),
            Some(_) => None,
        }
    }

    /// As many first attempts that were admitted, and as many that finished.
    pub(crate) fn catch_up(&mut self, started: u32, finished: u32) {
        self.in_flight = self.in_flight.saturating_add(started).saturating_sub(finished);
    }

    /// Counts an attempt that starts whatever the limits say.
    pub(crate) fn force(&mut self, turn: Turn) {
        self.in_flight += 1;
        self.retries_in_flight += u32::from(turn == Turn::Retry);
    }

    pub(crate) fn in_flight(&self) -> u32 {
        self.in_flight
    }

    pub(crate) fn retries_in_flight(&self) -> u32 {
        self.retries_in_flight
    }

    pub(crate) fn limits(&self) -> ConcurrencyLimits {
        self.limits
    }

    pub(crate) fn set_limits(&mut self, limits: ConcurrencyLimits) {
        self.limits = limits;
    }

    fn pace(&mut self, rate: u32, now: Timestamp) -> Result<(), FlowRefusal> {
        let step = NANOS_PER_SEC / u64::from(rate.max(1));
        let ahead = (NANOS_PER_SEC / 10).max(step) - step;
        let earliest = self.next_even_start.saturating_sub(ahead);
        if now.as_nanos() < earliest {
            return Err(FlowRefusal::RateLimited { until: Timestamp::from_nanos(earliest) });
        }
        self.next_even_start = self.next_even_start.max(now.as_nanos()).saturating_add(step);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_secs(1);

    #[test]
    fn retries_cannot_take_the_places_of_first_attempts() {
        let limits =
            ConcurrencyLimits { in_flight_max: 3, retries_in_flight_max: 1, rate_per_second: None };
        let mut flow = Flow::new(limits);
        assert_eq!(flow.admit(Turn::Retry, NOW), Ok(()));
        assert_eq!(flow.admit(Turn::Retry, NOW), Err(FlowRefusal::Concurrency));
        assert_eq!(flow.admit(Turn::First, NOW), Ok(()));
        assert_eq!(flow.admit(Turn::First, NOW), Ok(()));
        assert_eq!(flow.admit(Turn::First, NOW), Err(FlowRefusal::Concurrency));
        flow.finish(Turn::Retry);
        assert_eq!(flow.admit(Turn::Retry, NOW), Ok(()));
        assert_eq!(flow.in_flight(), 3);
    }

    #[test]
    fn the_rate_holds_and_says_when_to_come_back() {
        let limits = ConcurrencyLimits {
            in_flight_max: u32::MAX,
            rate_per_second: Some(100),
            ..ConcurrencyLimits::default()
        };
        let mut flow = Flow::new(limits);
        let started = (0..1_000)
            .filter(|n| flow.admit(Turn::First, Timestamp::from_millis(5_000 + n)).is_ok());
        assert_eq!(started.count(), 100 + 9, "a tenth of a second's worth may start at once");
        assert_eq!(flow.admit(Turn::First, Timestamp::from_millis(6_000)), Ok(()));
        let until = match flow.admit(Turn::First, Timestamp::from_millis(6_000)) {
            Err(FlowRefusal::RateLimited { until }) => until,
            other => panic!("{other:?}"),
        };
        assert_eq!(flow.admit(Turn::First, until), Ok(()));
    }
}
