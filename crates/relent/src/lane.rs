//! A lane that callers on many threads share.
//!
//! It is behind a mutex, and nothing is awaited while that is locked. But a call that succeeds at once
//! only counts (see [`Leeway`](relent_policy::Leeway)), so it is counted in one atomic word, [`Tally`],
//! without the lock: one exchange when it starts and one when it has succeeded. Whoever locks the lane
//! takes the tally away and adds it up first, so nobody can see a lane that has not caught up; while it
//! is locked there is no tally, and everybody asks the lane. REQ-L6.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use relent_policy::{Lane, Outcome, Pass, Timestamp};

/// The lane and what has been counted beside it.
pub(crate) struct SharedLane {
    tally: AtomicU64,
    /// When the lane must be asked again, in nanoseconds. Wherever there is a tally it is no earlier
    /// than at the tally before, so one that was read a moment ago is never too late.
    until: AtomicU64,
    lane: Mutex<Lane>,
}

/// An attempt's place among those in flight.
#[derive(Debug)]
pub(crate) enum Place {
    /// It has none.
    None,
    /// It is counted beside the lane.
    Counted,
    /// The lane was asked.
    Passed(Pass),
}

impl Place {
    #[inline]
    pub(crate) fn is_some(&self) -> bool {
        !matches!(self, Place::None)
    }

    /// Leaves none behind.
    #[inline]
    pub(crate) fn take(&mut self) -> Place {
        std::mem::replace(self, Place::None)
    }

    /// What the lane wants back from an attempt that started then.
    pub(crate) fn into_pass(self, started_at: Timestamp) -> Option<Pass> {
        match self {
            Place::None => None,
            Place::Counted => Some(Pass::under_leeway(started_at)),
            Place::Passed(pass) => Some(pass),
        }
    }
}

/// In the upper half how many places are free, in the lower half how many calls have succeeded.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Tally(u64);

impl Tally {
    const PLACE: u64 = 1 << 32;
    /// The lower half may not grow into the upper.
    const FULL: u64 = 1 << 31;
    const PLACES_MAX: u32 = (1 << 31) - 1;
    /// No free place, and no further success: the lane must be asked.
    const NONE: Tally = Tally(Tally::FULL);

    /// The tally to begin with, and until when it may be used.
    fn of(lane: &Lane) -> (Tally, Timestamp) {
        let Some(leeway) = lane.leeway() else { return (Tally::NONE, Timestamp::ZERO) };
        let places = u64::from(leeway.places.min(Tally::PLACES_MAX));
        (Tally(places * Tally::PLACE), leeway.until)
    }

    fn places(self) -> u32 {
        (self.0 >> 32) as u32
    }

    #[expect(clippy::cast_possible_truncation, reason = "the lower half is what is asked for")]
    fn successes(self) -> u32 {
        self.0 as u32
    }

    #[inline]
    fn started(self) -> Option<Tally> {
        self.0.checked_sub(Tally::PLACE).map(Tally)
    }

    #[inline]
    fn succeeded(self) -> Option<Tally> {
        (self.0 & Tally::FULL == 0).then(|| Tally(self.0 + Tally::PLACE + 1))
    }
}

impl SharedLane {
    pub(crate) fn new(lane: Lane) -> SharedLane {
        let (tally, until) = Tally::of(&lane);
        SharedLane {
            tally: AtomicU64::new(tally.0),
            until: AtomicU64::new(until.as_nanos()),
            lane: Mutex::new(lane),
        }
    }

    /// Counts a first attempt that starts, if the lane need not be asked: [`Lane::admit`].
    #[inline]
    pub(crate) fn count_start(&self, now: Timestamp) -> bool {
        self.count(now, Tally::started)
    }

    /// Counts the success of an attempt that was counted when it started, and took no time, if the
    /// lane need not be asked: [`Lane::finish`].
    #[inline]
    pub(crate) fn count_success(&self, started_at: Timestamp) -> bool {
        self.count(started_at, Tally::succeeded)
    }

    /// Counts it without the lock, if the lane need not be asked.
    #[inline]
    fn count(&self, now: Timestamp, step: impl Fn(Tally) -> Option<Tally>) -> bool {
        let mut seen = self.tally.load(Ordering::Acquire);
        while let Some(next) = step(Tally(seen))
            && now.as_nanos() < self.until.load(Ordering::Relaxed)
        {
            match self.tally.compare_exchange_weak(
                seen,
                next.0,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => return true,
                Err(changed) => seen = changed,
            }
        }
        false
    }

    /// Frees the place of an attempt that succeeded: [`Lane::finish`].
    #[cold]
    pub(crate) fn succeed(&self, place: Place, started_at: Timestamp, now: Timestamp) {
        if let Some(pass) = place.into_pass(started_at) {
            self.lock().finish(pass, &Outcome::Success, now, 0);
        }
    }

