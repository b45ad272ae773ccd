//! The budget suite: traces of first attempts, retries and results, with what was granted.

use anyhow::Result;
use relent_policy::{Budget, BudgetRules, Health, Policy, Ratio, Timestamp, roll};
use serde_json::{Value, json};
use std::time::Duration;

const MS: u64 = 1_000_000;

#[derive(Clone, Copy)]
enum Event {
    First,
    Retry,
    Ended(Health),
    GiveBack,
}

pub(super) fn suite() -> Result<Value> {
    let default = BudgetRules::default();
    let no_floor = BudgetRules { floor_retries: 0, ..default };
    let odd = BudgetRules {
        ratio: Ratio::from_thousandths(333),
        window: Duration::from_secs(7),
        burst: 3,
        floor_retries: 2,
        floor_window: Duration::from_secs(5),
    };
    let cases = [
        ("one in five without a floor", no_floor, one_in_five()),
        ("a quiet dependency lives on its floor", default, quiet()),
        ("five failures in a row suspend the floor", default, suspended()),
        ("what is given back can be taken again", no_floor, given_back()),
        ("a given-back retry whose slot has left the window", no_floor, given_back_late()),
        ("idle for a week", no_floor, idle()),
        ("a clock that steps back", no_floor, stepping_back()),
        ("a floor that only tops up", BudgetRules { burst: 1, ..default }, topping_up()),
        ("given back to a full bucket", BudgetRules { burst: 1, ..default }, given_back_full()),
        ("no signal leaves the failures in a row alone", default, no_signal()),
        ("random, default rules", default, random(1, 400, 400)),
        ("random, without a floor", no_floor, random(2, 400, 90)),
        ("random, odd rules", odd, random(3, 400, 300)),
        ("random, odd rules, slow", odd, random(4, 400, 3_000)),
    ];
    let mut written = Vec::new();
    for (name, rules, events) in cases {
        written.push(case(name, rules, &events)?);
    }
    Ok(json!({ "version": 1, "cases": written }))
}

fn case(name: &str, rules: BudgetRules, events: &[(u64, Event)]) -> Result<Value> {
    let mut budget = Budget::new(rules);
    let mut granted = Vec::new();
    let mut trace = Vec::new();
    for (at, event) in events {
        let now = Timestamp::from_nanos(*at);
        trace.push(match event {
            Event::First => {
                budget.count_first_attempt(now);
                json!([at, "first"])
            }
            Event::Retry => {
                let taken = budget.try_retry(now);
                let allowed = taken.is_ok();
                granted.extend(taken);
                json!([at, "retry", allowed])
            }
            Event::Ended(health) => {
                budget.note(*health);
                json!([at, super::breaker::health_name(*health)])
            }
            Event::GiveBack => match granted.pop() {
                Some(withdrawal) => {
                    budget.give_back(withdrawal, now);
                    json!([at, "give_back"])
                }
                None => continue,
            },
        });
    }
    let mut spec = Policy::sync_api().spec().clone();
    spec.budget = Some(rules);
    let document = serde_json::to_value(spec)?;
    Ok(json!({ "name": name, "rules": document["budget"], "trace": trace }))
}

fn at(millis: u64, event: Event) -> (u64, Event) {
    (millis * MS, event)
}

fn one_in_five() -> Vec<(u64, Event)> {
    (0..60).map(|n| at(n * 100, if n % 6 < 5 { Event::First } else { Event::Retry })).collect()
}

fn quiet() -> Vec<(u64, Event)> {
    let burst = (0..12).map(|_| at(90_000, Event::Retry));
    let later = [93_000, 93_001, 96_000, 120_000].map(|millis| at(millis, Event::Retry));
    burst.chain(later).collect()
}

fn suspended() -> Vec<(u64, Event)> {
    let fails = |n| std::iter::repeat_n(at(90_000, Event::Ended(Health::Failing)), n);
    let retry = [at(90_000, Event::Retry)];
    let other = [at(90_000, Event::Ended(Health::NoSignal)), at(90_000, Event::Retry)];
    let alive = [at(90_000, Event::Ended(Health::Alive)), at(90_000, Event::Retry)];
    fails(4).chain(retry).chain(fails(1)).chain(retry).chain(other).chain(alive).collect()
}

