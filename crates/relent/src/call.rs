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
    IdempotencyKey, Outcome, Pass, Refusal, Repeatable, Reservation, Timestamp, Turn, Ungated,
    WaitReason, decide,
};

use crate::attempt::Attempt;
use crate::clock::{Clock, Sleep};
use crate::error::Report;
use crate::key::{CallId, CallKey};
use crate::observe::{AttemptEvent, GiveUpEvent};
use crate::retrier::Inner;

/// A call under way.
pub(crate) struct Call<'r, C: Clock> {
    inner: &'r Inner<C>,
    options: Options,
    id: CallId,
    /// Read when it is first needed: a call without shared state that succeeds at once needs none.
    created_at: Option<Timestamp>,
    history: Option<History>,
    attempts: u32,
    attempt_started_at: Option<Timestamp>,
    previous: Option<FailureKind>,
    pass: Option<Pass>,
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
    fn is_some(self) -> bool {
        !matches!(self, Deadline::None)
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
    #[inline]
    pub(crate) fn new(inner: &'r Inner<C>, options: Options) -> Call<'r, C> {
        let id = CallId::next();
        if let Some(key) = &options.key {
            inner.keys.give(id, key);
        }
        Call {
            inner,
            options,
            id,
            created_at: None,
            history: None,
            attempts: 0,
            attempt_started_at: None,
            previous: None,
            pass: None,
            reservation: None,
        }
    }

    /// Step 1: asks to start the next attempt.
    #[inline]
    pub(crate) fn begin(&mut self) -> Result<Attempt<'r>, NotNow> {
        if let Some(lane) = &self.inner.lane {
            let now = self.inner.clock.now();
            self.created_at.get_or_insert(now);
            self.attempt_started_at = Some(now);
            let turn = Turn::of_attempt(self.attempts + 1);
            // Unlocked before observers hear of a refusal: they may look at the lane themselves.
            let admitted = lane.lock().admit(turn, now);
            match admitted {
                Ok(pass) => self.pass = Some(pass),
                Err(refusal) => return Err(self.refused(refusal, now)),
            }
            // The retry is being sent: what was counted for it is spent.
            self.reservation = None;
        } else if self.created_at.is_some() || self.options.deadline.is_some() {
            let now = self.inner.clock.now();
            self.created_at.get_or_insert(now);
            self.attempt_started_at = Some(now);
        }
        self.attempts += 1;
        Ok(self.attempt())
    }

    /// A rate limit says when to come back; everything else is an answer.
    #[cold]
    fn refused(&self, refusal: Refusal, now: Timestamp) -> NotNow {
        match refusal {
            Refusal::RateLimited { until } if until < self.deadline() => {
                NotNow::Wait(until.saturating_since(now))
            }
            refusal => {
                if self.inner.is_observed() {
                    self.tell_given_up(self.previous, refusal.into(), now);
                }
                NotNow::Refused(refusal)
            }
        }
    }

    fn attempt(&self) -> Attempt<'r> {
        let policy = &self.inner.policy;
        let timeout = policy.spec().attempt_timeout;
        let (timeout, deadline_at) = match self.attempt_started_at {
            None => (timeout, Timestamp::MAX),
            Some(now) => {
                let deadline = self.deadline();
                (timeout.min(deadline.saturating_since(now)), deadline)
            }
        };
        Attempt {
            number: self.attempts,
            max: policy.max_attempts(),
            timeout,
            deadline_at,
            previous: self.previous,
            call: self.id,
            keys: &self.inner.keys,
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.inner.clock.now()
    }

    /// When the attempt started, if that is known.
    #[inline]
    pub(crate) fn started_at(&self) -> Option<Timestamp> {
        self.attempt_started_at
    }

    /// Learns that the attempt did not end at once. For a call without shared state this is the
    /// moment its time begins to count.
    pub(crate) fn pended(&mut self) {
        if self.attempt_started_at.is_none() {
            let now = self.inner.clock.now();
            self.created_at.get_or_insert(now);
            self.attempt_started_at = Some(now);
        }
    }

    /// Step 3 for a success that came at once: nothing took any time, so the clock is not read.
    #[inline]
    pub(crate) fn succeeded_at_once(&mut self) {
        if let (Some(lane), Some(pass)) = (&self.inner.lane, self.pass.take()) {
            let now = self.attempt_started_at.unwrap_or(Timestamp::ZERO);
            lane.lock().finish(pass, &Outcome::Success, now, 0);
        }
        if self.inner.is_observed() {
            self.tell_success();
        }
    }

    #[cold]
    fn tell_success(&self) {
        let now = self.inner.clock.now();
        self.tell(&Outcome::Success, None, now, now);
    }

    /// Steps 3 and 5: what to do after an attempt that came to this.
    pub(crate) fn end(&mut self, outcome: &Outcome, now: Timestamp) -> Next {
        let started_at = self.attempt_started_at.take().unwrap_or(now);
        let roll = self.inner.roll(self.attempts);
        let history = self.history();
        let decision = self.decide(&history, outcome, now, roll);
        let next = match decision {
            Decision::Done => Next::Done,
            Decision::GiveUp { because } => Next::GiveUp(because),
            Decision::RetryAt { at, because, charge } => {
                self.history = Some(history.charged(charge));
                self.previous = failure_of(outcome);
                let wait = at.saturating_since(now);
                if self.inner.is_observed() {
                    self.tell(outcome, Some((wait, because)), started_at, now);
                }
                return Next::RetryIn(wait);
            }
        };
        if self.inner.is_observed() {
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
        now: Timestamp,
        roll: u64,
    ) -> Decision {
        let policy = &self.inner.policy;
        let Some(lane) = &self.inner.lane else {
            return decide(policy, history, outcome, &mut Ungated, now, roll);
        };
        let mut lane = lane.lock();
        if let Some(pass) = self.pass.take() {
            lane.finish(pass, outcome, now, roll);
        }
        let mut gates = lane.gates();
        let decision = decide(policy, history, outcome, &mut gates, now, roll);
        self.reservation = gates.into_reservation();
        decision
    }

    /// The outcome of an attempt whose time ran out.
    pub(crate) fn timed_out() -> Outcome {
        Outcome::Failure(Failure::from(FailureKind::Fault(Fault::ResponseTimeout)))
    }

    pub(crate) fn report(&self, now: Timestamp) -> Report {
        let created_at = self.created_at.unwrap_or(now);
        Report { attempts: self.attempts, elapsed: now.saturating_since(created_at) }
    }

    fn history(&mut self) -> History {
        let now = self.created_at.unwrap_or_else(|| self.inner.clock.now());
        self.created_at = Some(now);
        let history = self.history.unwrap_or_else(|| {
            // Only now is it known whether the operation asked for its key.
            let hop = self.options.hop.unwrap_or_else(crate::hop::current);
            History::start(now, self.inner.keys.repeatable(self.id, self.options.declared))
                .with_deadline(self.own_deadline(now))
                .with_hop(hop)
        });
        history.begin_attempt()
    }

    fn key(&self) -> Option<CallKey> {
        self.inner.keys.get(self.id)
    }

    fn own_deadline(&self, created_at: Timestamp) -> Timestamp {
        match self.options.deadline {
            Deadline::None => Timestamp::MAX,
            Deadline::At(at) => at,
            Deadline::In(duration) => created_at + duration,
        }
    }

    fn deadline(&self) -> Timestamp {
        let Some(created_at) = self.created_at else { return Timestamp::MAX };
        let policy = created_at + self.inner.policy.spec().total_budget;
        policy.min(self.own_deadline(created_at))
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
            service: &self.inner.service,
            dependency: &self.inner.dependency,
            policy: self.inner.policy.id(),
            attempt: self.attempts,
            max_attempts: self.inner.policy.max_attempts(),
            wait: wait.map(|(wait, _)| wait),
            wait_reason: wait.map(|(_, reason)| reason),
            failure: failure_of(outcome),
            idempotency_key: key.as_deref(),
            took: now.saturating_since(started_at),
            elapsed: self.report(now).elapsed,
            budget_utilization_ratio,
            breaker,
        };
        self.inner.observers.iter().for_each(|observer| observer.attempt(&event));
    }

    /// How much of the budget is spent, and the breaker's state.
    fn gauges(&self, now: Timestamp) -> (Option<f64>, Option<BreakerState>) {
        let Some(lane) = &self.inner.lane else { return (None, None) };
        let lane = lane.lock();
        let spent = lane.budget().copied().map(|mut budget| budget.utilization_ratio(now));
        (spent, lane.breaker().map(|breaker| breaker.state(now)))
    }

    #[cold]
    fn tell_given_up(&self, failure: Option<FailureKind>, because: GiveUpReason, now: Timestamp) {
        let key = self.key();
        let event = GiveUpEvent {
            correlation_id: self.options.correlation_id.as_deref(),
            service: &self.inner.service,
            dependency: &self.inner.dependency,
            policy: self.inner.policy.id(),
            max_attempts: self.inner.policy.max_attempts(),
            because,
            failure,
            idempotency_key: key.as_deref(),
            report: self.report(now),
        };
        self.inner.observers.iter().for_each(|observer| observer.gave_up(&event));
    }
}

impl<C: Sleep> Call<'_, C> {
    pub(crate) fn sleep(&self, duration: Duration) -> C::Sleep {
        self.inner.clock.sleep(duration)
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
        if self.pass.is_some() || self.reservation.is_some() {
            self.give_back();
        }
        self.inner.keys.forget(self.id);
    }
}

impl<C: Clock> Call<'_, C> {
    #[cold]
    fn give_back(&mut self) {
        let Some(lane) = &self.inner.lane else { return };
        let now = self.inner.clock.now();
        let mut lane = lane.lock();
        if let Some(pass) = self.pass.take() {
            lane.abandon(pass, now);
        }
        if let Some(reservation) = self.reservation.take() {
            lane.release(reservation, now);
        }
    }
}
