//! Numbers that the docs state as measured and that no other test holds.

use std::time::Duration;

use relent_policy::{
    Admission, Breaker, BreakerRules, BreakerState, Budget, BudgetRules, Health, Jitter, Lane,
    Outcome, Policy, PolicySpec, Timestamp, Turn, roll,
};

const SECOND: u64 = 1_000_000_000;

/// jitter.md: "with 67 % chance it is exactly 30 s again. In the long run 38 % of all waits are".
#[test]
fn decorrelated_jitter_piles_up_at_the_cap() {
    let spec = PolicySpec { jitter: Jitter::Decorrelated, ..PolicySpec::sync_api() };
    let policy = spec.build(Timestamp::ZERO).unwrap();
    let cap = policy.spec().max_delay;
    let percent = |at_cap: usize, of: usize| (at_cap * 100 + of / 2) / of;

    let again = (0..100_000)
        .filter(|task| policy.delay(2, cap, roll::for_attempt(1, *task, 2)) == cap)
        .count();
    assert_eq!(percent(again, 100_000), 67);

    let twentieth = |task: &u64| {
        let grow = |previous, n| policy.delay(n, previous, roll::for_attempt(2, *task, n));
        (1..=20).fold(Duration::ZERO, grow)
    };
    let at_cap = (0..100_000).filter(|task| twentieth(task) == cap).count();
    assert_eq!(percent(at_cap, 100_000), 38);
}

/// jitter.md: "after attempt 1, one in ten is below 100 ms".
#[test]
fn full_jitter_draws_short_waits_too() {
    let policy = Policy::sync_api();
    let wait = |task| policy.delay(1, Duration::ZERO, roll::for_attempt(1, task, 1));
    let short = (0..10_000).filter(|task| wait(*task) < Duration::from_millis(100)).count();
    assert!((950..=1_050).contains(&short), "{short} of 10,000");
}

/// budget.md: "the peak is four times the load; then nothing for 28 s, and […] the same again".
#[test]
fn the_window_alone_storms_every_thirty_seconds() {
    let rules = BudgetRules { burst: 1_000_000, floor_retries: 0, ..BudgetRules::default() };
    let mut budget = Budget::new(rules);
    let mut retries = Vec::new();
    for second in 0..150 {
        let mut granted = 0;
        for n in 0..1_000 {
            let now = Timestamp::from_nanos(second * SECOND + n * SECOND / 1_000);
            budget.count_first_attempt(now);
            let wanted = if second >= 60 { 3 } else { 0 };
            granted += (0..wanted).filter(|_| budget.try_retry(now).is_ok()).count();
        }
        retries.push(granted);
    }
    let period = [vec![3_000; 2], vec![0; 28]].concat();
    assert_eq!(retries[60..120], [period.clone(), period].concat());
}

/// budget.md: "makes at most 4 retries one after the other (10 if they overlap) and then none".
#[test]
fn a_quiet_client_stops_retrying_in_an_outage() {
    let mut budget = Budget::new(BudgetRules::default());
    let mut retries = 0;
    for minute in 0..60 {
        let now = Timestamp::from_secs(minute * 60);
        budget.count_first_attempt(now);
        budget.note(Health::Failing);
        while budget.try_retry(now).is_ok() {
            budget.note(Health::Failing);
            retries += 1;
        }
    }
    assert_eq!(retries, 4);

    let mut budget = Budget::new(BudgetRules::default());
    let overlapping = (0..100).filter(|_| budget.try_retry(Timestamp::ZERO).is_ok()).count();
    assert_eq!(overlapping, 10);
}

/// When a breaker opens in a total outage after a minute of healthy calls.
fn opens_after(calls_per_second: u64) -> Option<Duration> {
    let mut breaker = Breaker::new(BreakerRules::default());
    let outage = Timestamp::from_secs(60);
    for n in 0..120 * calls_per_second {
        let now = Timestamp::from_nanos(n * (SECOND / calls_per_second));
        let health = if now < outage { Health::Alive } else { Health::Failing };
        breaker.record(Admission::Normal, health, now, 0);
        if breaker.state(now) == BreakerState::Open {
            return Some(now.saturating_since(outage));
        }
    }
    None
}

/// breaker.md: "5.0 s at 1,000 calls a second, 4.9 s at 10. At one call a second […] never".
#[test]
fn a_total_outage_opens_the_breaker_after_half_a_window() {
    assert_eq!(opens_after(1_000), Some(Duration::from_millis(4_999)));
    assert_eq!(opens_after(10), Some(Duration::from_millis(4_900)));
    assert_eq!(opens_after(1), None);
}

/// When a lane's breaker opens after a minute, once `percent` of its 1,000 operations a second fail
/// for good and each is retried three times at once.
fn lane_opens_after(percent: u64) -> Option<Duration> {
    let mut lane = Lane::new(&Policy::sync_api());
    let start = Timestamp::from_secs(60);
    for n in 0..240_000 {
        let now = Timestamp::from_millis(n);
        // 7919 is prime to 100, so failures are spread evenly.
        let fails = now >= start && n * 7_919 % 100 < percent;
        let outcome = if fails { Outcome::http(503) } else { Outcome::Success };
        for attempt in 1..=4 {
            let Ok(pass) = lane.admit(Turn::of_attempt(attempt), now) else { break };
            lane.finish(pass, &outcome, now, 0);
            let retry = fails && attempt < 4 && lane.reserve_retry(now, 0).is_ok();
            if lane.is_open(now) {
                return Some(now.saturating_since(start));
            }
            if !retry {
                break;
            }
        }
    }
    None
}

/// breaker.md: the table under "When it opens".
#[test]
fn sustained_exhaustion_opens_the_breaker_between_28_and_39_percent() {
    assert_eq!(lane_opens_after(25), None);
    for percent in [28, 33, 39] {
        let after = lane_opens_after(percent).unwrap();
        assert_eq!(after.as_secs(), 10, "{percent} %: {after:?}");
    }
    for percent in [41, 60, 100] {
        let after = lane_opens_after(percent).unwrap();
        assert!(after <= Duration::from_secs(9), "{percent} %: {after:?}");
    }
}

/// breaker.md: the seconds of a ramp.
#[test]
fn a_ramp_admits_more_each_second() {
    let mut breaker = Breaker::new(BreakerRules::default());
    (0..20).for_each(|_| breaker.record(Admission::Normal, Health::Failing, Timestamp::ZERO, 0));
    let start = Timestamp::from_secs(5);
    let probe = breaker.admit(start).unwrap();
    breaker.record(probe, Health::Alive, start, 0);
    let mut admitted = |second: u64| {
        let at = |n: u64| Timestamp::from_millis(5_000 + second * 1_000 + n);
        (0..1_000).filter(|n| breaker.admit(at(*n)).is_ok()).count().to_string()
    };
    let line: Vec<String> = (0..=10).map(&mut admitted).collect();
    let page = include_str!("../../docs/concepts/breaker.md");
    assert!(page.contains(&line.join(" ")), "{line:?}");
}