fn given_back() -> Vec<(u64, Event)> {
    let first = std::iter::repeat_n(at(1_000, Event::First), 10);
    let retries = std::iter::repeat_n(at(1_000, Event::Retry), 3);
    let back = [at(2_500, Event::GiveBack), at(2_500, Event::Retry), at(2_500, Event::Retry)];
    first.chain(retries).chain(back).collect()
}

fn given_back_late() -> Vec<(u64, Event)> {
    let first = std::iter::repeat_n(at(1_000, Event::First), 5);
    let again = std::iter::repeat_n(at(31_500, Event::First), 5);
    let end = [at(31_500, Event::GiveBack), at(31_500, Event::Retry), at(31_500, Event::Retry)];
    first.chain([at(1_000, Event::Retry)]).chain(again).chain(end).collect()
}

fn idle() -> Vec<(u64, Event)> {
    let week = 7 * 86_400_000;
    let busy = (0..200).map(|n| at(n, if n % 2 == 0 { Event::First } else { Event::Retry }));
    let back = (0..6).map(|_| at(week, Event::First));
    busy.chain([at(week, Event::Retry)]).chain(back).chain([at(week + 1, Event::Retry)]).collect()
}

fn stepping_back() -> Vec<(u64, Event)> {
    // What is counted after the step back stays in the slot of 50 s, and leaves with it.
    let first = (0..5).map(|n| at(50_000 - n * 10_000, Event::First));
    let more = (0..5).map(|_| at(79_000, Event::First));
    let retries = [3, 4, 79_999, 79_999, 80_000, 80_000].map(|millis| at(millis, Event::Retry));
    first
        .chain(retries[..2].iter().copied())
        .chain(more)
        .chain(retries[2..].iter().copied())
        .collect()
}

/// Granted by the floor with less than one retry saved: the savings must not go below nothing.
fn topping_up() -> Vec<(u64, Event)> {
    let floor = std::iter::repeat_n(at(90_000, Event::Retry), 3);
    let first = std::iter::repeat_n(at(90_100, Event::First), 40);
    let retries = std::iter::repeat_n(at(90_200, Event::Retry), 9);
    floor.chain(first).chain(retries).chain([at(93_200, Event::Retry)]).collect()
}

/// The bucket is full again before the retry comes back, and the floor was whole.
fn given_back_full() -> Vec<(u64, Event)> {
    let first = std::iter::repeat_n(at(1_000, Event::First), 5);
    let more = std::iter::repeat_n(at(2_000, Event::First), 10);
    let retries = std::iter::repeat_n(at(2_000, Event::Retry), 14);
    first
        .chain([at(1_000, Event::Retry)])
        .chain(more)
        .chain([at(2_000, Event::GiveBack)])
        .chain(retries)
        .collect()
}

fn no_signal() -> Vec<(u64, Event)> {
    let fails = |n| std::iter::repeat_n(at(90_000, Event::Ended(Health::Failing)), n);
    let between = [at(90_000, Event::Ended(Health::NoSignal))];
    fails(3).chain(between).chain(fails(2)).chain([at(90_000, Event::Retry)]).collect()
}

fn random(seed: u64, length: u32, pause_max_ms: u64) -> Vec<(u64, Event)> {
    let mut now = 0;
    let draw = |n, max| roll::up_to(max, roll::for_attempt(seed, n, 0));
    (0..u64::from(length))
        .map(|n| {
            now += draw(2 * n, pause_max_ms * MS);
            let event = match draw(2 * n + 1, 12) {
                0..=4 => Event::First,
                5..=8 => Event::Retry,
                9 => Event::GiveBack,
                10 | 11 => Event::Ended(Health::Failing),
                _ => Event::Ended(Health::Alive),
            };
            (now, event)
        })
        .collect()
}
