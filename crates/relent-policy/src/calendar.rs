//! Dates as the wire writes them: HTTP-dates and the plain `2027-01-31` of a waiver.
//!
//! The three HTTP-date forms of RFC 9110, section 5.6.7, are read strictly and case-sensitively.
//! `httpdate` does the same with `std`; it is the oracle of this file's tests.

use crate::time::{NANOS_PER_SEC, Timestamp};

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const LONG_DAYS: [&str; 7] =
    ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/// Seconds since the epoch of an HTTP-date in any of its three forms. `now` settles the century
/// of a two-digit year: more than 50 years ahead means the century before.
pub(crate) fn parse_http_date(text: &str, now: Timestamp) -> Option<u64> {
    let parts: [&str; 6] = split(text)?;
    match parts {
        [day, date, month, year, time, "GMT"] if day.len() == 4 => {
            DAYS.contains(&day.strip_suffix(',')?).then_some(())?;
            seconds(fixed(year, 4)?, month_number(month)?, fixed(date, 2)?, time)
        }
        [day, date, time, "GMT", "", ""] => {
            LONG_DAYS.contains(&day.strip_suffix(',')?).then_some(())?;
            let mut fields = date.split('-');
            let (date, month, year) = (fields.next()?, fields.next()?, fields.next()?);
            fields.next().is_none().then_some(())?;
            let year = century(fixed(year, 2)?, now);
            seconds(year, month_number(month)?, fixed(date, 2)?, time)
        }
        // asctime pads a one-digit day with a second space, which is an empty part here.
        [day, month, "", date, time, year] => {
            DAYS.contains(&day).then_some(())?;
            seconds(fixed(year, 4)?, month_number(month)?, fixed(date, 1)?, time)
        }
        [day, month, date, time, year, ""] => {
            DAYS.contains(&day).then_some(())?;
            seconds(fixed(year, 4)?, month_number(month)?, fixed(date, 2)?, time)
        }
        _ => None,
    }
}

/// The first moment after the day `YYYY-MM-DD` (UTC) has ended.
pub(crate) fn end_of_day(text: &str) -> Option<Timestamp> {
    let mut fields = text.split('-');
    let (year, month, date) = (fields.next()?, fields.next()?, fields.next()?);
    fields.next().is_none().then_some(())?;
    let days = days_since_epoch(fixed(year, 4)?, fixed(month, 2)?, fixed(date, 2)?)?;
    Some(Timestamp::from_nanos((days + 1).saturating_mul(86_400).saturating_mul(NANOS_PER_SEC)))
}

/// Up to six parts between single spaces, the missing ones empty.
fn split(text: &str) -> Option<[&str; 6]> {
    let mut parts = [""; 6];
    for (index, part) in text.split(' ').enumerate() {
        *parts.get_mut(index)? = part;
    }
    Some(parts)
}

fn seconds(year: u64, month: u64, date: u64, time: &str) -> Option<u64> {
    let mut fields = time.split(':');
    let (hour, minute, second) = (fields.next()?, fields.next()?, fields.next()?);
    fields.next().is_none().then_some(())?;
    let (hour, minute, second) = (fixed(hour, 2)?, fixed(minute, 2)?, fixed(second, 2)?);
    // A leap second (:60) counts as the first of the next minute.
    (hour < 24 && minute < 60 && second <= 60).then_some(())?;
    Some(days_since_epoch(year, month, date)? * 86_400 + hour * 3_600 + minute * 60 + second)
}

fn days_since_epoch(year: u64, month: u64, date: u64) -> Option<u64> {
    (year >= 1970 && (1..=12).contains(&month)).then_some(())?;
    (1..=days_in(year, month)).contains(&date).then_some(())?;
    // Counting from March puts the leap day last (Hinnant, "chrono-compatible date algorithms").
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year / 400, year % 400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + date - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    Some(era * 146_097 + day_of_era - 719_468)
}

