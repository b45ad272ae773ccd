//! How long to wait at most: the curve under which jitter draws. REQ-B1, REQ-B3, REQ-B4.
//!
//! A policy works its curve out once, when it is built: one ceiling for each attempt it may make.
//! A decision is then a table look-up, the same for all four kinds, and there is no power, shift
//! or multiplication left that could overflow at attempt 10,000.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use crate::ratio::Ratio;
use crate::time::nanos;

/// How the delay grows from one attempt to the next, before jitter.
///
/// ```
/// use core::time::Duration;
/// use relent_policy::{Backoff, Ratio};
///
/// let doubling = Backoff::Exponential {
///     initial: Duration::from_secs(1),
///     multiplier: Ratio::from_thousandths(2_000),
/// };
/// let cap = Duration::from_secs(30);
/// assert_eq!(doubling.ceiling(1, cap), Duration::from_secs(1));
/// assert_eq!(doubling.ceiling(5, cap), Duration::from_secs(16));
/// assert_eq!(doubling.ceiling(6, cap), cap);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Backoff {
    /// `initial * multiplier^(n-1)` after attempt `n`.
    Exponential {
        /// The delay after the first attempt.
        initial: Duration,
        /// How many times longer each delay is than the one before.
        multiplier: Ratio,
    },
    /// `initial * n` after attempt `n`.
    Linear {
        /// The delay after the first attempt, and what each further attempt adds.
        initial: Duration,
    },
    /// The same delay after every attempt.
    Fixed {
        /// That delay.
        delay: Duration,
    },
    /// The n-th entry after attempt `n`.
    Schedule(Vec<Duration>),
}

impl Backoff {
    /// Its name in policy documents.
    ///
    /// ```
    /// # use relent_policy::Backoff;
    /// assert_eq!(Backoff::Schedule(vec![]).name(), "SCHEDULE");
    /// ```
    pub const fn name(&self) -> &'static str {
        match self {
            Backoff::Exponential { .. } => "EXPONENTIAL",
            Backoff::Linear { .. } => "LINEAR",
            Backoff::Fixed { .. } => "FIXED",
            Backoff::Schedule(_) => "SCHEDULE",
        }
    }

    /// The delay after attempt `attempt` (counted from 1), before jitter, never above `cap`.
    /// Beyond the end of a schedule its last entry holds.
    pub fn ceiling(&self, attempt: u32, cap: Duration) -> Duration {
        Duration::from_nanos(self.ceiling_nanos(attempt, nanos(cap)))
    }

    fn ceiling_nanos(&self, attempt: u32, cap: u64) -> u64 {
        let attempt = attempt.max(1);
        let uncapped = match self {
            Backoff::Exponential { initial, multiplier } => {
                exponential(nanos(*initial), *multiplier, attempt - 1, cap)
            }
            Backoff::Linear { initial } => nanos(*initial).saturating_mul(u64::from(attempt)),
            Backoff::Fixed { delay } => nanos(*delay),
            Backoff::Schedule(delays) => {
                let index = usize::try_from(attempt - 1).unwrap_or(usize::MAX);
                delays.get(index).or(delays.last()).map_or(0, |delay| nanos(*delay))
            }
        };
        uncapped.min(cap)
    }

    /// The delay after the first attempt: where decorrelated jitter starts and what additive
    /// jitter adds at most.
    pub(crate) fn initial(&self) -> Duration {
        match self {
            Backoff::Exponential { initial, .. } | Backoff::Linear { initial } => *initial,
            Backoff::Fixed { delay } => *delay,
            Backoff::Schedule(delays) => delays.first().copied().unwrap_or(Duration::ZERO),
        }
    }

    /// One ceiling per attempt that may be followed by another.
    pub(crate) fn ceilings(&self, max_attempts: u32, cap: Duration) -> Box<[u64]> {
        (1..=max_attempts).map(|attempt| self.ceiling_nanos(attempt, nanos(cap))).collect()
    }
}

/// Multiplies step by step with truncation, as `vectors/README.md` tells other languages to, and
/// stops at the cap: what does not fit 64 bits is above every cap there can be.
fn exponential(initial: u64, multiplier: Ratio, steps: u32, cap: u64) -> u64 {
    let mut delay = initial;
    for _ in 0..steps {
        if delay >= cap || delay == 0 || multiplier == Ratio::ONE {
            break;
        }
        delay = multiplier.of(delay);
    }
    delay
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn secs(values: &[u64]) -> Vec<Duration> {
        values.iter().copied().map(Duration::from_secs).collect()
    }

    fn curve(backoff: &Backoff, cap_secs: u64) -> Vec<u64> {
        (1..=6).map(|n| backoff.ceiling(n, Duration::from_secs(cap_secs)).as_secs()).collect()
    }

    #[test]
    fn each_kind_follows_its_formula_up_to_the_cap() {
        let initial = Duration::from_secs(1);
        let multiplier = Ratio::from_thousandths(2_000);
        let cases = [
            (Backoff::Exponential { initial, multiplier }, [1, 2, 4, 8, 16, 30]),
            (Backoff::Linear { initial }, [1, 2, 3, 4, 5, 6]),
            (Backoff::Fixed { delay: initial }, [1, 1, 1, 1, 1, 1]),
            (Backoff::Schedule(secs(&[1, 5, 60])), [1, 5, 30, 30, 30, 30]),
        ];
        for (backoff, expected) in cases {
            assert_eq!(curve(&backoff, 30), expected, "{backoff:?}");
        }
    }

    proptest! {
        #[test]
        fn no_input_overflows_and_caps_are_monotone(
            initial in any::<u64>(),
            cap in any::<u64>(),
            thousandths in any::<u32>(),
            attempt in 1..5_000_u32,
        ) {
            let (initial, cap) = (Duration::from_nanos(initial), Duration::from_nanos(cap));
            let multiplier = Ratio::from_thousandths(thousandths.max(1_000));
            for backoff in [
                Backoff::Exponential { initial, multiplier },
                Backoff::Linear { initial },
                Backoff::Fixed { delay: initial },
                Backoff::Schedule(alloc::vec![initial]),
            ] {
                let delay = backoff.ceiling(attempt, cap);
                prop_assert!(delay <= cap);
                prop_assert!(delay <= backoff.ceiling(attempt + 1, cap));
                prop_assert!(delay <= backoff.ceiling(attempt, cap + Duration::from_nanos(1)));
            }
        }
    }
}
