//! One call from its first attempt to its end: the five steps, without the sending and sleeping.
//!
//! ```text
//! 1 admit    lane.admit()          breaker, concurrency, rate
//! 2 send                           the caller's part
//! 3 decide   policy::decide(..)    on what came back
//! 4 wait                           the driver's part: async, blocking, or somebody's own loop
//! 5 tell     observers             what happened, and why
//! ```
//!
//! Dropping a call at any point gives back what it holds: its place among the attempts in flight
//! and the retry that was counted for it.

use std::borrow::Cow;
use std::time::Duration;

use relent_policy::{
    BreakerState, Decision, Failure, FailureKind, Fault, GiveUpReason, History, Hop,
    IdempotencyKey, Outcome, Refusal, Repeatable, Reservation, Timestamp, Turn, Ungated,
    WaitReason, decide,
};

use crate::attempt::Attempt;
use crate::clock::{Clock, Moment, Sleep};
use crate::error::Report;
use crate::held::Held;
use crate::key::CallKey;
use crate::observe::{AttemptEvent, GiveUpEvent};
use crate::retrier::Inner;

/// A call under way.
pub(crate) struct Call<'r, C: Clock> {
    held: Held<'r, C>,
    options: Options,
    /// Read when it is first needed: a call without shared state that succeeds at once needs none.
    created_at: Moment,
    history: Option<History>,
    attempts: u32,
    previous: Option<FailureKind>,
    reservation: Option<Reservation>,
}

/// What a caller says about a call.
#[derive(Debug, Default)]
pub(crate) struct Options {
    pub(crate) declared: Repeatable,
    pub(crate) key: Option<IdempotencyKey>,
    pub(crate) deadline: Deadline,
    pub(crate) hop: Option<Hop>,
    pub(crate) correlation_id: Option<Cow<'static, str>>,
}

/// The caller's own deadline.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Deadline {
    #[default]
    None,
    At(Timestamp),
    In(Duration),
}

impl Deadline {
    pub(crate) fn is_some(self) -> bool {
        !matches!(self, Deadline::None)
    }

    #[inline]
    pub(crate) fn at(self, created_at: Timestamp) -> Timestamp {
        match self {
            Deadline::None => Timestamp::MAX,
            Deadline::At(at) => at,
            Deadline::In(duration) => created_at + duration,
        }
    }
}

/// What comes after an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Done,
    RetryIn(Duration),
    GiveUp(GiveUpReason),
}

/// Why an attempt does not start now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotNow {
    Wait(Duration),
    Refused(Refusal),
}

impl<'r, C: Clock> Call<'r, C> {
    pub(crate) fn new(inner: &'r Inner<C>, options: Options) -> Call<'r, C> {
        Call::around(Held::new(inner, options.key.as_ref()), options, 0)
    }

    /// The call that holds this, after so many attempts were begun.
    pub(crate) fn around(held: Held<'r, C>, options: Options, attempts: u32) -> Call<'r, C> {
        Call {
            created_at: held.started_at,
            held,
            options,
            history: None,
            attempts,
            previous: None,
            reservation: None,
        }
    }

    /// Step 1: asks to start the next attempt.
    pub(crate) fn begin(&mut self) -> Result<Attempt<'r>, NotNow> {
        let turn = Turn::of_attempt(self.attempts + 1);
        let timed = self.created_at.is_read() || self.options.deadline.is_some();
        let begun = self.held.begin(turn, timed);
        self.created_at = self.created_at.or(self.held.started_at);
        begun.map_err(|refusal| self.refused(refusal))?;
        // The retry is being sent: what was counted for it is spent.
        self.reservation = None;
        self.attempts += 1;
        Ok(self.attempt())
    }

    /// The attempt that was begun last, as the operation sees it.
    fn attempt(&self) -> Attempt<'r> {
        let deadline = self.options.deadline;
        Attempt::new(&self.held, self.attempts, self.previous, self.created_at, deadline)
    }

