//! The breaker's life: opening, one probe, longer cool-downs, the ramp, and what must not happen.

use super::*;
use alloc::vec::Vec;
use proptest::prelude::*;

const MS: u64 = 1_000_000;

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn call(breaker: &mut Breaker, health: Health, now: Timestamp) {
    if let Ok(admission) = breaker.admit(now) {
        breaker.record(admission, health, now, 0);
    }
}

fn opened() -> Breaker {
    let mut breaker = Breaker::new(BreakerRules::default());
    (0..20).for_each(|_| call(&mut breaker, Health::Failing, at(1_000)));
    assert_eq!(breaker.state(at(1_000)), BreakerState::Open);
    breaker
}

#[test]
fn too_few_calls_prove_nothing() {
    let mut breaker = Breaker::new(BreakerRules::default());
    (0..19).for_each(|_| call(&mut breaker, Health::Failing, at(0)));
    assert_eq!(breaker.state(at(0)), BreakerState::Closed);
    call(&mut breaker, Health::Failing, at(0));
    assert_eq!(breaker.state(at(0)), BreakerState::Open);
}

#[test]
fn failures_that_left_the_window_are_forgotten() {
    let mut breaker = Breaker::new(BreakerRules::default());
    (0..19).for_each(|_| call(&mut breaker, Health::Failing, at(0)));
    call(&mut breaker, Health::Failing, at(11_000));
    assert_eq!(breaker.state(at(11_000)), BreakerState::Closed);
}

#[test]
fn it_opens_at_the_ratio_and_not_below() {
    for (failing, expected) in [(49, BreakerState::Closed), (50, BreakerState::Open)] {
        let mut breaker = Breaker::new(BreakerRules::default());
        (0..100 - failing).for_each(|_| call(&mut breaker, Health::Alive, at(0)));
        (0..failing).for_each(|_| call(&mut breaker, Health::Failing, at(0)));
        assert_eq!(breaker.state(at(0)), expected, "{failing} of 100");
    }
}

#[test]
fn the_callers_own_mistakes_do_not_open_it() {
    let mut breaker = Breaker::new(BreakerRules::default());
    (0..1_000).for_each(|_| call(&mut breaker, Health::NoSignal, at(0)));
    assert_eq!(breaker.state(at(0)), BreakerState::Closed);
}

#[test]
fn half_open_lets_one_probe_through() {
    let mut breaker = opened();
    assert!(breaker.admit(at(5_999)).is_err());
    assert_eq!(breaker.admit(at(6_000)), Ok(Admission::Probe));
    let refused = (0..1_000).filter(|n| breaker.admit(at(6_000 + n)).is_err()).count();
    assert_eq!(refused, 1_000);
    assert_eq!(breaker.state(at(6_500)), BreakerState::HalfOpen);
}

#[test]
fn a_lost_probe_is_replaced_when_its_time_is_over() {
    let mut breaker = opened();
    assert_eq!(breaker.admit(at(6_000)), Ok(Admission::Probe));
    assert_eq!(breaker.admit(at(36_000)), Ok(Admission::Probe));
}

#[test]
fn a_probe_that_was_never_sent_frees_its_place() {
    let mut breaker = opened();
    let probe = breaker.admit(at(6_000)).unwrap();
    breaker.forget(probe, at(6_001));
    assert_eq!(breaker.admit(at(6_001)), Ok(Admission::Probe));
}

#[test]
fn results_of_calls_from_before_do_not_settle_the_probe() {
    let mut breaker = opened();
    assert_eq!(breaker.admit(at(6_000)), Ok(Admission::Probe));
    breaker.record(Admission::Normal, Health::Alive, at(6_010), 0);
    assert_eq!(breaker.state(at(6_010)), BreakerState::HalfOpen);
}

#[test]
fn each_failed_probe_doubles_the_cool_down_up_to_the_limit() {
    let mut breaker = opened();
    let mut now = at(1_000);
    let mut cool_downs = Vec::new();
    for _ in 0..6 {
        let until = breaker.admit(now).unwrap_err().until;
        cool_downs.push(until.saturating_since(now).as_secs());
        now = until;
        assert_eq!(breaker.admit(now), Ok(Admission::Probe));
        breaker.record(Admission::Probe, Health::Failing, now, 0);
    }
    assert_eq!(cool_downs, [5, 10, 20, 30, 30, 30]);
}

#[test]
fn chance_shortens_a_cool_down_by_a_quarter_at_most() {
    for (roll, millis) in [(0, 5_000), (u64::MAX, 3_750), (u64::MAX / 2, 4_375)] {
        let mut breaker = Breaker::new(BreakerRules::default());
        for _ in 0..20 {
            breaker.record(Admission::Normal, Health::Failing, at(0), roll);
        }
        assert_eq!(breaker.admit(at(0)).unwrap_err().until.as_millis_ceil(), millis);
    }
}

