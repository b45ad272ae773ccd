//! Every rule can be broken, is reported with its number, and can be waived for a while.

use super::*;
use crate::backoff::Backoff;
use crate::budget::BudgetRules;
use crate::fault::Fault;
use crate::jitter::Jitter;
use crate::policy::Context;
use crate::ratio::Ratio;
use alloc::vec;
use core::time::Duration;

const NOW: Timestamp = Timestamp::from_secs(1_794_700_800); // 2026-11-15

fn waiver(rule: Rule, expires: &str) -> Waiver {
    Waiver {
        rule,
        approver: "the board".into(),
        reason: "a test".into(),
        expires: expires.parse().unwrap(),
    }
}

fn secs(values: &[u64]) -> Vec<Duration> {
    values.iter().copied().map(Duration::from_secs).collect()
}

/// A change to a conforming policy, and the rule and field that must be reported for it.
fn departures() -> Vec<(Rule, &'static str, PolicySpec)> {
    let sync = PolicySpec::sync_api;
    let budget = |change: fn(&mut BudgetRules)| {
        let mut rules = BudgetRules::default();
        change(&mut rules);
        PolicySpec { budget: Some(rules), ..sync() }
    };
    let initial = Duration::from_secs(1);
    let exponential = |initial, thousandths| PolicySpec {
        backoff: Backoff::Exponential { initial, multiplier: Ratio::from_thousandths(thousandths) },
        ..sync()
    };
    let third = Jitter::Proportional { ratio: Ratio::from_thousandths(300) };
    let webhook = PolicySpec::webhook;
    let day = Duration::from_secs(86_400);
    let mut ignoring = sync();
    ignoring.retry_after.honour = false;
    vec![
        (Rule::R1, "backoff", PolicySpec { backoff: Backoff::Fixed { delay: initial }, ..sync() }),
        (Rule::R1, "backoff", PolicySpec { backoff: Backoff::Linear { initial }, ..sync() }),
        (
            Rule::R1,
            "backoff",
            PolicySpec { backoff: Backoff::Schedule(secs(&[1, 2, 3])), ..sync() },
        ),
        (Rule::R1, "initialDelayMs", exponential(Duration::ZERO, 2_000)),
        (Rule::R1, "multiplier", exponential(initial, 1_000)),
        (Rule::R1, "multiplier", exponential(initial, 20_000)),
        (Rule::R1, "jitterType", PolicySpec { jitter: Jitter::None, ..sync() }),
        (Rule::R1, "jitterType", PolicySpec { jitter: Jitter::Equal, ..sync() }),
        (Rule::R1, "jitterType", PolicySpec { jitter: Jitter::Additive, ..sync() }),
        (Rule::R1, "jitterType", PolicySpec { jitter: third, ..sync() }),
        (Rule::R1, "jitterType", PolicySpec { jitter: Jitter::None, ..webhook() }),
        (Rule::R2, "maxAttempts", PolicySpec { max_attempts: 7, ..sync() }),
        (Rule::R2, "maxAttempts", PolicySpec { max_attempts: 1, ..sync() }),
        (Rule::R2, "maxAttempts", PolicySpec { max_attempts: 12, ..PolicySpec::async_event() }),
        (Rule::R2, "maxAttempts", PolicySpec { max_attempts: 3, ..webhook() }),
        (Rule::R3, "totalBudgetMs", PolicySpec { total_budget: Duration::from_secs(31), ..sync() }),
        (Rule::R3, "totalBudgetMs", PolicySpec { total_budget: day + initial, ..webhook() }),
        (
            Rule::R3,
            "scheduleMs",
            PolicySpec { backoff: Backoff::Schedule(secs(&[1, 5, 5, 9, 10])), ..webhook() },
        ),
        (
            Rule::R4,
            "retryableStatusCodes",
            PolicySpec { retryable_status_codes: Some([503, 404].into()), ..sync() },
        ),
        (
            Rule::R4,
            "retryableGrpcCodes",
            PolicySpec { retryable_grpc_codes: Some([14, 3].into()), ..sync() },
        ),
        (
            Rule::R4,
            "retryableFailures",
            PolicySpec { retryable_faults: Some([Fault::HttpParse].into()), ..sync() },
        ),
        (Rule::R5, "retryAfter.honour", ignoring),
        (Rule::R6, "assumeRepeatable", PolicySpec { assume_repeatable: true, ..sync() }),
        (Rule::R7, "budget", PolicySpec { budget: None, ..sync() }),
        (Rule::R7, "budget.ratio", budget(|rules| rules.ratio = Ratio::from_thousandths(201))),
        (Rule::R7, "budget.windowMs", budget(|rules| rules.window = Duration::from_secs(60))),
        (Rule::R7, "budget.burst", budget(|rules| rules.burst = 11)),
        (Rule::R7, "budget.floorRetries", budget(|rules| rules.floor_retries = 11)),
        (Rule::R8, "deadLetter", PolicySpec { dead_letter: false, ..webhook() }),
    ]
}

