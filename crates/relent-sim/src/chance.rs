//! Chance without a generator: every draw is a function of the seed, its source, the task and the
//! attempt. REQ-B5, REQ-X1.
//!
//! A generator that is asked in the order of events gives two policies different luck as soon as
//! their events differ. Here the hundredth task takes as long to serve, meets the same errors and
//! draws the same rolls under every policy (common random numbers), so that what differs between
//! two policies is the policy.

use relent_policy::roll;

/// Where chance comes in; each source has a stream of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Arrivals = 1,
    Clients = 2,
    There = 3,
    Back = 4,
    Loss = 5,
    Service = 6,
    Errors = 7,
    Jitter = 8,
    Start = 9,
}

/// One source's draws.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stream(u64);

impl Stream {
    /// The stream of a source at one hop of the chain.
    pub(crate) fn new(seed: u64, hop: u8, source: Source) -> Stream {
        Stream(roll::mix(seed ^ roll::mix(u64::from(hop) << 8 | source as u64)))
    }

    #[inline]
    pub(crate) fn roll(self, task: u64, attempt: u32) -> u64 {
        roll::for_attempt(self.0, task, attempt)
    }
}

/// From 0 (included) to 1 (not included), in steps of 2^-53.
#[inline]
pub(crate) fn unit(roll: u64) -> f64 {
    (roll >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
}

/// The roll below which something of this probability happens.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates, and the product is not negative"
)]
pub(crate) fn threshold(probability: f64) -> u64 {
    if probability >= 1.0 {
        return u64::MAX;
    }
    (probability.max(0.0) * 2.0_f64.powi(64)) as u64
}

/// Whole nanoseconds, saturating at both ends.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
#[inline]
pub(crate) fn whole(nanos: f64) -> u64 {
    nanos as u64
}

/// How long something takes, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Spread {
    /// Always the same.
    Constant(u64),
    /// Exponential with this mean: what queueing theory calls M.
    Exponential {
        /// The mean.
        mean: u64,
    },
    /// Uniform between two ends.
    Uniform {
        /// The shortest.
        from: u64,
        /// The longest.
        to: u64,
    },
    /// The absolute value of a normal draw.
    Normal {
        /// The mean.
        mean: u64,
        /// The standard deviation.
        deviation: u64,
    },
    /// Log-normal: a median, and how many times longer one standard deviation is.
    LogNormal {
        /// The median.
        median: u64,
        /// The standard deviation of the logarithm.
        sigma: f64,
    },
}

impl Spread {
    /// One draw.
    #[inline]
    pub(crate) fn draw(self, roll: u64) -> u64 {
        match self {
            Spread::Constant(nanos) => nanos,
            Spread::Exponential { mean } => whole(mean as f64 * -(1.0 - unit(roll)).ln()),
            Spread::Uniform { from, to } => from + roll::up_to(to.saturating_sub(from), roll),
            Spread::Normal { mean, deviation } => {
                whole((mean as f64 + deviation as f64 * normal(roll)).abs())
            }
            Spread::LogNormal { median, sigma } => {
                whole(median as f64 * (sigma * normal(roll)).exp())
            }
        }
    }

    /// The mean, in nanoseconds.
    pub fn mean(self) -> f64 {
        match self {
            Spread::Constant(nanos) => nanos as f64,
            Spread::Exponential { mean } | Spread::Normal { mean, .. } => mean as f64,
            Spread::Uniform { from, to } => (from + to) as f64 / 2.0,
            Spread::LogNormal { median, sigma } => median as f64 * (sigma * sigma / 2.0).exp(),
        }
    }

    pub(crate) fn is_zero(self) -> bool {
        self == Spread::Constant(0)
    }
}

/// A standard normal draw, by Box and Muller.
fn normal(roll: u64) -> f64 {
    let radius = (-2.0 * (1.0 - unit(roll)).ln()).sqrt();
    radius * (std::f64::consts::TAU * unit(roll::mix(roll))).cos()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moments(duration: Spread) -> (f64, f64) {
        let stream = Stream::new(7, 0, Source::Service);
        let draws: Vec<f64> =
            (0..100_000).map(|task| duration.draw(stream.roll(task, 1)) as f64).collect();
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        let variance = draws.iter().map(|draw| (draw - mean).powi(2)).sum::<f64>();
        (mean, (variance / draws.len() as f64).sqrt())
    }

    #[test]
    fn draws_have_their_mean_and_deviation() {
        let cases = [
            (Spread::Constant(5_000), 5_000.0, 0.0),
            (Spread::Exponential { mean: 10_000 }, 10_000.0, 10_000.0),
            (Spread::Uniform { from: 0, to: 12_000 }, 6_000.0, 12_000.0 / 12.0_f64.sqrt()),
            (Spread::Normal { mean: 10_000, deviation: 2_000 }, 10_000.0, 2_000.0),
            (Spread::LogNormal { median: 10_000, sigma: 0.5 }, 11_331.0, 6_039.0),
        ];
        for (duration, mean, deviation) in cases {
            let (drawn_mean, drawn_deviation) = moments(duration);
            assert!((drawn_mean - mean).abs() <= 0.02 * mean, "{duration:?}: {drawn_mean}");
            assert!((drawn_mean - duration.mean()).abs() <= 0.02 * mean, "{duration:?}");
            let off = (drawn_deviation - deviation).abs();
            assert!(off <= 0.03 * deviation, "{duration:?}: {drawn_deviation}");
        }
    }

    #[test]
    fn a_probability_is_met() {
        let stream = Stream::new(1, 0, Source::Errors);
        for probability in [0.0, 0.01, 0.5, 1.0] {
            let below = threshold(probability);
            let hits = (0..100_000).filter(|task| stream.roll(*task, 1) < below).count();
            assert!((hits as f64 / 1e5 - probability).abs() < 0.006, "{probability}: {hits}");
        }
    }

    #[test]
    fn sources_and_hops_draw_independently() {
        let rolls = |hop, source| Stream::new(1, hop, source).roll(5, 1);
        assert_ne!(rolls(0, Source::There), rolls(0, Source::Back));
        assert_ne!(rolls(0, Source::There), rolls(1, Source::There));
    }
}
