//! One breaker on many nodes: each has a copy, changes are told, and of several nodes one may probe.
//!
//! A node's copy counts that node's calls. What all must agree on is the phase: one node's opening
//! opens all, and while it is half open one probe goes out from all of them together. So a copy does
//! not probe by itself. It says that it [wants](Breaker::wants_probe) to; its node tries to make the
//! breaker of all [half open](Breaker::half_opened), which one of several nodes can, and gives the copy
//! [leave](Breaker::give_leave). The others [follow](Breaker::follow). If the node that has leave
//! dies, the probe's time runs out for all of them alike, and the next one asks. REQ-G4, REQ-K3.

use core::time::Duration;

use super::{Breaker, BreakerOpen, BreakerRules, Phase};
use crate::roll::up_to;
use crate::time::{Timestamp, nanos};
use crate::window::RollingWindow;

/// Who says that the probe may go out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leave {
    /// Nobody else has this breaker.
    NotNeeded,
    Needed,
    /// For one probe, until its time is over.
    Given,
}

/// When a call that found no leave may ask again.
const ASK_AGAIN: Duration = Duration::from_millis(250);

/// What all copies of a breaker must agree on, to see whether it has changed.
///
/// ```
/// use relent_policy::{Admission, Breaker, BreakerRules, Health, Timestamp};
///
/// let mut breaker = Breaker::new(BreakerRules { calls_min: 1, ..BreakerRules::default() });
/// let before = breaker.mark();
/// breaker.record(Admission::Normal, Health::Alive, Timestamp::ZERO, 0);
/// assert!(!breaker.has_turned(before));
/// breaker.record(Admission::Normal, Health::Failing, Timestamp::ZERO, 0);
/// assert!(breaker.has_turned(before), "it has opened");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerMark(Phase);

impl Breaker {
    /// The same breaker as one of several copies, which do not probe without leave.
    ///
    /// ```
    /// use relent_policy::{Breaker, BreakerRules, Timestamp};
    ///
    /// let copy = Breaker::new(BreakerRules::default()).asking_leave();
    /// assert!(!copy.wants_probe(Timestamp::ZERO), "it is closed");
    /// ```
    #[must_use]
    pub fn asking_leave(self) -> Breaker {
        Breaker { leave: Leave::Needed, ..self }
    }

    /// Whether it only waits for leave to probe.
    ///
    /// ```
    /// use relent_policy::{Admission, Breaker, BreakerRules, Health, Timestamp};
    ///
    /// let rules = BreakerRules { calls_min: 1, ..BreakerRules::default() };
    /// let mut copy = Breaker::new(rules).asking_leave();
    /// copy.record(Admission::Normal, Health::Failing, Timestamp::ZERO, 0);
    /// let over = Timestamp::from_secs(5);
    /// assert!(copy.wants_probe(over) && copy.admit(over).is_err());
    ///
    /// let asked = copy.half_opened(over, 0);
    /// copy.follow(&asked); // this node was the fastest
    /// copy.give_leave();
    /// assert_eq!(copy.admit(over), Ok(Admission::Probe));
    /// assert!(copy.admit(over).is_err(), "one is enough");
    /// ```
    pub fn wants_probe(&self, now: Timestamp) -> bool {
        match self.phase {
            Phase::Closed | Phase::Ramping { .. } => false,
            Phase::Open { until } | Phase::HalfOpen { probe_until: until } => {
                self.leave != Leave::NotNeeded && now.as_nanos() >= until
            }
        }
    }

    /// What it is for all when this node's probe goes out now. The probe's time is up to a sixteenth
    /// longer by chance, so that a node knows what it has asked for when it meets it again.
    #[must_use]
    pub fn half_opened(&self, now: Timestamp, roll: u64) -> Breaker {
        let longer = up_to(nanos(self.rules.probe_timeout) / 16, roll);
        Breaker { phase: self.half_open(now.plus_nanos(longer)), ..*self }
    }

    /// Lets one probe through, if it is half open.
    pub fn give_leave(&mut self) {
        if matches!(self.phase, Phase::HalfOpen { .. }) && self.leave == Leave::Needed {
            self.leave = Leave::Given;
        }
    }

    /// Becomes what another node has made of it. What was counted here before that is forgotten, as it
    /// is where it was changed.
    ///
    /// ```
    /// use relent_policy::{Admission, Breaker, BreakerRules, BreakerState, Health, Timestamp};
    ///
    /// let rules = BreakerRules { calls_min: 1, ..BreakerRules::default() };
    /// let (mut here, mut there) = (Breaker::new(rules), Breaker::new(rules));
    /// there.record(Admission::Normal, Health::Failing, Timestamp::ZERO, 0);
    /// here.follow(&there);
    /// assert_eq!(here.state(Timestamp::ZERO), BreakerState::Open);
    /// ```
    pub fn follow(&mut self, theirs: &Breaker) {
        if self.leave == Leave::Given {
            self.leave = Leave::Needed;
        }
        self.trips = theirs.trips;
        if self.mark() == theirs.mark() {
            return;
        }
        self.phase = theirs.phase;
        self.window.clear();
        self.exhausted = None;
    }

    /// Changes the rules. A window of another length starts empty.
    ///
    /// ```
    /// use relent_policy::{Admission, Breaker, BreakerRules, BreakerState, Health, Timestamp};
    ///
    /// let mut breaker = Breaker::new(BreakerRules::default());
    /// breaker.set_rules(BreakerRules { calls_min: 1, ..BreakerRules::default() });
    /// breaker.record(Admission::Normal, Health::Failing, Timestamp::ZERO, 0);
    /// assert_eq!(breaker.state(Timestamp::ZERO), BreakerState::Open);
    /// ```
    pub fn set_rules(&mut self, rules: BreakerRules) {
        if rules.window != self.rules.window {
            self.window = RollingWindow::new(nanos(rules.window));
        }
        self.rules = rules;
    }

    /// What it is now.
    #[inline]
    pub fn mark(&self) -> BreakerMark {
        BreakerMark(match self.phase {
            Phase::Ramping { since, .. } => Phase::Ramping { since, credit: 0 },
            phase => phase,
        })
    }

    /// Whether it has become something since that others must hear of. The end of a ramp comes
    /// everywhere by itself.
    #[inline]
    pub fn has_turned(&self, since: BreakerMark) -> bool {
        self.mark() != since && self.phase != Phase::Closed
    }

    /// A breaker that waits, for its cool-down or a probe, until then.
    pub(super) fn may_probe(&self, until: u64, now: Timestamp) -> Result<(), BreakerOpen> {
        let is_over = now.as_nanos() >= until;
        let half_open = matches!(self.phase, Phase::HalfOpen { .. });
        match self.leave {
            Leave::NotNeeded if is_over => Ok(()),
            Leave::Given if half_open && !is_over => Ok(()),
            Leave::Needed | Leave::Given if is_over => Err(BreakerOpen { until: now + ASK_AGAIN }),
            _ => Err(BreakerOpen { until: Timestamp::from_nanos(until) }),
        }
    }

    pub(super) fn half_open(&self, now: Timestamp) -> Phase {
        let probe_until = now.plus_nanos(nanos(self.rules.probe_timeout)).as_nanos();
        Phase::HalfOpen { probe_until }
    }
}
