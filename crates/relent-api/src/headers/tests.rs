//! Which headers a task may have.

use super::*;

fn check(json: &str, limits: &Limits) -> (Vec<(String, String)>, Report) {
    let mut report = Report::default();
    let given: GivenHeaders<'_> = serde_json::from_str(json).unwrap();
    let lines = given.check(limits, &mut report);
    (lines, report)
}

fn complaint(json: &str) -> String {
    let (_, report) = check(json, &Limits::default());
    report.into_problem().errors.first().map_or_else(String::new, |error| error.detail.clone())
}

#[test]
fn names_are_kept_in_lower_case_and_lists_in_order() {
    let json = r#"{"X-Trace": "a", "Accept": ["text/html", "*/*"], "x-none": [], "x-empty": ""}"#;
    let (lines, report) = check(json, &Limits::default());
    assert!(report.is_empty());
    let lines: Vec<_> = lines.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
    assert_eq!(
        lines,
        [("x-trace", "a"), ("accept", "text/html"), ("accept", "*/*"), ("x-empty", "")]
    );
}

#[test]
fn framing_and_reserved_headers_are_refused_in_any_case() {
    let names = [
        "host",
        "Content-Length",
        "TRANSFER-ENCODING",
        "connection",
        "keep-alive",
        "proxy-authorization",
        "Proxy-Connection",
        "te",
        "trailer",
        "upgrade",
        "expect",
        "HTTP2-Settings",
        "idempotency-key",
        "Retry-Attempt",
        "retry-max-attempts",
        "retry-previous-status",
        ":authority",
        "",
        "a b",
        "é",
    ];
    for name in names {
        let json = format!(r#"{{"{name}": "v"}}"#);
        assert!(!complaint(&json).is_empty(), "{name:?}");
    }
    assert!(complaint(r#"{"Idempotency-Key": "k"}"#).contains("a field of its own"));
}

#[test]
fn webhook_and_trace_headers_pass() {
    let json = r#"{"webhook-id": "a", "traceparent": "b", "tracestate": "c", "retry-after": "1"}"#;
    assert_eq!(complaint(json), "");
}

#[test]
fn values_that_could_break_out_are_refused_and_not_shown() {
    for value in [r"hunter2\r\nx: y", r"hunter2\u0000", "hunter2é", r"hunter2\u007f"] {
        let complaint = complaint(&format!(r#"{{"x": "{value}"}}"#));
        assert!(complaint.contains("visible ASCII"), "{complaint}");
        assert!(!complaint.contains("hunter2"), "{complaint}");
    }
    assert_eq!(complaint(r#"{"x": "a\tb ~"}"#), "");
}

#[test]
fn a_name_that_is_given_twice_is_refused() {
    for json in [r#"{"x": "1", "X": "2"}"#, r#"{"x": "1", "x": ["2"]}"#, r#"{"x":["1"],"x":["2"]}"#]
    {
        assert!(complaint(json).contains("given once"), "{json}");
    }
}

#[test]
fn every_limit_holds() {
    let limits = Limits {
        headers_max: 3,
        header_name_bytes_max: 4,
        header_value_bytes_max: 5,
        headers_bytes_max: 12,
        ..Limits::default()
    };
    let cases = [
        (r#"{"a": "1", "b": "2", "c": "3"}"#, None),
        (r#"{"a": ["1", "2", "3", "4"]}"#, Some("at most 3 headers")),
        (r#"{"abcd": "12345"}"#, None),
        (r#"{"abcde": "1"}"#, Some("a name of 1 to 4")),
        (r#"{"a": "123456"}"#, Some("a text of at most 5 bytes")),
        (r#"{"abcd": "12345", "ab": "12"}"#, Some("at most 12 bytes in all")),
    ];
    for (json, expected) in cases {
        let (_, report) = check(json, &limits);
        match expected {
            None => assert!(report.is_empty(), "{json}"),
            Some(text) => assert!(report.into_problem().detail.contains(text), "{json}"),
        }
    }
}

#[test]
fn headers_of_other_shapes_are_reported_one_by_one() {
    let value: &RawValue =
        serde_json::from_str(r#"{"a": 1, "b": "fine", "c": [1], "d": null}"#).unwrap();
    let mut report = Report::default();
    let given = GivenHeaders::read(value, &mut report).unwrap();
    assert_eq!(given.0.len(), 1);
    let pointers: Vec<_> = report.into_problem().errors.into_iter().map(|it| it.at).collect();
    assert_eq!(pointers.len(), 3);
    assert_eq!(pointers[2], crate::Place::Pointer("/headers/d".to_owned()));
}

#[test]
fn what_carries_secrets_is_hidden() {
    let hidden = [
        "authorization",
        "cookie",
        "x-api-key",
        "X-Auth-Token",
        "client-secret",
        "x-password-hash",
        "webhook-signature",
        "my-api-key",
    ];
    for name in hidden {
        let shown = redacted_headers(&[(name.to_owned(), "hunter2".to_owned())]);
        assert_eq!(shown[name], HeaderText::One(REDACTED.to_owned()), "{name}");
    }
    let twice = [("a".to_owned(), "1".to_owned()), ("a".to_owned(), "2".to_owned())];
    assert_eq!(
        redacted_headers(&twice)["a"],
        HeaderText::Many(vec!["1".to_owned(), "2".to_owned()])
    );
}
