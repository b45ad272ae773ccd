//! Reading `Retry-After`: both forms of RFC 9110, section 10.2.3, and nothing else. REQ-A1, REQ-A2.
//!
//! Lenient readers have turned `-5` into a year, `1.5` into May and a past date into an immediate
//! retry. Here only digits or an HTTP-date count; everything else is ignored, and says so, so that
//! it can be counted. What remains is a floor: the engine waits at least that long.

use core::fmt;
use core::time::Duration;

use crate::calendar::parse_http_date;
use crate::time::Timestamp;

/// Why a `Retry-After` value is ignored. The backoff decides alone then.
///
/// ```
/// use relent_policy::{IgnoredRetryAfter, Timestamp, read_retry_after};
///
/// let ignored = read_retry_after("-5", None, Timestamp::ZERO).unwrap_err();
/// assert_eq!(ignored, IgnoredRetryAfter::Malformed);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IgnoredRetryAfter {
    /// Neither a whole number of seconds nor an HTTP-date.
    Malformed,
    /// A date that has passed.
    Past,
}

impl fmt::Display for IgnoredRetryAfter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            IgnoredRetryAfter::Malformed => "expected whole seconds or an HTTP-date",
            IgnoredRetryAfter::Past => "the date has passed",
        })
    }
}

impl core::error::Error for IgnoredRetryAfter {}

/// How long a server asks to be left alone.
///
/// `date` is the response's own `Date` header: a date in `Retry-After` is measured from it when it
/// is readable, so that a skewed clock on either side cancels out, and from `now` otherwise.
///
/// ```
/// use core::time::Duration;
/// use relent_policy::{Timestamp, read_retry_after};
///
/// let now = Timestamp::from_secs(0); // this machine's clock is half a century slow
/// let wait = read_retry_after(
///     "Sun, 06 Nov 1994 08:49:47 GMT",
///     Some("Sun, 06 Nov 1994 08:49:37 GMT"),
///     now,
/// );
/// assert_eq!(wait, Ok(Duration::from_secs(10)));
/// assert_eq!(read_retry_after("120", None, now), Ok(Duration::from_secs(120)));
/// ```
///
/// # Errors
///
/// When the value is to be ignored, and why.
pub fn read_retry_after(
    value: &str,
    date: Option<&str>,
    now: Timestamp,
) -> Result<Duration, IgnoredRetryAfter> {
    let value = value.trim_matches([' ', '\t']);
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        // Only an overflow can fail here; for ever is close enough to it.
        return Ok(Duration::from_secs(value.parse().unwrap_or(u64::MAX)));
    }
    let until = parse_http_date(value, now).ok_or(IgnoredRetryAfter::Malformed)?;
    let from = date
        .and_then(|date| parse_http_date(date.trim_matches([' ', '\t']), now))
        .map_or(Duration::from_nanos(now.as_nanos()), Duration::from_secs);
    match Duration::from_secs(until).checked_sub(from) {
        None | Some(Duration::ZERO) => Err(IgnoredRetryAfter::Past),
        Some(wait) => Ok(wait),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::string::String;

    const NOW: Timestamp = Timestamp::from_secs(784_111_777); // Sun, 06 Nov 1994 08:49:37 GMT

    #[test]
    fn both_forms_are_read() {
        let cases = [
            ("0", 0),
            ("5", 5),
            (" 5\t", 5),
            ("007", 7),
            ("99999999999999999999999999", u64::MAX),
            ("Sun, 06 Nov 1994 08:50:37 GMT", 60),
            ("Sunday, 06-Nov-94 08:50:37 GMT", 60),
            ("Sun Nov  6 08:50:37 1994", 60),
        ];
        for (value, secs) in cases {
            assert_eq!(
                read_retry_after(value, None, NOW),
                Ok(Duration::from_secs(secs)),
                "{value}"
            );
        }
    }

    #[test]
    fn nonsense_is_ignored_with_its_reason() {
        for value in ["", "-5", "1.5", "+5", "5s", "0x10", "soon", "5, 10", "５", "1e3"] {
            let ignored = Err(IgnoredRetryAfter::Malformed);
            assert_eq!(read_retry_after(value, None, NOW), ignored, "{value}");
        }
        for value in ["Sun, 06 Nov 1994 08:49:37 GMT", "Sat, 05 Nov 1994 08:49:37 GMT"] {
            assert_eq!(read_retry_after(value, None, NOW), Err(IgnoredRetryAfter::Past), "{value}");
        }
    }

    #[test]
    fn an_unreadable_date_header_falls_back_to_our_clock() {
        let wait = read_retry_after("Sun, 06 Nov 1994 08:49:40 GMT", Some("yesterday"), NOW);
        assert_eq!(wait, Ok(Duration::from_secs(3)));
    }

    proptest! {
        #[test]
        fn no_header_panics(value in any::<String>(), date in any::<Option<String>>(), at in any::<u64>()) {
            let _ = read_retry_after(&value, date.as_deref(), Timestamp::from_nanos(at));
        }

        #[test]
        fn digits_are_taken_at_their_word(secs in any::<u64>(), at in any::<u64>()) {
            let wait = read_retry_after(&std::format!("{secs}"), None, Timestamp::from_nanos(at));
            prop_assert_eq!(wait, Ok(Duration::from_secs(secs)));
        }
    }
}
