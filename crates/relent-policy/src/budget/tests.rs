//! The budget's promises: exact ratios, a bound over every stretch of time, no burst, no catch-up.

use super::*;
use alloc::vec::Vec;
use proptest::prelude::*;

const SEC: u64 = 1_000_000_000;

fn without_floor(percent: u32) -> BudgetRules {
    BudgetRules {
        ratio: Ratio::from_thousandths(percent * 10),
        floor_retries: 0,
        ..BudgetRules::default()
    }
}

/// Sends `rate` first attempts a second, all failing and all wanting `retries_wanted` retries, and
/// returns how many requests went out in each second.
fn outage(
    budget: &mut Budget,
    rate: u64,
    from_sec: u64,
    secs: u64,
    retries_wanted: u64,
) -> Vec<u64> {
    (from_sec..from_sec + secs)
        .map(|sec| {
            let mut sent = 0;
            for n in 0..rate {
                let now = Timestamp::from_nanos(sec * SEC + n * SEC / rate);
                budget.count_first_attempt(now);
                budget.note(Health::Failing);
                sent += 1;
                for _ in 0..retries_wanted {
                    if let Ok(_spent) = budget.try_retry(now) {
                        budget.note(Health::Failing);
                        sent += 1;
                    }
                }
            }
            sent
        })
        .collect()
}

#[test]
fn every_whole_percent_is_met_exactly() {
    for percent in 1..=100 {
        let mut budget = Budget::new(without_floor(percent));
        let mut retries = 0_u32;
        for n in 0..1_000_u64 {
            let now = Timestamp::from_nanos(n * SEC / 1_000);
            budget.count_first_attempt(now);
            while budget.try_retry(now).is_ok() {
                retries += 1;
            }
        }
        assert_eq!(retries, percent * 10, "{percent} %");
    }
}

#[test]
fn a_total_outage_has_no_burst_and_runs_at_the_ratio() {
    let mut budget = Budget::new(BudgetRules::default());
    for n in 0..60_000 {
        let now = Timestamp::from_nanos(n * SEC / 1_000);
        budget.count_first_attempt(now);
        budget.note(Health::Alive);
    }
    let seconds = outage(&mut budget, 1_000, 60, 300, 3);
    let peak = *seconds.iter().max().unwrap();
    assert!(peak <= 1_250, "the worst second had {peak} requests");
    let total: u64 = seconds.iter().sum();
    assert!((359_900..=360_010).contains(&total), "{total} requests in 300 s");
}

#[test]
fn the_window_alone_would_let_a_storm_out() {
    let rules = BudgetRules { burst: 1_000_000, ..without_floor(20) };
    let mut budget = Budget::new(rules);
    for n in 0..30_000 {
        budget.count_first_attempt(Timestamp::from_nanos(n * SEC / 1_000));
    }
    let seconds = outage(&mut budget, 1_000, 30, 1, 3);
    assert_eq!(seconds, [4_000], "this is what the bucket is for");
}

#[test]
fn a_quiet_dependency_keeps_its_floor_until_it_keeps_failing() {
    let mut budget = Budget::new(BudgetRules::default());
    let now = Timestamp::from_secs(1_000);
    let granted = (0..20).filter(|_| budget.try_retry(now).is_ok()).count();
    assert_eq!(granted, 10);
    let later = Timestamp::from_secs(1_003);
    assert!(budget.try_retry(later).is_ok(), "one in three seconds grows back");
    assert!(budget.try_retry(later).is_err());

    (0..5).for_each(|_| budget.note(Health::Failing));
    let much_later = Timestamp::from_secs(2_000);
    assert!(budget.try_retry(much_later).is_err());
    budget.note(Health::Alive);
    assert!(budget.try_retry(much_later).is_ok());
}

#[test]
fn the_floor_tops_the_ratio_up_and_is_not_added_to_it() {
    let mut budget = Budget::new(BudgetRules { burst: 100, ..BudgetRules::default() });
    let now = Timestamp::from_secs(1);
    (0..500).for_each(|_| budget.count_first_attempt(now));
    let granted = (0..1_000).filter(|_| budget.try_retry(now).is_ok()).count();
    assert_eq!(granted, 100);
}

#[test]
fn what_is_given_back_can_be_taken_again() {
    let mut budget = Budget::new(without_floor(20));
    let now = Timestamp::from_secs(1);
    (0..5).for_each(|_| budget.count_first_attempt(now));
    let withdrawal = budget.try_retry(now).unwrap();
    assert!(budget.try_retry(now).is_err());
    budget.give_back(withdrawal, now);
    assert!(budget.try_retry(now).is_ok());
    assert!(budget.try_retry(now).is_err());
}

#[test]
fn an_idle_week_costs_one_step() {
    let mut budget = Budget::new(without_floor(20));
    outage(&mut budget, 1_000, 0, 60, 3);
    let now = Timestamp::from_secs(7 * 86_400);
    assert!(budget.utilization_ratio(now) < f64::EPSILON);
    assert!(budget.try_retry(now).is_err());
}

