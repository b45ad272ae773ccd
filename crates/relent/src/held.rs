//! What a call holds while an attempt is under way, and gives back when it is dropped.
//!
//! A call that succeeds at once needs no more than this: history, options and the rest of a
//! [`Call`](crate::call::Call) are made around it only when the attempt fails.

use relent_policy::{IdempotencyKey, Outcome, Refusal, Timestamp, Turn};

use crate::attempt::Attempt;
use crate::call::Deadline;
use crate::clock::{Clock, Moment};
use crate::judge::Judge;
use crate::key::CallId;
use crate::lane::Place;
use crate::retrier::Inner;

/// What a call holds while an attempt is under way. Dropping it gives everything back.
pub(crate) struct Held<'r, C: Clock> {
    pub(crate) inner: &'r Inner<C>,
    pub(crate) id: CallId,
    /// When the attempt started. Without shared state or a deadline it is not known until the attempt
    /// has to wait.
    pub(crate) started_at: Moment,
    pub(crate) place: Place,
}

impl<'r, C: Clock> Held<'r, C> {
    /// What a call holds before its first attempt.
    pub(crate) fn new(inner: &'r Inner<C>, key: Option<&IdempotencyKey>) -> Held<'r, C> {
        Held::of(inner, key, CallId::next(), Moment::UNREAD, Place::None)
    }

    #[inline(always)]
    fn of(
        inner: &'r Inner<C>,
        key: Option<&IdempotencyKey>,
        id: CallId,
        started_at: Moment,
        place: Place,
    ) -> Held<'r, C> {
        let held = Held { inner, id, started_at, place };
        if let Some(key) = key {
            inner.terms.keys.give(id, key);
        }
        held
    }

    /// Starts the first attempt of a call, if that can be counted beside the lane or there is none;
    /// otherwise the lane has to be [asked](Held::ask). `timed` says that its time counts even without
    /// shared state.
    ///
    /// What the call holds is put together last: before, there is nothing to give back, so none of it
    /// need be in memory yet.
    #[inline(always)]
    pub(crate) fn begin_first(
        inner: &'r Inner<C>,
        key: Option<&IdempotencyKey>,
        timed: bool,
    ) -> Result<Held<'r, C>, Held<'r, C>> {
        let id = CallId::next();
        let Some(lane) = &inner.lane else {
            let started_at = if timed { inner.clock.now().into() } else { Moment::UNREAD };
            return Ok(Held::of(inner, key, id, started_at, Place::None));
        };
        let now = inner.clock.now();
        if lane.count_start(now) {
            Ok(Held::of(inner, key, id, now.into(), Place::Counted))
        } else {
            Err(Held::of(inner, key, id, now.into(), Place::None))
        }
    }

    /// Asks the lane to start an attempt that has not been counted.
    #[cold]
    pub(crate) fn ask(&mut self, turn: Turn) -> Result<(), Refusal> {
        if let Some(lane) = &self.inner.lane {
            self.place = Place::Passed(lane.lock().admit(turn, self.started_at.or_never())?);
        }
        Ok(())
    }

    /// Asks to start an attempt of a call that is already made.
    pub(crate) fn begin(&mut self, turn: Turn, timed: bool) -> Result<(), Refusal> {
        let inner = self.inner;
        if inner.lane.is_some() || timed {
            self.started_at = inner.clock.now().into();
        }
        match &inner.lane {
            Some(lane) if turn == Turn::First && lane.count_start(self.started_at.or_never()) => {
                self.place = Place::Counted;
                Ok(())
            }
            _ => self.ask(turn),
        }
    }

    /// The first attempt, as the operation sees it.
    #[inline]
    pub(crate) fn first_attempt(&self, deadline: Deadline) -> Attempt<'r> {
        Attempt::new(self, 1, None, self.started_at, deadline)
    }

    /// Learns that the attempt did not end at once. Without shared state this is the moment its time
    /// begins to count.
    pub(crate) fn pended(&mut self) {
        if !self.started_at.is_read() {
            self.started_at = self.inner.clock.now().into();
        }
    }

    /// Whether that was all: it is a success, and nobody wants to hear of it.
    #[inline]
    pub(crate) fn is_settled_by(&self, result: &impl Judge) -> bool {
        let now = self.started_at.get().unwrap_or(Timestamp::ZERO);
        !self.inner.is_observed() && result.judge(now) == Outcome::Success
    }

    /// Takes note of a success that came at once: nothing took any time, so the clock is not read.
    #[inline]
    pub(crate) fn succeeded_at_once(&mut self) {
        let Some(lane) = &self.inner.lane else { return };
        let started_at = self.started_at.or_never();
        if matches!(self.place, Place::Counted) && lane.count_success(started_at) {
            self.place = Place::None;
        } else {
            lane.succeed(self.place.take(), started_at, started_at);
        }
    }

    /// Takes note of a success that took its time, which only matters to what is shared.
    pub(crate) fn succeeded(&mut self, now: impl FnOnce() -> Timestamp) {
        if let Some(lane) = &self.inner.lane {
            lane.succeed(self.place.take(), self.started_at.or_never(), now());
        }
    }
}

impl<C: Clock> Drop for Held<'_, C> {
    #[inline]
    fn drop(&mut self) {
        if self.place.is_some() || !self.inner.terms.keys.is_empty() {
            give_back(self.inner, self.id, self.place.take());
        }
    }
}

/// Gives back what a call held. It takes what it needs by value: what somebody may look at through a
/// reference has to be in memory, also on the way where nobody does.
#[cold]
#[inline(never)]
fn give_back<C: Clock>(inner: &Inner<C>, id: CallId, place: Place) {
    if place.is_some() {
        let now = inner.clock.now();
        if let (Some(lane), Some(pass)) = (&inner.lane, place.into_pass(now)) {
            lane.lock().abandon(pass, now);
        }
    }
    inner.terms.keys.forget(id);
}
