//! The retry budget: which share of a dependency's traffic may be retries. REQ-G1, REQ-G2.
//!
//! Without one, a dependency that fails half its calls gets 2,500 requests for every 1,000 callers
//! who retry three times, exactly when it can take the least. Two rules must both allow a retry:
//!
//! 1. **the window**: over the last 30 s, retries are at most 20 % of the first attempts;
//! 2. **the bucket**: every first attempt pays in 0.2 of a retry, of which at most 10 whole ones
//!    are saved up.
//!
//! Why both? The window alone saves up six seconds of full-traffic retries and lets them out in the
//! first second of an outage: the average is fine and the peak is four times the load. The bucket
//! alone bounds every window, but would let a long quiet failure spend a share that the window
//! forbids. Together: over *every* stretch of time retries <= 0.2 x first attempts + burst.
//!
//! First attempts are counted when sent, not when they succeed: a budget fed by successes starves
//! as soon as calls get slow. A retry is counted when it is decided, before its wait, and given
//! back if it is never sent; counted at sending, a thousand waiting retries would all see room.
//!
//! **The floor.** A dependency that is called twice a minute would never earn a retry, so a few
//! (10 in 30 s) are allowed regardless. Given to each client of a large fleet, such a floor *is*
//! the retry storm; so it is suspended after five failures in a row, until one call succeeds.
//!
//! Everything is integers in thousandths: 0.15 is 15 %, not the 16.7 % of `1 / 6`.

use crate::classify::Health;
use crate::ratio::Ratio;
use crate::time::{Timestamp, nanos};
use crate::window::{RollingWindow, SlotMark};
use core::time::Duration;

/// What a budget allows.
///
/// # Default
///
/// - ratio 0.2 over a window of 30 s
/// - burst 10
/// - floor 10 in 30 s
///
/// ```
/// use relent_policy::{BudgetRules, Ratio};
///
/// assert_eq!(BudgetRules::default().ratio, Ratio::from_thousandths(200));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetRules {
    /// Retries for each first attempt.
    pub ratio: Ratio,
    /// Over how long the ratio must hold.
    pub window: Duration,
    /// How many retries may be saved up.
    pub burst: u32,
    /// How many retries a quiet dependency is allowed in `floor_window`, whatever the ratio says.
    pub floor_retries: u32,
    /// Over how long the floor is counted.
    pub floor_window: Duration,
}

impl Default for BudgetRules {
    fn default() -> BudgetRules {
        BudgetRules {
            ratio: Ratio::from_thousandths(200),
            window: Duration::from_secs(30),
            burst: 10,
            floor_retries: 10,
            floor_window: Duration::from_secs(30),
        }
    }
}

/// The retry budget of one dependency.
///
/// ```
/// use relent_policy::{Budget, BudgetRules, Timestamp};
///
/// let mut budget = Budget::new(BudgetRules { floor_retries: 0, ..BudgetRules::default() });
/// let now = Timestamp::from_secs(1);
/// for _ in 0..5 {
///     budget.count_first_attempt(now);
/// }
/// assert!(budget.try_retry(now).is_ok()); // one in five
/// assert!(budget.try_retry(now).is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    rules: BudgetRules,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct State {
    /// `all` are first attempts, `some` are retries.
    window: RollingWindow<SLOTS>,
    /// Saved-up retries, in thousandths.
    saved: u64,
    /// When the floor will be whole again, in nanoseconds (a theoretical arrival time).
    floor_whole_at: u64,
    failures_in_a_row: u8,
}

const SLOTS: usize = 30;
const ONE_RETRY: u64 = 1_000;
const FLOOR_SUSPENDED_AFTER: u8 = 5;

/// No retry is left: the caller gets the original error, a durable task waits.
///
/// ```
/// use relent_policy::BudgetExhausted;
///
/// assert_eq!(BudgetExhausted.to_string(), "the dependency's retry budget is exhausted");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetExhausted;

/// A retry that has been counted. Give it back if it is never sent.
///
/// ```
/// use relent_policy::{Budget, BudgetRules, Timestamp};
///
/// let mut budget = Budget::new(BudgetRules::default());
/// let withdrawal = budget.try_retry(Timestamp::ZERO)?;
/// budget.give_back(withdrawal, Timestamp::ZERO);
/// # Ok::<(), relent_policy::BudgetExhausted>(())
/// ```
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a withdrawal that is dropped stays spent; give it back if the retry is not sent"]
pub struct Withdrawal {
    slot: SlotMark,
}

