//! The one decision: what to do after an attempt.
//!
//! A pure function in one fixed order. Each step can only stop; what passes them all is retried:
//!
//! 1. **success** ends it;
//! 2. **class**: a permanent failure, or a second unknown one, is not tried again;
//! 3. **repeatable**: neither is what may not be sent twice;
//! 4. **hop**: nor what a layer above retries already;
//! 5. **hint**: nor what the server asked not to be sent again;
//! 6. **attempts**;
//! 7. **when**: backoff under jitter, and at least as long as the server asked;
//! 8. **deadline**: if the attempt cannot end in time, it ends now instead of after a sleep;
//! 9. **class limit**: retries and time for this kind of failure;
//! 10. **gates**: the breaker, then the budget, last of all, so that only a retry that will be made
//!     is counted.
//!
//! Bad input is refused when a policy is built; this function cannot fail, allocate or read
//! anything but its arguments. The same arguments give the same decision, anywhere and at any
//! time: a row of the attempt log is enough to replay it.
//!
//! REQ-A1, REQ-A2, REQ-B5, REQ-C5, REQ-G2, REQ-I1, REQ-K2, REQ-L1, REQ-L2, REQ-L3, REQ-L5,
//! REQ-S10.

use core::fmt;
use core::time::Duration;

use crate::classify::{Class, Verdict};
use crate::failure::{Failure, Hint, Outcome};
use crate::history::{Charge, History, Hop, SPENT_ON_DNS, SPENT_ON_UNKNOWN};
use crate::idempotency::Repeatable;
use crate::lane::Refusal;
use crate::policy::Policy;
use crate::roll::{mix, up_to};
use crate::time::{Timestamp, nanos};

/// What to do after an attempt.
///
/// ```
/// use relent_policy::{Decision, GiveUpReason, History, Policy, Repeatable, Timestamp, Ungated};
/// use relent_policy::{Outcome, decide};
///
/// let policy = Policy::sync_api();
/// let now = Timestamp::from_secs(100);
/// let history = History::start(now, Repeatable::No).begin_attempt();
/// let decision = decide(&policy, &history, &Outcome::http(503), &mut Ungated, now, 0);
/// assert_eq!(decision, Decision::GiveUp { because: GiveUpReason::UnsafeToRepeat });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It succeeded.
    Done,
    /// Try again, not before `at`.
    RetryAt {
        /// The earliest moment of the next attempt.
        at: Timestamp,
        /// What the wait is for.
        because: WaitReason,
        /// What the retry counts under; the history to go on with is
        /// [`history.charged(charge)`](History::charged).
        charge: Charge,
    },
    /// It ends here.
    GiveUp {
        /// Why.
        because: GiveUpReason,
    },
}

/// What a wait is for.
///
/// ```
/// use relent_policy::WaitReason;
///
/// assert_eq!(WaitReason::RetryAfter.to_string(), "retry_after");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitReason {
    /// The policy's backoff.
    Backoff,
    /// The server asked for longer than the backoff.
    RetryAfter,
}

macro_rules! give_up_reasons {
    ($($variant:ident $name:literal $doc:literal)*) => {
        /// Why there is no further attempt.
        ///
        /// ```
        /// use relent_policy::GiveUpReason;
        ///
        /// assert_eq!(GiveUpReason::DeadlineWouldPass.name(), "deadline_would_pass");
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum GiveUpReason {
            $(#[doc = $doc] $variant,)*
        }

        impl GiveUpReason {
            /// Every reason there is.
            pub const ALL: &[GiveUpReason] = &[$(GiveUpReason::$variant),*];

            /// Its name in logs, metrics and documents.
            pub const fn name(self) -> &'static str {
                match self { $(GiveUpReason::$variant => $name),* }
            }
        }
    };
}

