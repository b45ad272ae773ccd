//! What is remembered of a task between attempts: all that the next decision depends on.
//!
//! 40 bytes, `Copy`, and versioned on its way through a store. An attempt is counted when it
//! begins, before anything is sent, so that one that is lost with its worker still counts.
//! REQ-S3, REQ-S4, REQ-S10.

use core::time::Duration;

use crate::idempotency::Repeatable;
use crate::time::Timestamp;

/// A task's past, as far as it matters for its future.
///
/// ```
/// use relent_policy::{History, Repeatable, Timestamp};
///
/// let history = History::start(Timestamp::from_secs(1), Repeatable::ByKey).begin_attempt();
/// assert_eq!(history.attempts(), 1);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct History {
    created_at: Timestamp,
    deadline_at: Timestamp,
    previous_backoff: u64,
    attempts: u32,
    repeatable: Repeatable,
    hop: Hop,
    /// Retries spent on DNS failures, on unknown failures, and under each class limit.
    spent: [u8; SPENT_SLOTS],
}

/// Who else retries this operation.
///
/// ```
/// use relent_policy::Hop;
///
/// assert_eq!(Hop::default(), Hop::Retries);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hop {
    /// This is the layer that retries.
    #[default]
    Retries,
    /// The caller is itself a retry of a layer above: it will come again, so this hop must not.
    RetriedAbove,
}

pub(crate) const SPENT_ON_DNS: u8 = 0;
pub(crate) const SPENT_ON_UNKNOWN: u8 = 1;
pub(crate) const FIRST_CLASS_LIMIT: u8 = 2;
pub(crate) const CLASS_LIMITS_MAX: usize = 6;
const SPENT_SLOTS: usize = 2 + CLASS_LIMITS_MAX;

impl History {
    /// The history of a task that was created now and has not been attempted.
    pub const fn start(created_at: Timestamp, repeatable: Repeatable) -> History {
        History {
            created_at,
            deadline_at: Timestamp::MAX,
            previous_backoff: 0,
            attempts: 0,
            repeatable,
            hop: Hop::Retries,
            spent: [0; SPENT_SLOTS],
        }
    }

    /// The same history with the caller's own deadline; the policy's still holds too.
    ///
    /// ```
    /// # use relent_policy::{History, Repeatable, Timestamp};
    /// let history = History::start(Timestamp::ZERO, Repeatable::No).with_deadline(Timestamp::from_secs(2));
    /// assert_eq!(history.deadline_at(), Timestamp::from_secs(2));
    /// ```
    #[must_use]
    pub const fn with_deadline(self, deadline_at: Timestamp) -> History {
        History { deadline_at, ..self }
    }

    /// The same history, knowing whether a layer above retries too.
    ///
    /// ```
    /// # use relent_policy::{History, Hop, Repeatable, Timestamp};
    /// let history = History::start(Timestamp::ZERO, Repeatable::No).with_hop(Hop::RetriedAbove);
    /// assert_eq!(history.hop(), Hop::RetriedAbove);
    /// ```
    #[must_use]
    pub const fn with_hop(self, hop: Hop) -> History {
        History { hop, ..self }
    }

    /// The same history with one more attempt, counted before it is sent.
    #[must_use]
    pub const fn begin_attempt(self) -> History {
        History { attempts: self.attempts.saturating_add(1), ..self }
    }

    /// How many attempts have begun.
    pub const fn attempts(&self) -> u32 {
        self.attempts
    }

    /// When the task was created.
    ///
    /// ```
    /// # use relent_policy::{History, Repeatable, Timestamp};
    /// let created_at = Timestamp::from_secs(1);
    /// assert_eq!(History::start(created_at, Repeatable::No).created_at(), created_at);
    /// ```
    pub const fn created_at(&self) -> Timestamp {
        self.created_at
    }

    /// The caller's own deadline; [`Timestamp::MAX`] without one.
    pub const fn deadline_at(&self) -> Timestamp {
        self.deadline_at
    }

    /// Whether the operation may be sent more than once, and why.
    ///
    /// ```
    /// # use relent_policy::{History, Repeatable, Timestamp};
    /// let history = History::start(Timestamp::ZERO, Repeatable::ByKey);
    /// assert_eq!(history.repeatable(), Repeatable::ByKey);
    /// ```
    pub const fn repeatable(&self) -> Repeatable {
        self.repeatable
    }

    /// Whether a layer above retries too.
    pub const fn hop(&self) -> Hop {
        self.hop
    }

    pub(crate) const fn previous_backoff(&self) -> u64 {
        self.previous_backoff
    }

    #[inline]
    pub(crate) fn spent(&self, slot: u8) -> u8 {
        self.spent[usize::from(slot)]
    }

    /// The history once a retry was decided, with what that retry counts under.
    ///
    /// ```
    /// # use relent_policy::{Decision, History, Outcome, Policy, Repeatable, Timestamp, Ungated, decide};
    /// let (policy, now) = (Policy::sync_api(), Timestamp::from_secs(1));
    /// let history = History::start(now, Repeatable::ByKey).begin_attempt();
    /// let decision = decide(&policy, &history, &Outcome::http(503), &mut Ungated, now, 7);
    /// let Decision::RetryAt { charge, .. } = decision else { unreachable!() };
    /// let second = history.charged(charge).begin_attempt();
    /// assert_eq!(second.attempts(), 2);
    /// ```
    #[must_use]
    pub fn charged(mut self, charge: Charge) -> History {
        self.previous_backoff = charge.backoff;
        for slot in charge.slots {
            if let Some(spent) = self.spent.get_mut(usize::from(slot)) {
                *spent = spent.saturating_add(1);
            }
        }
        self
    }
}

