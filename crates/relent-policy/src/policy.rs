//! A policy that has been checked, in the shape that decisions read.
//!
//! A [`PolicySpec`] is what somebody wrote; a [`Policy`] is what was meant: built only through
//! validation, immutable, with every curve and set worked out beforehand. REQ-E1, REQ-S1.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use crate::classify::{Class, Verdict, VerdictTable};
use crate::failure::FailureKind;
use crate::history::{FIRST_CLASS_LIMIT, History, SPENT_ON_DNS};
use crate::jitter::{Draw, Jitter};
use crate::problem::{Problem, Rejected};
use crate::ratio::Ratio;
use crate::roll::up_to;
use crate::standard::{Standard, Waived};
use crate::time::{Timestamp, nanos};

mod check;
pub(crate) mod presets;
mod spec;

pub use spec::{ClassLimit, Context, PolicySpec, RetryAfterRules, UnknownContext};

/// A checked retry policy.
///
/// ```
/// use core::time::Duration;
/// use relent_policy::{Policy, PolicySpec, Timestamp};
///
/// let policy = PolicySpec {
///     policy_id: "checkout".into(),
///     max_attempts: 3,
///     total_budget: Duration::from_secs(5),
///     attempt_timeout: Duration::from_secs(2),
///     connect_timeout: Duration::from_millis(500),
///     ..PolicySpec::sync_api()
/// }
/// .build(Timestamp::from_secs(1_794_700_800))?;
/// assert_eq!(policy.max_attempts(), 3);
/// # Ok::<(), relent_policy::Rejected>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    spec: PolicySpec,
    ceilings: Box<[u64]>,
    initial: u64,
    cap: u64,
    jitter: Jitter,
    total_budget: u64,
    attempt_timeout: u64,
    retry_after: RetryAfterNanos,
    verdicts: VerdictTable,
    class_limits: Box<[CompiledLimit]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RetryAfterNanos {
    jitter_ratio: Ratio,
    jitter_max: u64,
}

/// A [`ClassLimit`] without its failures, which are in the verdicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CompiledLimit {
    max_retries: u32,
    max_elapsed_nanos: u64,
}

impl Policy {
    /// Everything that was written down for this policy.
    ///
    /// ```
    /// # use relent_policy::{Context, Policy};
    /// assert_eq!(Policy::webhook().spec().context, Context::Webhook);
    /// ```
    pub fn spec(&self) -> &PolicySpec {
        &self.spec
    }

    /// The policy's id.
    ///
    /// ```
    /// # use relent_policy::Policy;
    /// assert_eq!(Policy::sync_api().id(), "sync-api");
    /// ```
    pub fn id(&self) -> &str {
        &self.spec.policy_id
    }

    /// Attempts in all, the first included.
    ///
    /// ```
    /// # use relent_policy::Policy;
    /// assert_eq!(Policy::sync_api().max_attempts(), 4);
    /// ```
    #[inline]
    pub fn max_attempts(&self) -> u32 {
        self.spec.max_attempts
    }

    /// Whether trying again after this failure can help, by this policy.
    ///
    /// ```
    /// # use relent_policy::{Class, FailureKind, Policy};
    /// assert_eq!(Policy::sync_api().classify(FailureKind::Http(429)), Class::Retryable);
    /// ```
    #[inline]
    pub fn classify(&self, kind: FailureKind) -> Class {
        self.verdict(kind).class()
    }

    /// The longest wait after attempt `attempt` (counted from 1), before jitter.
    ///
    /// ```
    /// # use core::time::Duration;
    /// # use relent_policy::Policy;
    /// assert_eq!(Policy::sync_api().ceiling(3), Duration::from_secs(4));
    /// ```
    pub fn ceiling(&self, attempt: u32) -> Duration {
        Duration::from_nanos(self.ceiling_nanos(attempt))
    }

    /// One wait after attempt `attempt`, drawn with this roll. `previous` is the wait before it,
    /// which only decorrelated jitter looks at.
    ///
    /// ```
    /// # use core::time::Duration;
    /// # use relent_policy::Policy;
    /// let half = Policy::sync_api().delay(1, Duration::ZERO, u64::MAX / 2);
    /// assert_eq!(half, Duration::from_millis(500));
    /// ```
    pub fn delay(&self, attempt: u32, previous: Duration, roll: u64) -> Duration {
        Duration::from_nanos(self.draw_backoff(attempt, nanos(previous), roll))
    }

    /// Where the policy departs from the standard under a waiver that still holds.
    ///
    /// ```
    /// # use relent_policy::{Policy, Timestamp};
    /// assert!(Policy::sync_api().waived(Timestamp::ZERO).is_empty());
    /// ```
    pub fn waived(&self, now: Timestamp) -> Vec<Waived> {
        Standard::check(&self.spec, now).waived
    }

    /// Where the policy departs from the standard without a waiver: empty when it was built, and
    /// no longer so when a waiver has expired since.
    ///
    /// ```
    /// # use relent_policy::{Policy, Timestamp};
    /// assert!(Policy::sync_api().violations(Timestamp::MAX).is_empty());
    /// ```
    pub fn violations(&self, now: Timestamp) -> Vec<Problem> {
        Standard::check(&self.spec, now).violations
    }

