//! A task as it is asked for: `POST /retry-tasks` in, a checked [`NewTask`] out.
//! REQ-S1, REQ-S2, REQ-I1, REQ-I2.
//!
//! Two ways in, one set of checks. The usual way is a derived reader that borrows from the
//! document; it is quick, and stops at the first thing it dislikes. Only then the document is read
//! again field by field, so that the caller learns of everything that is wrong. Both fill the same
//! [`Given`](given::Given), and what is allowed is checked in one place, `check.rs`.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use relent_policy::{IdempotencyKey, Repeatable, Timestamp};

use crate::json::{self, Object};
use crate::limits::Limits;
use crate::method::Method;
use crate::problem::Problem;
use crate::report::Report;
use crate::target::Target;

pub(crate) mod check;
mod fingerprint;
pub(crate) mod given;

/// The policy of a task that names none.
pub const DEFAULT_POLICY_ID: &str = "webhook";

/// A task that somebody wants done, checked.
///
/// ```
/// use relent_api::{Limits, Method, NewTask};
/// use relent_policy::Timestamp;
///
/// let json = br#"{
///     "targetUrl": "https://api.example.com/hooks",
///     "idempotencyKey": "order-17",
///     "body": {"order": 17}
/// }"#;
/// let task = NewTask::parse(json, None, &Limits::default(), Timestamp::ZERO)?;
/// assert_eq!(task.method, Method::Post);
/// assert_eq!(task.policy_id, "webhook");
/// assert_eq!(task.dependency_name(), "https://api.example.com");
/// assert_eq!(&task.body[..], br#"{"order": 17}"#);
/// assert_eq!(task.headers, [("content-type".to_owned(), "application/json".to_owned())]);
/// # Ok::<(), relent_api::Problem>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct NewTask {
    /// Where it goes.
    pub target: Target,
    /// With which method.
    pub method: Method,
    /// With which headers: names in lower case, as many lines as there are values.
    pub headers: Vec<(String, String)>,
    /// With which body, byte for byte.
    pub body: Bytes,
    /// By what its target recognises a repeated attempt; there for POST and PATCH.
    pub key: Option<IdempotencyKey>,
    /// How it is retried.
    pub policy_id: String,
    /// What it calls, if that is not its target's scheme, host and port.
    pub dependency: Option<String>,
    /// What ties it to other work in logs.
    pub correlation_id: Option<String>,
    /// When its first attempt is due.
    pub first: First,
}

/// When a task's first attempt is due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum First {
    /// At once.
    #[default]
    Now,
    /// This long after it was stored.
    After(Duration),
    /// At this time, or at once if that is past.
    NotBefore(Timestamp),
}

impl First {
    /// The time it is due, for a task that is created now.
    ///
    /// ```
    /// use std::time::Duration;
    /// use relent_api::First;
    /// use relent_policy::Timestamp;
    ///
    /// let now = Timestamp::from_secs(100);
    /// assert_eq!(First::After(Duration::from_secs(5)).due_at(now), Timestamp::from_secs(105));
    /// assert_eq!(First::NotBefore(Timestamp::from_secs(7)).due_at(now), now);
    /// ```
    pub fn due_at(self, now: Timestamp) -> Timestamp {
        match self {
            First::Now => now,
            First::After(delay) => now + delay,
            First::NotBefore(time) => time.max(now),
        }
    }
}

impl NewTask {
    /// Reads and checks a task. `header_key` is the value of the request's `Idempotency-Key`
    /// header, quoted or bare.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it, each with pointer, expected and got.
    pub fn parse(
        json: &[u8],
        header_key: Option<&str>,
        limits: &Limits,
        now: Timestamp,
    ) -> Result<NewTask, Problem> {
        let text = json::text(json, limits)?;
        let mut report = Report::default();
        let given = match serde_json::from_str(text) {
            Ok(Object(given)) => Some(given),
            Err(_) => given::read_all(json::value(text)?, &mut report),
        };
        let task =
            given.and_then(|given| check::check(given, header_key, limits, now, &mut report));
        report.finish(task)
    }

    /// The dependency it belongs to: the one it names, or its target's scheme, host and port.
    pub fn dependency_name(&self) -> &str {
        self.dependency.as_deref().unwrap_or_else(|| self.target.dependency())
    }

    /// What makes a second attempt safe.
    pub fn repeatable(&self) -> Repeatable {
        Repeatable::by_method(self.method.name(), self.key.as_ref())
    }

    /// What two requests with the same key must have in common to be the same request: method,
    /// URL, headers, body, policy, dependency and schedule.
    pub fn fingerprint(&self) -> [u8; 16] {
        fingerprint::of(self)
    }
}

impl fmt::Debug for NewTask {
    /// Headers and bodies may hold secrets, so only their sizes are told.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewTask")
            .field("target", &self.target)
            .field("method", &self.method)
            .field("headers", &self.headers.len())
            .field("body_bytes", &self.body.len())
            .field("key", &self.key)
            .field("policy_id", &self.policy_id)
            .field("dependency", &self.dependency)
            .field("correlation_id", &self.correlation_id)
            .field("first", &self.first)
            .finish()
    }
}

#[cfg(test)]
mod tests;
