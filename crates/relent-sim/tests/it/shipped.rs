//! The scenarios that come with the crate.

use relent_sim::{Scenario, shipped};

use crate::{assert_near, known, run, study};

#[test]
fn a_budget_keeps_1000_at_1200_where_three_retries_make_2500() {
    let scenario = known("standard-1000rps");
    assert_near(run(&scenario, "three-retries").load_per_second, 2_500.0, 0.01, "calls/s");
    assert_near(run(&scenario, "budget-20").load_per_second, 1_200.0, 0.005, "calls/s");
}

#[test]
fn a_budget_keeps_100_clients_at_120_where_five_retries_make_600() {
    let scenario = known("standard-100-clients");
    assert_near(run(&scenario, "five-retries").load_per_second, 600.0, 0.01, "calls/s");
    assert_near(run(&scenario, "budget-20").load_per_second, 120.0, 0.005, "calls/s");
}

#[test]
fn what_the_scenarios_expect_holds() {
    for known in shipped().iter().filter(|known| known.name != "aws-occ") {
        let mut scenario = Scenario::parse(known.text, &|_| Err("no files here".into())).unwrap();
        let asked = scenario.expectations.policies.clone();
        scenario.policies.retain(|policy| asked.iter().any(|id| id == policy.id()));
        let study = study(&scenario, 1);
        assert!(study.expectations_checked() > 0, "{}", known.name);
        assert_eq!(study.broken(), [], "{}", known.name);
    }
}

#[test]
fn an_expectation_that_does_not_hold_is_told_with_what_was_found() {
    let mut scenario = known("standard-1000rps");
    scenario.expectations.policies = vec!["three-retries".to_owned()];
    let broken: Vec<String> =
        study(&scenario, 1).broken().iter().map(ToString::to_string).collect();
    assert_eq!(broken.len(), 2, "{broken:?}");
    assert!(broken[0].starts_with("three-retries: max_amplification = 1.21, found 2.4"));
}
