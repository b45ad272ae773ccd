//! The way that most calls take: the first attempt begins, is ready at once, and succeeds.
//!
//! What such a call needs is an admission and a way to give it back; history, options and the rest of
//! a [`Call`](crate::call::Call) are made around it only when the attempt fails or has to wait. The
//! difference is what the call costs: bytes that are never written.

use relent_policy::{IdempotencyKey, Pass, Refusal, Timestamp, Turn};

use crate::attempt::Attempt;
use crate::call::Deadline;
use crate::clock::Clock;
use crate::key::CallId;
use crate::lane::SharedLane;
use crate::retrier::Inner;

/// What a call holds while an attempt is under way. Dropping it gives everything back.
pub(crate) struct Held<'r, C: Clock> {
    pub(crate) inner: &'r Inner<C>,
    pub(crate) id: CallId,
    /// When the attempt started. Without shared state or a deadline it is not known until the attempt
    /// has to wait.
    pub(crate) started_at: Option<Timestamp>,
    pub(crate) pass: Option<Pass>,
}

impl<'r, C: Clock> Held<'r, C> {
    #[inline]
    pub(crate) fn new(inner: &'r Inner<C>, key: Option<&IdempotencyKey>) -> Held<'r, C> {
        let id = CallId::next();
        if let Some(key) = key {
            inner.keys.give(id, key);
        }
        Held { inner, id, started_at: None, pass: None }
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
        self.pass = Some(lane.admit(turn, now)?);
        Ok(())
    }

    /// The first attempt, as the operation sees it.
    #[inline]
    pub(crate) fn first_attempt(&self, deadline: Deadline) -> Attempt<'r> {
        Attempt::new(self, 1, None, self.started_at, deadline)
    }

    /// Takes note of a success that came at once: nothing took any time, so the clock is not read.
    #[inline(always)]
    pub(crate) fn succeeded_at_once(&mut self) {
        if let (Some(lane), Some(pass)) = (&self.inner.lane, self.pass.take()) {
            lane.succeed_at_once(pass, self.started_at.unwrap_or(Timestamp::ZERO));
        }
    }

    #[cold]
    fn abandon(&mut self) {
        if let (Some(lane), Some(pass)) = (&self.inner.lane, self.pass.take()) {
            lane.lock().abandon(pass, self.inner.clock.now());
        }
    }
}

impl<C: Clock> Drop for Held<'_, C> {
    #[inline]
    fn drop(&mut self) {
        if self.pass.is_some() {
            self.abandon();
        }
        self.inner.keys.forget(self.id);
    }
}
