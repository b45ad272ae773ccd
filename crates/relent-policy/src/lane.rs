//! One dependency's traffic: its budget, breaker, limits and call times behind two questions.
//!
//! *May a retry be planned?* ([`Lane::reserve_retry`], asked by [`decide`](crate::decide)) and *may
//! this attempt start now?* ([`Lane::admit`], asked before sending). A lane holds no queue, clock or
//! lock: the library puts it behind a mutex, the service in its scheduler, the simulator on a
//! virtual clock. REQ-G2, REQ-K2, REQ-L3, REQ-L6.

use core::time::Duration;

use crate::breaker::{Admission, Breaker, BreakerState};
use crate::budget::{Budget, Withdrawal};
use crate::call_time::CallTime;
use crate::classify::Health;
use crate::failure::Outcome;
use crate::flow::{ConcurrencyLimits, Flow, FlowRefusal, Turn};
use crate::policy::Policy;
use crate::time::Timestamp;

/// The shared state of all calls to one dependency.
///
/// ```
/// use relent_policy::{Lane, Outcome, Policy, Timestamp, Turn};
///
/// let policy = Policy::sync_api();
/// let mut lane = Lane::new(&policy);
/// let now = Timestamp::from_secs(1);
/// let pass = lane.admit(Turn::First, now)?;
/// lane.finish(pass, &Outcome::http(200), Timestamp::from_millis(1_040), 0);
/// assert_eq!(lane.in_flight(), 0);
/// # Ok::<(), relent_policy::Refusal>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lane {
    budget: Option<Budget>,
    breaker: Option<Breaker>,
    flow: Flow,
    call_time: CallTime,
    /// Until when no further retry is exempt from the budget for being the next probe.
    probe_promised_until: Timestamp,
}

/// Why a lane holds an attempt back.
///
/// ```
/// use relent_policy::Refusal;
///
/// assert_eq!(Refusal::Concurrency.to_string(), "concurrency");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The retry budget is spent.
    Budget,
    /// The breaker is open, probing or ramping up.
    BreakerOpen {
        /// When asking again can help.
        until: Timestamp,
    },
    /// Too many attempts are under way.
    Concurrency,
    /// Attempts start too fast.
    RateLimited {
        /// When the next may start.
        until: Timestamp,
    },
}

/// The right to make one attempt. Hand it back with [`Lane::finish`] or [`Lane::abandon`].
///
/// ```
/// use relent_policy::{Lane, Policy, Timestamp, Turn};
///
/// let mut lane = Lane::new(&Policy::sync_api());
/// let pass = lane.admit(Turn::First, Timestamp::ZERO)?;
/// lane.abandon(pass, Timestamp::ZERO);
/// # Ok::<(), relent_policy::Refusal>(())
/// ```
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a pass that is dropped keeps its place for ever; finish or abandon it"]
pub struct Pass {
    turn: Turn,
    admission: Admission,
    started_at: Timestamp,
}

/// A retry that is counted and not yet sent. Give it back with [`Lane::release`] if it never is.
///
/// ```
/// use relent_policy::{Lane, Policy, Timestamp};
///
/// let mut lane = Lane::new(&Policy::sync_api());
/// let reservation = lane.reserve_retry(Timestamp::ZERO, 0)?;
/// lane.release(reservation, Timestamp::ZERO);
/// # Ok::<(), relent_policy::Refusal>(())
/// ```
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a reservation that is dropped stays spent; release it if the retry is not sent"]
pub struct Reservation(Option<Withdrawal>);

impl Lane {
    /// A lane under this policy, with nothing known about the dependency.
    pub fn new(policy: &Policy) -> Lane {
        let spec = policy.spec();
        Lane {
            budget: spec.budget.map(Budget::new),
            breaker: spec.breaker.map(Breaker::new),
            flow: Flow::new(spec.concurrency),
            call_time: CallTime::default(),
            probe_promised_until: Timestamp::ZERO,
        }
    }

    /// The same lane with a budget and a breaker that were kept elsewhere.
    ///
    /// ```
    /// use relent_policy::{Budget, BudgetRules, Lane, Policy};
    ///
    /// let restored = Budget::new(BudgetRules::default());
    /// let lane = Lane::new(&Policy::sync_api()).with_state(Some(restored), None);
    /// assert!(lane.breaker().is_none());
    /// ```
    #[must_use]
    pub fn with_state(self, budget: Option<Budget>, breaker: Option<Breaker>) -> Lane {
        Lane { budget, breaker, ..self }
    }

