//! Documents: what is left out, what is wrong, and that nothing is lost on the way.

use super::*;
use crate::jitter::Jitter;
use crate::policy::Context;
use alloc::format;
use core::time::Duration;
use proptest::prelude::*;
use serde_json::{Value, json};

const NOW: Timestamp = Timestamp::from_secs(1_794_700_800); // 2026-11-15

fn read(value: &Value) -> Result<Policy, Rejected> {
    Policy::from_document(&serde_json::from_value(value.clone()).unwrap(), NOW)
}

fn messages(value: &Value) -> Vec<String> {
    read(value).unwrap_err().problems.iter().map(ToString::to_string).collect()
}

#[test]
fn every_preset_survives_the_round_trip() {
    for spec in PolicySpec::presets() {
        let written = serde_json::to_string(&spec).unwrap();
        assert_eq!(serde_json::from_str::<PolicySpec>(&written).unwrap(), spec);
    }
}

#[test]
fn the_plain_retry_policy_of_the_standard_is_enough() {
    let policy = read(&json!({
        "policyId": "plain",
        "maxAttempts": 5,
        "initialDelayMs": 500,
        "multiplier": 2.0,
        "maxDelayMs": 20_000,
        "totalBudgetMs": 3_600_000,
        "jitterType": "DECORRELATED",
        "retryableStatusCodes": [429, 503],
    }))
    .unwrap();
    let spec = policy.spec();
    assert_eq!(spec.context, Context::AsyncEvent);
    assert_eq!(spec.jitter, Jitter::Decorrelated);
    assert_eq!(policy.ceiling(2), Duration::from_secs(1));
    assert!(spec.budget.is_some() && spec.breaker.is_some() && spec.dead_letter);
}

#[test]
fn the_kind_of_backoff_follows_from_its_parameters() {
    let kind = |value: Value| read(&value).unwrap().spec().backoff.name();
    let webhook = |extra: Value| {
        let mut value = json!({"policyId": "w", "context": "webhook"});
        value.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        value
    };
    assert_eq!(kind(webhook(json!({}))), "SCHEDULE");
    assert_eq!(kind(webhook(json!({"initialDelayMs": 1_000}))), "EXPONENTIAL");
    let schedule = webhook(json!({"maxAttempts": 4, "scheduleMs": [1_000, 2_000, 60_000]}));
    assert_eq!(kind(schedule.clone()), "SCHEDULE");
    let policy = read(&schedule).unwrap();
    assert_eq!(policy.spec().max_delay, Duration::from_secs(78), "room for 30 % of jitter");
}

#[test]
fn a_parameter_that_would_be_ignored_is_refused() {
    let found = messages(&json!({
        "policyId": "p", "context": "webhook", "backoff": "SCHEDULE",
        "initialDelayMs": 5, "multiplier": 2, "jitterType": "FULL", "jitterRatio": 0.1,
    }));
    assert_eq!(
        found,
        [
            "initialDelayMs must be left out with SCHEDULE, got a value",
            "multiplier must be left out with SCHEDULE, got a value",
            "jitterRatio must be left out with FULL, got a value",
        ]
    );
}

#[test]
fn everything_wrong_is_said_at_once_with_field_value_and_rule() {
    let found = messages(&json!({
        "policyId": "bad one",
        "maxAttempts": "four",
        "maxDelayMs": -1,
        "jitterType": "full",
        "totalBudgetMs": 1.5,
        "retryableStatusCodes": [503, "x", 200, 404],
        "classLimits": [{"failures": ["http_503", "flood"], "maxRetries": 2}],
        "budget": {"ratio": 0.5, "windowMs": 60_000, "brust": 5},
        "breaker": [],
        "deadLetter": "yes",
        "waivers": [{"rule": "seven", "approver": "", "reason": "x", "expires": "soon"}],
        "retrys": 3,
    }));
    let expected = [
        "maxAttempts must be a whole number, 0 to 4294967295, got \"four\"",
        "maxDelayMs must be a whole number of milliseconds, 0 or more, got -1",
        "jitterType must be FULL, DECORRELATED, EQUAL, ADDITIVE, PROPORTIONAL, NONE, got \"full\"",
        "totalBudgetMs must be a whole number of milliseconds, 0 or more, got 1.5",
        "retryableStatusCodes[1] must be an HTTP status, got \"x\"",
        "classLimits[0].failures[1] must be a failure, such as http_503, grpc_14 or connect_refused, got \"flood\"",
        "classLimits[0].maxElapsedMs must be given in a class limit, got nothing",
        "budget.brust must be a field of a policy; did you mean burst?, got an unknown field",
        "breaker must be an object, got a list of 0",
        "deadLetter must be true or false, got \"yes\"",
        "waivers[0].rule must be a rule from R-1 to R-10, got \"seven\"",
        "waivers[0].expires must be a day as YYYY-MM-DD, got \"soon\"",
        "retrys must be a field of a policy: policyId, context, maxAttempts, backoff, initialDelayMs, multiplier, scheduleMs, maxDelayMs, jitterType, jitterRatio, totalBudgetMs, attemptTimeoutMs, connectTimeoutMs, retryableStatusCodes, retryableGrpcCodes, retryableFailures, classLimits, retryAfter, budget, breaker, concurrency, deadLetter, assumeRepeatable, responsePreviewBytes, waivers, got an unknown field",
        "policyId must be 1 to 64 characters from A-Z a-z 0-9 _ - ., got \"bad one\" (R-10)",
        "retryableStatusCodes must be statuses from 100 to 599, not 2xx, got 200",
        "retryableStatusCodes must be from 408, 429, 500, 502, 503, 504, got 200 (R-4)",
        "retryableStatusCodes must be from 408, 429, 500, 502, 503, 504, got 404 (R-4)",
        "budget.ratio must be at most 0.2, got 0.5 (R-7)",
        "budget.windowMs must be at most 30000, got 60000 (R-7)",
    ];
    assert_eq!(found, expected);
}

