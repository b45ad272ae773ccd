//! A lane as its callers meet it: what is held back, what is exempt, what is freed.

use super::*;
use crate::budget::BudgetRules;
use crate::policy::PolicySpec;

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn fail(lane: &mut Lane, times: u32, now: Timestamp) {
    for _ in 0..times {
        let pass = lane.admit(Turn::First, now).unwrap();
        lane.finish(pass, &Outcome::http(503), now, 0);
    }
}

#[test]
fn an_open_breaker_plans_no_retry_and_starts_no_attempt() {
    let mut lane = Lane::new(&Policy::sync_api());
    fail(&mut lane, 20, at(0));
    let until = at(5_000);
    assert_eq!(lane.reserve_retry(at(1), 0), Err(Refusal::BreakerOpen { until }));
    assert_eq!(lane.admit(Turn::First, at(1)), Err(Refusal::BreakerOpen { until }));
    assert_eq!(lane.in_flight(), 0);
}

#[test]
fn the_probe_needs_no_budget() {
    let spec = PolicySpec {
        budget: Some(BudgetRules { burst: 1, floor_retries: 0, ..BudgetRules::default() }),
        ..PolicySpec::sync_api()
    };
    let mut lane = Lane::new(&spec.build(at(0)).unwrap());
    fail(&mut lane, 20, at(0));
    let much_later = at(60_000);
    assert_eq!(lane.reserve_retry(much_later, 0), Ok(Reservation(None)));
    for _ in 0..100 {
        assert_eq!(lane.reserve_retry(much_later, 0), Err(Refusal::Budget), "one is enough");
    }
    let pass = lane.admit(Turn::Retry, much_later).unwrap();
    assert_eq!(pass.admission, Admission::Probe);
    lane.finish(pass, &Outcome::Success, much_later, 0);
    assert!(!lane.is_open(much_later));
}

#[test]
fn an_abandoned_probe_lets_the_next_caller_probe() {
    let mut lane = Lane::new(&Policy::sync_api());
    fail(&mut lane, 20, at(0));
    let pass = lane.admit(Turn::First, at(6_000)).unwrap();
    assert!(lane.admit(Turn::First, at(6_000)).is_err());
    lane.abandon(pass, at(6_001));
    assert_eq!(lane.admit(Turn::First, at(6_001)).unwrap().admission, Admission::Probe);
}

#[test]
fn a_refused_attempt_takes_no_place_and_pays_nothing_in() {
    let mut spec = PolicySpec::sync_api();
    spec.concurrency.in_flight_max = 1;
    spec.concurrency.retries_in_flight_max = 1;
    let mut lane = Lane::new(&spec.build(at(0)).unwrap());
    let pass = lane.admit(Turn::First, at(0)).unwrap();
    let before = lane;
    assert_eq!(lane.admit(Turn::First, at(0)), Err(Refusal::Concurrency));
    assert_eq!(lane, before);
    lane.abandon(pass, at(0));
    assert_eq!(lane.in_flight(), 0);
}

#[test]
fn call_times_become_the_estimate() {
    let mut lane = Lane::new(&Policy::sync_api());
    let pass = lane.admit(Turn::First, at(0)).unwrap();
    lane.finish(pass, &Outcome::Success, at(80), 0);
    assert_eq!(lane.estimated_call(), Duration::from_millis(80));
}
