//! What is said about a call, where most calls say nothing.

use relent_policy::IdempotencyKey;

use crate::call::{Deadline, Options};
use crate::retrier::Inner;

/// What is said about a call, looked at before there are [`Options`] in memory.
pub(crate) trait Described {
    fn deadline(&self) -> Deadline;
    fn key(&self) -> Option<&IdempotencyKey>;
    fn into_options<C>(self, inner: &Inner<C>) -> Options;
}

/// Nothing but what holds for all calls.
pub(crate) struct Undescribed;

impl Described for Undescribed {
    fn deadline(&self) -> Deadline {
        Deadline::None
    }

    fn key(&self) -> Option<&IdempotencyKey> {
        None
    }

    fn into_options<C>(self, inner: &Inner<C>) -> Options {
        Options { declared: inner.declared, ..Options::default() }
    }
}

impl Described for Options {
    fn deadline(&self) -> Deadline {
        self.deadline
    }

    fn key(&self) -> Option<&IdempotencyKey> {
        self.key.as_ref()
    }

    fn into_options<C>(self, _: &Inner<C>) -> Options {
        self
    }
}