    /// Counts a retry against the budget, before its wait. When the breaker waits for a probe and the
    /// budget is spent, one retry is exempt, so that the lane finds its way back.
    ///
    /// # Errors
    ///
    /// When the breaker is open or the budget is spent. A refusal by the budget is passed on to the
    /// breaker; the roll shortens the cool-down if that opens it.
    pub fn reserve_retry(&mut self, now: Timestamp, roll: u64) -> Result<Reservation, Refusal> {
        let next_probe = match &self.breaker {
            None => false,
            Some(breaker) => {
                let admission = breaker.would_admit(now);
                admission.map_err(|open| Refusal::BreakerOpen { until: open.until })?
                    == Admission::Probe
            }
        };
        let Some(budget) = &mut self.budget else {
            return Ok(Reservation(None));
        };
        if let Ok(withdrawal) = budget.try_retry(now) {
            return Ok(Reservation(Some(withdrawal)));
        }
        if let Some(breaker) = &mut self.breaker {
            if next_probe && now >= self.probe_promised_until {
                self.probe_promised_until = now + breaker.rules().probe_timeout;
                return Ok(Reservation(None));
            }
            breaker.budget_exhausted(now, roll);
        }
        Err(Refusal::Budget)
    }

    /// Gives a planned retry back that will not be sent.
    pub fn release(&mut self, reservation: Reservation, now: Timestamp) {
        if let (Some(budget), Some(withdrawal)) = (&mut self.budget, reservation.0) {
            budget.give_back(withdrawal, now);
        }
    }

    /// Asks to start an attempt now; a first attempt also pays into the budget. A retry must have
    /// been reserved before.
    ///
    /// # Errors
    ///
    /// When the breaker is open, too many attempts are under way, or they start too fast.
    #[inline]
    pub fn admit(&mut self, turn: Turn, now: Timestamp) -> Result<Pass, Refusal> {
        let admission = match &mut self.breaker {
            None => Admission::Normal,
            Some(breaker) => {
                breaker.admit(now).map_err(|open| Refusal::BreakerOpen { until: open.until })?
            }
        };
        if let Err(refusal) = self.flow.admit(turn, now) {
            if let Some(breaker) = &mut self.breaker {
                breaker.forget(admission, now);
            }
            return Err(refusal.into());
        }
        if let (Turn::First, Some(budget)) = (turn, &mut self.budget) {
            budget.count_first_attempt(now);
        }
        Ok(Pass { turn, admission, started_at: now })
    }

    /// Starts an attempt that was let through a moment ago, whatever has changed since: for a
    /// service that asks on a copy of the lane, claims as many tasks as were let through, and finds
    /// the breaker opened in between. It counts like any other attempt.
    ///
    /// ```
    /// use relent_policy::{Lane, Policy, Timestamp, Turn};
    ///
    /// let mut lane = Lane::new(&Policy::sync_api());
    /// let pass = lane.admit_anyway(Turn::Retry, Timestamp::ZERO);
    /// assert_eq!((lane.in_flight(), lane.retries_in_flight()), (1, 1));
    /// lane.abandon(pass, Timestamp::ZERO);
    /// ```
    pub fn admit_anyway(&mut self, turn: Turn, now: Timestamp) -> Pass {
        self.flow.force(turn);
        if let (Turn::First, Some(budget)) = (turn, &mut self.budget) {
            budget.count_first_attempt(now);
        }
        Pass { turn, admission: Admission::Normal, started_at: now }
    }

    /// Learns how an attempt ended.
    #[inline]
    pub fn finish(&mut self, pass: Pass, outcome: &Outcome, now: Timestamp, roll: u64) {
        let health = Health::of(outcome);
        self.flow.finish(pass.turn);
        self.call_time.note(now.nanos_since(pass.started_at));
        if let Some(budget) = &mut self.budget {
            budget.note(health);
        }
        if let Some(breaker) = &mut self.breaker {
            breaker.record(pass.admission, health, now, roll);
        }
        if pass.admission == Admission::Probe {
            self.probe_promised_until = now;
        }
    }

    /// Frees the place of an attempt that was cancelled or never made.
    pub fn abandon(&mut self, pass: Pass, now: Timestamp) {
        self.flow.finish(pass.turn);
        if let Some(breaker) = &mut self.breaker {
            breaker.forget(pass.admission, now);
        }
        if pass.admission == Admission::Probe {
            self.probe_promised_until = now;
        }
    }