impl Budget {
    /// A budget with its whole burst saved up.
    pub fn new(rules: BudgetRules) -> Budget {
        let state = State {
            window: RollingWindow::new(nanos(rules.window)),
            saved: u64::from(rules.burst) * ONE_RETRY,
            floor_whole_at: 0,
            failures_in_a_row: 0,
        };
        Budget { rules, state }
    }

    /// What this budget allows.
    ///
    /// ```
    /// # use relent_policy::{Budget, BudgetRules};
    /// let rules = BudgetRules { burst: 3, ..BudgetRules::default() };
    /// assert_eq!(Budget::new(rules).rules(), &rules);
    /// ```
    pub fn rules(&self) -> &BudgetRules {
        &self.rules
    }

    /// Changes the rules. What is saved up and what is left of the floor stay, as far as the new rules
    /// allow as much, and nothing is added: a burst cannot be had by changing back and forth. A
    /// window of another length starts empty.
    ///
    /// ```
    /// use relent_policy::{Budget, BudgetRules, Timestamp};
    ///
    /// let whole = BudgetRules { floor_retries: 6, ..BudgetRules::default() };
    /// let mut budget = Budget::new(whole);
    /// budget.set_rules(BudgetRules { floor_retries: 2, ..whole }, Timestamp::ZERO);
    /// budget.set_rules(whole, Timestamp::ZERO);
    /// let granted = (0..10).filter(|_| budget.try_retry(Timestamp::ZERO).is_ok()).count();
    /// assert_eq!(granted, 2);
    /// ```
    pub fn set_rules(&mut self, rules: BudgetRules, now: Timestamp) {
        if rules == self.rules {
            return;
        }
        let (old_step, left) = (self.floor_step().max(1), self.floor_left(now));
        if rules.window != self.rules.window {
            self.state.window = RollingWindow::new(nanos(rules.window));
        }
        self.rules = rules;
        self.state.saved = self.state.saved.min(u64::from(rules.burst) * ONE_RETRY);
        let left = u128::from(left) * u128::from(self.floor_step()) / u128::from(old_step);
        let window = nanos(rules.floor_window);
        let left = u64::try_from(left).unwrap_or(u64::MAX).min(window);
        self.state.floor_whole_at = now.as_nanos().saturating_add(window - left);
    }

    /// Forgets what is saved up, and what is left of the floor: for a node that joins others who have
    /// shared its part among themselves. What it has counted stays.
    ///
    /// ```
    /// use relent_policy::{Budget, BudgetRules, Timestamp};
    ///
    /// let mut budget = Budget::new(BudgetRules::default());
    /// budget.spend_all(Timestamp::ZERO);
    /// assert!(budget.try_retry(Timestamp::ZERO).is_err());
    /// ```
    pub fn spend_all(&mut self, now: Timestamp) {
        self.state.saved = 0;
        self.state.floor_whole_at = now.as_nanos().saturating_add(nanos(self.rules.floor_window));
    }

    /// Pays in for a first attempt that is being sent.
    #[inline]
    pub fn count_first_attempt(&mut self, now: Timestamp) {
        self.state.window.count_all(now);
        let whole = u64::from(self.rules.burst) * ONE_RETRY;
        let saved = self.state.saved + u64::from(self.rules.ratio.thousandths());
        self.state.saved = saved.min(whole);
    }

    /// Until when a first attempt counts as one now does, in nanoseconds.
    #[inline]
    pub(crate) fn counts_until(&self) -> u64 {
        self.state.window.ends_at()
    }

    /// As many first attempts now, and as many successes.
    pub(crate) fn catch_up(&mut self, first_attempts: u32, successes: u32) {
        if first_attempts > 0 {
            self.state.window.count_all_here(first_attempts);
            let whole = u64::from(self.rules.burst) * ONE_RETRY;
            let paid_in = u64::from(first_attempts) * u64::from(self.rules.ratio.thousandths());
            self.state.saved = (self.state.saved + paid_in).min(whole);
        }
        if successes > 0 {
            self.note(Health::Alive);
        }
    }

