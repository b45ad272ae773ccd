//! A point in time, as a number the caller hands in. This crate never reads a clock.
//!
//! Time inside the engine is an integer count of nanoseconds and every operation saturates, so no
//! input can make it wrap, panic or lose whole seconds of jitter to a float. REQ-B3, REQ-B5.

use core::fmt;
use core::time::Duration;

/// Nanoseconds since the Unix epoch, on the caller's clock.
///
/// A virtual clock may count from zero; only waiver expiry and `Retry-After` dates give the epoch
/// a meaning. The last representable instant is in the year 2554.
///
/// ```
/// use core::time::Duration;
/// use relent_policy::Timestamp;
///
/// let now = Timestamp::from_millis(1_500);
/// assert_eq!(now + Duration::from_millis(500), Timestamp::from_secs(2));
/// assert_eq!(now.saturating_since(Timestamp::from_secs(9)), Duration::ZERO);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The Unix epoch, or the start of a virtual clock.
    pub const ZERO: Timestamp = Timestamp(0);
    /// Later than every deadline.
    pub const MAX: Timestamp = Timestamp(u64::MAX);

    /// A timestamp from nanoseconds since the epoch.
    ///
    /// ```
    /// # use relent_policy::Timestamp;
    /// assert_eq!(Timestamp::from_nanos(7).as_nanos(), 7);
    /// ```
    pub const fn from_nanos(nanos: u64) -> Timestamp {
        Timestamp(nanos)
    }

    /// A timestamp from milliseconds since the epoch; saturates in the year 2554.
    ///
    /// ```
    /// # use relent_policy::Timestamp;
    /// assert_eq!(Timestamp::from_millis(u64::MAX), Timestamp::MAX);
    /// ```
    pub const fn from_millis(millis: u64) -> Timestamp {
        Timestamp(millis.saturating_mul(NANOS_PER_MILLI))
    }

    /// A timestamp from seconds since the epoch; saturates in the year 2554.
    ///
    /// ```
    /// # use relent_policy::Timestamp;
    /// assert_eq!(Timestamp::from_secs(2).as_millis(), 2_000);
    /// ```
    pub const fn from_secs(secs: u64) -> Timestamp {
        Timestamp(secs.saturating_mul(NANOS_PER_SEC))
    }

    /// Nanoseconds since the epoch.
    ///
    /// ```
    /// # use relent_policy::Timestamp;
    /// assert_eq!(Timestamp::from_millis(3).as_nanos(), 3_000_000);
    /// ```
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Whole milliseconds since the epoch, rounded down.
    ///
    /// ```
    /// # use relent_policy::Timestamp;
    /// assert_eq!(Timestamp::from_nanos(1_999_999).as_millis(), 1);
    /// ```
    pub const fn as_millis(self) -> u64 {
        self.0 / NANOS_PER_MILLI
    }

    /// Whole milliseconds since the epoch, rounded up. A store with millisecond columns keeps a
    /// next attempt with this, so that rounding never makes the attempt early.
    ///
    /// ```
    /// # use relent_policy::Timestamp;
    /// assert_eq!(Timestamp::from_nanos(1_000_001).as_millis_ceil(), 2);
    /// ```
    pub const fn as_millis_ceil(self) -> u64 {
        self.0.div_ceil(NANOS_PER_MILLI)
    }

    /// How long after `earlier` this is; zero when it is not after it.
    ///
    /// ```
    /// # use core::time::Duration;
    /// # use relent_policy::Timestamp;
    /// let (early, late) = (Timestamp::from_secs(1), Timestamp::from_secs(3));
    /// assert_eq!(late.saturating_since(early), Duration::from_secs(2));
    /// ```
    pub const fn saturating_since(self, earlier: Timestamp) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    pub(crate) const fn plus_nanos(self, nanos: u64) -> Timestamp {
        Timestamp(self.0.saturating_add(nanos))
    }

    pub(crate) const fn nanos_since(self, earlier: Timestamp) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl core::ops::Add<Duration> for Timestamp {
    type Output = Timestamp;

    /// Saturates at [`Timestamp::MAX`].
    fn add(self, duration: Duration) -> Timestamp {
        self.plus_nanos(nanos(duration))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}s", self.0 / NANOS_PER_SEC, self.0 % NANOS_PER_SEC)
    }
}

pub(crate) const NANOS_PER_MILLI: u64 = 1_000_000;
pub(crate) const NANOS_PER_SEC: u64 = 1_000_000_000;

/// The duration in nanoseconds, saturating after 584 years.
pub(crate) const fn nanos(duration: Duration) -> u64 {
    duration.as_secs().saturating_mul(NANOS_PER_SEC).saturating_add(duration.subsec_nanos() as u64)
}

/// The duration in whole milliseconds, as policy documents write it.
pub(crate) const fn millis(duration: Duration) -> u64 {
    nanos(duration) / NANOS_PER_MILLI
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        assert_eq!(Timestamp::MAX + Duration::MAX, Timestamp::MAX);
        assert_eq!(Timestamp::ZERO.saturating_since(Timestamp::MAX), Duration::ZERO);
        assert_eq!(nanos(Duration::MAX), u64::MAX);
    }
}