    /// When it is over for a task with this history: the policy's total time or the caller's
    /// deadline, whichever comes first.
    ///
    /// ```
    /// # use relent_policy::{History, Policy, Repeatable, Timestamp};
    /// let history = History::start(Timestamp::from_secs(10), Repeatable::ByKey);
    /// assert_eq!(Policy::sync_api().deadline_of(&history), Timestamp::from_secs(40));
    /// ```
    #[inline]
    pub fn deadline_of(&self, history: &History) -> Timestamp {
        history.created_at().plus_nanos(self.total_budget).min(history.deadline_at())
    }

    #[inline]
    pub(crate) fn attempt_timeout_nanos(&self) -> u64 {
        self.attempt_timeout
    }

    #[inline]
    pub(crate) fn assumes_repeatable(&self) -> bool {
        self.spec.assume_repeatable
    }

    #[inline]
    pub(crate) fn honours_retry_after(&self) -> bool {
        self.spec.retry_after.honour
    }

    /// How far beyond what the server asked for a wait may be spread.
    #[inline]
    pub(crate) fn retry_after_spread(&self, asked: u64) -> u64 {
        self.retry_after.jitter_ratio.of(asked).min(self.retry_after.jitter_max)
    }

    #[inline]
    pub(crate) fn verdict(&self, kind: FailureKind) -> Verdict {
        self.verdicts.get(kind)
    }

    /// Whether the limits for this kind of failure leave no retry, or none that could end by then.
    #[inline(never)]
    pub(crate) fn class_limit_reached(
        &self,
        verdict: Verdict,
        history: &History,
        ends_at: Timestamp,
    ) -> bool {
        if verdict.is_dns() && history.spent(SPENT_ON_DNS) > 0 {
            return true;
        }
        let Some(index) = verdict.limit() else { return false };
        self.class_limits.get(usize::from(index)).is_some_and(|limit| {
            u32::from(history.spent(FIRST_CLASS_LIMIT + index)) >= limit.max_retries
                || ends_at.nanos_since(history.created_at()) > limit.max_elapsed_nanos
        })
    }

    #[inline]
    pub(crate) fn draw_backoff(&self, attempt: u32, previous: u64, roll: u64) -> u64 {
        let ceiling = self.ceiling_nanos(attempt);
        match self.jitter {
            Jitter::Full => up_to(ceiling, roll),
            jitter => self.draw_unlike_full(jitter, ceiling, previous, roll),
        }
    }

    /// Kept apart so that the default stays in registers.
    #[inline(never)]
    fn draw_unlike_full(&self, jitter: Jitter, ceiling: u64, previous: u64, roll: u64) -> u64 {
        // A task's first backoff has none before it; decorrelated jitter starts from the initial.
        let previous = if previous == 0 { self.initial } else { previous };
        jitter.draw(Draw { ceiling, initial: self.initial, previous, cap: self.cap }, roll)
    }

    #[inline]
    fn ceiling_nanos(&self, attempt: u32) -> u64 {
        let index = usize::try_from(attempt.max(1) - 1).unwrap_or(usize::MAX);
        self.ceilings.get(index).or(self.ceilings.last()).copied().unwrap_or(0)
    }

    fn compile(spec: PolicySpec) -> Policy {
        let limit = |limit: &ClassLimit| CompiledLimit {
            max_retries: limit.max_retries,
            max_elapsed_nanos: nanos(limit.max_elapsed),
        };
        Policy {
            ceilings: spec.backoff.ceilings(spec.max_attempts, spec.max_delay),
            initial: nanos(spec.backoff.initial().min(spec.max_delay)),
            cap: nanos(spec.max_delay),
            jitter: spec.jitter,
            total_budget: nanos(spec.total_budget),
            attempt_timeout: nanos(spec.attempt_timeout),
            retry_after: RetryAfterNanos {
                jitter_ratio: spec.retry_after.jitter_ratio,
                jitter_max: nanos(spec.retry_after.jitter_max),
            },
            verdicts: spec.verdicts(),
            class_limits: spec.class_limits.iter().map(limit).collect(),
            spec,
        }
    }
}

impl PolicySpec {
    /// Checks the policy, and makes it one that can decide. `now` tells which waivers still hold.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it: what could not work, and what departs from the standard
    /// without a waiver.
    pub fn build(self, now: Timestamp) -> Result<Policy, Rejected> {
        let problems = self.problems(now);
        if !problems.is_empty() {
            return Err(Rejected { policy_id: self.policy_id, problems });
        }
        Ok(Policy::compile(self))
    }

    /// Everything that is wrong with the policy at this time.
    ///
    /// ```
    /// # use relent_policy::{PolicySpec, Timestamp};
    /// assert!(PolicySpec::webhook().problems(Timestamp::ZERO).is_empty());
    /// ```
    pub fn problems(&self, now: Timestamp) -> Vec<Problem> {
        let mut problems = check::structure(self);
        problems.extend(Standard::check(self, now).violations);
        problems
    }
}
