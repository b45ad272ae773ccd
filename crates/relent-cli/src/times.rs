//! Times and durations as people read and write them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use relent_policy::Timestamp;

/// What time it is.
pub(crate) fn now() -> Timestamp {
    Timestamp::ZERO + SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// `2026-07-29T08:00:00.25Z`.
pub(crate) fn absolute(at: Timestamp) -> String {
    let millis = i64::try_from(at.as_millis()).unwrap_or(i64::MAX);
    jiff::Timestamp::from_millisecond(millis)
        .map_or_else(|_| millis.to_string(), |at| at.to_string())
}

/// `in 5 s`, `2 min ago`.
pub(crate) fn relative(at: Timestamp, now: Timestamp) -> String {
    let ahead = at.saturating_since(now);
    let past = now.saturating_since(at);
    if ahead.is_zero() && past < Duration::from_millis(1) {
        "now".to_owned()
    } else if ahead.is_zero() {
        format!("{} ago", short(past))
    } else {
        format!("in {}", short(ahead))
    }
}

/// Both.
pub(crate) fn both(at: Timestamp, now: Timestamp) -> String {
    format!("{} ({})", absolute(at), relative(at, now))
}

/// Three digits at most and one unit: `250 ms`, `1.5 s`, `12 min`, `1.2 h`.
pub(crate) fn short(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    let (value, unit) = match seconds {
        _ if duration.is_zero() => return "0".to_owned(),
        s if s < 0.000_999_5 => (s * 1e6, "µs"),
        s if s < 0.999_5 => (s * 1e3, "ms"),
        s if s < 119.5 => (s, "s"),
        s if s < 7_170.0 => (s / 60.0, "min"),
        s if s < 172_000.0 => (s / 3_600.0, "h"),
        s => (s / 86_400.0, "d"),
    };
    let places = match value {
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    };
    let text = format!("{value:.places$}");
    let text = if places > 0 { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text} {unit}")
}

/// `5s`, `2h30m`, `250ms`; for clap.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let expected = || format!("expected a duration such as 5s, 250ms or 2h30m, got {text:?}");
    let duration: jiff::SignedDuration = text.parse().map_err(|_| expected())?;
    Duration::try_from(duration).map_err(|_| expected())
}

/// RFC 3339; for clap.
pub(crate) fn parse_time(text: &str) -> Result<Timestamp, String> {
    let expected = || format!("expected a time such as 2026-07-29T08:00:00Z, got {text:?}");
    let at: jiff::Timestamp = text.parse().map_err(|_| expected())?;
    let millis = u64::try_from(at.as_millisecond()).map_err(|_| expected())?;
    Ok(Timestamp::from_millis(millis))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_short() {
        for (nanos, expected) in [
            (0, "0"),
            (1_500, "1.5 µs"),
            (250_000_000, "250 ms"),
            (999_600_000, "1 s"),
            (1_000_000_000, "1 s"),
            (1_234_567_890, "1.23 s"),
            (90_000_000_000, "90 s"),
            (900_000_000_000, "15 min"),
            (14_400_000_000_000, "4 h"),
            (604_800_000_000_000, "7 d"),
        ] {
            assert_eq!(short(Duration::from_nanos(nanos)), expected, "{nanos}");
        }
    }

    #[test]
    fn times_are_told_from_now() {
        let now = Timestamp::from_secs(1_000);
        assert_eq!(relative(now, now), "now");
        assert_eq!(relative(Timestamp::from_secs(1_005), now), "in 5 s");
        assert_eq!(relative(Timestamp::from_secs(400), now), "10 min ago");
        assert_eq!(absolute(Timestamp::from_millis(1_785_312_000_250)), "2026-07-29T08:00:00.25Z");
    }

    #[test]
    fn durations_are_read_as_people_write_them() {
        assert_eq!(parse_duration("2h30m"), Ok(Duration::from_secs(9_000)));
        assert_eq!(parse_duration("250ms"), Ok(Duration::from_millis(250)));
        assert!(parse_duration("-5s").is_err() && parse_duration("soon").is_err());
        assert_eq!(parse_time("1970-01-01T00:00:01Z"), Ok(Timestamp::from_secs(1)));
        assert!(parse_time("tomorrow").is_err());
    }
}