give_up_reasons! {
    Permanent "permanent" "The same call would fail the same way."
    UnsafeToRepeat "unsafe_to_repeat" "Neither method nor key makes a second attempt safe."
    RetriedAbove "retried_above" "A layer above retries this call already."
    RefusedByServer "refused_by_server" "The server asked not to be called again."
    AttemptsExhausted "attempts_exhausted" "The policy's attempts are used up."
    ClassLimit "class_limit" "The limit for this class of failure is reached."
    RetryAfterTooLong "retry_after_too_long" "The server asked for more time than is left."
    DeadlineWouldPass "deadline_would_pass" "The next attempt could not end before the deadline."
    BreakerOpen "breaker_open" "The dependency's breaker is open."
    BudgetExhausted "budget_exhausted" "The dependency's retry budget is spent."
    LimitReached "limit_reached" "Too many attempts are in flight, or they start too fast."
}

/// What stands between a decision to retry and the retry: one dependency's shared state.
///
/// [`Lane::gates`](crate::Lane::gates) is the real one. A caller that asks later, when the attempt
/// is due, passes [`Ungated`].
pub trait Gates {
    /// How long the next attempt is expected to take.
    fn estimated_call(&self) -> Duration;

    /// Counts a retry, if breaker and budget allow it. Asked once, and only when everything else
    /// allows the retry.
    ///
    /// # Errors
    ///
    /// What refused it.
    fn reserve_retry(&mut self, now: Timestamp, roll: u64) -> Result<(), Refusal>;
}

/// Gates that let everything through: for a service that holds tasks back when they are due
/// instead of giving them up when they fail, and for tests.
///
/// ```
/// use relent_policy::{Gates, Timestamp, Ungated};
///
/// assert!(Ungated.reserve_retry(Timestamp::ZERO, 0).is_ok());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ungated;

impl Gates for Ungated {
    fn estimated_call(&self) -> Duration {
        Duration::ZERO
    }

    fn reserve_retry(&mut self, _now: Timestamp, _roll: u64) -> Result<(), Refusal> {
        Ok(())
    }
}

/// Decides what to do after an attempt.
///
/// `history` includes that attempt. `now` is when it ended, on the clock of
/// [`History::created_at`]. `roll` is 64 random bits, new for every decision.
///
/// ```
/// use core::time::Duration;
/// use relent_policy::{Decision, History, Policy, Repeatable, Timestamp, Ungated, WaitReason};
/// use relent_policy::{Outcome, decide};
///
/// let policy = Policy::sync_api(); // 1 s doubling, full jitter
/// let now = Timestamp::from_secs(100);
/// let history = History::start(now, Repeatable::ByMethod).begin_attempt();
///
/// let roll = u64::MAX / 2; // half of the first ceiling
/// match decide(&policy, &history, &Outcome::http(503), &mut Ungated, now, roll) {
///     Decision::RetryAt { at, because: WaitReason::Backoff, .. } => {
///         assert_eq!(at.as_millis_ceil(), 100_500);
///     }
///     other => panic!("{other:?}"),
/// }
///
/// let limited = Outcome::http(429).retry_after(Duration::from_secs(5));
/// match decide(&policy, &history, &limited, &mut Ungated, now, roll) {
///     Decision::RetryAt { at, because: WaitReason::RetryAfter, .. } => {
///         assert!(at >= now + Duration::from_secs(5)); // never earlier than asked
///     }
///     other => panic!("{other:?}"),
/// }
/// ```
#[inline]
pub fn decide(
    policy: &Policy,
    history: &History,
    outcome: &Outcome,
    gates: &mut impl Gates,
    now: Timestamp,
    roll: u64,
) -> Decision {
    match outcome {
        Outcome::Success => Decision::Done,
        Outcome::Failure(failure) => after_failure(policy, history, *failure, gates, now, roll),
    }
}

