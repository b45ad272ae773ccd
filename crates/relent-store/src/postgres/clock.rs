//! The time of a store that many nodes share: the database's.
//!
//! Statements read it where they run. A node that only wants to know how late it is does not ask over
//! the network each time: it has measured how far its own monotonic clock is from the database's, at
//! half the round trip, and measures again now and then. A measurement can be wrong by half its round
//! trip, and a node that was asleep or busy has long ones; a retry would come early by as much. So of
//! several the quickest counts, and the one before stays if it is still the better one. What is shown
//! never goes back; when a new measurement says that it was ahead, it waits for the database to catch
//! up. REQ-S3, REQ-D1.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use relent_policy::Timestamp;

use super::failure::Failure;
use super::link::Link;
use super::rows::{column, from_time, to_time};

const NOW: &str = "SELECT relent.now_nanos()";
const TRIES: usize = 8;
/// A round trip that need not be tried again.
const QUICK: Duration = Duration::from_micros(500);
/// Two clocks drift apart by less than one part in so many.
const DRIFT: u32 = 5_000;

pub(super) type OwnClock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

pub(super) struct Clock {
    own: Option<OwnClock>,
    measured: Mutex<Measured>,
    /// The latest time shown, in nanoseconds.
    latest: AtomicU64,
}

/// What the database showed, when here, and how far off that may be.
#[derive(Clone, Copy, Debug)]
struct Measured {
    at: Timestamp,
    then: Instant,
    error: Duration,
}

impl Measured {
    fn new(at: Timestamp, asked: Instant, took: Duration) -> Measured {
        Measured { at, then: asked + took / 2, error: took / 2 }
    }

    fn now(&self, here: Instant) -> Timestamp {
        self.at + here.saturating_duration_since(self.then)
    }

    fn error(&self, here: Instant) -> Duration {
        self.error + here.saturating_duration_since(self.then) / DRIFT
    }

    /// The better one of two, unless they contradict each other: then somebody set the clock.
    fn or(self, before: Measured) -> Measured {
        let here = self.then.max(before.then);
        let (mine, theirs) = (self.now(here), before.now(here));
        let apart = mine.saturating_since(theirs).max(theirs.saturating_since(mine));
        let agree = apart <= self.error(here) + before.error(here);
        if agree && before.error(here) < self.error(here) { before } else { self }
    }
}

impl Clock {
    pub(super) fn new(own: Option<OwnClock>) -> Clock {
        let error = Duration::MAX / 4;
        let unknown = Measured { at: Timestamp::ZERO, then: Instant::now(), error };
        Clock { own, measured: Mutex::new(unknown), latest: AtomicU64::new(0) }
    }

    /// The time, as well as it is known here.
    pub(super) fn now(&self) -> Timestamp {
        let shown = match &self.own {
            Some(own) => own(),
            None => {
                let measured = *self.measured.lock().unwrap_or_else(PoisonError::into_inner);
                measured.now(Instant::now())
            }
        };
        let shown = shown.as_nanos();
        Timestamp::from_nanos(self.latest.fetch_max(shown, Ordering::SeqCst).max(shown))
    }

    /// What statements are to take for the time; `None`: the database's own clock.
    pub(super) fn given(&self) -> Option<i64> {
        self.own.as_ref().map(|_| from_time(self.now()))
    }

    /// Looks at the database's clock.
    pub(super) async fn measure(&self, link: &mut Link) -> Result<(), Failure> {
        if self.own.is_some() {
            return Ok(());
        }
        // The first answer may have waited for a connection.
        link.look(NOW, &[]).await?;
        let mut best: Option<Measured> = None;
        for _ in 0..TRIES {
            let asked = Instant::now();
            let rows = link.look(NOW, &[]).await?;
            let took = asked.elapsed();
            let row = rows.first().ok_or_else(|| Failure::Down("it has no clock".to_owned()))?;
            let new = Measured::new(to_time(column(row, 0)?), asked, took);
            best = Some(best.map_or(new, |best| new.or(best)));
            if took <= QUICK {
                break;
            }
        }
        let mut measured = self.measured.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(best) = best {
            *measured = best.or(*measured);
        }
        Ok(())
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clock").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_nanos(1_800_000_000_000_000_000 + millis * 1_000_000)
    }

    #[test]
    fn the_quicker_measurement_counts_also_if_it_is_the_earlier_one() {
        let (start, ms) = (Instant::now(), Duration::from_millis);
        let quick = Measured::new(at(0), start, ms(1));
        // Asked ten seconds later; the answer lay around for 40 ms before this process ran again.
        let slow = Measured::new(at(10_000), start + ms(10_000), ms(40));
        let best = slow.or(quick);
        assert_eq!(best.then, quick.then);
        assert_eq!(quick.or(slow).then, quick.then);
    }

    #[test]
    fn an_old_measurement_gives_way_as_clocks_drift() {
        let (start, ms) = (Instant::now(), Duration::from_millis);
        let old = Measured::new(at(0), start, ms(1));
        let new = Measured::new(at(600_000), start + ms(600_000), ms(40));
        assert_eq!(new.or(old).then, new.then);
    }

    #[test]
    fn a_clock_that_was_set_is_believed() {
        let (start, ms) = (Instant::now(), Duration::from_millis);
        let before = Measured::new(at(0), start, ms(1));
        let after = Measured::new(at(3_600_000), start + ms(10_000), ms(40));
        assert_eq!(after.or(before).then, after.then);
    }
}
