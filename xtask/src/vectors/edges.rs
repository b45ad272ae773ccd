//! Cases where a slip would go unnoticed elsewhere: odd numbers, exact limits, full counters, and
//! results that do not fit 64 bits.

use std::time::Duration;

use anyhow::Result;
use relent_policy::{
    Backoff, FailureKind, Fault, History, Jitter, Policy, PolicySpec, Ratio, Repeatable, Timestamp,
};
use serde_json::json;

use super::case::{CREATED, Case, FixedGates, Suite, waived};

const UNAVAILABLE: FailureKind = FailureKind::Http(503);

/// A history that no short life leads to.
fn stored(attempts: u32, previous_backoff: u64, spent: [u8; 8]) -> Result<History> {
    Ok(serde_json::from_value(json!({
        "version": 1, "createdAt": CREATED.as_nanos(), "deadlineAt": null,
        "previousBackoff": previous_backoff, "attempts": attempts, "repeatable": 2,
        "retriedAbove": false, "spent": spent,
    }))?)
}

pub(super) fn edges(suite: &mut Suite) -> Result<()> {
    let base = PolicySpec::async_event;
    let linear = PolicySpec {
        backoff: Backoff::Linear { initial: Duration::from_millis(300) },
        jitter: Jitter::None,
        ..base()
    };
    let schedule = PolicySpec {
        backoff: Backoff::Schedule([2, 5, 9, 20, 21].map(Duration::from_secs).to_vec()),
        jitter: Jitter::None,
        ..base()
    };
    for (id, spec) in [("linear", linear), ("schedule", schedule)] {
        let policy = waived(id, spec)?;
        suite.add(
            &format!("{id}: no attempt has begun"),
            &policy,
            &Case::failing(UNAVAILABLE, 0),
        )?;
    }

    let equal = waived(
        "equal-odd",
        PolicySpec {
            backoff: Backoff::Exponential {
                initial: Duration::from_millis(1_001),
                multiplier: Ratio::from_thousandths(1_111),
            },
            jitter: Jitter::Equal,
            ..base()
        },
    )?;
    for roll in [0, u64::MAX] {
        let name = format!("equal jitter of an odd ceiling, roll {roll:#x}");
        suite.add(&name, &equal, &Case::failing(UNAVAILABLE, 4).roll(roll))?;
    }

    let decorrelated =
        waived("decorrelated", PolicySpec { jitter: Jitter::Decorrelated, ..base() })?;
    for previous in [1, 333_333_333, 333_333_334, 29_000_000_000] {
        let history = stored(2, previous, [0; 8])?;
        let case = Case { history, ..Case::failing(UNAVAILABLE, 2) }.roll(u64::MAX / 3);
        suite.add(&format!("decorrelated after {previous} ns"), &decorrelated, &case)?;
    }

    let immediate = waived(
        "immediate",
        PolicySpec {
            backoff: Backoff::Fixed { delay: Duration::ZERO },
            jitter: Jitter::None,
            ..PolicySpec::sync_api()
        },
    )?;
    for nanos in [29_999_999_999, 30_000_000_000, 30_000_000_001] {
        let case = Case::failing(UNAVAILABLE, 1).after(Duration::from_nanos(nanos));
        suite.add(&format!("no wait, {nanos} ns gone"), &immediate, &case)?;
    }
    counters(suite)
}

/// Counters at their limits, and call times against a class limit.
fn counters(suite: &mut Suite) -> Result<()> {
    let matrix = Policy::decision_matrix();
    let deadlock = FailureKind::Fault(Fault::DbDeadlock);
    let call = FixedGates { estimated_call: Duration::from_millis(700), refuse: None };
    for millis in [8_799, 8_800, 8_801] {
        let case = Case { gates: call, ..Case::failing(deadlock, 1) };
        let name = format!("a class limit counts the call's time, {millis} ms gone");
        suite.add(&name, &matrix, &case.after(Duration::from_millis(millis)))?;
    }
    for spent in [2, 3, 255] {
        let history = stored(2, 5, [0, 0, 0, 0, 0, spent, 0, 0])?;
        let case = Case { history, ..Case::failing(deadlock, 2) };
        suite.add(&format!("{spent} retries spent on deadlocks"), &matrix, &case)?;
        let other = Case { history, ..Case::failing(UNAVAILABLE, 2) };
        suite.add(&format!("{spent} retries spent on deadlocks, then a 503"), &matrix, &other)?;
    }
    let mut generous = PolicySpec::decision_matrix();
    generous.class_limits[3].max_retries = 100;
    let generous = waived("generous", generous)?;
    for spent in [99, 100] {
        let history = stored(2, 5, [0, 0, 0, 0, 0, spent, 0, 0])?;
        let case = Case { history, ..Case::failing(deadlock, 2) };
        suite.add(&format!("{spent} of 100 retries spent"), &generous, &case)?;
    }
    // A class limit can also name DNS failures; both limits hold.
    let mut named = PolicySpec::decision_matrix();
    named.class_limits[0].failures.push(FailureKind::Fault(Fault::Dns));
    let named = waived("dns-named", named)?;
    for spent in [[0; 8], [1, 0, 1, 0, 0, 0, 0, 0], [0, 0, 5, 0, 0, 0, 0, 0]] {
        let history = stored(2, 5, spent)?;
        let case = Case { history, ..Case::failing(FailureKind::Fault(Fault::Dns), 2) };
        suite.add(&format!("DNS under a class limit, spent {spent:?}"), &named, &case)?;
    }
    Ok(())
}

/// Sums and products beyond 64 bits stop at the largest number. These cases need whole 64-bit
/// integers from the JSON reader.
pub(super) fn saturation(suite: &mut Suite) -> Result<()> {
    let late = Timestamp::from_nanos(u64::MAX - 1_000_000_000);
    let policy = Policy::async_event();
    for attempts in [1, 2, 5] {
        for roll in [0, u64::MAX] {
            let mut history = History::start(late, Repeatable::ByKey);
            for _ in 0..attempts {
                history = history.begin_attempt();
            }
            let case =
                Case { history, now: late, ..Case::failing(UNAVAILABLE, attempts) }.roll(roll);
            let name =
                format!("a second before the end of time, attempt {attempts}, roll {roll:#x}");
            suite.add(&name, &policy, &case)?;
            let asked = case.asked(Duration::from_secs(u64::MAX));
            suite.add(&format!("{name}, asked to wait for ever"), &policy, &asked)?;
        }
    }
    let decorrelated = waived(
        "decorrelated",
        PolicySpec { jitter: Jitter::Decorrelated, ..PolicySpec::async_event() },
    )?;
    let history = stored(2, u64::MAX / 2, [0; 8])?;
    let case = Case { history, ..Case::failing(UNAVAILABLE, 2) };
    suite.add("a previous backoff whose triple does not fit", &decorrelated, &case.clone())?;
    suite.add("the same, smallest roll", &decorrelated, &case.roll(0))?;
    Ok(())
}
