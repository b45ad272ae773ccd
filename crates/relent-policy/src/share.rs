//! One node's part of what a cluster may do. REQ-G4.
//!
//! Nodes that share a store divide a lane's limits among themselves: every node gets its part, and
//! the parts add up to the whole, whatever the number of nodes. No node asks another before it sends.

use crate::breaker::BreakerRules;
use crate::budget::BudgetRules;
use crate::flow::ConcurrencyLimits;

/// Which of how many nodes this one is.
///
/// ```
/// use relent_policy::Share;
///
/// let parts: Vec<u32> = (0..3).map(|rank| Share::new(rank, 3).part(10)).collect();
/// assert_eq!(parts, [4, 3, 3]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    rank: u32,
    of: u32,
}

impl Share {
    /// A node that is alone.
    ///
    /// ```
    /// assert_eq!(relent_policy::Share::WHOLE.part(10), 10);
    /// ```
    pub const WHOLE: Share = Share { rank: 0, of: 1 };

    /// The node of this rank, from 0, of so many. A rank that is none of them has no part in anything.
    ///
    /// ```
    /// assert_eq!(relent_policy::Share::new(3, 3).part(10), 0);
    /// ```
    pub const fn new(rank: u32, of: u32) -> Share {
        Share { rank, of }
    }

    /// Whether there is nobody else.
    ///
    /// ```
    /// use relent_policy::Share;
    ///
    /// assert!(Share::WHOLE.is_whole() && !Share::new(0, 2).is_whole());
    /// ```
    pub const fn is_whole(self) -> bool {
        self.rank == 0 && self.of <= 1
    }

    /// Its rank among the nodes, from 0.
    ///
    /// ```
    /// assert_eq!(relent_policy::Share::new(1, 3).rank(), 1);
    /// ```
    pub const fn rank(self) -> u32 {
        self.rank
    }

    /// How many nodes there are.
    ///
    /// ```
    /// assert_eq!(relent_policy::Share::new(1, 3).of(), 3);
    /// ```
    pub const fn of(self) -> u32 {
        self.of
    }

    /// This node's part of a number that the whole cluster is held to.
    pub const fn part(self, whole: u32) -> u32 {
        if self.of == 0 || self.rank >= self.of {
            return 0;
        }
        let more = if self.rank < whole % self.of { 1 } else { 0 };
        whole / self.of + more
    }

    /// This node's part of a lane's limits. A part of nothing lets nothing through: with more nodes
    /// than places, the first ones serve the lane.
    ///
    /// ```
    /// use relent_policy::{ConcurrencyLimits, Share};
    ///
    /// let limits = Share::new(2, 3).limits(ConcurrencyLimits::default());
    /// assert_eq!((limits.in_flight_max, limits.retries_in_flight_max), (333, 66));
    /// ```
    #[must_use]
    pub fn limits(self, whole: ConcurrencyLimits) -> ConcurrencyLimits {
        if self.is_whole() {
            return whole;
        }
        let rate = whole.rate_per_second.map(|rate| self.part(rate));
        ConcurrencyLimits {
            // A rate of nothing is no rate: whoever has no part of the rate has no place either.
            in_flight_max: if rate == Some(0) { 0 } else { self.part(whole.in_flight_max) },
            retries_in_flight_max: self.part(whole.retries_in_flight_max),
            rate_per_second: rate,
        }
    }

    /// This node's part of a budget. The ratio needs no dividing: a fifth of each node's first
    /// attempts is a fifth of all of them. What does not depend on first attempts is divided: the
    /// floor, and the burst, of which every node keeps at least one, as it could spend nothing
    /// otherwise.
    ///
    /// ```
    /// use relent_policy::{BudgetRules, Share};
    ///
    /// let whole = BudgetRules::default();
    /// let part = Share::new(0, 3).budget(whole);
    /// assert_eq!((part.ratio, part.burst, part.floor_retries), (whole.ratio, 4, 4));
    /// ```
    #[must_use]
    pub fn budget(self, whole: BudgetRules) -> BudgetRules {
        BudgetRules {
            burst: self.part(whole.burst).max(whole.burst.min(1)),
            floor_retries: self.part(whole.floor_retries),
            ..whole
        }
    }

