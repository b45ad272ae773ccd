//! The idempotency keys of calls under way. REQ-I2.
//!
//! A key is made when an attempt first asks for it, is the same for all attempts of its call, and
//! having asked for it is what makes a call repeatable. So attempt and call share a place for it. That
//! place is a table of the retrier and not a cell that the attempt borrows: a future that holds such a
//! borrow could not be spawned, and a cell behind a reference count would cost every call an
//! allocation. Here a call that never asks pays for a look at a counter.

use std::cell::Cell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use relent_policy::{IdempotencyKey, Repeatable};
use uuid::Uuid;

/// The idempotency key of a call: what to send as `Idempotency-Key`, on every attempt the same.
/// Dereferences to its text.
///
/// ```
/// use relent::{Policy, Retrier};
///
/// let retrier = Retrier::new("mailer", Policy::sync_api());
/// let key = retrier.run(|attempt| Ok::<_, std::io::Error>(attempt.key())).unwrap();
/// assert_eq!(key.len(), 36);
/// assert_eq!(key.to_string(), key.as_str());
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct CallKey {
    text: [u8; IdempotencyKey::LENGTH_MAX],
    length: u8,
}

impl CallKey {
    fn make() -> CallKey {
        let mut text = [0; IdempotencyKey::LENGTH_MAX];
        Uuid::new_v4().hyphenated().encode_lower(&mut text);
        CallKey { text, length: 36 }
    }

    /// The bare key.
    pub fn as_str(&self) -> &str {
        let bytes = &self.text[..usize::from(self.length)];
        std::str::from_utf8(bytes).expect("a key is ASCII")
    }
}

impl From<&IdempotencyKey> for CallKey {
    fn from(key: &IdempotencyKey) -> CallKey {
        let (mut text, bytes) = ([0; IdempotencyKey::LENGTH_MAX], key.as_str().as_bytes());
        text[..bytes.len()].copy_from_slice(bytes);
        CallKey { text, length: u8::try_from(bytes.len()).expect("a key has 64 bytes at most") }
    }
}

impl Deref for CallKey {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl AsRef<str> for CallKey {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl fmt::Display for CallKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for CallKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

#[cfg(feature = "http")]
impl From<CallKey> for http::HeaderValue {
    fn from(key: CallKey) -> http::HeaderValue {
        http::HeaderValue::from_str(key.as_str()).expect("a key is visible ASCII")
    }
}

#[cfg(feature = "tonic")]
impl From<CallKey> for tonic::metadata::AsciiMetadataValue {
    fn from(key: CallKey) -> tonic::metadata::AsciiMetadataValue {
        key.as_str().parse().expect("a key is visible ASCII")
    }
}

/// Tells the calls of a retrier apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CallId(u64);

impl CallId {
    /// A new one: the thread's number and the thread's count of calls.
    #[inline]
    pub(crate) fn next() -> CallId {
        static THREADS: AtomicU64 = AtomicU64::new(1);
        thread_local! {
            static NEXT: Cell<u64> = const { Cell::new(0) };
        }
        NEXT.with(|next| {
            if next.get() == 0 {
                next.set(THREADS.fetch_add(1, Ordering::Relaxed) << 40);
            }
            CallId(next.replace(next.get() + 1))
        })
    }
}

/// The keys that calls of one retrier have asked for.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    asked: Mutex<HashMap<CallId, CallKey>>,
    count: AtomicUsize,
}

impl Keys {
    /// The call's key, made now if it has none.
    pub(crate) fn ask(&self, call: CallId) -> CallKey {
        *self.lock().entry(call).or_insert_with(|| {
            self.count.fetch_add(1, Ordering::Relaxed);
            CallKey::make()
        })
    }

    /// Gives the call a key.
    pub(crate) fn give(&self, call: CallId, key: &IdempotencyKey) {
        if let Entry::Vacant(entry) = self.lock().entry(call) {
            self.count.fetch_add(1, Ordering::Relaxed);
            entry.insert(key.into());
        }
    }

    /// The call's key, if it has one.
    #[inline]
    pub(crate) fn get(&self, call: CallId) -> Option<CallKey> {
        if self.is_empty() { None } else { self.lock().get(&call).copied() }
    }

    /// What having a key (or not) says about repeating the call.
    pub(crate) fn repeatable(&self, call: CallId, declared: Repeatable) -> Repeatable {
        match (declared, self.get(call)) {
            (Repeatable::No, Some(_)) => Repeatable::ByKey,
            (declared, _) => declared,
        }
    }

    pub(crate) fn forget(&self, call: CallId) {
        if !self.is_empty() && self.lock().remove(&call).is_some() {
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// The keys of a call are asked for and forgotten within that call, so its own are never missed
    /// by this look without the lock.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<CallId, CallKey>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_has_one_key_and_no_other_call_has_it() {
        let (keys, first, second) = (Keys::default(), CallId::next(), CallId::next());
        assert_eq!(keys.get(first), None);
        let key = keys.ask(first);
        assert_eq!(keys.ask(first), key);
        assert_ne!(keys.ask(second), key);
        keys.forget(first);
        assert_eq!(keys.get(first), None);
        assert_eq!(keys.repeatable(second, Repeatable::No), Repeatable::ByKey);
        keys.forget(second);
        assert!(keys.is_empty());
    }

    #[test]
    fn calls_on_different_threads_have_different_ids() {
        let here = CallId::next();
        let there = std::thread::spawn(CallId::next).join().unwrap();
        assert_ne!(here, there);
        assert_ne!(here, CallId::next());
    }

    #[test]
    fn a_given_key_is_kept_as_it_is() {
        let (keys, call) = (Keys::default(), CallId::next());
        let given = IdempotencyKey::try_new(&"k".repeat(64)).unwrap();
        keys.give(call, &given);
        assert_eq!(keys.ask(call).as_str(), given.as_str());
    }
}
