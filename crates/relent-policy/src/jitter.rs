//! Where under the curve to wait: the spread that keeps callers from returning together. REQ-B2.
//!
//! Every kind keeps its **result** at or below the cap. Libraries that cap first and add noise
//! afterwards wait up to twice the limit their user set.

use crate::ratio::Ratio;
use crate::roll::up_to;

/// How a delay is drawn. `d` is the backoff's ceiling for the attempt, never above the cap.
///
/// ```
/// use relent_policy::Jitter;
///
/// assert_eq!(Jitter::default(), Jitter::Full);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Jitter {
    /// `U(0, d)`: the default, and the widest spread.
    #[default]
    Full,
    /// `min(cap, U(initial, previous * 3))`, where `previous` is this task's last backoff. After a
    /// wait of the whole cap, two draws in three are the whole cap again.
    Decorrelated,
    /// `d/2 + U(0, d/2)`. Needs a waiver: its floor makes callers cluster.
    Equal,
    /// `min(cap, d + U(0, initial))`. Needs a waiver.
    Additive,
    /// `d + U(0, ratio * d)`, with `d` lowered so that the whole spread stays under the cap.
    /// For webhook schedules; needs a waiver anywhere else.
    Proportional {
        /// The share of the delay that may be added.
        ratio: Ratio,
    },
    /// Exactly `d`. Needs a waiver: every caller that failed together returns together.
    None,
}

/// What a draw depends on, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Draw {
    pub(crate) ceiling: u64,
    pub(crate) initial: u64,
    pub(crate) previous: u64,
    pub(crate) cap: u64,
}

impl Jitter {
    /// Its name in policy documents.
    ///
    /// ```
    /// # use relent_policy::Jitter;
    /// assert_eq!(Jitter::Full.name(), "FULL");
    /// ```
    pub const fn name(self) -> &'static str {
        match self {
            Jitter::Full => "FULL",
            Jitter::Decorrelated => "DECORRELATED",
            Jitter::Equal => "EQUAL",
            Jitter::Additive => "ADDITIVE",
            Jitter::Proportional { .. } => "PROPORTIONAL",
            Jitter::None => "NONE",
        }
    }

    /// One delay, in nanoseconds, never above `draw.cap`.
    pub(crate) fn draw(self, draw: Draw, roll: u64) -> u64 {
        let Draw { ceiling, initial, previous, cap } = draw;
        match self {
            Jitter::Full => up_to(ceiling, roll),
            Jitter::Decorrelated => {
                let highest = previous.saturating_mul(3).max(initial);
                (initial + up_to(highest - initial, roll)).min(cap)
            }
            Jitter::Equal => {
                let half = ceiling / 2;
                half + up_to(ceiling - half, roll)
            }
            Jitter::Additive => ceiling.saturating_add(up_to(initial, roll)).min(cap),
            Jitter::Proportional { ratio } => {
                let lowest = ceiling.min(highest_base(cap, ratio));
                lowest.saturating_add(up_to(ratio.of(lowest), roll)).min(cap)
            }
            Jitter::None => ceiling,
        }
    }
}