#[test]
fn every_departure_is_reported_with_its_rule_and_field() {
    for (rule, field, spec) in departures() {
        let found = Standard::check(&spec, NOW).violations;
        assert_eq!(found.len(), 1, "{field}: {found:#?}");
        assert_eq!((found[0].rule, found[0].field.as_str()), (Some(rule), field));
        assert!(found[0].fix.ends_with("or add a waiver for the rule"), "{}", found[0].fix);
        assert!(spec.build(NOW).is_err());
    }
}

#[test]
fn a_waiver_allows_a_departure_until_its_last_day_is_over() {
    for (rule, field, mut spec) in departures() {
        spec.waivers.push(waiver(rule, "2026-11-15"));
        let policy = spec.build(NOW).unwrap_or_else(|rejected| panic!("{field}: {rejected}"));
        assert_eq!(policy.waived(NOW).len(), 1);
        let midnight = NOW + Duration::from_secs(86_400);
        let expired = policy.violations(midnight);
        assert_eq!(expired.len(), 1);
        assert!(expired[0].fix.ends_with("the waiver expired on 2026-11-15"), "{}", expired[0].fix);
    }
}

#[test]
fn a_waiver_for_another_rule_does_not_help() {
    let waivers = vec![waiver(Rule::R2, "2099-12-31")];
    let spec = PolicySpec { budget: None, waivers, ..PolicySpec::sync_api() };
    let conformance = Standard::check(&spec, NOW);
    assert_eq!(conformance.violations.len(), 1);
    assert_eq!(conformance.idle_waivers.len(), 1);
}

#[test]
fn no_waiver_lets_a_bad_certificate_be_retried() {
    let spec = PolicySpec {
        retryable_faults: Some([Fault::Reset, Fault::TlsCertificate].into()),
        waivers: Rule::ALL.iter().map(|rule| waiver(*rule, "2099-12-31")).collect(),
        ..PolicySpec::sync_api()
    };
    let rejected = spec.build(NOW).unwrap_err();
    assert_eq!(rejected.problems.len(), 1);
    assert_eq!(rejected.problems[0].rule, Some(Rule::R9));
    assert!(rejected.problems[0].fix.ends_with("no waiver can allow it"));
}

#[test]
fn all_violations_are_reported_at_once() {
    let mut spec = PolicySpec {
        context: Context::Webhook,
        backoff: Backoff::Fixed { delay: Duration::ZERO },
        jitter: Jitter::None,
        max_attempts: 50,
        total_budget: Duration::from_secs(10 * 86_400),
        retryable_status_codes: Some([400, 401].into()),
        budget: None,
        dead_letter: false,
        assume_repeatable: true,
        ..PolicySpec::webhook()
    };
    spec.retry_after.honour = false;
    let rules: Vec<Rule> =
        Standard::check(&spec, NOW).violations.into_iter().filter_map(|found| found.rule).collect();
    use Rule::{R1, R2, R3, R4, R5, R6, R7, R8};
    assert_eq!(rules, [R1, R1, R2, R3, R4, R4, R5, R6, R7, R8]);
}

#[test]
fn narrowing_the_retryable_failures_is_allowed() {
    let spec = PolicySpec {
        retryable_status_codes: Some([503].into()),
        retryable_grpc_codes: Some([].into()),
        retryable_faults: Some([Fault::ConnectRefused].into()),
        ..PolicySpec::sync_api()
    };
    assert_eq!(spec.problems(NOW), []);
}
