//! What a call holds while an attempt is under way, and gives back when it is dropped.
//!
//! A call that succeeds at once needs no more than this: history, options and the rest of a
//! [`Call`](crate::call::Call) are made around it only when the attempt fails.

use relent_policy::{IdempotencyKey, Outcome, Refusal, Timestamp, Turn};

use crate::attempt::Attempt;
use crate::call::Deadline;
use crate::clock::Clock;
use crate::judge::Judge;
use crate::key::CallId;
use crate::lane::{Place, SharedLane};
use crate::retrier::Inner;

/// What a call holds while an attempt is under way. Dropping it gives everything back.
pub(crate) struct Held<'r, C: Clock> {
    pub(crate) inner: &'r Inner<C>,
    pub(crate) id: CallId,
    /// When the attempt started. Without shared state or a deadline it is not known until the attempt
    /// has to wait.
    pub(crate) started_at: Option<Timestamp>,
    pub(crate) place: Place,
}

impl<'r, C: Clock> Held<'r, C> {
    #[inline]
    pub(crate) fn new(inner: &'r Inner<C>, key: Option<&IdempotencyKey>) -> Held<'r, C> {
        let id = CallId::next();
        if let Some(key) = key {
            inner.keys.give(id, key);
        }
        Held { inner, id, started_at: None, place: Place::None }
    }

    /// Asks to start an attempt. `timed` says that its time counts even without shared state.
    #[inline(always)]
    pub(crate) fn begin(&mut self, turn: Turn, timed: bool) -> Result<(), Refusal> {
        let inner = self.inner;
        match &inner.lane {
            Some(lane) => self.admit(lane, turn),
            None if timed => {
                self.started_at = Some(inner.clock.now());
                Ok(())
            }
            None => Ok(()),
        }
    }

    #[inline]
    fn admit(&mut self, lane: &SharedLane, turn: Turn) -> Result<(), Refusal> {
        let now = self.inner.clock.now();
        self.started_at = Some(now);
        lane.admit(&mut self.place, turn, now)
    }

    /// The first attempt, as the operation sees it.
    #[inline]
    pub(crate) fn first_attempt(&self, deadline: Deadline) -> Attempt<'r> {
        Attempt::new(self, 1, None, self.started_at, deadline)
    }

    /// Learns that the attempt did not end at once. Without shared state this is the moment its time
    /// begins to count.
    pub(crate) fn pended(&mut self) {
        if self.started_at.is_none() {
            self.started_at = Some(self.inner.clock.now());
        }
    }

    /// Whether that was all: it is a success, and nobody wants to hear of it.
    #[inline]
    pub(crate) fn is_settled_by(&self, result: &impl Judge) -> bool {
        let now = self.started_at.unwrap_or(Timestamp::ZERO);
        !self.inner.is_observed() && result.judge(now) == Outcome::Success
    }

    /// Takes note of a success that came at once: nothing took any time, so the clock is not read.
    #[inline]
    pub(crate) fn succeeded_at_once(&mut self) {
        if let (Some(lane), Some(started_at)) = (&self.inner.lane, self.started_at) {
            lane.succeed_at_once(&mut self.place, started_at);
        }
    }

    /// Takes note of a success that took its time, which only matters to what is shared.
    pub(crate) fn succeeded(&mut self, now: impl FnOnce() -> Timestamp) {
        if let (Some(lane), Some(started_at)) = (&self.inner.lane, self.started_at) {
            lane.succeed(&mut self.place, started_at, now());
        }
    }
}

#[cold]
fn abandon<C: Clock>(inner: &Inner<C>, place: &mut Place) {
    let now = inner.clock.now();
    if let (Some(lane), Some(pass)) = (&inner.lane, place.take_pass(now)) {
        lane.lock().abandon(pass, now);
    }
}

impl<C: Clock> Drop for Held<'_, C> {
    #[inline]
    fn drop(&mut self) {
        if self.place.is_some() {
            abandon(self.inner, &mut self.place);
        }
        self.inner.keys.forget(self.id);
    }
}