    /// The rules of this node's copy of a breaker. It sees a part of the calls, so a part of
    /// `calls_min` must do; but no fewer than ten, as half of very few calls fail by mere chance.
    ///
    /// ```
    /// use relent_policy::{BreakerRules, Share};
    ///
    /// let calls_min = |calls_min, of| {
    ///     let whole = BreakerRules { calls_min, ..BreakerRules::default() };
    ///     Share::new(0, of).breaker(whole).calls_min
    /// };
    /// assert_eq!([calls_min(60, 3), calls_min(20, 3), calls_min(4, 3)], [20, 10, 4]);
    /// ```
    #[must_use]
    pub fn breaker(self, whole: BreakerRules) -> BreakerRules {
        let calls_min = self.part(whole.calls_min).max(whole.calls_min.min(CALLS_MIN_LEAST));
        BreakerRules { calls_min, ..whole }
    }
}

const CALLS_MIN_LEAST: u32 = 10;

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn parts_add_up_to_the_whole(whole in 0_u32..100_000, of in 1_u32..200) {
            let parts: Vec<u32> = (0..of).map(|rank| Share::new(rank, of).part(whole)).collect();
            prop_assert_eq!(parts.iter().sum::<u32>(), whole);
            let (least, most) = (parts.iter().min(), parts.iter().max());
            prop_assert!(most.zip(least).is_some_and(|(most, least)| most - least <= 1));
        }

        #[test]
        fn a_cluster_is_held_to_the_limits_of_one_node(
            in_flight_max in 0_u32..5_000,
            retries_in_flight_max in 0_u32..5_000,
            rate in proptest::option::of(1_u32..5_000),
            of in 1_u32..50,
        ) {
            let whole = ConcurrencyLimits {
                in_flight_max,
                retries_in_flight_max,
                rate_per_second: rate,
            };
            let parts: Vec<_> = (0..of).map(|rank| Share::new(rank, of).limits(whole)).collect();
            prop_assert!(parts.iter().map(|part| part.in_flight_max).sum::<u32>() <= in_flight_max);
            let retries: u32 = parts.iter().map(|part| part.retries_in_flight_max).sum();
            prop_assert!(retries <= retries_in_flight_max);
            let rates = parts.iter().filter(|part| part.in_flight_max > 0);
            let rates: Option<u32> = rates.map(|part| part.rate_per_second).sum();
            prop_assert!(rates.unwrap_or(0) <= rate.unwrap_or(0));
            prop_assert!(in_flight_max == 0 || parts.iter().any(|part| part.in_flight_max > 0));
        }

        #[test]
        fn a_cluster_has_one_floor_and_hardly_more_than_one_burst(
            burst in 0_u32..100,
            floor_retries in 0_u32..100,
            of in 1_u32..50,
        ) {
            let whole = BudgetRules { burst, floor_retries, ..BudgetRules::default() };
            let parts: Vec<_> = (0..of).map(|rank| Share::new(rank, of).budget(whole)).collect();
            prop_assert_eq!(parts.iter().map(|part| part.floor_retries).sum::<u32>(), floor_retries);
            let bursts: u32 = parts.iter().map(|part| part.burst).sum();
            prop_assert_eq!(bursts, if burst == 0 { 0 } else { burst.max(of) });
        }
    }

    #[test]
    fn a_lane_with_one_place_is_served_by_one_node() {
        let whole = ConcurrencyLimits { in_flight_max: 1, ..ConcurrencyLimits::default() };
        let places = [0, 1, 2].map(|rank| Share::new(rank, 3).limits(whole).in_flight_max);
        assert_eq!(places, [1, 0, 0]);
    }
}
