//! What was claimed ahead of its time and waits for it.
//!
//! A claim is written down before anything is sent, which takes a flush of the disk. Claimed a few
//! milliseconds ahead, a task has that behind it when it is due, and leaves on time also if the flush
//! was slow. A thread of its own, as the scheduler may be waiting for a claim at that moment. Nothing
//! leaves before its time by the store's clock, which must be in this process for that. REQ-S3.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use relent_policy::{Pass, Timestamp};
use relent_store::Claimed;

use crate::lanes::Lane;

/// An attempt that is to begin when its task is due.
#[derive(Debug)]
pub(super) struct Departure {
    pub(super) lane: Arc<Lane>,
    pub(super) task: Claimed,
    pub(super) pass: Pass,
}

/// See the module's head. There are no more of them than the service has places for attempts.
#[derive(Debug)]
pub(super) struct Departures<T = Departure> {
    waiting: Mutex<Waiting<T>>,
    changed: Condvar,
}

#[derive(Debug)]
struct Waiting<T> {
    /// By time, and those of the same time in the order in which they came.
    by_time: BTreeMap<(Timestamp, u64), T>,
    count: u64,
    is_closed: bool,
}

impl<T> Default for Departures<T> {
    fn default() -> Departures<T> {
        let waiting = Waiting { by_time: BTreeMap::new(), count: 0, is_closed: false };
        Departures { waiting: Mutex::new(waiting), changed: Condvar::new() }
    }
}

impl<T> Departures<T> {
    pub(super) fn add(&self, departures: impl IntoIterator<Item = (Timestamp, T)>) {
        let mut waiting = self.lock();
        let first = waiting.first_at();
        for (at, departure) in departures {
            waiting.count += 1;
            let place = (at, waiting.count);
            waiting.by_time.insert(place, departure);
        }
        if waiting.first_at() != first {
            drop(waiting);
            self.changed.notify_one();
        }
    }

    /// Waits for the time of the next ones. None only when it is closed and all have left.
    pub(super) fn next(&self, now: impl Fn() -> Timestamp) -> Vec<T> {
        let mut waiting = self.lock();
        loop {
            let time = now();
            let leaving = waiting.leave(time);
            if !leaving.is_empty() {
                return leaving;
            }
            let wait = match waiting.first_at() {
                Some(at) => at.saturating_since(time),
                None if waiting.is_closed => return leaving,
                None => Duration::from_secs(3_600),
            };
            let waited = self.changed.wait_timeout(waiting, wait);
            waiting = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Nothing more will come.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Waiting<T>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Waiting<T> {
    fn first_at(&self) -> Option<Timestamp> {
        self.by_time.first_key_value().map(|((at, _), _)| *at)
    }

    /// Takes out those whose time has come.
    fn leave(&mut self, now: Timestamp) -> Vec<T> {
        let mut leaving = Vec::new();
        while let Some(first) = self.by_time.first_entry()
            && first.key().0 <= now
        {
            leaving.push(first.remove());
        }
        leaving
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn at(secs: u64) -> Timestamp {
        Timestamp::from_secs(secs)
    }

    #[test]
    fn they_leave_in_order_of_time_and_not_before_it() {
        let departures = Departures::default();
        departures.add([(at(3), "c"), (at(1), "a"), (at(3), "d")]);
        departures.add([(at(2), "b")]);
        assert_eq!(departures.next(|| at(2)), ["a", "b"]);
        // The first look is too early by a nanosecond, which is waited for.
        let early = Timestamp::from_nanos(at(3).as_nanos() - 1);
        let looks = Cell::new(0);
        let now = || {
            looks.set(looks.get() + 1);
            if looks.get() == 1 { early } else { at(3) }
        };
        assert_eq!(departures.next(now), ["c", "d"]);
        assert_eq!(looks.get(), 2);
    }

    #[test]
    fn closed_it_waits_for_what_is_there_and_for_nothing_else() {
        let departures = Departures::default();
        departures.add([(at(1), "a")]);
        departures.close();
        assert_eq!(departures.next(|| at(1)), ["a"]);
        assert_eq!(departures.next(|| at(1)), [""; 0]);
    }

    #[test]
    fn who_waits_hears_of_an_earlier_one() {
        let departures = Departures::default();
        departures.add([(at(100), "late")]);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| departures.next(|| at(1)));
            departures.add([(at(1), "early")]);
            assert_eq!(waiting.join().unwrap(), ["early"]);
        });
    }
}
