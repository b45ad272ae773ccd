//! Where the time comes from and who sleeps: the two things the engine does not do.
//!
//! The engine counts from the Unix epoch, and calls must not jump when somebody sets the wall
//! clock. So a clock here is monotonic and is pinned to the epoch once, when it is made.

use std::future::Future;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use relent_policy::Timestamp;

/// A source of time.
pub trait Clock: Send + Sync + 'static {
    /// Now. Never runs backwards.
    fn now(&self) -> Timestamp;
}

/// A clock that can also wait without holding a thread.
pub trait Sleep: Clock {
    /// What a wait is.
    type Sleep: Future<Output = ()> + Send;

    /// Waits this long.
    fn sleep(&self, duration: Duration) -> Self::Sleep;
}

/// The operating system's monotonic clock. On `wasm32-unknown-unknown` there is none, and making this
/// one panics: give the retrier a [`Clock`] of your own, for example over `performance.now()`.
///
/// ```
/// use relent::clock::{Clock, SystemClock};
///
/// let clock = SystemClock::default();
/// assert!(clock.now() <= clock.now());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    started: std::time::Instant,
    epoch: Timestamp,
}

impl Default for SystemClock {
    fn default() -> SystemClock {
        SystemClock { started: std::time::Instant::now(), epoch: unix_now() }
    }
}

impl Clock for SystemClock {
    #[inline]
    fn now(&self) -> Timestamp {
        after(self.epoch, self.started.elapsed())
    }
}

/// tokio's clock: real time, or virtual time where a test has paused it.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use relent::clock::{Clock, Sleep, TokioClock};
/// use std::time::Duration;
///
/// let clock = TokioClock::default();
/// let before = clock.now();
/// clock.sleep(Duration::from_secs(3_600)).await; // takes no time at all
/// assert_eq!(clock.now().saturating_since(before), Duration::from_secs(3_600));
/// # }
/// ```
#[cfg(feature = "tokio")]
#[derive(Clone, Copy, Debug)]
pub struct TokioClock {
    started: tokio::time::Instant,
    epoch: Timestamp,
}

#[cfg(feature = "tokio")]
impl Default for TokioClock {
    fn default() -> TokioClock {
        TokioClock { started: tokio::time::Instant::now(), epoch: unix_now() }
    }
}

#[cfg(feature = "tokio")]
impl Clock for TokioClock {
    #[inline]
    fn now(&self) -> Timestamp {
        after(self.epoch, self.started.elapsed())
    }
}

#[cfg(feature = "tokio")]
impl Sleep for TokioClock {
    type Sleep = tokio::time::Sleep;

    fn sleep(&self, duration: Duration) -> tokio::time::Sleep {
        tokio::time::sleep(duration)
    }
}

/// The clock of a [`Retrier`](crate::Retrier) that is not given another.
#[cfg(feature = "tokio")]
pub type DefaultClock = TokioClock;
/// The clock of a [`Retrier`](crate::Retrier) that is not given another.
#[cfg(not(feature = "tokio"))]
pub type DefaultClock = SystemClock;

/// The epoch and what has passed since. Every call adds this up, and no program runs for the 500 years
/// after which it would overflow.
#[inline]
fn after(epoch: Timestamp, elapsed: Duration) -> Timestamp {
    let nanos = elapsed.as_secs().wrapping_mul(1_000_000_000);
    let nanos = nanos.wrapping_add(elapsed.subsec_nanos().into());
    Timestamp::from_nanos(epoch.as_nanos().wrapping_add(nanos))
}

/// A reading of the clock, or that nobody has looked at it yet: an `Option<Timestamp>` in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment(Timestamp);

impl Moment {
    /// No clock gets there before the year 2554.
    pub(crate) const UNREAD: Moment = Moment(Timestamp::MAX);

    #[inline]
    pub(crate) fn get(self) -> Option<Timestamp> {
        (self != Moment::UNREAD).then_some(self.0)
    }

    /// If it is unread, what never comes.
    #[inline]
    pub(crate) fn or_never(self) -> Timestamp {
        self.0
    }

    #[inline]
    pub(crate) fn is_read(self) -> bool {
        self != Moment::UNREAD
    }

    #[inline]
    pub(crate) fn or(self, other: Moment) -> Moment {
        if self.is_read() { self } else { other }
    }
}

impl From<Timestamp> for Moment {
    #[inline]
    fn from(read: Timestamp) -> Moment {
        Moment(read)
    }
}

fn unix_now() -> Timestamp {
    Timestamp::ZERO + SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
