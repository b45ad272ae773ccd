//! What observers are told: every attempt, and every call that was given up. REQ-O1, REQ-O2, REQ-P2.
//!
//! The fields are the whole of it. There is no place for a body, a token or a URL, so none can leak;
//! a failure is an enum, not a text that a server has written.
//!
//! Two observers come with features, and every retrier has them:
//!
//! - `tracing`: an event with the target `relent` for every attempt. Success is `DEBUG`, a failure
//!   `WARN`; a call that is given up ends with an `ERROR` and its reason. The fields are
//!   `correlation_id`, `dependency`, `attempt`, `max_attempts`, `backoff_ms`, `error_type`,
//!   `idempotency_key` and `elapsed` (milliseconds of the whole call), all of them every time, empty
//!   or 0 where there is nothing to say; the last event has `reason` as well.
//! - `metrics`: through the facade of that name `retry_attempts_total`, `retry_exhausted_total`,
//!   `retry_backoff_duration_seconds`, `retry_attempt_duration_seconds`,
//!   `retry_budget_utilization_ratio` and `retry_breaker_state`.
//!
//! For everything else there is [`Observer`].

#[cfg(feature = "metrics")]
mod metrics;
#[cfg(feature = "tracing")]
mod tracing;

use std::time::Duration;

use relent_policy::{BreakerState, FailureKind, GiveUpReason, WaitReason};

use crate::error::Report;

/// Somebody who wants to know what happens.
///
/// ```
/// use relent::observe::{AttemptEvent, Observer};
/// use relent::{Policy, Retrier};
/// use std::sync::atomic::{AtomicU32, Ordering};
/// use std::sync::Arc;
///
/// #[derive(Default)]
/// struct CountFailures(AtomicU32);
///
/// impl Observer for CountFailures {
///     fn attempt(&self, event: &AttemptEvent<'_>) {
///         if event.failure.is_some() {
///             self.0.fetch_add(1, Ordering::Relaxed);
///         }
///     }
/// }
///
/// let failures = Arc::new(CountFailures::default());
/// let retrier = Retrier::builder("disk").policy(Policy::batch_item()).observer(failures.clone()).build();
/// let _ = retrier.run(|_| Err::<(), _>(std::io::Error::from(std::io::ErrorKind::NotFound)));
/// assert_eq!(failures.0.load(Ordering::Relaxed), 1);
/// ```
pub trait Observer: Send + Sync + 'static {
    /// An attempt has ended.
    fn attempt(&self, event: &AttemptEvent<'_>) {
        let _ = event;
    }

    /// A call has been given up.
    fn gave_up(&self, event: &GiveUpEvent<'_>) {
        let _ = event;
    }
}

impl<O: Observer + ?Sized> Observer for std::sync::Arc<O> {
    fn attempt(&self, event: &AttemptEvent<'_>) {
        (**self).attempt(event);
    }

    fn gave_up(&self, event: &GiveUpEvent<'_>) {
        (**self).gave_up(event);
    }
}

/// An attempt that has ended.
///
/// ```
/// use relent::observe::AttemptEvent;
///
/// fn is_retried(event: &AttemptEvent<'_>) -> bool {
///     event.wait.is_some()
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttemptEvent<'e> {
    /// What the caller gave to tell related calls by.
    pub correlation_id: Option<&'e str>,
    /// Who is calling.
    pub service: &'e str,
    /// What is being called.
    pub dependency: &'e str,
    /// The policy's id.
    pub policy: &'e str,
    /// Which attempt it was, from 1.
    pub attempt: u32,
    /// How many there may be.
    pub max_attempts: u32,
    /// How long until the next attempt; `None` if there is none.
    pub wait: Option<Duration>,
    /// What that wait is for.
    pub wait_reason: Option<WaitReason>,
    /// How the attempt failed; `None` if it succeeded.
    pub failure: Option<FailureKind>,
    /// The call's idempotency key, if it has one.
    pub idempotency_key: Option<&'e str>,
    /// How long the attempt took.
    pub took: Duration,
    /// How long the call has taken so far.
    pub elapsed: Duration,
    /// The share of the dependency's retry budget that is spent: 0 untouched, 1 all of it. `None`
    /// without a budget.
    pub budget_utilization_ratio: Option<f64>,
    /// The dependency's breaker, after this attempt. `None` without one.
    pub breaker: Option<BreakerState>,
}

/// A call that has been given up: its caller gets an error.
///
/// ```
/// use relent::observe::{GiveUpEvent, Observer};
///
/// struct Page;
///
/// impl Observer for Page {
///     fn gave_up(&self, event: &GiveUpEvent<'_>) {
///         println!("{}: {}, {}", event.dependency, event.because, event.report);
///     }
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GiveUpEvent<'e> {
    /// What the caller gave to tell related calls by.
    pub correlation_id: Option<&'e str>,
    /// Who is calling.
    pub service: &'e str,
    /// What is being called.
    pub dependency: &'e str,
    /// The policy's id.
    pub policy: &'e str,
    /// How many attempts there could have been.
    pub max_attempts: u32,
    /// Why.
    pub because: GiveUpReason,
    /// How the last attempt failed; `None` if there was none.
    pub failure: Option<FailureKind>,
    /// The call's idempotency key, if it has one.
    pub idempotency_key: Option<&'e str>,
    /// How many attempts were made and how long it took. No attempts: breaker or limits let none
    /// through.
    pub report: Report,
}

/// The observers that features switch on.
pub(crate) fn default_observers() -> Vec<Box<dyn Observer>> {
    const COUNT: usize = cfg!(feature = "tracing") as usize + cfg!(feature = "metrics") as usize;
    let observers: [Box<dyn Observer>; COUNT] = [
        #[cfg(feature = "tracing")]
        Box::new(tracing::Events),
        #[cfg(feature = "metrics")]
        Box::new(metrics::Meters),
    ];
    Vec::from(observers)
}
