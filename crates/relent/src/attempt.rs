//! What an operation may know about the attempt it is making.

use std::time::Duration;

use relent_policy::{FailureKind, Timestamp};

use crate::call::Deadline;
use crate::clock::Clock;
use crate::first::Held;
use crate::key::{CallId, CallKey, Keys};

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
#[derive(Clone, Copy, Debug)]
pub struct Attempt<'r> {
    pub(crate) number: u32,
    pub(crate) max: u32,
    pub(crate) timeout: Duration,
    pub(crate) deadline_at: Timestamp,
    pub(crate) previous: Option<FailureKind>,
    pub(crate) call: CallId,
    pub(crate) keys: &'r Keys,
}

impl<'r> Attempt<'r> {
    #[inline]
    pub(crate) fn new<C: Clock>(
        held: &Held<'r, C>,
        number: u32,
        previous: Option<FailureKind>,
        created_at: Option<Timestamp>,
        deadline: Deadline,
    ) -> Attempt<'r> {
        let policy = &held.inner.policy;
        let timeout = policy.spec().attempt_timeout;
        let (timeout, deadline_at) = match (created_at, held.started_at) {
            (Some(created_at), Some(now)) => {
                let deadline = deadline.or_of(policy, created_at);
                (timeout.min(deadline.saturating_since(now)), deadline)
            }
            _ => (timeout, Timestamp::MAX),
        };
        let max = policy.max_attempts();
        let (call, keys) = (held.id, &held.inner.keys);
        Attempt { number, max, timeout, deadline_at, previous, call, keys }
    }

    /// Which attempt this is, from 1.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// How many attempts there may be in all.
    pub fn max(&self) -> u32 {
        self.max
    }

    /// How long this attempt may take: the policy's attempt timeout, or what is left of the call's
    /// time if that is less. It is enforced; hand it to the client as well if that can use it.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// When the whole call must have ended.
    pub fn deadline_at(&self) -> Timestamp {
        self.deadline_at
    }

    /// How the attempt before this one failed.
    pub fn previous(&self) -> Option<FailureKind> {
        self.previous
    }

    /// The call's idempotency key: a UUID made when it is first asked for, and the same on every
    /// attempt. Asking for it says that the operation carries it, and so may be repeated: send it
    /// as `Idempotency-Key`.
    pub fn key(&self) -> CallKey {
        self.keys.ask(self.call)
    }
}