#[test]
fn fields_that_stand_twice_are_refused() {
    let document: Document = serde_json::from_str(r#"{"policyId": "a", "policyId": "b"}"#).unwrap();
    let rejected = Policy::from_document(&document, NOW).unwrap_err();
    assert_eq!(rejected.problems[0].to_string(), "policyId must be given once, got a second one");
}

#[test]
fn what_is_not_an_object_is_refused() {
    for value in [json!(null), json!([]), json!("policy"), json!(7)] {
        assert_eq!(read(&value).unwrap_err().problems[0].field, "document", "{value}");
    }
}

#[test]
fn a_missing_id_is_a_problem() {
    assert_eq!(messages(&json!({})), ["policyId must be a name for the policy, got nothing"]);
}

#[test]
fn long_values_are_cut_in_messages() {
    let found = messages(&json!({"policyId": "p", "jitterType": "X".repeat(100_000)}));
    assert!(found[0].len() < 300, "{}", found[0].len());
}

/// JSON of every shape, biased towards a policy's own field names.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
        prop::sample::select(&["FULL", "SCHEDULE", "R-1", "2027-01-31", "http_503", "webhook"][..])
            .prop_map(Value::from),
    ];
    let name = prop_oneof![
        3 => prop::sample::select(&[
            "policyId", "context", "maxAttempts", "backoff", "initialDelayMs", "multiplier",
            "scheduleMs", "maxDelayMs", "jitterType", "jitterRatio", "totalBudgetMs",
            "attemptTimeoutMs", "retryableStatusCodes", "retryableFailures", "classLimits",
            "retryAfter", "budget", "breaker", "concurrency", "waivers", "ratio", "windowMs",
            "failures", "maxRetries", "rule", "expires",
        ][..]).prop_map(String::from),
        1 => ".{0,8}",
    ];
    leaf.prop_recursive(4, 64, 12, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(name.clone(), inner, 0..12)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn no_document_panics_and_refusals_say_why(value in any_json()) {
        if let Err(rejected) = read(&value) {
            prop_assert!(!rejected.problems.is_empty());
            for problem in &rejected.problems {
                prop_assert!(!problem.field.is_empty() && !problem.expected.is_empty() && !problem.fix.is_empty());
            }
        }
    }

    #[test]
    fn what_is_accepted_survives_the_round_trip(
        attempts in 4..=9_u32,
        initial in 10..5_000_u64,
        thousandths in 1_500..10_000_u32,
        jitter in prop::sample::select(&["FULL", "DECORRELATED"][..]),
        total in 10_000..86_400_000_u64,
        rate in prop::option::of(1..1_000_u32),
    ) {
        let policy = read(&json!({
            "policyId": format!("p{attempts}"), "context": "webhook", "maxAttempts": attempts,
            "initialDelayMs": initial, "multiplier": f64::from(thousandths) / 1_000.0,
            "jitterType": jitter, "totalBudgetMs": total,
            "concurrency": rate.map_or(json!({}), |rate| json!({"ratePerSecond": rate})),
        }));
        let policy = policy.map_err(|rejected| TestCaseError::fail(rejected.to_string()))?;
        let again = read(&serde_json::to_value(policy.spec()).unwrap());
        prop_assert_eq!(again.as_ref(), Ok(&policy));
    }
}
