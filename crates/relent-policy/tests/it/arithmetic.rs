//! The numbers that the standard and its sources argue with, reproduced by the engine.
//!
//! Each caller retries at once and keeps its verdict: the storm in its purest form, where only the
//! budget stands between the callers and the dependency. REQ-X1, REQ-G1.

use std::time::Duration;

use relent_policy::{
    Backoff, BudgetRules, Decision, Expiry, History, Jitter, Lane, Outcome, Policy, PolicySpec,
    Ratio, Repeatable, Rule, Timestamp, Turn, decide,
};

/// Immediate retries with or without a budget, and no breaker: what the arithmetic assumes.
fn policy(retries: u32, budget: Option<BudgetRules>) -> Policy {
    let expires: Expiry = "2099-12-31".parse().unwrap();
    let waiver = |rule: &Rule| relent_policy::Waiver {
        rule: *rule,
        approver: "the arithmetic".into(),
        reason: "to count without waiting".into(),
        expires: expires.clone(),
    };
    let mut spec = PolicySpec {
        max_attempts: retries + 1,
        backoff: Backoff::Fixed { delay: Duration::ZERO },
        jitter: Jitter::None,
        budget,
        breaker: None,
        waivers: [Rule::R1, Rule::R7].iter().map(waiver).collect(),
        ..PolicySpec::sync_api()
    };
    spec.concurrency.in_flight_max = 100_000;
    spec.concurrency.retries_in_flight_max = 100_000;
    spec.build(Timestamp::ZERO).unwrap()
}

/// Requests in each second, when `rate` operations a second begin and `fails` says which of them
/// fail for good.
fn requests(policy: &Policy, rate: u64, secs: u64, fails: impl Fn(u64) -> bool) -> Vec<u64> {
    let mut lane = Lane::new(policy);
    let mut per_second = vec![0; usize::try_from(secs).unwrap()];
    for n in 0..rate * secs {
        let now = Timestamp::from_nanos(n * 1_000_000_000 / rate);
        let outcome = if fails(n) { Outcome::http(503) } else { Outcome::Success };
        let mut history = History::start(now, Repeatable::ByMethod);
        loop {
            history = history.begin_attempt();
            let pass = lane.admit(Turn::of_attempt(history.attempts()), now).unwrap();
            per_second[usize::try_from(n / rate).unwrap()] += 1;
            lane.finish(pass, &outcome, now, 0);
            match decide(policy, &history, &outcome, &mut lane.gates(), now, 0) {
                Decision::RetryAt { charge, .. } => history = history.charged(charge),
                _ => break,
            }
        }
    }
    per_second
}

/// Requests a second over the last 30 s, rounded to the nearest.
fn steady(per_second: &[u64]) -> u64 {
    let tail: u64 = per_second[per_second.len() - 30..].iter().sum();
    (tail + 15) / 30
}

#[test]
fn half_failing_for_good_with_three_retries_is_2500_without_a_budget() {
    let per_second = requests(&policy(3, None), 1_000, 5, |n| n % 2 == 0);
    assert_eq!(per_second, [2_500; 5]);
}

#[test]
fn half_failing_for_good_with_three_retries_is_1200_with_the_budget() {
    let budget = Some(BudgetRules::default());
    let per_second = requests(&policy(3, budget), 1_000, 90, |n| n % 2 == 0);
    assert_eq!(steady(&per_second), 1_200);
    assert!(per_second.iter().all(|requests| *requests <= 1_220), "{per_second:?}");
}

#[test]
fn a_hundred_clients_with_five_retries_are_600_or_120() {
    let all_fail = |_| true;
    assert_eq!(requests(&policy(5, None), 100, 3, all_fail), [600; 3]);
    let budget = Some(BudgetRules { floor_retries: 0, ..BudgetRules::default() });
    let per_second = requests(&policy(5, budget), 100, 90, all_fail);
    assert_eq!(steady(&per_second), 120);
}

#[test]
fn a_total_outage_peaks_below_a_quarter_more_and_settles_at_a_fifth() {
    let budget = Some(BudgetRules::default());
    let outage_after_a_minute = |n| n >= 60_000;
    let per_second = requests(&policy(3, budget), 1_000, 180, outage_after_a_minute);
    assert!(per_second[..60].iter().all(|requests| *requests == 1_000));
    let peak = per_second.iter().max().unwrap();
    assert!(*peak <= 1_250, "the worst second had {peak}");
    assert_eq!(steady(&per_second), 1_200);
}

#[test]
fn counted_against_all_requests_it_would_be_1250() {
    // R-7 can also be read as 20 % of all requests, retries included; that is a quarter of the
    // first attempts. The stricter reading satisfies both.
    let budget =
        Some(BudgetRules { ratio: Ratio::from_thousandths(250), ..BudgetRules::default() });
    assert_eq!(steady(&requests(&policy(3, budget), 1_000, 90, |n| n % 2 == 0)), 1_250);
}
