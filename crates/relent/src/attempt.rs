//! What an operation may know about the attempt it is making.

use std::sync::OnceLock;
use std::time::Duration;

use relent_policy::{FailureKind, IdempotencyKey, Repeatable, Timestamp};
use uuid::Uuid;

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
#[derive(Debug)]
pub struct Attempt<'call> {
    pub(crate) number: u32,
    pub(crate) max: u32,
    pub(crate) timeout: Duration,
    pub(crate) deadline_at: Timestamp,
    pub(crate) previous: Option<FailureKind>,
    pub(crate) key: &'call CallKey,
}

impl Attempt<'_> {
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
    pub fn key(&self) -> &str {
        self.key.get()
    }
}

/// The idempotency key of one call, made at most once.
#[derive(Debug, Default)]
pub(crate) struct CallKey(OnceLock<KeyText>);

#[derive(Debug)]
enum KeyText {
    Made([u8; 36]),
    Given(IdempotencyKey),
}

impl CallKey {
    pub(crate) fn given(key: IdempotencyKey) -> CallKey {
        CallKey(OnceLock::from(KeyText::Given(key)))
    }

    /// What having a key (or not) says about repeating the call.
    pub(crate) fn repeatable(&self, declared: Repeatable) -> Repeatable {
        match (declared, self.0.get()) {
            (Repeatable::No, Some(_)) => Repeatable::ByKey,
            (declared, _) => declared,
        }
    }

    pub(crate) fn peek(&self) -> Option<&str> {
        self.0.get().map(KeyText::as_str)
    }

    fn get(&self) -> &str {
        self.0.get_or_init(KeyText::make).as_str()
    }
}

impl KeyText {
    fn make() -> KeyText {
        let mut text = [0; 36];
        Uuid::new_v4().hyphenated().encode_lower(&mut text);
        KeyText::Made(text)
    }

    fn as_str(&self) -> &str {
        match self {
            KeyText::Made(text) => std::str::from_utf8(text).expect("a UUID is ASCII"),
            KeyText::Given(key) => key.as_str(),
        }
    }
}
