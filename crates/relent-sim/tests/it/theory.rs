//! What queueing theory and arithmetic say must come out. REQ-X1.

use relent_sim::{Recovery, Scenario, simulate};

use crate::{assert_near, known, policy, read};

const PATIENT: &str = "
    policyId = 'patient'
    context = 'sync-api'
    maxAttempts = 1
    totalBudgetMs = 86400000
    attemptTimeoutMs = 86400000
    budget = false
    breaker = false
    concurrency = { inFlightMax = 1000000, retriesInFlightMax = 1000000 }
";

/// The probability that a call has to wait, by Erlang's formula.
fn erlang_c(servers: u32, offered: f64) -> f64 {
    // Erlang B by recursion, then C from B.
    let blocked = (1..=servers)
        .fold(1.0, |blocked, n| offered * blocked / (f64::from(n) + offered * blocked));
    let utilisation = offered / f64::from(servers);
    blocked / (1.0 - utilisation * (1.0 - blocked))
}

#[test]
fn waiting_is_what_erlang_says() {
    let patient = policy(PATIENT);
    for (workers, per_second) in [(1, 6.0_f64), (2, 16.0), (10, 80.0), (50, 450.0)] {
        let scenario = read(&format!(
            "name = 'mmc'
            horizon = '{}s'
            [clients]
            load = 'poisson'
            per_second = {per_second}
            [[servers]]
            workers = {workers}
            service = {{ exponential = '100ms' }}",
            (600_000.0 / per_second).round(),
        ));
        let runs: Vec<_> = (1..=4).map(|seed| simulate(&scenario, &patient, seed)).collect();
        let mean = |of: fn(&relent_sim::Run) -> f64| runs.iter().map(of).sum::<f64>() / 4.0;
        let waits = erlang_c(workers, per_second / 10.0);
        let seconds = waits / (f64::from(workers) * 10.0 - per_second);
        let what = format!("{workers} workers, {per_second}/s");
        assert_near(mean(|run| run.waited_ratio), waits, 0.03, &what);
        assert_near(mean(|run| run.mean_wait) / 1e9, seconds, 0.05, &what);
    }
}

fn failing(ratio: f64, pick: &str) -> Scenario {
    read(&format!(
        "name = 'failing'
        horizon = '400s'
        warm_up = '100s'
        [clients]
        load = 'poisson'
        per_second = 200
        [[servers]]
        service = '10ms'
        [[faults]]
        kind = 'errors'
        ratio = {ratio:?}
        pick = '{pick}'
        from = '0s'
        to = '400s'"
    ))
}

fn retrying(attempts: u32) -> relent_policy::Policy {
    policy(&format!(
        "policyId = 'retrying'
        context = 'sync-api'
        initialDelayMs = 100
        maxAttempts = {attempts}
        budget = false
        breaker = false
        concurrency = {{ inFlightMax = 100000, retriesInFlightMax = 100000 }}"
    ))
}

#[test]
fn independent_failures_amplify_as_a_geometric_series() {
    for attempts in [2_u32, 4, 6] {
        for ratio in [0.1_f64, 0.35, 0.5, 0.9, 1.0] {
            let run = simulate(&failing(ratio, "attempts"), &retrying(attempts), 1);
            let series: f64 = (0..attempts).map(|n| ratio.powi(n.cast_signed())).sum();
            let what = format!("{attempts} attempts, {ratio} failing");
            assert_near(run.amplification, series, 0.015, &what);
            assert!((run.success_ratio - (1.0 - ratio.powi(attempts.cast_signed()))).abs() < 0.01);
        }
    }
}

#[test]
fn persistent_failures_amplify_in_proportion() {
    for attempts in [2_u32, 4, 6] {
        for ratio in [0.1, 0.5, 1.0] {
            let run = simulate(&failing(ratio, "operations"), &retrying(attempts), 1);
            let expected = 1.0 - ratio + ratio * f64::from(attempts);
            let what = format!("{attempts} attempts, {ratio} failing");
            assert_near(run.amplification, expected, 0.025, &what);
        }
    }
}

