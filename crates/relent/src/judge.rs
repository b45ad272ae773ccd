//! What an attempt's result means: the bridge from a caller's types to the engine's outcomes.
//! REQ-C1, REQ-C6.
//!
//! Two traits, because a failure is not always an `Err`: a `Response` with status 503 is an `Ok`.
//! [`Classify`] is for error types; [`Judge`] is for whole results and is what a call needs.

use std::any::Any;

use relent_policy::{Class, Failure, FailureKind, Outcome, Timestamp};

/// An error that knows what kind of failure it is.
///
/// ```
/// use relent::{Classify, Failure, FailureKind, Timestamp};
///
/// #[derive(Debug)]
/// enum QuotaError {
///     Exhausted { retry_in: std::time::Duration },
///     UnknownAccount,
/// }
///
/// impl Classify for QuotaError {
///     fn failure(&self, _now: Timestamp) -> Failure {
///         match self {
///             QuotaError::Exhausted { retry_in } => {
///                 Failure::from(FailureKind::Http(429)).retry_after(*retry_in)
///             }
///             QuotaError::UnknownAccount => relent::permanent(),
///         }
///     }
/// }
/// ```
pub trait Classify {
    /// The kind of failure, and what the server said about trying again. `now` is for dates in
    /// `Retry-After`.
    fn failure(&self, now: Timestamp) -> Failure;
}

/// A result that can be judged.
pub trait Judge {
    /// What the attempt came to.
    fn judge(&self, now: Timestamp) -> Outcome;
}

/// `Err` is what its error says; `Ok` is a success, unless it holds an HTTP response that is none.
impl<T: Any, E: Classify> Judge for Result<T, E> {
    fn judge(&self, now: Timestamp) -> Outcome {
        match self {
            Ok(value) => crate::classify::response(value, now),
            Err(error) => Outcome::Failure(error.failure(now)),
        }
    }
}

/// A failure that is worth another attempt.
///
/// ```
/// assert_eq!(relent::retryable().kind.to_string(), "application_retryable");
/// ```
pub const fn retryable() -> Failure {
    Failure { kind: FailureKind::Judged(Class::Retryable), hint: relent_policy::Hint::None }
}

/// A failure that would come again.
///
/// ```
/// assert_eq!(relent::permanent().kind.to_string(), "application_permanent");
/// ```
pub const fn permanent() -> Failure {
    Failure { kind: FailureKind::Judged(Class::Permanent), hint: relent_policy::Hint::None }
}

impl<E: Classify + ?Sized> Classify for &E {
    fn failure(&self, now: Timestamp) -> Failure {
        (**self).failure(now)
    }
}

impl<E: Classify + ?Sized> Classify for Box<E> {
    fn failure(&self, now: Timestamp) -> Failure {
        (**self).failure(now)
    }
}
