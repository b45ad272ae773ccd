//! The circuit breaker: when to stop calling, and how to find the way back.
//! REQ-K1, REQ-K2, REQ-K3, REQ-G3.
//!
//! ```text
//!            failure rate, or the retry budget
//!            exhausted for long while failing
//!   Closed ────────────────────────────────────▶ Open ◀──────────┐
//!     ▲                                           │ cool-down    │ probe failed:
//!     │ ramp done                                 ▼ over         │ longer cool-down
//!   Closed, ramping ◀──── probe succeeded ──── HalfOpen ─────────┘
//! ```
//!
//! Half-open lets exactly one call through, the probe. If its result never comes back (the process
//! that made it is gone), the probe's own time runs out and the next caller probes; a lost probe
//! must not hold a lane for ever. After the probe succeeds traffic does not return at once: the
//! share let through grows over the ramp, because a dependency that answers one call need not
//! survive ten thousand.
//!
//! Each cool-down is twice the one before, up to a limit, and up to a quarter shorter by chance, so
//! that the probes of a fleet do not arrive together.
//!
//! Budget exhaustion opens the breaker only if it lasts *and* the failure rate is high: a steady
//! 10 % of errors can use a budget up, and is no reason to refuse the other 90 %.

use crate::classify::Health;
use crate::ratio::Ratio;
use crate::roll::up_to;
use crate::time::{Timestamp, nanos};
use crate::window::RollingWindow;

/// The circuit breaker of one dependency.
///
/// ```
/// use relent_policy::{Admission, Breaker, BreakerRules, BreakerState, Health, Timestamp};
///
/// let mut breaker = Breaker::new(BreakerRules::default());
/// let now = Timestamp::from_secs(1);
/// for _ in 0..20 {
///     assert_eq!(breaker.admit(now), Ok(Admission::Normal));
///     breaker.record(Admission::Normal, Health::Failing, now, 0);
/// }
/// assert_eq!(breaker.state(now), BreakerState::Open);
/// assert_eq!(breaker.admit(now).unwrap_err().until, Timestamp::from_secs(6));
/// assert_eq!(breaker.admit(Timestamp::from_secs(6)), Ok(Admission::Probe));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Breaker {
    rules: BreakerRules,
    phase: Phase,
    /// How often it has opened since it was last fully closed.
    trips: u8,
    /// `all` are calls, `some` are failures among them.
    window: RollingWindow<SLOTS>,
    /// Since when the budget has been refusing retries without a pause, and when it last did.
    exhausted: Option<Exhausted>,
    leave: Leave,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase", tag = "phase"))]
enum Phase {
    Closed,
    Ramping { since: u64, credit: u32 },
    Open { until: u64 },
    HalfOpen { probe_until: u64 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
struct Exhausted {
    since: u64,
    last: u64,
}

const SLOTS: usize = 10;
/// Refusals further apart than this are not "without a pause".
const EXHAUSTED_PAUSE: u64 = 1_000_000_000;
/// The share of traffic let through when a ramp begins.
const RAMP_FROM_THOUSANDTHS: u64 = 100;

/// How a call was let through; hand it back with the result.
///
/// ```
/// use relent_policy::{Admission, Breaker, BreakerRules, Timestamp};
///
/// let admitted = Breaker::new(BreakerRules::default()).admit(Timestamp::ZERO);
/// assert_eq!(admitted, Ok(Admission::Normal));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Like any other call.
    Normal,
    /// The one call that finds out whether the dependency is back.
    Probe,
}

/// The breaker lets no call through.
///
/// ```
/// use relent_policy::{BreakerOpen, Timestamp};
///
/// let refused = BreakerOpen { until: Timestamp::from_secs(6) };
/// assert_eq!(refused.to_string(), "the dependency's breaker is open until 6.000000000s");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerOpen {
    /// When asking again can help.
    pub until: Timestamp,
}

/// What a breaker looks like from outside.
///
/// ```
/// use relent_policy::{Breaker, BreakerRules, BreakerState, Timestamp};
///
/// let breaker = Breaker::new(BreakerRules::default());
/// assert_eq!(breaker.state(Timestamp::ZERO), BreakerState::Closed);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerState {
    /// Calls go through, all of them or the ramp's share.
    Closed,
    /// No call goes through.
    Open,
    /// One probe may go through.
    HalfOpen,
}

