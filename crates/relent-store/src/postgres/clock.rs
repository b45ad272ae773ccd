//! The time of a store that many nodes share: the database's.
//!
//! Statements read it where they run. A node that only wants to know how late it is does not ask over
//! the network each time: it has measured how far its own monotonic clock is from the database's, at
//! half the round trip, and measures again now and then. What it shows never goes back; when a new
//! measurement says that it was ahead, it waits for the database to catch up. REQ-S3, REQ-D1.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use relent_policy::Timestamp;

use super::failure::Failure;
use super::link::Link;
use super::rows::{column, from_time, to_time};

const NOW: &str = "SELECT relent.now_nanos()";

pub(super) type OwnClock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

pub(super) struct Clock {
    own: Option<OwnClock>,
    /// What the database showed, and when here.
    measured: Mutex<(Timestamp, Instant)>,
    /// The latest time shown, in nanoseconds.
    latest: AtomicU64,
}

impl Clock {
    pub(super) fn new(own: Option<OwnClock>) -> Clock {
        let measured = Mutex::new((Timestamp::ZERO, Instant::now()));
        Clock { own, measured, latest: AtomicU64::new(0) }
    }

    /// The time, as well as it is known here.
    pub(super) fn now(&self) -> Timestamp {
        let shown = match &self.own {
            Some(own) => own(),
            None => {
                let (at, then) = *self.measured.lock().unwrap_or_else(PoisonError::into_inner);
                at + then.elapsed()
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
        let asked = Instant::now();
        let rows = link.look(NOW, &[]).await?;
        let took = asked.elapsed();
        let row = rows.first().ok_or_else(|| Failure::Down("it has no clock".to_owned()))?;
        let measured = (to_time(column(row, 0)?), asked + took / 2);
        *self.measured.lock().unwrap_or_else(PoisonError::into_inner) = measured;
        Ok(())
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clock").finish_non_exhaustive()
    }
}
