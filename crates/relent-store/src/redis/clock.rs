//! The time of a store that many nodes share: Redis's.
//!
//! Scripts read it where they run. A node that only wants to know how late it is does not ask over the
//! network each time: it has measured how far its own monotonic clock is from the server's, at half the
//! round trip, and measures again now and then. A measurement can be wrong by half its round trip, and a
//! node that was busy has long ones: of several the quickest counts. What it shows never goes back; when a
//! new measurement says that it was ahead, it waits for the server to catch up. The servers of a Cluster have a clock
//! each; a node shows that of the first shard. REQ-S3, REQ-D1.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use redis::cmd;
use relent_policy::Timestamp;

use super::failure::Failure;
use super::link::Role;
use super::routes::Routes;
use super::values::{array, int};

const TRIES: usize = 8;
/// A round trip that need not be tried again.
const QUICK: Duration = Duration::from_micros(500);

pub(super) type OwnClock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

pub(super) struct Clock {
    own: Option<OwnClock>,
    /// What the server showed, and when here.
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

    /// What scripts are to take for the time; empty: the server's own clock.
    pub(super) fn given(&self) -> Vec<u8> {
        self.own.as_ref().map_or(Vec::new(), |_| self.now().as_nanos().to_be_bytes().to_vec())
    }

    /// Looks at the server's clock.
    pub(super) async fn measure(&self, routes: &Routes) -> Result<(), Failure> {
        if self.own.is_some() {
            return Ok(());
        }
        // The first answer may have waited for a connection.
        show(routes).await?;
        let mut best: Option<(Duration, Timestamp, Instant)> = None;
        for _ in 0..TRIES {
            let asked = Instant::now();
            let at = show(routes).await?;
            let took = asked.elapsed();
            if best.is_none_or(|(quickest, ..)| took < quickest) {
                best = Some((took, at, asked + took / 2));
            }
            if took < QUICK {
                break;
            }
        }
        if let Some((_, at, then)) = best {
            *self.measured.lock().unwrap_or_else(PoisonError::into_inner) = (at, then);
        }
        Ok(())
    }
}

/// What the server's clock shows.
async fn show(routes: &Routes) -> Result<Timestamp, Failure> {
    let mut shown = array(routes.send(0, Role::Plain, &cmd("TIME")).await?)?.into_iter();
    let mut part = || int(shown.next().unwrap_or_default());
    let (seconds, micros) = (part()?.unsigned_abs(), part()?.unsigned_abs());
    Ok(Timestamp::from_nanos((seconds * 1_000_000 + micros) * 1_000))
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clock").finish_non_exhaustive()
    }
}