impl Breaker {
    /// A closed breaker.
    pub fn new(rules: BreakerRules) -> Breaker {
        let window = RollingWindow::new(nanos(rules.window));
        let leave = Leave::NotNeeded;
        Breaker { rules, phase: Phase::Closed, trips: 0, window, exhausted: None, leave }
    }

    pub(crate) fn rules(&self) -> &BreakerRules {
        &self.rules
    }

    /// Asks to make a call.
    ///
    /// # Errors
    ///
    /// When the breaker is open, a probe is under way, or the ramp holds this call back.
    #[inline]
    pub fn admit(&mut self, now: Timestamp) -> Result<Admission, BreakerOpen> {
        match self.phase {
            Phase::Closed => Ok(Admission::Normal),
            _ => self.admit_unless_closed(now),
        }
    }

    #[cold]
    fn admit_unless_closed(&mut self, now: Timestamp) -> Result<Admission, BreakerOpen> {
        match self.phase {
            Phase::Closed => Ok(Admission::Normal),
            Phase::Ramping { since, credit } => self.admit_ramping(since, credit, now),
            Phase::Open { until } | Phase::HalfOpen { probe_until: until } => {
                self.may_probe(until, now)?;
                match self.leave {
                    Leave::NotNeeded => self.phase = self.half_open(now),
                    Leave::Needed | Leave::Given => self.leave = Leave::Needed,
                }
                Ok(Admission::Probe)
            }
        }
    }

    /// Lets a growing share through by adding the share up and spending a whole one per call: no
    /// chance needed, and never two refusals more than the share asks for.
    fn admit_ramping(
        &mut self,
        since: u64,
        credit: u32,
        now: Timestamp,
    ) -> Result<Admission, BreakerOpen> {
        let ramp = nanos(self.rules.ramp);
        let done = now.as_nanos().saturating_sub(since);
        if done >= ramp {
            self.phase = Phase::Closed;
            self.trips = 0;
            return Ok(Admission::Normal);
        }
        let grown = (1_000 - RAMP_FROM_THOUSANDTHS) * (done / 1_000) / (ramp / 1_000).max(1);
        let share = u32::try_from(RAMP_FROM_THOUSANDTHS + grown).unwrap_or(1_000).min(1_000);
        let credit = credit + share;
        if credit >= 1_000 {
            self.phase = Phase::Ramping { since, credit: credit - 1_000 };
            return Ok(Admission::Normal);
        }
        self.phase = Phase::Ramping { since, credit };
        Err(BreakerOpen { until: now.plus_nanos(ramp / 1_000) })
    }

    /// Whether [`admit`](Self::admit) would let a call through, without taking the probe.
    ///
    /// ```
    /// use relent_policy::{Admission, Breaker, BreakerRules, Timestamp};
    ///
    /// let breaker = Breaker::new(BreakerRules::default());
    /// assert_eq!(breaker.would_admit(Timestamp::ZERO), Ok(Admission::Normal));
    /// ```
    ///
    /// # Errors
    ///
    /// When the breaker is open or a probe is under way.
    #[inline]
    pub fn would_admit(&self, now: Timestamp) -> Result<Admission, BreakerOpen> {
        match self.phase {
            Phase::Closed | Phase::Ramping { .. } => Ok(Admission::Normal),
            Phase::Open { until } | Phase::HalfOpen { probe_until: until } => {
                self.may_probe(until, now)?;
                Ok(Admission::Probe)
            }
        }
    }

    /// Learns how a call ended. The roll shortens the cool-down if this opens the breaker.
    #[inline]
    pub fn record(&mut self, admission: Admission, health: Health, now: Timestamp, roll: u64) {
        match self.phase {
            Phase::Closed | Phase::Ramping { .. } => self.count(health, now, roll),
            Phase::HalfOpen { .. } if admission == Admission::Probe => {
                self.settle_probe(health, now, roll);
            }
            // Calls that were under way when it opened say nothing new.
            Phase::Open { .. } | Phase::HalfOpen { .. } => {}
        }
    }