#[test]
fn traffic_ramps_up_after_the_probe_succeeds() {
    let mut breaker = opened();
    let probe = breaker.admit(at(6_000)).unwrap();
    breaker.record(probe, Health::Alive, at(6_000), 0);
    let admitted_in = |breaker: &mut Breaker, second: u64| {
        (0..1_000).filter(|n| breaker.admit(at(6_000 + second * 1_000 + n)).is_ok()).count()
    };
    let per_second: Vec<usize> = (0..11).map(|second| admitted_in(&mut breaker, second)).collect();
    assert!(per_second[0] < 200, "{per_second:?}");
    assert!(per_second.windows(2).all(|pair| pair[0] <= pair[1]), "{per_second:?}");
    assert_eq!(per_second[10], 1_000);
}

#[test]
fn a_relapse_during_the_ramp_opens_it_for_longer() {
    let mut breaker = opened();
    let probe = breaker.admit(at(6_000)).unwrap();
    breaker.record(probe, Health::Alive, at(6_000), 0);
    (0..20).for_each(|_| breaker.record(Admission::Normal, Health::Failing, at(7_000), 0));
    assert_eq!(breaker.admit(at(7_000)).unwrap_err().until, at(17_000));
}

#[test]
fn a_finished_ramp_forgets_the_past() {
    let mut breaker = opened();
    let probe = breaker.admit(at(6_000)).unwrap();
    breaker.record(probe, Health::Alive, at(6_000), 0);
    assert_eq!(breaker.admit(at(16_000)), Ok(Admission::Normal));
    (0..20).for_each(|_| call(&mut breaker, Health::Failing, at(16_000)));
    assert_eq!(breaker.admit(at(16_000)).unwrap_err().until, at(21_000));
}

/// Calls of which `failing` in ten fail, and a budget that refuses a retry every 100 ms.
fn exhausted_budget(failing: u64, millis: u64) -> Breaker {
    let rules = BreakerRules { failure_ratio: Ratio::ONE, ..BreakerRules::default() };
    let mut breaker = Breaker::new(rules);
    for n in 0..millis / 10 {
        let now = at(n * 10);
        let health = if n % 10 < failing { Health::Failing } else { Health::Alive };
        call(&mut breaker, health, now);
        if n.is_multiple_of(10) {
            breaker.budget_exhausted(now, 0);
        }
    }
    breaker
}

#[test]
fn sustained_exhaustion_opens_it_when_much_fails() {
    let state = |failing, millis| exhausted_budget(failing, millis).state(at(millis));
    assert_eq!(state(5, 9_000), BreakerState::Closed, "not for long enough");
    assert_eq!(state(5, 11_000), BreakerState::Open);
    assert_eq!(state(1, 60_000), BreakerState::Closed, "only 10 % fails");
}

#[test]
fn refusals_with_pauses_are_not_sustained() {
    let mut breaker = Breaker::new(BreakerRules::default());
    for n in 0..20 {
        (0..20).for_each(|_| breaker.window.count_all(at(n * 2_000)));
        for _ in 0..9 {
            breaker.window.count_some(at(n * 2_000));
        }
        breaker.budget_exhausted(at(n * 2_000), 0);
    }
    assert_eq!(breaker.state(at(40_000)), BreakerState::Closed);
}

proptest! {
    #[test]
    fn no_order_of_events_panics_or_probes_twice(
        events in prop::collection::vec((0..40_000 * MS, 0..5_u8, any::<u64>()), 0..300),
    ) {
        let mut breaker = Breaker::new(BreakerRules::default());
        let (mut now, mut probe_since) = (Timestamp::ZERO, None::<Timestamp>);
        for (pause, event, roll) in events {
            now = now.plus_nanos(pause);
            match event {
                0 | 1 => match breaker.admit(now) {
                    Ok(Admission::Probe) => {
                        let lost = |since: Timestamp| now.saturating_since(since).as_secs() >= 30;
                        prop_assert!(probe_since.is_none_or(lost), "two probes at once");
                        probe_since = Some(now);
                    }
                    Ok(Admission::Normal) => breaker.record(Admission::Normal, Health::Failing, now, roll),
                    Err(refused) => prop_assert!(refused.until > now),
                },
                2 if probe_since.take().is_some() => {
                    let health = if roll.is_multiple_of(2) { Health::Alive } else { Health::Failing };
                    breaker.record(Admission::Probe, health, now, roll);
                }
                3 => breaker.budget_exhausted(now, roll),
                _ => breaker.record(Admission::Normal, Health::Alive, now, roll),
            }
        }
    }
}
