//! The golden vectors, run through the engine. `vectors/README.md` says what they are.

use std::path::PathBuf;
use std::time::Duration;

use relent_policy::{
    Admission, Breaker, BreakerState, Budget, Class, Decision, Document, Failure, FailureKind,
    Gates, Health, Hint, History, IgnoredRetryAfter, Outcome, Policy, PolicySpec, Refusal,
    Timestamp, decide, read_retry_after,
};
use serde_json::{Value, json};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../vectors")
}

fn load(name: &str) -> Value {
    let text = std::fs::read_to_string(folder().join(name)).unwrap();
    let suite: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(suite["version"], 1);
    suite
}

fn cases(suite: &Value) -> &Vec<Value> {
    let cases = suite["cases"].as_array().unwrap();
    assert!(!cases.is_empty());
    cases
}

fn time(value: &Value) -> Timestamp {
    Timestamp::from_nanos(value.as_u64().unwrap())
}

fn roll(value: &Value) -> u64 {
    u64::from_str_radix(value.as_str().unwrap().strip_prefix("0x").unwrap(), 16).unwrap()
}

struct FixedGates {
    estimated_call: Duration,
    refuse: Option<Refusal>,
}

impl Gates for FixedGates {
    fn estimated_call(&self) -> Duration {
        self.estimated_call
    }

    fn reserve_retry(&mut self, _now: Timestamp, _roll: u64) -> Result<(), Refusal> {
        self.refuse.map_or(Ok(()), Err)
    }
}

fn outcome(value: &Value) -> Outcome {
    let Some(name) = value["failure"].as_str() else {
        assert_eq!(*value, json!({"success": true}));
        return Outcome::Success;
    };
    let kind = match name {
        "application_retryable" => FailureKind::Judged(Class::Retryable),
        "application_permanent" => FailureKind::Judged(Class::Permanent),
        "application_unknown" => FailureKind::Judged(Class::Unknown),
        // Not a code that gRPC knows, so policies cannot name it; servers can still send it.
        "grpc_17" => FailureKind::Grpc(17),
        name => name.parse().unwrap(),
    };
    let hint = match value["retryAfterNs"].as_u64() {
        Some(wait) => Hint::RetryAfter(Duration::from_nanos(wait)),
        None if value["stop"] == true => Hint::Stop,
        None => Hint::None,
    };
    Outcome::Failure(Failure { kind, hint })
}

fn gates(value: &Value, now: Timestamp) -> FixedGates {
    FixedGates {
        estimated_call: Duration::from_nanos(value["estimatedCallNs"].as_u64().unwrap()),
        refuse: value["refuse"].as_str().map(|name| match name {
            "budget" => Refusal::Budget,
            "breaker_open" => Refusal::BreakerOpen { until: now },
            other => panic!("{other}"),
        }),
    }
}

fn shown(decision: &Decision, history: &History) -> Value {
    match decision {
        Decision::Done => json!({"do": "done"}),
        Decision::GiveUp { because } => json!({"do": "give_up", "because": because.name()}),
        Decision::RetryAt { at, because, charge } => json!({
            "do": "retry", "atNs": at.as_nanos(), "because": because.to_string(), "next": history.charged(*charge),
        }),
    }
}

#[test]
fn every_decision_vector_is_met() {
    let mut count = 0;
    for file in std::fs::read_dir(folder().join("decide")).unwrap() {
        let name = file.unwrap().file_name().into_string().unwrap();
        let suite = load(&format!("decide/{name}"));
        for case in cases(&suite) {
            let document = &suite["policies"][case["policy"].as_str().unwrap()];
            let document: Document = serde_json::from_value(document.clone()).unwrap();
            let policy = Policy::from_document(&document, Timestamp::ZERO).unwrap();
            let history: History = serde_json::from_value(case["history"].clone()).unwrap();
            let now = time(&case["nowNs"]);
            let mut gates = gates(&case["gates"], now);
            let decision = decide(
                &policy,
                &history,
                &outcome(&case["outcome"]),
                &mut gates,
                now,
                roll(&case["roll"]),
            );
            assert_eq!(shown(&decision, &history), case["decision"], "{name}: {}", case["name"]);
            count += 1;
        }
    }
    assert!(count >= 500, "only {count} cases");
}

#[test]
fn every_header_vector_is_met() {
    for case in cases(&load("retry-after.json")) {
        let read = read_retry_after(
            case["value"].as_str().unwrap(),
            case["date"].as_str(),
            Timestamp::from_secs(case["nowSecs"].as_u64().unwrap()),
        );
        let mut expected = case.clone();
        expected.as_object_mut().unwrap().retain(|key, _| key == "waitSecs" || key == "ignored");
        let got = match read {
            Ok(wait) => json!({"waitSecs": wait.as_secs()}),
            Err(IgnoredRetryAfter::Malformed) => json!({"ignored": "malformed"}),
            Err(IgnoredRetryAfter::Past) => json!({"ignored": "past"}),
        };
        assert_eq!(got, expected, "{}", case["name"]);
    }
}

/// The rules of a trace, read as part of a policy.
fn spec_with(field: &str, rules: &Value) -> PolicySpec {
    serde_json::from_value(json!({"policyId": "trace", field: rules})).unwrap()
}

fn health(name: &str) -> Health {
    match name {
        "alive" => Health::Alive,
        "failing" => Health::Failing,
        "no_signal" => Health::NoSignal,
        other => panic!("{other}"),
    }
}

#[test]
fn every_budget_vector_is_met() {
    for case in cases(&load("budget.json")) {
        let mut budget = Budget::new(spec_with("budget", &case["rules"]).budget.unwrap());
        let mut granted = Vec::new();
        for (index, event) in case["trace"].as_array().unwrap().iter().enumerate() {
            let now = time(&event[0]);
            match event[1].as_str().unwrap() {
                "first" => budget.count_first_attempt(now),
                "retry" => {
                    let taken = budget.try_retry(now);
                    assert_eq!(event[2], taken.is_ok(), "{}: event {index}", case["name"]);
                    granted.extend(taken);
                }
                "give_back" => budget.give_back(granted.pop().unwrap(), now),
                name => budget.note(health(name)),
            }
        }
    }
}

#[test]
fn every_breaker_vector_is_met() {
    for case in cases(&load("breaker.json")) {
        let mut breaker = Breaker::new(spec_with("breaker", &case["rules"]).breaker.unwrap());
        for (index, event) in case["trace"].as_array().unwrap().iter().enumerate() {
            let now = time(&event[0]);
            let where_ = format!("{}: event {index}", case["name"]);
            match event[1].as_str().unwrap() {
                "admit" => {
                    let got = match breaker.admit(now) {
                        Ok(Admission::Normal) => json!("normal"),
                        Ok(Admission::Probe) => json!("probe"),
                        Err(refused) => json!(refused.until.as_nanos()),
                    };
                    assert_eq!(got, event[2], "{where_}");
                }
                "record" => {
                    let admission =
                        if event[2] == "probe" { Admission::Probe } else { Admission::Normal };
                    breaker.record(
                        admission,
                        health(event[3].as_str().unwrap()),
                        now,
                        roll(&event[4]),
                    );
                }
                "exhausted" => breaker.budget_exhausted(now, roll(&event[2])),
                "state" => {
                    let got = match breaker.state(now) {
                        BreakerState::Closed => "closed",
                        BreakerState::Open => "open",
                        BreakerState::HalfOpen => "half_open",
                    };
                    assert_eq!(event[2], got, "{where_}");
                }
                other => panic!("{other}"),
            }
        }
    }
}