fn after_failure(
    policy: &Policy,
    history: &History,
    Failure { kind, hint }: Failure,
    gates: &mut impl Gates,
    now: Timestamp,
    roll: u64,
) -> Decision {
    let verdict = policy.verdict(kind);
    if !verdict.is_plain() && cannot_help(verdict, history) {
        return give_up(GiveUpReason::Permanent);
    }
    if history.repeatable() == Repeatable::No && !policy.assumes_repeatable() {
        return give_up(GiveUpReason::UnsafeToRepeat);
    }
    if history.hop() == Hop::RetriedAbove {
        return give_up(GiveUpReason::RetriedAbove);
    }
    if hint == Hint::Stop {
        return give_up(GiveUpReason::RefusedByServer);
    }
    if history.attempts() >= policy.max_attempts() {
        return give_up(GiveUpReason::AttemptsExhausted);
    }

    let deadline = policy.deadline_of(history);
    let call = nanos(gates.estimated_call()).min(policy.attempt_timeout_nanos());
    let room = deadline.nanos_since(now).saturating_sub(call);
    let backoff = policy.draw_backoff(history.attempts(), history.previous_backoff(), roll);
    let (delay, because) = match hint {
        Hint::RetryAfter(asked) if policy.honours_retry_after() => {
            match at_least(nanos(asked), policy, backoff, room, roll) {
                Some(wait) => wait,
                None => return give_up(GiveUpReason::RetryAfterTooLong),
            }
        }
        _ => (backoff, WaitReason::Backoff),
    };
    if delay > room || now >= deadline {
        return give_up(GiveUpReason::DeadlineWouldPass);
    }
    let at = now.plus_nanos(delay);
    if !verdict.is_plain() && policy.class_limit_reached(verdict, history, at.plus_nanos(call)) {
        return give_up(GiveUpReason::ClassLimit);
    }

    match gates.reserve_retry(now, roll) {
        Ok(()) => {}
        Err(refusal) => return give_up(refusal.into()),
    }
    let charge = if verdict.is_plain() { Charge::plain(backoff) } else { charge(verdict, backoff) };
    Decision::RetryAt { at, because, charge }
}

/// Whether the failure is permanent, or unknown for the second time.
fn cannot_help(verdict: Verdict, history: &History) -> bool {
    match verdict.class() {
        Class::Retryable => false,
        Class::Permanent => true,
        Class::Unknown => history.spent(SPENT_ON_UNKNOWN) > 0,
    }
}

fn charge(verdict: Verdict, backoff: u64) -> Charge {
    let builtin = match verdict.class() {
        Class::Unknown => Some(SPENT_ON_UNKNOWN),
        _ if verdict.is_dns() => Some(SPENT_ON_DNS),
        _ => None,
    };
    Charge::under(backoff, builtin, verdict.limit())
}

/// The wait when the server asked for one: `None` if there is no room for it. Kept apart so that
/// the common case stays in registers.
#[inline(never)]
fn at_least(
    asked: u64,
    policy: &Policy,
    backoff: u64,
    room: u64,
    roll: u64,
) -> Option<(u64, WaitReason)> {
    let spare = room.checked_sub(asked)?;
    if asked <= backoff {
        return Some((backoff, WaitReason::Backoff));
    }
    let spread = policy.retry_after_spread(asked).min(spare);
    // A second, independent draw: the first is known to be small, or it would have won.
    Some((asked + up_to(spread, mix(roll)), WaitReason::RetryAfter))
}

fn give_up(because: GiveUpReason) -> Decision {
    Decision::GiveUp { because }
}

impl From<Refusal> for GiveUpReason {
    fn from(refusal: Refusal) -> GiveUpReason {
        match refusal {
            Refusal::Budget => GiveUpReason::BudgetExhausted,
            Refusal::BreakerOpen { .. } => GiveUpReason::BreakerOpen,
            Refusal::Concurrency | Refusal::RateLimited { .. } => GiveUpReason::LimitReached,
        }
    }
}

impl fmt::Display for WaitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            WaitReason::Backoff => "backoff",
            WaitReason::RetryAfter => "retry_after",
        })
    }
}

impl fmt::Display for GiveUpReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