#[test]
fn utilization_is_the_spent_share() {
    let mut budget = Budget::new(BudgetRules { burst: 100, ..without_floor(20) });
    let now = Timestamp::from_secs(1);
    (0..500).for_each(|_| budget.count_first_attempt(now));
    (0..50).for_each(|_| drop(budget.try_retry(now)));
    assert!((budget.utilization_ratio(now) - 0.5).abs() < 1e-9);
}

#[derive(Clone, Copy, Debug)]
enum Event {
    First,
    Retry,
    GiveBack,
    Ended(Health),
}

fn trace() -> impl Strategy<Value = Vec<(u64, Event)>> {
    let event = prop_oneof![
        4 => Just(Event::First),
        6 => Just(Event::Retry),
        1 => Just(Event::GiveBack),
        2 => Just(Event::Ended(Health::Failing)),
        1 => Just(Event::Ended(Health::Alive)),
    ];
    let pause = prop_oneof![
        20 => 0..50_000_000_u64,
        3 => 0..3 * SEC,
        1 => 0..100 * SEC,
    ];
    prop::collection::vec((pause, event), 1..600)
}

/// Runs a trace; returns when first attempts and retries (that were not given back) happened.
fn run(budget: &mut Budget, trace: &[(u64, Event)]) -> (Vec<u64>, Vec<u64>) {
    let (mut now, mut first, mut retries) = (0_u64, Vec::new(), Vec::new());
    let mut last = None;
    for (pause, event) in trace {
        now += pause;
        let at = Timestamp::from_nanos(now);
        match event {
            Event::First => {
                budget.count_first_attempt(at);
                first.push(now);
            }
            Event::Retry => {
                if let Ok(withdrawal) = budget.try_retry(at) {
                    last = Some((withdrawal, retries.len()));
                    retries.push(now);
                }
            }
            Event::GiveBack => {
                if let Some((withdrawal, index)) = last.take() {
                    budget.give_back(withdrawal, at);
                    retries.remove(index);
                }
            }
            Event::Ended(health) => budget.note(*health),
        }
    }
    (first, retries)
}

/// The most by which retries exceed `ratio` x first attempts + `extra(length)` over any stretch of
/// time that begins and ends with a retry.
fn worst_excess(
    first: &[u64],
    retries: &[u64],
    thousandths: u64,
    extra: impl Fn(u64) -> u64,
) -> i64 {
    let count = |times: &[u64], from: u64, to: u64| {
        times.partition_point(|t| *t <= to) - times.partition_point(|t| *t < from)
    };
    let mut worst = i64::MIN;
    for (index, from) in retries.iter().enumerate() {
        for to in &retries[index..] {
            let made = count(retries, *from, *to) as u64 * 1_000;
            let earned = count(first, *from, *to) as u64 * thousandths + extra(to - from) * 1_000;
            worst = worst.max(i64::try_from(made).unwrap() - i64::try_from(earned).unwrap());
        }
    }
    worst
}

proptest! {
    #[test]
    fn over_every_stretch_of_time_retries_stay_within_ratio_and_burst(
        trace in trace(),
        percent in 1..=100_u32,
        burst in 1..30_u32,
    ) {
        let mut budget = Budget::new(BudgetRules { burst, ..without_floor(percent) });
        let (first, retries) = run(&mut budget, &trace);
        let worst = worst_excess(&first, &retries, u64::from(percent) * 10, |_| u64::from(burst));
        prop_assert!(worst <= 0, "exceeded by {} thousandths of a retry", worst);
    }

    #[test]
    fn the_floor_adds_at_most_its_own_rate(trace in trace()) {
        let mut budget = Budget::new(BudgetRules::default());
        let (first, retries) = run(&mut budget, &trace);
        // Given-back retries may be taken again, so the floor's bucket counts once more at most.
        let worst = worst_excess(&first, &retries, 200, |length| 10 + 10 + length / (3 * SEC) + 1);
        prop_assert!(worst <= 0, "exceeded by {} thousandths of a retry", worst);
    }

    #[test]
    fn within_each_window_retries_are_at_most_the_ratio_of_first_attempts(trace in trace()) {
        let mut budget = Budget::new(without_floor(20));
        let mut now = 0;
        let (mut first, mut retries) = (Vec::new(), Vec::new());
        for (pause, event) in trace {
            now += pause;
            let at = Timestamp::from_nanos(now);
            match event {
                Event::First => {
                    budget.count_first_attempt(at);
                    first.push(now / SEC);
                }
                _ if budget.try_retry(at).is_ok() => retries.push(now / SEC),
                _ => continue,
            }
            let seen = |secs: &[u64]| secs.iter().filter(|sec| *sec + 30 > now / SEC).count();
            if !matches!(event, Event::First) {
                prop_assert!(seen(&retries) * 5 <= seen(&first));
            }
        }
    }
}
