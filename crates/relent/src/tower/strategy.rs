//! What a [`RetryLayer`](super::RetryLayer) must know about types it has never seen: what an error
//! means, and how a body is copied. REQ-C6.
//!
//! Both are strategies of the layer and not traits of the types, because bodies and errors mostly
//! come from other crates, for which nobody could implement such a trait.

use relent_policy::{Failure, Timestamp};

use crate::judge::Classify;

/// Says what an error means. Implemented by [`ByType`] and by every `Fn(&E, Timestamp) -> Failure`.
///
/// ```
/// use relent::tower::{ByType, ClassifyError};
/// use relent::Timestamp;
/// use std::io::{Error, ErrorKind};
///
/// let failure = ByType.classify(&Error::from(ErrorKind::TimedOut), Timestamp::ZERO);
/// assert_eq!(failure.kind.to_string(), "io_timed_out");
/// let failure = (|_: &&str, _| relent::permanent()).classify(&"no", Timestamp::ZERO);
/// assert_eq!(failure, relent::permanent());
/// ```
pub trait ClassifyError<E> {
    /// The kind of failure, and what the server said about trying again.
    fn classify(&self, error: &E, now: Timestamp) -> Failure;
}

/// The error's own [`Classify`] says what it means.
#[derive(Clone, Copy, Debug, Default)]
pub struct ByType;

impl<E: Classify> ClassifyError<E> for ByType {
    fn classify(&self, error: &E, now: Timestamp) -> Failure {
        error.failure(now)
    }
}

impl<E, F: Fn(&E, Timestamp) -> Failure> ClassifyError<E> for F {
    fn classify(&self, error: &E, now: Timestamp) -> Failure {
        self(error, now)
    }
}

/// Copies bodies. Implemented by [`ByClone`] and by every `Fn(&B) -> Option<B>`.
///
/// ```
/// use relent::tower::{ByClone, Replay};
///
/// assert_eq!(ByClone.replay(&"a body"), Some("a body"));
/// assert_eq!((|_: &String| None).replay(&"a stream".to_owned()), None);
/// ```
pub trait Replay<B> {
    /// The same body once more; `None` if it can be sent only once.
    fn replay(&self, body: &B) -> Option<B>;
}

/// Bodies are copied by their `Clone`.
#[derive(Clone, Copy, Debug, Default)]
pub struct ByClone;

impl<B: Clone> Replay<B> for ByClone {
    fn replay(&self, body: &B) -> Option<B> {
        Some(body.clone())
    }
}

impl<B, F: Fn(&B) -> Option<B>> Replay<B> for F {
    fn replay(&self, body: &B) -> Option<B> {
        self(body)
    }
}
