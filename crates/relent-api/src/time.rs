//! Times as callers give them: whole milliseconds since the epoch, or as RFC 3339 writes them.
//! REQ-S1.

use std::fmt;

use relent_policy::Timestamp;
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer};

/// What a time must look like.
pub(crate) const A_TIME: &str = "milliseconds since the epoch, or a time as RFC 3339 writes it";

/// A time as a caller gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Time(pub(crate) Timestamp);

impl Time {
    pub(crate) fn parse(text: &str) -> Option<Time> {
        if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            return text.parse().ok().map(|millis| Time(Timestamp::from_millis(millis)));
        }
        let time: jiff::Timestamp = text.parse().ok()?;
        let millis = u64::try_from(time.as_millisecond()).ok()?;
        Some(Time(Timestamp::from_millis(millis)))
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Time, D::Error> {
        deserializer.deserialize_any(TimeVisitor)
    }
}

struct TimeVisitor;

impl Visitor<'_> for TimeVisitor {
    type Value = Time;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(A_TIME)
    }

    fn visit_u64<E>(self, millis: u64) -> Result<Time, E> {
        Ok(Time(Timestamp::from_millis(millis)))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Time, E> {
        Time::parse(text).ok_or_else(|| E::custom(A_TIME))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_a_time_are_read() {
        let expected = Some(Time(Timestamp::from_millis(1_785_312_000_250)));
        for text in ["1785312000250", "2026-07-29T08:00:00.250Z", "2026-07-29T10:00:00.25+02:00"] {
            assert_eq!(Time::parse(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_time_after_1970_is_refused() {
        for text in
            ["", "-1", "1.5", "soon", "2026-07-29", "2026-07-29T08:00:00", "1969-12-31T00:00:00Z"]
        {
            assert_eq!(Time::parse(text), None, "{text}");
        }
    }
}
