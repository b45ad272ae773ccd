//! A number with three exact decimals: budget shares, failure rates, multipliers.
//!
//! Kept as an integer of thousandths. A budget that stores `1 / percent` as an integer turns 40 %
//! into 50 % and 60 % into 100 %; thousandths compared by cross-multiplication are exact for every
//! whole percent. REQ-G1.

use core::fmt;

/// A non-negative number in steps of 0.001.
///
/// ```
/// use relent_policy::Ratio;
///
/// let fifth = Ratio::try_from(0.2)?;
/// assert_eq!(fifth, Ratio::from_thousandths(200));
/// assert_eq!(fifth.to_string(), "0.2");
/// assert!(Ratio::try_from(0.0005).is_err());
/// # Ok::<(), relent_policy::NotARatio>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ratio(u32);

/// The number is negative, not finite, too large, or finer than 0.001.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotARatio;

impl Ratio {
    /// Exactly one.
    pub const ONE: Ratio = Ratio(1_000);

    /// `thousandths / 1000`.
    ///
    /// ```
    /// # use relent_policy::Ratio;
    /// assert_eq!(Ratio::from_thousandths(1_500).to_string(), "1.5");
    /// ```
    pub const fn from_thousandths(thousandths: u32) -> Ratio {
        Ratio(thousandths)
    }

    /// The number times 1000.
    ///
    /// ```
    /// # use relent_policy::Ratio;
    /// assert_eq!(Ratio::ONE.thousandths(), 1_000);
    /// ```
    pub const fn thousandths(self) -> u32 {
        self.0
    }

    /// This share of `whole`, rounded down and saturating.
    ///
    /// ```
    /// # use relent_policy::Ratio;
    /// assert_eq!(Ratio::from_thousandths(300).of(1_000), 300);
    /// ```
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the fast path is checked, the slow path clamped"
    )]
    pub const fn of(self, whole: u64) -> u64 {
        match whole.checked_mul(self.0 as u64) {
            Some(product) => product / 1_000,
            None => {
                let wide = whole as u128 * self.0 as u128 / 1_000;
                if wide > u64::MAX as u128 { u64::MAX } else { wide as u64 }
            }
        }
    }
}

impl TryFrom<f64> for Ratio {
    type Error = NotARatio;

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the range is checked just before"
    )]
    fn try_from(number: f64) -> Result<Ratio, NotARatio> {
        let thousandths = number * 1_000.0;
        if !(0.0..=f64::from(u32::MAX) - 1.0).contains(&thousandths) {
            return Err(NotARatio);
        }
        let nearest = (thousandths + 0.5) as u32;
        if (f64::from(nearest) - thousandths).abs() > 1e-6 {
            return Err(NotARatio);
        }
        Ok(Ratio(nearest))
    }
}

impl From<Ratio> for f64 {
    fn from(ratio: Ratio) -> f64 {
        f64::from(ratio.0) / 1_000.0
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", f64::from(*self))
    }
}

impl fmt::Display for NotARatio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected a non-negative number in steps of 0.001")
    }
}

impl core::error::Error for NotARatio {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_whole_percent_is_exact() {
        for percent in 1..=100_u32 {
            let ratio = Ratio::try_from(f64::from(percent) / 100.0).unwrap();
            assert_eq!(ratio.thousandths(), percent * 10);
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for number in [-0.1, f64::NAN, f64::INFINITY, 1e300, 0.000_1, 0.333_333] {
            assert_eq!(Ratio::try_from(number), Err(NotARatio), "{number}");
        }
    }

    #[test]
    fn a_share_saturates_instead_of_wrapping() {
        assert_eq!(Ratio::from_thousandths(u32::MAX).of(u64::MAX), u64::MAX);
        assert_eq!(Ratio::from_thousandths(300).of(u64::MAX), u64::MAX / 10 * 3 + 1);
    }
}