    pub(crate) fn lock(&self) -> Locked<'_> {
        // A lane is a handful of numbers that are right after every step, also one that panicked.
        let mut lane = self.lane.lock().unwrap_or_else(PoisonError::into_inner);
        let tally = Tally(self.tally.swap(Tally::NONE.0, Ordering::AcqRel));
        // The lane is as it was when it was unlocked, so this is what the tally was then.
        let (before, _) = Tally::of(&lane);
        if tally != before {
            let succeeded = tally.successes();
            lane.catch_up(before.places() + succeeded - tally.places(), succeeded);
        }
        Locked { lane, shared: self }
    }
}

/// A lane that is locked, and up to date.
pub(crate) struct Locked<'l> {
    lane: MutexGuard<'l, Lane>,
    shared: &'l SharedLane,
}

impl Deref for Locked<'_> {
    type Target = Lane;

    fn deref(&self) -> &Lane {
        &self.lane
    }
}

impl DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut Lane {
        &mut self.lane
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        let (tally, until) = Tally::of(&self.lane);
        self.shared.until.store(until.as_nanos(), Ordering::Relaxed);
        self.shared.tally.store(tally.0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;
    use std::thread;

    use relent_policy::{Policy, PolicySpec, Refusal, Turn};

    use super::*;

    fn start(shared: &SharedLane, turn: Turn, now: Timestamp) -> Result<Place, Refusal> {
        if turn == Turn::First && shared.count_start(now) {
            return Ok(Place::Counted);
        }
        shared.lock().admit(turn, now).map(Place::Passed)
    }

    fn succeed_at_once(shared: &SharedLane, place: Place, now: Timestamp) {
        if !(matches!(place, Place::Counted) && shared.count_success(now)) {
            shared.succeed(place, now, now);
        }
    }

    #[test]
    fn what_is_counted_beside_the_lane_is_what_the_lane_would_have_counted() {
        let mut lane = Lane::new(&Policy::sync_api());
        let shared = SharedLane::new(lane);
        for millis in (0..5_000).step_by(7) {
            let now = Timestamp::from_millis(1_000_000 + millis);
            let pass = lane.admit(Turn::First, now).unwrap();
            lane.finish(pass, &Outcome::Success, now, 0);
            let place = start(&shared, Turn::First, now).unwrap();
            succeed_at_once(&shared, place, now);
        }
        assert_eq!(*shared.lock(), lane);
    }

    #[test]
    fn a_success_settles_the_probe_at_once() {
        let shared = SharedLane::new(Lane::new(&Policy::sync_api()));
        for _ in 0..20 {
            let place = start(&shared, Turn::First, Timestamp::ZERO).unwrap();
            let pass = place.into_pass(Timestamp::ZERO).unwrap();
            shared.lock().finish(pass, &Outcome::http(503), Timestamp::ZERO, 0);
        }
        let later = Timestamp::from_secs(6);
        let probe = start(&shared, Turn::First, later).unwrap();
        assert!(start(&shared, Turn::First, later).is_err(), "one probe");
        succeed_at_once(&shared, probe, later);
        let refused = (0..10).filter(|_| start(&shared, Turn::First, later).is_err()).count();
        assert_eq!(refused, 9, "the ramp begins with a tenth");
    }

    /// Every way to start and to end an attempt, on four threads, for three places.
    #[test]
    fn the_limit_is_exact_on_many_threads() {
        let mut spec = PolicySpec::sync_api();
        spec.concurrency.in_flight_max = 3;
        spec.concurrency.retries_in_flight_max = 1;
        let policy = spec.build(Timestamp::ZERO).unwrap();
        let (shared, under_way) = (SharedLane::new(Lane::new(&policy)), AtomicU32::new(0));
        thread::scope(|scope| {
            for thread in 0..4 {
                let (shared, under_way) = (&shared, &under_way);
                scope.spawn(move || {
                    for n in 0..20_000_u64 {
                        let now = Timestamp::from_millis(1_000 + n);
                        let turn = if n % 11 == thread { Turn::Retry } else { Turn::First };
                        let Ok(place) = start(shared, turn, now) else { continue };
                        assert!(under_way.fetch_add(1, Ordering::SeqCst) < 3);
                        under_way.fetch_sub(1, Ordering::SeqCst);
                        if n % 7 > 1 {
                            succeed_at_once(shared, place, now);
                            continue;
                        }
                        let pass = place.into_pass(now).unwrap();
                        match n % 7 {
                            0 => shared.lock().abandon(pass, now),
                            _ => shared.lock().finish(pass, &Outcome::Success, now, 0),
                        }
                    }
                });
            }
        });
        assert_eq!(shared.lock().in_flight(), 0);
        let admitted = (0..5).filter(|_| start(&shared, Turn::First, Timestamp::MAX).is_ok());
        assert_eq!(admitted.count(), 3);
    }
}
