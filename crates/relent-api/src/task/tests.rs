//! What may be asked for, and what a caller hears who asks for something else.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::problem::{Code, Place};

const NOW: Timestamp = Timestamp::from_secs(1_785_312_000);

fn parse(json: &str) -> Result<NewTask, Problem> {
    NewTask::parse(json.as_bytes(), None, &Limits::default(), NOW)
}

/// A POST that is fine, with these fields changed; null takes a field out.
fn with(changes: Value) -> String {
    let mut task = json!({"targetUrl": "https://a.example/hooks", "idempotencyKey": "k-1"});
    for (name, value) in changes.as_object().unwrap() {
        task[name] = value.clone();
    }
    task.to_string()
}

fn problem(changes: Value) -> Problem {
    parse(&with(changes)).unwrap_err()
}

fn pointers(problem: &Problem) -> Vec<&str> {
    problem
        .errors
        .iter()
        .map(|error| match &error.at {
            Place::Pointer(at) | Place::Parameter(at) | Place::Header(at) => at.as_str(),
        })
        .collect()
}

#[test]
fn a_task_needs_a_target_and_a_key_and_has_defaults_for_the_rest() {
    let task = parse(&with(json!({}))).unwrap();
    assert_eq!(task.target.as_str(), "https://a.example/hooks");
    assert_eq!(task.method, Method::Post);
    assert_eq!(task.policy_id, "webhook");
    assert_eq!(task.key.as_ref().unwrap().as_str(), "k-1");
    assert_eq!(task.dependency_name(), "https://a.example");
    assert_eq!(task.first, First::Now);
    assert!(task.headers.is_empty() && task.body.is_empty());
    assert_eq!(task.repeatable(), Repeatable::ByKey);
}

#[test]
fn every_field_is_kept() {
    let task = parse(&with(json!({
        "method": "PUT", "headers": {"Accept": "*/*"}, "body": "text", "policyId": "orders",
        "dependency": "billing", "correlationId": "c-1", "delayMs": 1500,
    })))
    .unwrap();
    assert_eq!(task.method, Method::Put);
    assert_eq!(task.headers, [("accept".to_owned(), "*/*".to_owned())]);
    assert_eq!(&task.body[..], b"text");
    assert_eq!(task.policy_id, "orders");
    assert_eq!(task.dependency_name(), "billing");
    assert_eq!(task.correlation_id.as_deref(), Some("c-1"));
    assert_eq!(task.first, First::After(Duration::from_millis(1_500)));
}

