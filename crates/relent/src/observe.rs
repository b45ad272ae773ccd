//! What observers are told: every attempt, and every call that was given up. REQ-O1.
//!
//! The fields are the whole of it. There is no place for a body, a token or a URL, so none can leak;
//! a failure is an enum, not a text that a server has written.

#[cfg(feature = "metrics")]
mod metrics;
#[cfg(feature = "tracing")]
mod tracing;

use std::time::Duration;

use relent_policy::{FailureKind, GiveUpReason, WaitReason};

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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
}

/// A call that has been given up.
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
    /// Why.
    pub because: GiveUpReason,
    /// How the last attempt failed.
    pub failure: Option<FailureKind>,
    /// How many attempts were made and how long it took.
    pub report: Report,
}

/// The observers that features switch on.
pub(crate) fn default_observers() -> Vec<Box<dyn Observer>> {
    Vec::new()
}
