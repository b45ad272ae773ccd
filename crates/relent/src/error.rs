//! What a caller gets when a call is given up: the original error, how often and how long it was
//! tried, and why it stopped. REQ-G2.
//!
//! A budget or a breaker never replaces the error that made the call fail: what went wrong is what
//! the caller needs to know. Only where there is no such error (the call was never made, or its
//! time ran out) is there a variant without one.

use std::error::Error;
use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use relent_policy::{GiveUpReason, Refusal};

/// How a call went, whatever came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// How many attempts were made.
    pub attempts: u32,
    /// How long it took in all, waits included.
    pub elapsed: Duration,
}

/// Why a call failed.
///
/// ```
/// use relent::{CallError, Policy, Retrier};
/// use std::io;
///
/// let retrier = Retrier::new("disk", Policy::batch_item());
/// let failed = retrier.repeatable().run(|_attempt| {
///     Err::<(), io::Error>(io::Error::new(io::ErrorKind::NotFound, "no such file"))
/// });
/// match failed.unwrap_err() {
///     CallError::GaveUp(gave_up) => {
///         assert_eq!(gave_up.kind(), io::ErrorKind::NotFound); // the original error
///         assert_eq!(gave_up.because().name(), "permanent");
///     }
///     other => panic!("{other}"),
/// }
/// ```
#[derive(Debug)]
pub enum CallError<E> {
    /// The last attempt failed, and there was no further one.
    GaveUp(GaveUp<E>),
    /// The last attempt did not end in its time, and there was no further one.
    TimedOut(TimedOut),
    /// No attempt was made.
    Refused(Refused),
}

/// The last attempt's error, with how and why it was the last. Dereferences to that error.
#[derive(Debug)]
pub struct GaveUp<E> {
    error: E,
    because: GiveUpReason,
    report: Report,
}

/// The last attempt did not end in its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimedOut {
    /// Why there was no further attempt.
    pub because: GiveUpReason,
    /// How it went.
    pub report: Report,
}

/// The dependency's breaker or limits let no call through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// What refused it.
    pub refusal: Refusal,
}

impl<E> CallError<E> {
    pub(crate) fn gave_up(error: E, because: GiveUpReason, report: Report) -> CallError<E> {
        CallError::GaveUp(GaveUp { error, because, report })
    }

    /// The original error, if there was one.
    ///
    /// ```
    /// # use relent::{Policy, Retrier};
    /// # let retrier = Retrier::new("disk", Policy::batch_item());
    /// # let failed = retrier.run(|_| Err::<(), _>(std::io::Error::from(std::io::ErrorKind::NotFound)));
    /// assert!(failed.unwrap_err().original().is_some());
    /// ```
    pub fn original(&self) -> Option<&E> {
        match self {
            CallError::GaveUp(gave_up) => Some(&gave_up.error),
            CallError::TimedOut(_) | CallError::Refused(_) => None,
        }
    }

    /// The original error, if there was one, for handing on.
    pub fn into_original(self) -> Option<E> {
        match self {
            CallError::GaveUp(gave_up) => Some(gave_up.error),
            CallError::TimedOut(_) | CallError::Refused(_) => None,
        }
    }

    /// How many attempts were made and how long it took.
    pub fn report(&self) -> Report {
        match self {
            CallError::GaveUp(gave_up) => gave_up.report,
            CallError::TimedOut(timed_out) => timed_out.report,
            CallError::Refused(_) => Report { attempts: 0, elapsed: Duration::ZERO },
        }
    }

    /// Why there was no further attempt; `None` if there was none at all.
    pub fn because(&self) -> Option<GiveUpReason> {
        match self {
            CallError::GaveUp(gave_up) => Some(gave_up.because),
            CallError::TimedOut(timed_out) => Some(timed_out.because),
            CallError::Refused(_) => None,
        }
    }
}

impl<E> GaveUp<E> {
    /// Why there was no further attempt.
    pub fn because(&self) -> GiveUpReason {
        self.because
    }

    /// How many attempts were made and how long it took.
    pub fn report(&self) -> Report {
        self.report
    }

    /// The original error, for handing on.
    pub fn into_inner(self) -> E {
        self.error
    }
}

impl<E> Deref for GaveUp<E> {
    type Target = E;

    fn deref(&self) -> &E {
        &self.error
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = if self.attempts == 1 { "" } else { "s" };
        write!(f, "{} attempt{s} in {:?}", self.attempts, self.elapsed)
    }
}

impl<E> fmt::Display for CallError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallError::GaveUp(gave_up) => gave_up.fmt(f),
            CallError::TimedOut(TimedOut { because, report }) => {
                write!(f, "timed out after {report}: {because}")
            }
            CallError::Refused(Refused { refusal }) => write!(f, "not attempted: {refusal}"),
        }
    }
}

impl<E> fmt::Display for GaveUp<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "gave up after {}: {}", self.report, self.because)
    }
}

impl<E: Error + 'static> Error for CallError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.original().map(|error| error as _)
    }
}

impl<E: Error + 'static> Error for GaveUp<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.error)
    }
}
