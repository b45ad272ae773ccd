//! When operations begin that nobody waits with: the open loop. REQ-X1.
//!
//! Only the next arrival is known at any time, so a million operations to come cost nothing.

use crate::chance::{Source, Stream, unit, whole};
use crate::scenario::{Load, SECOND};

/// The arrivals of an open loop.
#[derive(Debug)]
pub(crate) struct Arrivals<'s> {
    load: &'s Load,
    stream: Stream,
    until: u64,
    /// How many have come.
    count: u64,
    next_at: Option<u64>,
}

impl<'s> Arrivals<'s> {
    pub(crate) fn new(load: &'s Load, seed: u64, until: u64) -> Arrivals<'s> {
        let stream = Stream::new(seed, 0, Source::Arrivals);
        let mut arrivals = Arrivals { load, stream, until, count: 0, next_at: None };
        arrivals.next_at = arrivals.after(0);
        arrivals
    }

    #[inline]
    pub(crate) fn next_at(&self) -> Option<u64> {
        self.next_at
    }

    /// Takes the next one: its number, from 0.
    #[inline]
    pub(crate) fn take(&mut self, now: u64) -> u64 {
        let number = self.count;
        self.count += 1;
        self.next_at = self.after(now);
        number
    }

    fn after(&self, now: u64) -> Option<u64> {
        let at = match self.load {
            Load::Poisson { per_second } => {
                let gap = -(1.0 - unit(self.stream.roll(self.count, 1))).ln();
                now.saturating_add(whole(gap * SECOND as f64 / per_second))
            }
            // From the start, not from the one before: no drift.
            Load::Constant { per_second } => whole(self.count as f64 * SECOND as f64 / per_second),
            Load::Trace { at } => *at.get(usize::try_from(self.count).ok()?)?,
            Load::Closed { .. } => return None,
        };
        (at < self.until).then_some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(load: &Load, seed: u64, seconds: u64) -> Vec<u64> {
        let mut arrivals = Arrivals::new(load, seed, seconds * SECOND);
        let mut times = Vec::new();
        while let Some(at) = arrivals.next_at() {
            times.push(at);
            arrivals.take(at);
        }
        times
    }

    #[test]
    fn poisson_arrivals_have_their_rate_and_its_variance() {
        let counts: Vec<f64> = (0..400)
            .map(|seed| times(&Load::Poisson { per_second: 100.0 }, seed, 1).len() as f64)
            .collect();
        let mean = counts.iter().sum::<f64>() / 400.0;
        let variance = counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / 399.0;
        assert!((mean - 100.0).abs() < 1.6, "{mean}");
        assert!((variance - 100.0).abs() < 22.0, "{variance}");
    }

    #[test]
    fn constant_arrivals_are_evenly_spaced() {
        let times = times(&Load::Constant { per_second: 3.0 }, 1, 2);
        assert_eq!(times.len(), 6);
        assert_eq!((times[3], times[1]), (SECOND, SECOND / 3));
    }

    #[test]
    fn a_trace_is_repeated_as_it_is() {
        let at = vec![5, 7, 7, 900];
        assert_eq!(times(&Load::Trace { at: at.clone() }, 1, 1), at);
    }
}