    /// Learns that a call was let through and never made: a probe's place is free again.
    ///
    /// ```
    /// use relent_policy::{Admission, Breaker, BreakerRules, Timestamp};
    ///
    /// let mut breaker = Breaker::new(BreakerRules::default());
    /// breaker.forget(Admission::Normal, Timestamp::ZERO);
    /// ```
    pub fn forget(&mut self, admission: Admission, now: Timestamp) {
        self.record(admission, Health::NoSignal, now, 0);
    }

    /// Learns that the retry budget has refused a retry. Long exhaustion opens the breaker.
    ///
    /// ```
    /// use relent_policy::{Breaker, BreakerRules, BreakerState, Timestamp};
    ///
    /// let mut breaker = Breaker::new(BreakerRules::default());
    /// breaker.budget_exhausted(Timestamp::ZERO, 0);
    /// assert_eq!(breaker.state(Timestamp::ZERO), BreakerState::Closed);
    /// ```
    pub fn budget_exhausted(&mut self, now: Timestamp, roll: u64) {
        if !matches!(self.phase, Phase::Closed | Phase::Ramping { .. }) {
            return;
        }
        let at = now.as_nanos();
        let since = match self.exhausted {
            Some(Exhausted { since, last }) if at <= last.saturating_add(EXHAUSTED_PAUSE) => since,
            _ => at,
        };
        self.exhausted = Some(Exhausted { since, last: at });
        if at.saturating_sub(since) >= nanos(self.rules.exhausted_for)
            && self.fails_at_least(self.rules.exhausted_failure_ratio, now)
        {
            self.open(now, roll);
        }
    }

    /// What the breaker looks like from outside.
    pub fn state(&self, now: Timestamp) -> BreakerState {
        match self.phase {
            Phase::Closed | Phase::Ramping { .. } => BreakerState::Closed,
            Phase::Open { until } if now.as_nanos() < until => BreakerState::Open,
            Phase::Open { .. } | Phase::HalfOpen { .. } => BreakerState::HalfOpen,
        }
    }

    #[inline]
    fn count(&mut self, health: Health, now: Timestamp, roll: u64) {
        match health {
            Health::NoSignal => {}
            Health::Alive => self.window.count_all(now),
            Health::Failing => {
                self.window.count_all(now);
                self.window.count_some(now);
                if self.fails_at_least(self.rules.failure_ratio, now) {
                    self.open(now, roll);
                }
            }
        }
    }

    #[cold]
    fn settle_probe(&mut self, health: Health, now: Timestamp, roll: u64) {
        match health {
            Health::Alive => {
                self.window.clear();
                self.exhausted = None;
                self.phase = Phase::Ramping { since: now.as_nanos(), credit: 0 };
            }
            Health::Failing => self.open(now, roll),
            Health::NoSignal => self.phase = Phase::HalfOpen { probe_until: now.as_nanos() },
        }
    }

    fn fails_at_least(&mut self, ratio: Ratio, now: Timestamp) -> bool {
        let (calls, failures) = self.window.totals(now);
        calls >= u64::from(self.rules.calls_min)
            && failures.saturating_mul(1_000) >= calls.saturating_mul(ratio.thousandths().into())
    }

    #[cold]
    fn open(&mut self, now: Timestamp, roll: u64) {
        let doublings = 1_u64.checked_shl(self.trips.into()).unwrap_or(u64::MAX);
        let cool_down = nanos(self.rules.cool_down)
            .saturating_mul(doublings)
            .min(nanos(self.rules.cool_down_max));
        let shorter = up_to(cool_down / 4, roll);
        self.phase = Phase::Open { until: now.plus_nanos(cool_down - shorter).as_nanos() };
        self.trips = self.trips.saturating_add(1);
        self.exhausted = None;
        self.window.clear();
    }
}

impl core::fmt::Display for BreakerOpen {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "the dependency's breaker is open until {}", self.until)
    }
}

impl core::error::Error for BreakerOpen {}

mod leave;
mod leeway;
mod rules;
pub use leave::BreakerMark;
use leave::Leave;
pub use rules::BreakerRules;
#[cfg(feature = "serde")]
mod snapshot;
#[cfg(feature = "serde")]
pub use snapshot::BreakerSnapshot;

#[cfg(test)]
mod tests;
