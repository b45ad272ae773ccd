//! Names of things in a store.
//!
//! A task's id is a number made of the store's time in milliseconds and a count within it: new rows
//! land at the end of every table, and a time is a range of ids. Written out it is `tsk_` and
//! thirteen characters that sort the same way. REQ-S1.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use relent_policy::Timestamp;

/// Whose a thing is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TenantId(Arc<str>);

/// One task. See the module's head for how ids are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(u64);

/// One lane: a tenant's traffic to a dependency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaneId(u32);

/// One version of one policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PolicyKey(u32);

/// The text is no id of this kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected}")]
pub struct BadId {
    expected: &'static str,
}

impl TenantId {
    /// The tenant of a service without keys.
    pub fn default_tenant() -> TenantId {
        TenantId("default".into())
    }

    /// A tenant's name: 1 to 64 characters of `a-z 0-9 -`.
    ///
    /// # Errors
    ///
    /// When the text is none.
    pub fn try_new(name: &str) -> Result<TenantId, BadId> {
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if name.is_empty() || name.len() > 64 || !name.chars().all(allowed) {
            return Err(BadId { expected: "a tenant: 1 to 64 characters of a-z, 0-9 and -" });
        }
        Ok(TenantId(name.into()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TenantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// 2026-01-01T00:00:00Z in milliseconds: ids count from here.
const EPOCH_MILLIS: u64 = 1_767_225_600_000;
/// Bits below the milliseconds: four million ids in each.
const SEQUENCE_BITS: u32 = 22;
const PREFIX: &str = "tsk_";
const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const TEXT_DIGITS: usize = 13;

impl TaskId {
    /// The id after `last` for a task that is stored at `now`. Ids grow, whatever the clock does.
    #[must_use]
    pub fn next(last: Option<TaskId>, now: Timestamp) -> TaskId {
        let earliest = TaskId::first_at(now);
        TaskId(last.map_or(earliest.0, |last| earliest.0.max(last.0 + 1)))
    }

    /// The lowest id that a task stored at `at` can have.
    pub fn first_at(at: Timestamp) -> TaskId {
        let millis = at.as_millis().saturating_sub(EPOCH_MILLIS);
        TaskId(millis.min(u64::MAX >> (SEQUENCE_BITS + 1)) << SEQUENCE_BITS)
    }

    /// When the task was stored, to the millisecond.
    pub fn created_at(self) -> Timestamp {
        Timestamp::from_millis(EPOCH_MILLIS + (self.0 >> SEQUENCE_BITS))
    }

    /// The number; below 2^63.
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// The id with this number; `None` from 2^63 on.
    pub const fn from_u64(number: u64) -> Option<TaskId> {
        if number >> 63 == 0 { Some(TaskId(number)) } else { None }
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0; PREFIX.len() + TEXT_DIGITS];
        text[..PREFIX.len()].copy_from_slice(PREFIX.as_bytes());
        for (index, digit) in text[PREFIX.len()..].iter_mut().enumerate() {
            let shift = 5 * (TEXT_DIGITS - 1 - index);
            let value = usize::try_from((self.0 >> shift) & 31).unwrap_or_default();
            *digit = DIGITS[value];
        }
        f.write_str(str::from_utf8(&text).unwrap_or_default())
    }
}

impl FromStr for TaskId {
    type Err = BadId;

    fn from_str(text: &str) -> Result<TaskId, BadId> {
        let bad = BadId { expected: "a task id: `tsk_` and 13 characters of 0-9 and a-z" };
        let digits = text.strip_prefix(PREFIX).ok_or(bad)?;
        if digits.len() != TEXT_DIGITS {
            return Err(bad);
        }
        let mut number = 0_u64;
        for character in digits.bytes() {
            let digit = DIGITS.iter().position(|digit| *digit == character).ok_or(bad)? as u64;
            number = number.checked_mul(32).ok_or(bad)? | digit;
        }
        TaskId::from_u64(number).ok_or(bad)
    }
}

macro_rules! small_ids {
    ($($type:ident $prefix:literal $expected:literal)*) => {$(
        impl $type {
            /// The id with this number.
            pub const fn from_u32(number: u32) -> $type {
                $type(number)
            }

            /// The number.
            pub const fn as_u32(self) -> u32 {
                self.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }

        impl FromStr for $type {
            type Err = BadId;

            fn from_str(text: &str) -> Result<$type, BadId> {
                let number = text.strip_prefix($prefix).and_then(|number| number.parse().ok());
                number.map($type).ok_or(BadId { expected: $expected })
            }
        }
    )*};
}

small_ids! {
    LaneId "lane_" "a lane id: `lane_` and a number"
    PolicyKey "pol_" "a policy key: `pol_` and a number"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_sort_as_numbers_and_as_texts() {
        let now = Timestamp::from_millis(EPOCH_MILLIS + 12_345);
        let first = TaskId::next(None, now);
        let second = TaskId::next(Some(first), now);
        let later = TaskId::next(Some(second), now + std::time::Duration::from_millis(1));
        assert!(first < second && second < later);
        assert!(first.to_string() < second.to_string() && second.to_string() < later.to_string());
        assert_eq!(first.created_at(), now);
        assert_eq!(second.created_at(), now);
    }

    #[test]
    fn ids_grow_when_the_clock_goes_back() {
        let now = Timestamp::from_millis(EPOCH_MILLIS + 12_345);
        let last = TaskId::next(None, now);
        assert!(TaskId::next(Some(last), Timestamp::ZERO) > last);
    }

    #[test]
    fn ids_round_trip_and_nothing_else_is_one() {
        for number in [0, 1, 31, 32, u64::MAX >> 1] {
            let id = TaskId::from_u64(number).unwrap();
            assert_eq!(id.to_string().parse(), Ok(id));
        }
        for text in ["", "tsk_", "tsk_000000000000", "tsk_000000000000u", "tsk_zzzzzzzzzzzzz"] {
            assert!(text.parse::<TaskId>().is_err(), "{text}");
        }
        assert_eq!("lane_7".parse(), Ok(LaneId(7)));
        assert!("lane_".parse::<LaneId>().is_err());
    }
}