/// What a decided retry counts under: its backoff, and the limits of its failure. Pass it to
/// [`History::charged`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charge {
    backoff: u64,
    slots: [u8; 2],
}

impl Charge {
    /// Points beyond every slot.
    const NOTHING: u8 = u8::MAX;

    #[inline]
    pub(crate) fn plain(backoff: u64) -> Charge {
        Charge { backoff, slots: [Self::NOTHING; 2] }
    }

    pub(crate) fn under(backoff: u64, builtin: Option<u8>, limit: Option<u8>) -> Charge {
        let limit = limit.map(|index| FIRST_CLASS_LIMIT + index);
        let slots = [builtin, limit].map(|slot| slot.unwrap_or(Self::NOTHING));
        Charge { backoff, slots }
    }

    /// The policy's own wait, which is shorter than the whole where the server asked for more.
    ///
    /// ```
    /// # use core::time::Duration;
    /// # use relent_policy::{Decision, History, Outcome, Policy, Repeatable, Timestamp, Ungated, decide};
    /// let (policy, now) = (Policy::sync_api(), Timestamp::from_secs(1));
    /// let history = History::start(now, Repeatable::ByKey).begin_attempt();
    /// let asked = Outcome::http(429).retry_after(Duration::from_secs(5));
    /// let decision = decide(&policy, &history, &asked, &mut Ungated, now, u64::MAX / 2);
    /// let Decision::RetryAt { charge, .. } = decision else { unreachable!() };
    /// assert_eq!(charge.backoff(), Duration::from_millis(500));
    /// ```
    pub const fn backoff(&self) -> Duration {
        Duration::from_nanos(self.backoff)
    }
}

#[cfg(feature = "serde")]
mod snapshot {
    use super::{History, Hop, SPENT_SLOTS};
    use crate::idempotency::Repeatable;
    use crate::snapshot::Version;
    use crate::time::Timestamp;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "camelCase", deny_unknown_fields)]
    struct Stored {
        version: Version,
        created_at: u64,
        deadline_at: Option<u64>,
        previous_backoff: u64,
        attempts: u32,
        repeatable: u8,
        retried_above: bool,
        spent: [u8; SPENT_SLOTS],
    }

    const REPEATABLE: [Repeatable; 4] =
        [Repeatable::No, Repeatable::ByMethod, Repeatable::ByKey, Repeatable::Declared];

    impl Serialize for History {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            let deadline =
                (self.deadline_at != Timestamp::MAX).then(|| self.deadline_at.as_nanos());
            Stored {
                version: Version::CURRENT,
                created_at: self.created_at.as_nanos(),
                deadline_at: deadline,
                previous_backoff: self.previous_backoff,
                attempts: self.attempts,
                repeatable: self.repeatable as u8,
                retried_above: self.hop == Hop::RetriedAbove,
                spent: self.spent,
            }
            .serialize(serializer)
        }
    }

    impl<'de> Deserialize<'de> for History {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<History, D::Error> {
            let stored = Stored::deserialize(deserializer)?;
            stored.version.check().map_err(Error::custom)?;
            let repeatable = REPEATABLE
                .get(usize::from(stored.repeatable))
                .ok_or_else(|| Error::custom("expected `repeatable` to be 0 to 3"))?;
            Ok(History {
                created_at: Timestamp::from_nanos(stored.created_at),
                deadline_at: stored.deadline_at.map_or(Timestamp::MAX, Timestamp::from_nanos),
                previous_backoff: stored.previous_backoff,
                attempts: stored.attempts,
                repeatable: *repeatable,
                hop: if stored.retried_above { Hop::RetriedAbove } else { Hop::Retries },
                spent: stored.spent,
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_is_small() {
        assert!(size_of::<History>() <= 40, "{} bytes", size_of::<History>());
    }

    #[cfg(feature = "serde")]
    #[test]
    fn every_kind_of_history_survives_its_store() {
        use Repeatable::{ByKey, ByMethod, Declared, No};
        for repeatable in [No, ByMethod, ByKey, Declared] {
            let history = History::start(Timestamp::from_nanos(u64::MAX - 1), repeatable)
                .begin_attempt()
                .charged(Charge::under(77, Some(SPENT_ON_DNS), Some(5)))
                .with_hop(Hop::RetriedAbove);
            for history in [history, history.with_deadline(Timestamp::from_secs(9))] {
                let stored = serde_json::to_string(&history).unwrap();
                assert_eq!(serde_json::from_str::<History>(&stored).unwrap(), history);
            }
        }
    }

    #[cfg(feature = "serde")]
    #[test]
    fn a_later_version_is_refused() {
        let mut stored =
            serde_json::to_value(History::start(Timestamp::ZERO, Repeatable::No)).unwrap();
        stored["version"] = 2.into();
        let error = serde_json::from_value::<History>(stored).unwrap_err();
        assert!(std::format!("{error}").contains("version 1, got 2"), "{error}");
    }
}