/// Somebody else's measurement of three attempts at 35 % failures: 1.465 to 1.471 calls for each
/// operation, 95.5 % of which succeed.
#[test]
fn a_measurement_with_real_clients_is_met() {
    let run = simulate(&failing(0.35, "attempts"), &retrying(3), 1);
    assert_near(run.amplification, 1.468, 0.01, "calls for each operation");
    assert_near(run.success_ratio, 0.955, 0.005, "success");
}

/// The backlog of an outage of `down` seconds, at `load` calls a second against `capacity`, is worked
/// off in this time.
fn fluid(down: f64, load: f64, capacity: f64) -> f64 {
    down * load / (capacity - load)
}

/// The same until calls wait no longer than their callers do, which is when goodput is back.
fn fluid_until(down: f64, load: f64, capacity: f64, patience: f64) -> f64 {
    (down * load - capacity * patience) / (capacity - load)
}

#[test]
fn recovery_takes_as_long_as_the_backlog() {
    let cases = [
        ("no-retries", 600.0, 0.0),
        ("no-retries", 800.0, 0.0),
        ("full-budget-10", 600.0, 0.1),
        ("full-budget-10", 800.0, 0.1),
        ("full-budget-20", 600.0, 0.2),
    ];
    for (id, per_second, budget) in cases {
        let mut scenario = known("metastable-80");
        scenario.clients.load = relent_sim::Load::Poisson { per_second };
        let policy = scenario.policies.iter().find(|policy| policy.id() == id).unwrap();
        let seconds: Vec<f64> = (1..=3)
            .map(|seed| match simulate(&scenario, policy, seed).recovery {
                Recovery::After(nanos) => nanos as f64 / 1e9,
                other => unreachable!("{id} at {per_second}: {other:?}"),
            })
            .collect();
        let found = seconds.iter().sum::<f64>() / 3.0;
        let load = per_second * (1.0 + budget);
        // A call takes 100 ms and is waited for 1 s, so it may wait 900 ms.
        let exact = fluid_until(10.0, load, 1_000.0, 0.9);
        assert!(
            (found - exact).abs() <= 0.05 * exact + 1.0,
            "{id} at {per_second}: {found}, {exact}"
        );
        let rough = fluid(10.0, load, 1_000.0);
        assert!((found / rough - 1.0).abs() <= 0.25, "{id} at {per_second}: {found}, {rough}");
    }
}

/// Four attempts hold a server down only where four times the load is more than it can take.
#[test]
fn retries_are_a_trap_above_a_quarter_of_the_capacity() {
    let scenario = known("metastable-80");
    let full = scenario.policies.iter().find(|policy| policy.id() == "full").unwrap();
    for (per_second, recovers) in [(230.0, true), (300.0, false)] {
        let mut scenario = scenario.clone();
        scenario.clients.load = relent_sim::Load::Poisson { per_second };
        let run = simulate(&scenario, full, 1);
        assert_eq!(run.recovery != Recovery::Never, recovers, "{per_second}: {:?}", run.recovery);
    }
}

/// A second, independent implementation of the same experiment: success, calls for each operation and
/// seconds to recovery at 800 operations a second.
#[test]
fn another_implementation_of_the_outage_gives_the_same() {
    let scenario = known("metastable-80");
    let cases = [
        ("no-retries", 0.74, 1.0, Some(38.0)),
        ("exponential", 0.167, 3.5, None),
        ("full", 0.167, 3.5, None),
        ("full-budget-20", 0.167, 1.18, None),
        ("full-budget-10", 0.59, 1.05, Some(66.0)),
    ];
    for (id, success, calls, recovery) in cases {
        let run = crate::run(&scenario, id);
        assert_near(run.success_ratio, success, 0.1, id);
        assert_near(run.amplification, calls, 0.05, id);
        match (run.recovery, recovery) {
            (Recovery::After(nanos), Some(seconds)) => {
                assert_near(nanos as f64 / 1e9, seconds, 0.1, id);
            }
            (found, expected) => assert_eq!((found, expected), (Recovery::Never, None), "{id}"),
        }
    }
}
