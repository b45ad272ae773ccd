//! What an operation may know about the attempt it is making.

use std::fmt;
use std::time::Duration;

use relent_policy::{FailureKind, Timestamp};

use crate::call::Deadline;
use crate::clock::{Clock, Moment};
use crate::held::Held;
use crate::key::{CallId, CallKey};
use crate::retrier::Terms;

/// The attempt that is being made.
///
/// ```
/// use relent::{Policy, Retrier};
///
/// let retrier = Retrier::new("mailer", Policy::sync_api());
/// let sent = retrier.run(|attempt| {
///     assert_eq!(attempt.number(), 1);
///     assert_eq!(attempt.key().len(), 36); // the same on every attempt of this call
///     Ok::<_, std::io::Error>("sent")
/// });
/// assert_eq!(sent.unwrap(), "sent");
/// ```
#[derive(Clone, Copy)]
pub struct Attempt<'r> {
    number: u32,
    previous: Option<FailureKind>,
    /// Unread if nothing depends on it yet.
    started_at: Moment,
    /// When the call's first attempt started.
    created_at: Moment,
    /// The caller's own.
    deadline_at: Timestamp,
    call: CallId,
    /// What can be worked out when it is asked for is not carried along: most operations never ask.
    terms: &'r Terms,
}

impl<'r> Attempt<'r> {
    #[inline]
    pub(crate) fn new<C: Clock>(
        held: &Held<'r, C>,
        number: u32,
        previous: Option<FailureKind>,
        created_at: Moment,
        deadline: Deadline,
    ) -> Attempt<'r> {
        let (started_at, deadline_at) = (held.started_at, deadline.at(created_at.or_never()));
        let (call, terms) = (held.id, &held.inner.terms);
        Attempt { number, previous, started_at, created_at, deadline_at, call, terms }
    }

    /// Which attempt this is, from 1.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// How many attempts there may be in all.
    pub fn max(&self) -> u32 {
        self.terms.policy.max_attempts()
    }

    /// How long this attempt may take: the policy's attempt timeout, or what is left of the call's
    /// time if that is less. It is enforced; hand it to the client as well if that can use it.
    pub fn timeout(&self) -> Duration {
        let whole = self.terms.policy.spec().attempt_timeout;
        match self.started_at.get() {
            Some(started_at) => whole.min(self.deadline_at().saturating_since(started_at)),
            None => whole,
        }
    }

    /// When the whole call must have ended.
    pub fn deadline_at(&self) -> Timestamp {
        self.deadline_at.min(self.created_at.or_never() + self.terms.policy.spec().total_budget)
    }

    /// How the attempt before this one failed.
    pub fn previous(&self) -> Option<FailureKind> {
        self.previous
    }

    /// The call's idempotency key: a UUID made when it is first asked for, and the same on every
    /// attempt. Asking for it says that the operation carries it, and so may be repeated: send it
    /// as `Idempotency-Key`.
    pub fn key(&self) -> CallKey {
        self.terms.keys.ask(self.call)
    }
}

/// Without the key: it is nobody's business but the operation's.
impl fmt::Debug for Attempt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attempt")
            .field("number", &self.number)
            .field("max", &self.max())
            .field("timeout", &self.timeout())
            .field("deadline_at", &self.deadline_at())
            .field("previous", &self.previous)
            .finish_non_exhaustive()
    }
}