    /// The gates that [`decide`](crate::decide) asks; the reservation it made is in them
    /// afterwards.
    ///
    /// ```
    /// use relent_policy::{History, Lane, Outcome, Policy, Repeatable, Timestamp, decide};
    ///
    /// let policy = Policy::sync_api();
    /// let mut lane = Lane::new(&policy);
    /// let now = Timestamp::from_secs(1);
    /// let history = History::start(now, Repeatable::ByMethod).begin_attempt();
    /// let mut gates = lane.gates();
    /// decide(&policy, &history, &Outcome::http(503), &mut gates, now, 0);
    /// let reservation = gates.into_reservation().expect("the retry was counted");
    /// lane.release(reservation, now);
    /// ```
    pub fn gates(&mut self) -> LaneGates<'_> {
        LaneGates::new(self)
    }

    /// How long an attempt is expected to take, from the recent ones.
    ///
    /// ```
    /// # use relent_policy::{Lane, Policy};
    /// let lane = Lane::new(&Policy::sync_api());
    /// assert_eq!(lane.estimated_call(), core::time::Duration::ZERO);
    /// ```
    pub fn estimated_call(&self) -> Duration {
        self.call_time.estimate()
    }

    /// How many attempts are under way.
    pub fn in_flight(&self) -> u32 {
        self.flow.in_flight()
    }

    /// How many of them are retries.
    pub fn retries_in_flight(&self) -> u32 {
        self.flow.retries_in_flight()
    }

    /// The limits on attempts in flight and on their pace.
    ///
    /// ```
    /// # use relent_policy::{Lane, Policy};
    /// assert_eq!(Lane::new(&Policy::sync_api()).limits().in_flight_max, 1_000);
    /// ```
    pub fn limits(&self) -> ConcurrencyLimits {
        self.flow.limits()
    }

    /// Changes the limits; attempts under way stay counted.
    ///
    /// ```
    /// use relent_policy::{ConcurrencyLimits, Lane, Policy, Refusal, Timestamp, Turn};
    ///
    /// let mut lane = Lane::new(&Policy::sync_api());
    /// lane.set_limits(ConcurrencyLimits { in_flight_max: 0, ..lane.limits() });
    /// assert_eq!(lane.admit(Turn::First, Timestamp::ZERO), Err(Refusal::Concurrency));
    /// ```
    pub fn set_limits(&mut self, limits: ConcurrencyLimits) {
        self.flow.set_limits(limits);
    }

    /// The budget, for its gauge and its snapshot.
    ///
    /// ```
    /// # use relent_policy::{Lane, Policy};
    /// assert!(Lane::new(&Policy::sync_api()).budget().is_some());
    /// ```
    pub fn budget(&self) -> Option<&Budget> {
        self.budget.as_ref()
    }

    /// The budget, to change its rules.
    ///
    /// ```
    /// # use relent_policy::{BudgetRules, Lane, Policy, Timestamp};
    /// let mut lane = Lane::new(&Policy::sync_api());
    /// let rules = BudgetRules { burst: 3, ..BudgetRules::default() };
    /// lane.budget_mut().expect("it has one").set_rules(rules, Timestamp::ZERO);
    /// ```
    pub fn budget_mut(&mut self) -> Option<&mut Budget> {
        self.budget.as_mut()
    }

    /// The breaker, for its state and its snapshot.
    ///
    /// ```
    /// # use relent_policy::{BreakerState, Lane, Policy, Timestamp};
    /// let lane = Lane::new(&Policy::sync_api());
    /// let state = lane.breaker().map(|breaker| breaker.state(Timestamp::ZERO));
    /// assert_eq!(state, Some(BreakerState::Closed));
    /// ```
    pub fn breaker(&self) -> Option<&Breaker> {
        self.breaker.as_ref()
    }

    /// The breaker, to [follow](Breaker::follow) another node's.
    ///
    /// ```
    /// # use relent_policy::{Breaker, BreakerRules, Lane, Policy};
    /// let mut lane = Lane::new(&Policy::sync_api());
    /// let theirs = Breaker::new(BreakerRules::default());
    /// lane.breaker_mut().expect("it has one").follow(&theirs);
    /// ```
    pub fn breaker_mut(&mut self) -> Option<&mut Breaker> {
        self.breaker.as_mut()
    }

    /// Whether an attempt only waits for [leave](Breaker::wants_probe) to be the probe: there is a
    /// place for it.
    ///
    /// ```
    /// # use relent_policy::{Lane, Policy, Timestamp, Turn};
    /// let lane = Lane::new(&Policy::sync_api());
    /// assert!(!lane.wants_probe(Turn::First, Timestamp::ZERO), "its breaker is closed");
    /// ```
    pub fn wants_probe(&self, turn: Turn, now: Timestamp) -> bool {
        self.breaker.is_some_and(|breaker| breaker.wants_probe(now)) && self.flow.has_place(turn)
    }

    /// Whether a call would find an open breaker.
    ///
    /// ```
    /// # use relent_policy::{Lane, Policy, Timestamp};
    /// assert!(!Lane::new(&Policy::sync_api()).is_open(Timestamp::ZERO));
    /// ```
    pub fn is_open(&self, now: Timestamp) -> bool {
        self.breaker.is_some_and(|breaker| breaker.state(now) == BreakerState::Open)
    }
}

impl From<FlowRefusal> for Refusal {
    fn from(refusal: FlowRefusal) -> Refusal {
        match refusal {
            FlowRefusal::Concurrency => Refusal::Concurrency,
            FlowRefusal::RateLimited { until } => Refusal::RateLimited { until },
        }
    }
}

impl core::fmt::Display for Refusal {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Refusal::Budget => "budget",
            Refusal::BreakerOpen { .. } => "breaker_open",
            Refusal::Concurrency => "concurrency",
            Refusal::RateLimited { .. } => "rate_limited",
        })
    }
}

impl core::error::Error for Refusal {}

mod gates;
mod leeway;
pub use gates::LaneGates;
pub use leeway::Leeway;

#[cfg(test)]
mod tests;