    /// A rate limit says when to come back; everything else is an answer.
    #[cold]
    pub(crate) fn refused(&self, refusal: Refusal) -> NotNow {
        let now = self.held.started_at.get().unwrap_or(Timestamp::ZERO);
        match refusal {
            Refusal::RateLimited { until } if until < self.deadline() => {
                NotNow::Wait(until.saturating_since(now))
            }
            refusal => {
                if self.held.inner.is_observed() {
                    self.tell_given_up(self.previous, refusal.into(), now);
                }
                NotNow::Refused(refusal)
            }
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.held.inner.clock.now()
    }

    /// When the attempt started, if that is known.
    #[inline]
    pub(crate) fn started_at(&self) -> Option<Timestamp> {
        self.held.started_at.get()
    }

    /// Learns that the attempt did not end at once. For a call without shared state this is the
    /// moment its time begins to count.
    pub(crate) fn pended(&mut self) {
        self.held.pended();
        self.created_at = self.created_at.or(self.held.started_at);
    }

    /// Step 3 for a success that came at once: nothing took any time, so the clock is not read.
    #[inline]
    pub(crate) fn succeeded_at_once(&mut self) {
        self.held.succeeded_at_once();
        if self.held.inner.is_observed() {
            self.tell_success();
        }
    }

    #[cold]
    fn tell_success(&self) {
        let now = self.held.inner.clock.now();
        self.tell(&Outcome::Success, None, now, now);
    }

    /// Steps 3 and 5: what to do after an attempt that came to this.
    pub(crate) fn end(&mut self, outcome: &Outcome, now: Timestamp) -> Next {
        if *outcome == Outcome::Success {
            self.held.succeeded(|| now);
            if self.held.inner.is_observed() {
                self.tell(outcome, None, self.held.started_at.get().unwrap_or(now), now);
            }
            return Next::Done;
        }
        let started_at = self.held.started_at.get().unwrap_or(now);
        self.held.started_at = Moment::UNREAD;
        let roll = self.held.inner.roll(self.attempts);
        let history = self.history();
        let decision = self.decide(&history, outcome, started_at, now, roll);
        let next = match decision {
            Decision::Done => Next::Done,
            Decision::GiveUp { because } => Next::GiveUp(because),
            Decision::RetryAt { at, because, charge } => {
                self.history = Some(history.charged(charge));
                self.previous = failure_of(outcome);
                let wait = at.saturating_since(now);
                if self.held.inner.is_observed() {
                    self.tell(outcome, Some((wait, because)), started_at, now);
                }
                return Next::RetryIn(wait);
            }
        };
        if self.held.inner.is_observed() {
            self.tell(outcome, None, started_at, now);
            if let Next::GiveUp(because) = next {
                self.tell_given_up(failure_of(outcome), because, now);
            }
        }
        next
    }

    fn decide(
        &mut self,
        history: &History,
        outcome: &Outcome,
        started_at: Timestamp,
        now: Timestamp,
        roll: u64,
    ) -> Decision {
        let policy = &self.held.inner.terms.policy;
        let Some(lane) = &self.held.inner.lane else {
            return decide(policy, history, outcome, &mut Ungated, now, roll);
        };
        let mut lane = lane.lock();
        if let Some(pass) = self.held.place.take().into_pass(started_at) {
            lane.finish(pass, outcome, now, roll);
        }
        let mut gates = lane.gates();
        let decision = decide(policy, history, outcome, &mut gates, now, roll);
        self.reservation = gates.into_reservation();
        decision
    }

    /// Whether there was an attempt.
    pub(crate) fn has_begun(&self) -> bool {
        self.attempts > 0
    }

    /// The outcome of an attempt whose time ran out.
    pub(crate) fn timed_out() -> Outcome {
        Outcome::Failure(Failure::from(FailureKind::Fault(Fault::ResponseTimeout)))
    }

    pub(crate) fn report(&self, now: Timestamp) -> Report {
        let created_at = self.created_at.get().unwrap_or(now);
        Report { attempts: self.attempts, elapsed: now.saturating_since(created_at) }
    }

    fn history(&mut self) -> History {
        let now = self.created_at.get().unwrap_or_else(|| self.held.inner.clock.now());
        self.created_at = now.into();
        let history = self.history.unwrap_or_else(|| {
            // Only now is it known whether the operation asked for its key.
            let hop = self.options.hop.unwrap_or_else(crate::hop::current);
            History::start(
                now,
                self.held.inner.terms.keys.repeatable(self.held.id, self.options.declared),
            )
            .with_deadline(self.options.deadline.at(now))
            .with_hop(hop)
        });
        history.begin_attempt()
    }

    fn key(&self) -> Option<CallKey> {
        self.held.inner.terms.keys.get(self.held.id)
    }

    fn deadline(&self) -> Timestamp {
        let Some(created_at) = self.created_at.get() else { return Timestamp::MAX };
        let total = self.held.inner.terms.policy.spec().total_budget;
        self.options.deadline.at(created_at).min(created_at + total)
    }

    #[cold]
    fn tell(
        &self,
        outcome: &Outcome,
        wait: Option<(Duration, WaitReason)>,
        started_at: Timestamp,
        now: Timestamp,
    ) {
        let (budget_utilization_ratio, breaker) = self.gauges(now);
        let key = self.key();
        let event = AttemptEvent {
            correlation_id: self.options.correlation_id.as_deref(),
            service: &self.held.inner.service,
            dependency: &self.held.inner.dependency,
            policy: self.held.inner.terms.policy.id(),
            attempt: self.attempts,
            max_attempts: self.held.inner.terms.policy.max_attempts(),
            wait: wait.map(|(wait, _)| wait),
            wait_reason: wait.map(|(_, reason)| reason),
            failure: failure_of(outcome),
            idempotency_key: key.as_deref(),
            took: now.saturating_since(started_at),
            elapsed: self.report(now).elapsed,
            budget_utilization_ratio,
            breaker,
        };
        self.held.inner.observers.iter().for_each(|observer| observer.attempt(&event));
    }

    /// How much of the budget is spent, and the breaker's state.
    fn gauges(&self, now: Timestamp) -> (Option<f64>, Option<BreakerState>) {
        let Some(lane) = &self.held.inner.lane else { return (None, None) };
        let lane = lane.lock();
        let spent = lane.budget().copied().map(|mut budget| budget.utilization_ratio(now));
        (spent, lane.breaker().map(|breaker| breaker.state(now)))
    }

    #[cold]
    fn tell_given_up(&self, failure: Option<FailureKind>, because: GiveUpReason, now: Timestamp) {
        let key = self.key();
        let event = GiveUpEvent {
            correlation_id: self.options.correlation_id.as_deref(),
            service: &self.held.inner.service,
            dependency: &self.held.inner.dependency,
            policy: self.held.inner.terms.policy.id(),
            max_attempts: self.held.inner.terms.policy.max_attempts(),
            because,
            failure,
            idempotency_key: key.as_deref(),
            report: self.report(now),
        };
        self.held.inner.observers.iter().for_each(|observer| observer.gave_up(&event));
    }
}

impl<C: Sleep> Call<'_, C> {
    /// What ends with the time of the attempt under way, which was just found pending.
    pub(crate) fn timer(&mut self) -> C::Sleep {
        let timeout = self.attempt().timeout();
        self.pended();
        self.sleep(timeout)
    }

    pub(crate) fn sleep(&self, duration: Duration) -> C::Sleep {
        self.held.inner.clock.sleep(duration)
    }
}

fn failure_of(outcome: &Outcome) -> Option<FailureKind> {
    match outcome {
        Outcome::Success => None,
        Outcome::Failure(failure) => Some(failure.kind),
    }
}

impl<C: Clock> Drop for Call<'_, C> {
    #[inline]
    fn drop(&mut self) {
        if self.reservation.is_some() {
            self.give_back();
        }
    }
}

impl<C: Clock> Call<'_, C> {
    #[cold]
    fn give_back(&mut self) {
        let inner = self.held.inner;
        if let (Some(lane), Some(reservation)) = (&inner.lane, self.reservation.take()) {
            lane.lock().release(reservation, inner.clock.now());
        }
    }
}