/// The largest `d` with `d + ratio * d <= cap`, so that jitter does not vanish at the cap.
#[expect(clippy::cast_possible_truncation, reason = "the quotient is at most `cap`")]
fn highest_base(cap: u64, ratio: Ratio) -> u64 {
    (u128::from(cap) * 1_000 / (1_000 + u128::from(ratio.thousandths()))) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::roll::mix;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    const S: u64 = 1_000_000_000;
    const THIRD: Ratio = Ratio::from_thousandths(300);

    const KINDS: [Jitter; 6] = [
        Jitter::Full,
        Jitter::Decorrelated,
        Jitter::Equal,
        Jitter::Additive,
        Jitter::Proportional { ratio: THIRD },
        Jitter::None,
    ];

    /// The largest distance between the sample's distribution and U(low, high).
    #[expect(clippy::cast_precision_loss, reason = "a statistic, not a delay")]
    fn kolmogorov_smirnov(mut sample: Vec<u64>, low: u64, high: u64) -> f64 {
        sample.sort_unstable();
        let (n, width) = (sample.len() as f64, (high - low) as f64);
        let distance = |(rank, value): (usize, &u64)| {
            let expected = (*value as f64 - low as f64) / width;
            let (below, above) = (rank as f64 / n, (rank + 1) as f64 / n);
            (expected - below).abs().max((expected - above).abs())
        };
        sample.iter().enumerate().map(distance).fold(0.0, f64::max)
    }

    /// The 0.1 % point of the Kolmogorov distribution for 10,000 draws is 1.95 / 100.
    const KS_LIMIT: f64 = 0.0195;

    fn sample(jitter: Jitter, draw: Draw) -> Vec<u64> {
        (0..10_000).map(|n| jitter.draw(draw, mix(n))).collect()
    }

    #[test]
    fn draws_are_uniform_also_for_whole_second_bases() {
        for whole in [S, 2 * S, 4 * S, 30 * S, 1_500_000, 10_007] {
            let at = |previous, cap| Draw { ceiling: whole, initial: whole, previous, cap };
            let cases = [
                (Jitter::Full, at(0, whole), 0, whole),
                (Jitter::Equal, at(0, whole), whole / 2, whole),
                (Jitter::Decorrelated, at(whole, whole * 4), whole, whole * 3),
                (Jitter::Additive, at(0, whole * 2), whole, whole * 2),
                (Jitter::Proportional { ratio: THIRD }, at(0, whole * 2), whole, whole / 10 * 13),
            ];
            for (jitter, draw, low, high) in cases {
                let distance = kolmogorov_smirnov(sample(jitter, draw), low, high);
                assert!(distance < KS_LIMIT, "{jitter:?} of {whole}: distance {distance}");
            }
        }
    }

    #[test]
    fn the_uniformity_test_can_fail() {
        let clumped = (0..10_000).map(|n| up_to(S, mix(n)) / 100_000_000 * 100_000_000).collect();
        assert!(kolmogorov_smirnov(clumped, 0, S) > KS_LIMIT);
    }

    #[test]
    fn every_tenth_of_the_interval_is_hit() {
        let draw = Draw { ceiling: S, initial: S, previous: S, cap: S };
        let mut tenths = [0_u32; 10];
        for delay in sample(Jitter::Full, draw) {
            tenths[usize::try_from(delay * 10 / (S + 1)).unwrap()] += 1;
        }
        assert!(tenths.iter().all(|count| (880..=1_120).contains(count)), "{tenths:?}");
    }

    #[test]
    fn proportional_jitter_keeps_its_spread_at_the_cap() {
        let draw = Draw { ceiling: 30 * S, initial: S, previous: S, cap: 30 * S };
        let sample = sample(Jitter::Proportional { ratio: THIRD }, draw);
        let (low, high) = (sample.iter().min().unwrap(), sample.iter().max().unwrap());
        assert!(*low < 24 * S && *high > 29 * S && *high <= 30 * S, "{low} to {high}");
    }

    proptest! {
        #[test]
        fn no_draw_exceeds_the_cap_or_panics(
            cap in any::<u64>(),
            share in 0..=1_000_u64,
            initial in any::<u64>(),
            previous in any::<u64>(),
            roll in any::<u64>(),
            thousandths in any::<u32>(),
        ) {
            let ceiling = cap / 1_000 * share;
            let draw = Draw { ceiling, initial, previous, cap };
            let proportional = Jitter::Proportional { ratio: Ratio::from_thousandths(thousandths) };
            for jitter in KINDS.into_iter().chain([proportional]) {
                prop_assert!(jitter.draw(draw, roll) <= cap, "{jitter:?}");
            }
        }
    }
}
