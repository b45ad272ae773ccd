//! What the scheduler is told, from any thread: due times, free places, and when to stop.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use relent_store::{DueListener, LaneDue, LaneId};

/// Where the scheduler is told things.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    state: Mutex<Told>,
    wake: Condvar,
}

#[derive(Debug, Default)]
pub(super) struct Told {
    pub(super) dues: Vec<LaneDue>,
    pub(super) freed: Vec<LaneId>,
    pub(super) stop: bool,
    nudged: bool,
    sleeping: bool,
}

impl Inbox {
    /// A place of this lane is free, or people changed it.
    pub(crate) fn freed(&self, lane: LaneId) {
        let mut told = self.lock();
        if told.stop {
            return;
        }
        if told.freed.last() != Some(&lane) {
            told.freed.push(lane);
        }
        self.wake(told);
    }

    /// Claims are possible again.
    pub(crate) fn nudge(&self) {
        let mut told = self.lock();
        told.nudged = true;
        self.wake(told);
    }

    /// Claim nothing more.
    pub(crate) fn stop(&self) {
        let mut told = self.lock();
        told.stop = true;
        self.wake(told);
    }

    fn lock(&self) -> MutexGuard<'_, Told> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self, mut told: MutexGuard<'_, Told>) {
        if std::mem::take(&mut told.sleeping) {
            drop(told);
            self.wake.notify_one();
        }
    }

    /// What was told since the last time; waits for at most so long if there is nothing.
    pub(super) fn wait(&self, at_most: Duration) -> Told {
        let mut told = self.lock();
        let nothing = told.dues.is_empty() && told.freed.is_empty() && !told.nudged;
        if nothing && !told.stop && !at_most.is_zero() {
            told.sleeping = true;
            let waited = self.wake.wait_timeout_while(told, at_most, |told| told.sleeping);
            told = waited.unwrap_or_else(PoisonError::into_inner).0;
            told.sleeping = false;
        }
        let stop = told.stop;
        std::mem::replace(&mut *told, Told { stop, ..Told::default() })
    }
}

impl DueListener for Inbox {
    fn due(&self, dues: &[LaneDue]) {
        let mut told = self.lock();
        if told.stop {
            return;
        }
        told.dues.extend_from_slice(dues);
        self.wake(told);
    }
}
