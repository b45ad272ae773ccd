//! What callers see of a refusal.

use relent_policy::{Document, Policy, Timestamp};
use serde_json::{Value, json};

use super::*;

#[test]
fn a_problem_is_written_as_rfc_9457_has_it() {
    let error = FieldError::new(Place::Pointer("/delayMs".to_owned()), "-1", "0 or more");
    let problem = Problem::new(Code::InvalidRequest, "one problem").with_error(error);
    assert_eq!(
        serde_json::to_value(&problem).unwrap(),
        json!({
            "type": "https://relent.dev/problems/invalid_request",
            "title": "Invalid request",
            "status": 422,
            "code": "invalid_request",
            "detail": "one problem",
            "errors": [{
                "pointer": "/delayMs",
                "expected": "0 or more",
                "got": "-1",
                "detail": "delayMs must be 0 or more, got -1",
            }],
        })
    );
}

#[test]
fn problems_survive_the_wire() {
    for code in Code::ALL {
        let mut problem = Problem::new(*code, "why").about_task("t").retry_after(7);
        for at in [Place::Parameter("limit".into()), Place::Header("Idempotency-Key".into())] {
            problem.errors.push(FieldError::new(at, "x", "y"));
        }
        let json = serde_json::to_string(&problem).unwrap();
        assert_eq!(serde_json::from_str::<Problem>(&json).unwrap(), problem);
    }
}

#[test]
fn what_was_there_is_cut() {
    let at = Place::Parameter("status".to_owned());
    assert_eq!(FieldError::new(at, &"é".repeat(500), "short").got.chars().count(), 61);
}

#[test]
fn a_refused_policy_tells_every_place_with_rule_and_fix() {
    let document: Document = serde_json::from_value(json!({
        "policyId": "p", "maxAttemps": 4, "budget": null,
        "waivers": [{"rule": "R-2", "approver": "a", "reason": "r", "expires": "soon"}],
    }))
    .unwrap();
    let rejected = Policy::from_document(&document, Timestamp::ZERO).unwrap_err();
    let problem = Problem::from(rejected);
    assert_eq!(problem.status(), 422);
    let json = serde_json::to_value(&problem).unwrap();
    let errors = json["errors"].as_array().unwrap();
    let pointers: Vec<&Value> = errors.iter().map(|error| &error["pointer"]).collect();
    assert_eq!(pointers, ["/waivers/0/expires", "/maxAttemps", "/budget"]);
    assert_eq!(errors[2]["rule"], "R-7");
    assert!(errors.iter().all(|error| error["fix"].is_string()));
}

#[test]
fn a_policy_that_is_no_object_is_wrong_as_a_whole() {
    let rejected = Policy::from_document(&Document::Null, Timestamp::ZERO).unwrap_err();
    assert_eq!(Problem::from(rejected).errors[0].at, Place::Pointer(String::new()));
}
