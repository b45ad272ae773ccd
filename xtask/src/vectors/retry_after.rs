//! The header suite: what counts as a `Retry-After` value and how long it means.

use relent_policy::{IgnoredRetryAfter, Timestamp, read_retry_after};
use serde_json::{Value, json};

/// Sun, 15 Nov 2026 00:00:00 GMT.
const NOW: Timestamp = Timestamp::from_secs(1_794_700_800);

pub(super) fn suite() -> Value {
    let values = [
        "0",
        "1",
        "120",
        " 7 ",
        "\t7",
        "007",
        "604800",
        "",
        " ",
        "-5",
        "+5",
        "1.5",
        "5s",
        "0x10",
        "1e3",
        "soon",
        "5, 10",
        "５",
        "Sun, 15 Nov 2026 00:00:10 GMT",
        "Sun, 15 Nov 2026 23:59:60 GMT",
        "Sun, 15 Nov 2026 00:00:00 GMT",
        "Sat, 14 Nov 2026 23:59:59 GMT",
        "Mon, 15 Nov 2026 00:00:10 GMT",
        "Sunday, 15-Nov-26 00:01:00 GMT",
        "Friday, 05-Jun-77 00:00:00 GMT",
        "Tuesday, 01-Dec-26 00:00:00 GMT",
        "Sun Nov 15 00:00:30 2026",
        "Tue Dec  1 00:00:30 2026",
        "Tue Dec 01 00:00:30 2026",
        "Mon, 29 Feb 2027 00:00:00 GMT",
        "Tue, 29 Feb 2028 00:00:00 GMT",
        "Sun, 15 Nov 2026 24:00:00 GMT",
        "Sun, 15 Nov 2026 00:60:00 GMT",
        "Sun, 15 Nov 2026 00:00:61 GMT",
        "Sun, 15 Nov 2026 00:00 GMT",
        "sun, 15 nov 2026 00:00:10 gmt",
        "Sun, 15 Nov 2026 00:00:10 UTC",
        "Sun, 15 Nov 2026 00:00:10",
        "Sun, 5 Nov 2026 00:00:10 GMT",
        "Sun,  15 Nov 2026 00:00:10 GMT",
        "15 Nov 2026 00:00:10 GMT",
        "2026-11-15T00:00:10Z",
        "Thu, 01 Jan 1970 00:00:00 GMT",
        "Wed, 31 Dec 1969 23:59:59 GMT",
        "Thursday, 01-Jan-76 00:00:00 GMT",
        "Thursday, 31-Dec-76 00:00:00 GMT",
        "Xyz, 15 Nov 2026 00:00:10 GMT",
        "Sund, 15-Nov-26 00:01:00 GMT",
        "Tue Dec 1 00:00:30 2026",
        "Sun, 15 Nov 2026 12:30:60 GMT",
        "\n7",
        "7\u{a0}",
        "Sun, 31 Dec 9999 23:59:59 GMT",
    ];
    let dates = [
        "Sun, 15 Nov 2026 00:00:05 GMT",
        " Sun, 15 Nov 2026 00:00:05 GMT\t",
        "Sunday, 15-Nov-26 00:00:05 GMT",
        "yesterday",
    ];
    let plain = values.into_iter().map(|value| case(value, None));
    let dated = [values[18], values[20], values[26], "9"]
        .into_iter()
        .flat_map(|value| dates.into_iter().map(move |date| case(value, Some(date))));
    json!({ "version": 1, "cases": plain.chain(dated).collect::<Vec<_>>() })
}

fn case(value: &str, date: Option<&str>) -> Value {
    let name = match date {
        None => format!("{value:?}"),
        Some(date) => format!("{value:?} with Date {date:?}"),
    };
    let mut case =
        json!({ "name": name, "value": value, "date": date, "nowSecs": NOW.as_millis() / 1_000 });
    match read_retry_after(value, date, NOW) {
        Ok(wait) => case["waitSecs"] = json!(wait.as_secs()),
        Err(IgnoredRetryAfter::Malformed) => case["ignored"] = json!("malformed"),
        Err(IgnoredRetryAfter::Past) => case["ignored"] = json!("past"),
    }
    case
}