    /// Takes one retry, if both rules or the floor allow it.
    ///
    /// # Errors
    ///
    /// When no retry is left; nothing has changed then.
    #[inline]
    pub fn try_retry(&mut self, now: Timestamp) -> Result<Withdrawal, BudgetExhausted> {
        if !self.ratio_allows(now) && !self.floor_allows(now) {
            return Err(BudgetExhausted);
        }
        self.state.saved = self.state.saved.saturating_sub(ONE_RETRY);
        // Every retry uses the floor up, so that the floor tops the ratio up to 10 in 30 s
        // instead of adding 10 to it.
        let (step, window) = (self.floor_step(), nanos(self.rules.floor_window));
        let whole_at = self.state.floor_whole_at.max(now.as_nanos()).saturating_add(step);
        self.state.floor_whole_at = whole_at.min(now.as_nanos().saturating_add(window));
        Ok(Withdrawal { slot: self.state.window.count_some(now) })
    }

    /// Puts back a retry that was decided and never sent.
    pub fn give_back(&mut self, withdrawal: Withdrawal, now: Timestamp) {
        self.state.window.uncount_some(withdrawal.slot, now);
        let whole = u64::from(self.rules.burst) * ONE_RETRY;
        self.state.saved = (self.state.saved + ONE_RETRY).min(whole);
        self.state.floor_whole_at = self.state.floor_whole_at.saturating_sub(self.floor_step());
    }

    /// Learns how an attempt ended: five failures in a row suspend the floor, one success
    /// re-arms it.
    ///
    /// ```
    /// use relent_policy::{Budget, BudgetRules, Health, Timestamp};
    ///
    /// let mut budget = Budget::new(BudgetRules::default());
    /// for _ in 0..5 {
    ///     budget.note(Health::Failing);
    /// }
    /// assert!(budget.try_retry(Timestamp::ZERO).is_err());
    /// budget.note(Health::Alive);
    /// assert!(budget.try_retry(Timestamp::ZERO).is_ok());
    /// ```
    #[inline]
    pub fn note(&mut self, health: Health) {
        let failures = &mut self.state.failures_in_a_row;
        match health {
            Health::Alive => *failures = 0,
            Health::Failing => *failures = failures.saturating_add(1),
            Health::NoSignal => {}
        }
    }

    /// The share of the window's budget that is spent: 0 untouched, 1 all of it. A quiet
    /// dependency is measured against its floor.
    ///
    /// ```
    /// use relent_policy::{Budget, BudgetRules, Timestamp};
    ///
    /// let mut budget = Budget::new(BudgetRules::default());
    /// assert_eq!(budget.utilization_ratio(Timestamp::ZERO), 0.0);
    /// ```
    #[expect(clippy::cast_precision_loss, reason = "a gauge, not a decision")]
    pub fn utilization_ratio(&mut self, now: Timestamp) -> f64 {
        let (first, retries) = self.state.window.totals(now);
        let earned = first as f64 * f64::from(self.rules.ratio);
        let allowed = earned.max(f64::from(self.rules.floor_retries)).max(1.0);
        retries as f64 / allowed
    }

    #[inline]
    fn ratio_allows(&mut self, now: Timestamp) -> bool {
        let (first, retries) = self.state.window.totals(now);
        let earned = first.saturating_mul(u64::from(self.rules.ratio.thousandths()));
        (retries + 1).saturating_mul(ONE_RETRY) <= earned && self.state.saved >= ONE_RETRY
    }

    fn floor_allows(&self, now: Timestamp) -> bool {
        let window = nanos(self.rules.floor_window);
        let missing = self.state.floor_whole_at.saturating_sub(now.as_nanos());
        self.rules.floor_retries > 0
            && self.state.failures_in_a_row < FLOOR_SUSPENDED_AFTER
            && missing.saturating_add(self.floor_step()) <= window
    }

    /// What is left of the floor, as the time in which it grows.
    fn floor_left(&self, now: Timestamp) -> u64 {
        let missing = self.state.floor_whole_at.saturating_sub(now.as_nanos());
        match self.rules.floor_retries {
            0 => 0,
            _ => nanos(self.rules.floor_window).saturating_sub(missing),
        }
    }

    /// How long the floor takes to grow by one retry.
    fn floor_step(&self) -> u64 {
        nanos(self.rules.floor_window) / u64::from(self.rules.floor_retries.max(1))
    }
}

impl core::fmt::Display for BudgetExhausted {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("the dependency's retry budget is exhausted")
    }
}

impl core::error::Error for BudgetExhausted {}

#[cfg(feature = "serde")]
mod snapshot;
#[cfg(feature = "serde")]
pub use snapshot::BudgetSnapshot;

#[cfg(test)]
mod tests;