fn days_in(year: u64, month: u64) -> u64 {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        2 => 28 + u64::from(leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn month_number(name: &str) -> Option<u64> {
    MONTHS.iter().position(|month| *month == name).and_then(|at| u64::try_from(at + 1).ok())
}

/// A number of exactly `width` decimal digits.
fn fixed(text: &str, width: usize) -> Option<u64> {
    (text.len() == width && text.bytes().all(|b| b.is_ascii_digit())).then_some(())?;
    text.parse().ok()
}

fn century(two_digits: u64, now: Timestamp) -> u64 {
    // 31,556,952 s is the mean Gregorian year; the rule has 50 years of tolerance.
    let this_year = 1970 + now.as_nanos() / NANOS_PER_SEC / 31_556_952;
    let guess = this_year / 100 * 100 + two_digits;
    if guess > this_year + 50 { guess - 100 } else { guess }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{format, string::String};
    use proptest::prelude::*;
    use std::time::{Duration, UNIX_EPOCH};

    const NOW: Timestamp = Timestamp::from_secs(1_794_787_200); // 2026-11-16

    #[test]
    fn the_three_forms_of_rfc_9110_mean_the_same_moment() {
        for text in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
        ] {
            assert_eq!(parse_http_date(text, NOW), Some(784_111_777), "{text}");
        }
        assert_eq!(parse_http_date("Wed Nov 16 08:49:37 1994", NOW), Some(784_975_777));
    }

    #[test]
    fn a_two_digit_year_is_at_most_fifty_years_ahead() {
        let year = |text| parse_http_date(text, NOW).map(|s| 1970 + s / 31_556_952);
        assert_eq!(year("Friday, 05-Jun-76 08:00:00 GMT"), Some(2076));
        assert_eq!(year("Friday, 05-Jun-77 08:00:00 GMT"), Some(1977));
    }

    #[test]
    fn malformed_dates_are_refused() {
        for text in [
            "",
            "Sun, 06 Nov 1994 08:49:37",
            "Sun, 06 Nov 1994 08:49:37 UTC",
            "sun, 06 nov 1994 08:49:37 gmt",
            "Sun, 6 Nov 1994 08:49:37 GMT",
            "Sun, 31 Feb 2027 08:49:37 GMT",
            "Sun, 06 Nov 1994 24:00:00 GMT",
            "Sun, 06 Nov 1994 08:60:00 GMT",
            "Sun, 06 Nov 1994 08:49:37 GMT ",
            "Sun, 06 Nov 1969 08:49:37 GMT",
            "Son, 06 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 08:49 GMT",
            "Sun, 06 Nov 1994  08:49:37 GMT",
            "2026-11-16T00:00:00Z",
        ] {
            assert_eq!(parse_http_date(text, NOW), None, "{text}");
        }
    }

    #[test]
    fn a_day_ends_when_the_next_begins() {
        assert_eq!(end_of_day("1970-01-01"), Some(Timestamp::from_secs(86_400)));
        assert_eq!(end_of_day("2026-11-15"), Some(NOW));
        for text in ["2026-2-01", "2026-02-30", "26-02-01", "2026-13-01", "2026-02-01-", "today"] {
            assert_eq!(end_of_day(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn agrees_with_httpdate_on_every_second(secs in 0..253_402_300_799_u64) {
            let written = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(secs));
            prop_assert_eq!(parse_http_date(&written, NOW), Some(secs));
        }

        #[test]
        fn whatever_it_accepts_httpdate_accepts_too(text in "[A-Z][a-z]{2},? [ 0-9A-Za-z:-]{10,26}(GMT)?") {
            if let Some(secs) = parse_http_date(&text, NOW) {
                prop_assert!(httpdate::parse_http_date(&text).is_ok(), "{} -> {}", text, secs);
            }
        }

        #[test]
        fn no_text_panics(text in any::<String>(), at in any::<u64>()) {
            let _ = parse_http_date(&text, Timestamp::from_nanos(at));
            let _ = end_of_day(&format!("{text}-01-01"));
        }
    }
}
