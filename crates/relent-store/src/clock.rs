//! The time an embedded store schedules by.
//!
//! The wall clock is asked once, at the start; from then on time passes as the monotonic clock says.
//! A wall clock that is set back or far ahead while the service runs therefore releases no herd and
//! stops no task. Whoever opens a store hands in the latest time found in it, and the clock never
//! shows an earlier one, also when the wall clock was set back between two runs.
//!
//! What this gives up: a wall clock that was wrong at the start stays wrong until the next one, and
//! a slow drift is not followed. [`StoreClock::ahead_of_wall`] says by how much.

use std::time::{Duration, Instant, SystemTime};

use relent_policy::Timestamp;

/// See the module's head.
#[derive(Clone, Copy, Debug)]
pub struct StoreClock {
    started_at: Timestamp,
    started: Instant,
}

impl StoreClock {
    /// A clock that shows the wall clock's time, or `not_before` if that is later.
    pub fn start(not_before: Timestamp) -> StoreClock {
        StoreClock { started_at: wall().max(not_before), started: Instant::now() }
    }

    /// The time. It never goes back.
    pub fn now(&self) -> Timestamp {
        self.started_at + self.started.elapsed()
    }

    /// By how much this clock and the wall clock disagree.
    pub fn ahead_of_wall(&self) -> Duration {
        let (now, wall) = (self.now(), wall());
        now.saturating_since(wall).max(wall.saturating_since(now))
    }
}

fn wall() -> Timestamp {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp::ZERO + since_epoch
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_has_seen_tomorrow_does_not_go_back() {
        let tomorrow = wall() + Duration::from_secs(86_400);
        let clock = StoreClock::start(tomorrow);
        assert!(clock.now() >= tomorrow);
        assert!(clock.ahead_of_wall() > Duration::from_secs(86_000));
    }
}
