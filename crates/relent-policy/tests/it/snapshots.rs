//! State that is stored and read back goes on as if nothing had happened, and damaged state does
//! no harm.

use proptest::prelude::*;
use relent_policy::{
    Admission, Breaker, BreakerRules, Budget, BudgetRules, Health, History, Timestamp,
};
use serde_json::Value;
use std::time::Duration;

fn reload<T: serde::Serialize, U: serde::de::DeserializeOwned>(stored: &T) -> U {
    serde_json::from_str(&serde_json::to_string(stored).unwrap()).unwrap()
}

fn events() -> impl Strategy<Value = Vec<(u64, u8)>> {
    prop::collection::vec((0..3_000_000_000_u64, 0..5_u8), 0..200)
}

fn health(event: u8) -> Health {
    if event.is_multiple_of(2) { Health::Failing } else { Health::Alive }
}

proptest! {
    #[test]
    fn a_restored_budget_grants_what_the_original_grants(before in events(), after in events()) {
        let mut original = Budget::new(BudgetRules::default());
        let mut now = Timestamp::from_secs(1_000);
        let step = |budget: &mut Budget, now, event| match event {
            0 | 1 => { budget.count_first_attempt(now); true }
            2 => { budget.note(health(event)); true }
            3 => { budget.note(Health::Alive); true }
            _ => budget.try_retry(now).is_ok(),
        };
        for (pause, event) in before {
            now = now + Duration::from_nanos(pause);
            step(&mut original, now, event);
        }
        let mut restored = Budget::restore(BudgetRules::default(), reload(&original.snapshot())).unwrap();
        for (pause, event) in after {
            now = now + Duration::from_nanos(pause);
            prop_assert_eq!(step(&mut original, now, event), step(&mut restored, now, event));
        }
    }

    #[test]
    fn a_restored_breaker_admits_what_the_original_admits(before in events(), after in events()) {
        let mut original = Breaker::new(BreakerRules::default());
        let mut now = Timestamp::from_secs(1_000);
        let step = |breaker: &mut Breaker, now, event| {
            if event == 4 {
                breaker.budget_exhausted(now, 7);
            }
            let admitted = breaker.admit(now);
            if let Ok(admission) = admitted {
                breaker.record(admission, health(event), now, 7);
            }
            admitted
        };
        for (pause, event) in before {
            now = now + Duration::from_nanos(pause / 10);
            let _ = step(&mut original, now, event);
        }
        let mut restored = Breaker::restore(BreakerRules::default(), reload(&original.snapshot())).unwrap();
        for (pause, event) in after {
            now = now + Duration::from_nanos(pause / 10);
            prop_assert_eq!(step(&mut original, now, event), step(&mut restored, now, event));
        }
    }

    #[test]
    fn damaged_numbers_do_no_harm(numbers in prop::collection::vec(any::<u64>(), 120), now in any::<u64>()) {
        let mut numbers = numbers.into_iter().cycle();
        let mut stored = serde_json::to_value(Budget::new(BudgetRules::default()).snapshot()).unwrap();
        scramble(&mut stored, &mut numbers);
        let now = Timestamp::from_nanos(now);
        if let Ok(snapshot) = serde_json::from_value(stored) {
            let mut budget = Budget::restore(BudgetRules::default(), snapshot).unwrap();
            budget.count_first_attempt(now);
            let _ = budget.try_retry(now);
            prop_assert!(budget.utilization_ratio(now) >= 0.0);
        }
        let mut stored = serde_json::to_value(Breaker::new(BreakerRules::default()).snapshot()).unwrap();
        stored["state"] = serde_json::json!({"phase": "ramping", "since": 0, "credit": 0});
        scramble(&mut stored, &mut numbers);
        if let Ok(snapshot) = serde_json::from_value(stored) {
            let mut breaker = Breaker::restore(BreakerRules::default(), snapshot).unwrap();
            let _ = breaker.admit(now);
            breaker.record(Admission::Probe, Health::Failing, now, 0);
            breaker.budget_exhausted(now, 0);
        }
    }

    #[test]
    fn a_history_is_read_or_refused_and_never_panics(text in ".{0,200}") {
        let _ = serde_json::from_str::<History>(&text);
    }
}

/// Replaces every number but the version with another that fits its place.
fn scramble(value: &mut Value, numbers: &mut impl Iterator<Item = u64>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map.iter_mut().filter(|(key, _)| *key != "version") {
                let small = matches!(key.as_str(), "all" | "some" | "credit");
                match value {
                    Value::Number(_) if small => *value = u32::MAX.into(),
                    Value::Number(_) if key == "failuresInARow" || key == "trips" => {
                        *value = 255.into();
                    }
                    value => scramble(value, numbers),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| scramble(item, numbers)),
        Value::Number(_) => *value = numbers.next().unwrap_or(0).into(),
        _ => {}
    }
}

#[test]
fn a_changed_window_starts_empty_and_keeps_the_savings() {
    let mut budget = Budget::new(BudgetRules { floor_retries: 0, ..BudgetRules::default() });
    let now = Timestamp::from_secs(100);
    (0..100).for_each(|_| budget.count_first_attempt(now));
    let shorter =
        BudgetRules { window: Duration::from_secs(10), floor_retries: 0, ..BudgetRules::default() };
    let mut restored = Budget::restore(shorter, budget.snapshot()).unwrap();
    assert!(restored.try_retry(now).is_err(), "the new window has seen no first attempt");
    (0..5).for_each(|_| restored.count_first_attempt(now));
    assert!(restored.try_retry(now).is_ok());
}