#[test]
fn bodies_are_sent_byte_for_byte() {
    let cases: [(&str, &[u8], bool); 8] = [
        (r#""body": "plain""#, b"plain", false),
        (r#""body": "a\n\"\u00e9""#, "a\n\"é".as_bytes(), false),
        (r#""body": "{\"json\":1}""#, br#"{"json":1}"#, false),
        (r#""body": {"b" : 1.50, "a": [ ]}"#, br#"{"b" : 1.50, "a": [ ]}"#, true),
        (r#""body":   [1,2]  "#, b"[1,2]", true),
        (r#""body": 1e400"#, b"1e400", true),
        (r#""body": null"#, b"", false),
        (r#""bodyBase64": "AP8Q""#, &[0, 255, 16], false),
    ];
    for (field, bytes, is_json) in cases {
        let json = format!(r#"{{"targetUrl":"http://a.b","idempotencyKey":"k",{field}}}"#);
        let task = parse(&json).unwrap();
        assert_eq!(&task.body[..], bytes, "{field}");
        let added = ("content-type".to_owned(), "application/json".to_owned());
        assert_eq!(task.headers.contains(&added), is_json, "{field}");
    }
}

#[test]
fn base64_may_leave_its_padding_out() {
    for text in ["AA==", "AA"] {
        let task = parse(&with(json!({"bodyBase64": text}))).unwrap();
        assert_eq!(&task.body[..], [0]);
    }
}

#[test]
fn a_content_type_that_was_given_stays() {
    let headers = json!({"Content-Type": "application/cloudevents+json"});
    let task = parse(&with(json!({"headers": headers, "body": {}}))).unwrap();
    assert_eq!(task.headers.len(), 1);
    assert_eq!(task.headers[0].1, "application/cloudevents+json");
}

#[test]
fn each_wrong_field_is_told_with_its_place() {
    let cases = [
        (json!({"targetUrl": null}), "/targetUrl", "the URL to call"),
        (json!({"targetUrl": 5}), "/targetUrl", "a URL"),
        (json!({"targetUrl": "ftp://a.b"}), "/targetUrl", "https:// or http://"),
        (json!({"method": "post"}), "/method", "did you mean POST?"),
        (json!({"method": 1}), "/method", "a method, such as POST"),
        (json!({"method": "TRACE"}), "/method", "GET, HEAD, POST"),
        (json!({"headers": []}), "/headers", "an object"),
        (json!({"headers": {"a/b": 1}}), "/headers/a~1b", "a text, or a list of texts"),
        (json!({"headers": {"host": "x"}}), "/headers/host", "left out"),
        (json!({"bodyBase64": "?"}), "/bodyBase64", "base64"),
        (json!({"body": "", "bodyBase64": ""}), "/bodyBase64", "left out when body is given"),
        (json!({"method": "GET", "body": {}}), "/body", "left out with GET"),
        (json!({"method": "HEAD", "bodyBase64": "AA=="}), "/bodyBase64", "left out with HEAD"),
        (json!({"idempotencyKey": "a b"}), "/idempotencyKey", "1 to 64 characters"),
        (json!({"idempotencyKey": ""}), "/idempotencyKey", "1 to 64 characters"),
        (json!({"idempotencyKey": 7}), "/idempotencyKey", "a text"),
        (json!({"policyId": "a b"}), "/policyId", "the id of a policy"),
        (json!({"dependency": ""}), "/dependency", "1 to 128 visible"),
        (json!({"dependency": "d".repeat(129)}), "/dependency", "1 to 128 visible"),
        (json!({"correlationId": "a\nb"}), "/correlationId", "1 to 128 visible"),
        (json!({"delayMs": -1}), "/delayMs", "0 or more"),
        (json!({"delayMs": 1.5}), "/delayMs", "0 or more"),
        (json!({"delayMs": 2_592_000_001_u64}), "/delayMs", "at most 2592000000 (30 days)"),
        (json!({"delayMs": u64::MAX}), "/delayMs", "at most 2592000000 (30 days)"),
        (json!({"delayMs": 1, "notBefore": 1}), "/notBefore", "left out when delayMs"),
        (json!({"notBefore": "tomorrow"}), "/notBefore", "RFC 3339"),
        (json!({"notBefore": "2027-01-01T00:00:00Z"}), "/notBefore", "at most 30 days from now"),
        (json!({"target_url": "x"}), "/target_url", "did you mean targetUrl?"),
        (json!({"colour": "x"}), "/colour", "a field of a task: targetUrl, method"),
    ];
    for (changes, pointer, expected) in cases {
        let problem = problem(changes.clone());
        assert_eq!(pointers(&problem), [pointer], "{changes}");
        assert!(problem.errors[0].expected.contains(expected), "{changes}: {:?}", problem.errors);
        assert_eq!(problem.status(), 422, "{changes}");
    }
}

#[test]
fn all_problems_are_told_at_once() {
    let json = r#"{"method": "PSOT", "headers": {"te": "x", "ok": 1}, "bodyBase64": 5,
        "polcyId": "p", "delayMs": "soon", "notBefore": 5, "notBefore": 6}"#;
    let problem = parse(json).unwrap_err();
    assert_eq!(
        pointers(&problem),
        [
            "/headers/ok",
            "/bodyBase64",
            "/delayMs",
            "/polcyId",
            "/notBefore",
            "/targetUrl",
            "/method",
            "/headers/te"
        ]
    );
    assert!(problem.detail.starts_with("8 problems; the first: "));
}

#[test]
fn what_is_no_json_object_is_told_by_line_or_by_kind() {
    for json in ["", "{", "nope", r#"{"a":1,}"#, r#"{"a":1} x"#] {
        assert_eq!(parse(json).unwrap_err().status(), 400, "{json}");
    }
    let problem = NewTask::parse(b"\xff", None, &Limits::default(), NOW).unwrap_err();
    assert_eq!(problem.code, Code::MalformedJson);
    let list = r#"["http://a.b","GET",null,null,null,null,null,null,null,null,null]"#;
    for json in ["[]", "5", "\"x\"", "null", r#"{"\ud800": 1}"#, list] {
        let problem = parse(json).unwrap_err();
        assert_eq!((problem.code, pointers(&problem)), (Code::InvalidRequest, vec![""]), "{json}");
    }
}

#[test]
fn post_and_patch_need_a_key_and_others_do_not() {
    for method in Method::ALL {
        let result = parse(&with(json!({"method": method, "idempotencyKey": null})));
        match result {
            Ok(_) => assert!(!method.needs_key(), "{method}"),
            Err(problem) => {
                assert!(method.needs_key(), "{method}");
                assert_eq!(problem.code, Code::MissingIdempotencyKey);
                assert_eq!(problem.status(), 400);
                assert_eq!(pointers(&problem), ["/idempotencyKey"]);
            }
        }
    }
}

#[test]
fn the_key_may_come_in_the_header_quoted_or_bare() {
    let without = with(json!({"idempotencyKey": null}));
    let parse =
        |json: &str, header| NewTask::parse(json.as_bytes(), Some(header), &Limits::default(), NOW);
    for header in ["h-1", "\"h-1\"", " h-1 "] {
        assert_eq!(parse(&without, header).unwrap().key.unwrap().as_str(), "h-1");
    }
    assert!(parse(&with(json!({})), "\"k-1\"").is_ok());
    let problem = parse(&with(json!({})), "k-2").unwrap_err();
    assert_eq!((problem.code, pointers(&problem)), (Code::InvalidRequest, vec!["/idempotencyKey"]));
    let problem = parse(&without, "no key").unwrap_err();
    assert_eq!(problem.errors[0].at, Place::Header("Idempotency-Key".to_owned()));
}

#[test]
fn bodies_beyond_the_limit_are_too_large_however_they_are_given() {
    let limits = Limits { body_bytes_max: 4, ..Limits::default() };
    let parse = |changes| NewTask::parse(with(changes).as_bytes(), None, &limits, NOW);
    let fits = [json!({"body": "1234"}), json!({"body": 1234}), json!({"bodyBase64": "AAAAAA=="})];
    for changes in fits {
        assert!(parse(changes.clone()).is_ok(), "{changes}");
    }
    let large =
        [json!({"body": "12345"}), json!({"body": 12345}), json!({"bodyBase64": "AAAAAAA="})];
    for changes in large {
        assert_eq!(parse(changes.clone()).unwrap_err().status(), 413, "{changes}");
    }
    let limits = Limits { request_bytes_max: 10, ..limits };
    let problem = NewTask::parse(&[b' '; 11], None, &limits, NOW).unwrap_err();
    assert_eq!(problem.code, Code::PayloadTooLarge);
}

#[test]
fn deep_bodies_are_refused_without_being_followed() {
    let deep = |levels: usize| {
        let body = "[".repeat(levels) + &"]".repeat(levels);
        format!(r#"{{"targetUrl":"http://a.b","idempotencyKey":"k","body":{body}}}"#)
    };
    assert!(parse(&deep(32)).is_ok());
    assert_eq!(pointers(&parse(&deep(33)).unwrap_err()), ["/body"]);
    assert!(parse(&deep(200_000)).is_err());
    let also_wrong = deep(32).replace("\"k\"", "7");
    assert_eq!(pointers(&parse(&also_wrong).unwrap_err()), ["/idempotencyKey"]);
}

#[test]
fn a_first_attempt_may_be_scheduled() {
    let soon = NOW.as_millis() + 60_000;
    let time = First::NotBefore(Timestamp::from_millis(soon));
    for not_before in [json!(soon), json!("2026-07-29T08:01:00Z"), json!(soon.to_string())] {
        assert_eq!(parse(&with(json!({"notBefore": not_before}))).unwrap().first, time);
    }
    assert_eq!(parse(&with(json!({"delayMs": 0}))).unwrap().first, First::Now);
    assert!(parse(&with(json!({"delayMs": 2_592_000_000_u64}))).is_ok());
}

#[test]
fn problems_and_debug_output_never_show_bodies_headers_or_credentials() {
    let secrets = [
        json!({"body": "hunter2", "bodyBase64": "hunter2"}),
        json!({"bodyBase64": "hunter2!"}),
        json!({"bodyBase64": {"x": "hunter2"}}),
        json!({"headers": "hunter2"}),
        json!({"headers": {"authorization": "hunter2\n"}}),
        json!({"headers": {"authorization": {"x": "hunter2"}}}),
        json!({"targetUrl": "https://u:hunter2@a.b/"}),
        json!({"targetUrl": ["https://u:hunter2@a.b/"]}),
        json!({"method": "GET", "body": "hunter2"}),
        json!({"password": "hunter2"}),
    ];
    for changes in secrets {
        let problem = problem(changes.clone());
        let told = format!("{problem} {problem:?} {}", serde_json::to_string(&problem).unwrap());
        assert!(!told.contains("hunter2"), "{told}");
    }
    let task = parse(&with(json!({"body": "hunter2", "headers": {"a": "hunter2"}}))).unwrap();
    assert!(!format!("{task:?}").contains("hunter2"));
}

#[test]
fn the_fingerprint_tells_what_matters_apart_and_nothing_else() {
    let of = |changes| parse(&with(changes)).unwrap().fingerprint();
    let base = of(json!({}));
    let same = [
        json!({"method": "POST"}),
        json!({"idempotencyKey": "other"}),
        json!({"correlationId": "c"}),
        json!({"targetUrl": "https://A.example:443/hooks"}),
        json!({"dependency": "https://a.example"}),
        json!({"policyId": "webhook", "delayMs": 0}),
    ];
    for changes in same {
        assert_eq!(of(changes.clone()), base, "{changes}");
    }
    let others = [
        json!({"method": "PUT"}),
        json!({"targetUrl": "https://a.example/hook"}),
        json!({"headers": {"a": "b"}}),
        json!({"headers": {"ab": ""}}),
        json!({"headers": {"a": ["b", "c"]}}),
        json!({"headers": {"a": ["c", "b"]}}),
        json!({"body": "x"}),
        json!({"body": {}}),
        json!({"policyId": "orders"}),
        json!({"dependency": "orders"}),
        json!({"delayMs": 1}),
        json!({"delayMs": 2}),
        json!({"notBefore": 1}),
    ];
    let mut seen = vec![base];
    for changes in others {
        let fingerprint = of(changes.clone());
        assert!(!seen.contains(&fingerprint), "{changes}");
        seen.push(fingerprint);
    }
    let (ab, ba) = (r#"{"a":"1","b":"2"}"#, r#"{"b":"2","a":"1"}"#);
    let of = |headers| of(json!({"headers": serde_json::from_str::<Value>(headers).unwrap()}));
    assert_eq!(of(ab), of(ba));
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[ -~é\u{0}]{0,12}".prop_map(Value::from),
        Just(json!("https://a.b/c")),
        Just(json!("GET")),
        Just(json!("AA==")),
        (0..3_u64).prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-z-]{0,8}", inner, 0..4).prop_map(Value::from_iter),
        ]
    })
}

/// Documents that look like tasks, repeated and unknown fields included.
fn any_task() -> impl Strategy<Value = String> {
    let names = prop::sample::select(vec![
        "targetUrl",
        "method",
        "headers",
        "body",
        "bodyBase64",
        "idempotencyKey",
        "policyId",
        "dependency",
        "correlationId",
        "delayMs",
        "notBefore",
        "targetURL",
        "",
    ]);
    prop::collection::vec((names, any_value()), 0..6).prop_map(|fields| {
        let fields: Vec<String> =
            fields.iter().map(|(name, value)| format!("{name:?}:{value}")).collect();
        format!(r#"{{"targetUrl":"https://a.b/","idempotencyKey":"k",{}}}"#, fields.join(","))
            .replace(",}", "}")
    })
}

proptest! {
    #[test]
    fn no_bytes_make_the_reader_panic(json: Vec<u8>, header: Option<String>) {
        let _ = NewTask::parse(&json, header.as_deref(), &Limits::default(), NOW);
    }

    #[test]
    fn no_json_makes_the_reader_panic(value in any_value()) {
        let _ = parse(&value.to_string());
    }

    #[test]
    fn both_ways_in_accept_the_same_and_say_the_same(json in any_task()) {
        let limits = Limits::default();
        let quick = serde_json::from_str(&json).ok().map(|Object(given)| given);
        let quick_accepts = quick.is_some();
        let mut quick_report = Report::default();
        let quick = quick
            .and_then(|given| check::check(given, None, &limits, NOW, &mut quick_report))
            .filter(|_| quick_report.is_empty());

        let mut report = Report::default();
        let thorough = json::value(&json)
            .ok()
            .and_then(|value| given::read_all(value, &mut report))
            .and_then(|given| check::check(given, None, &limits, NOW, &mut report))
            .filter(|_| report.is_empty());
        prop_assert_eq!(&quick, &thorough);
        prop_assert_eq!(&quick, &parse(&json).ok());
        if quick_accepts {
            prop_assert_eq!(quick_report.into_problem(), report.into_problem());
        } else {
            prop_assert!(!report.is_empty(), "refused without a reason: {}", json);
        }
    }
}
