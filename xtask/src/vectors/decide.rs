//! The `decide` suites: every rule and every edge of the decision, a file for each concern.

use std::time::Duration;

use anyhow::Result;
use relent_policy::{
    Backoff, Class, Decision, FailureKind, Fault, Hint, History, Hop, Jitter, Outcome, Policy,
    PolicySpec, Ratio, Refusal, Repeatable, Timestamp, roll,
};
use serde_json::Value;

use super::case::{CREATED, Case, FixedGates, Suite, waived};
use super::edges;

const UNAVAILABLE: FailureKind = FailureKind::Http(503);
const LIMITED: FailureKind = FailureKind::Http(429);

const ROLLS: [u64; 8] = [
    0,
    1,
    u64::MAX / 4,
    u64::MAX / 2,
    u64::MAX / 4 * 3,
    u64::MAX,
    0x9e37_79b9_7f4a_7c15,
    0x0123_4567_89ab_cdef,
];

type Fill = fn(&mut Suite) -> Result<()>;

pub(super) fn suites() -> Result<Vec<(String, Value)>> {
    let suites: [(&str, Fill); 10] = [
        ("backoff", backoff),
        ("jitter", jitter),
        ("classification", classification),
        ("limits", limits),
        ("retry-after", retry_after),
        ("idempotency", idempotency),
        ("gates", gates),
        ("lives", lives),
        ("edges", edges::edges),
        ("saturation", edges::saturation),
    ];
    let mut files = Vec::new();
    for (name, fill) in suites {
        let mut suite = Suite::new();
        fill(&mut suite)?;
        files.push((format!("decide/{name}.json"), suite.into_json()));
    }
    Ok(files)
}

fn secs(values: &[u64]) -> Vec<Duration> {
    values.iter().copied().map(Duration::from_secs).collect()
}

/// The ceilings of every kind of backoff, seen through no jitter.
fn backoff(suite: &mut Suite) -> Result<()> {
    let base =
        || PolicySpec { jitter: Jitter::None, max_attempts: 12, ..PolicySpec::async_event() };
    let exponential = |millis, thousandths| Backoff::Exponential {
        initial: Duration::from_millis(millis),
        multiplier: Ratio::from_thousandths(thousandths),
    };
    let kinds = [
        ("doubling", exponential(1_000, 2_000)),
        ("multiplier-1.5", exponential(100, 1_500)),
        ("multiplier-3.333", exponential(7, 3_333)),
        ("multiplier-100", exponential(1, 100_000)),
        ("multiplier-1", exponential(2_500, 1_000)),
        ("immediate", exponential(0, 2_000)),
        ("linear", Backoff::Linear { initial: Duration::from_millis(4_700) }),
        ("fixed", Backoff::Fixed { delay: Duration::from_millis(1_234) }),
        ("schedule", Backoff::Schedule(secs(&[1, 5, 30, 120, 900, 3, 2, 60, 61, 62, 63]))),
    ];
    for (name, backoff) in kinds {
        let policy = waived(name, PolicySpec { backoff, max_delay: cap_of(name), ..base() })?;
        for attempt in [1, 2, 3, 4, 5, 8, 11] {
            let name = format!("{name}: after attempt {attempt}");
            suite.add(&name, &policy, &Case::failing(UNAVAILABLE, attempt))?;
        }
    }
    Ok(())
}

fn cap_of(name: &str) -> Duration {
    Duration::from_secs(if name == "schedule" { 900 } else { 30 })
}

/// Every kind of jitter, at rolls from one end to the other.
fn jitter(suite: &mut Suite) -> Result<()> {
    let kinds = [
        ("full", Jitter::Full),
        ("decorrelated", Jitter::Decorrelated),
        ("equal", Jitter::Equal),
        ("additive", Jitter::Additive),
        ("proportional", Jitter::Proportional { ratio: Ratio::from_thousandths(300) }),
    ];
    for (kind, jitter) in kinds {
        let spec = PolicySpec { jitter, max_attempts: 9, ..PolicySpec::async_event() };
        let policy = waived(kind, spec)?;
        for attempt in [1, 2, 6] {
            for roll in ROLLS {
                let name = format!("{kind}: after attempt {attempt}, roll {roll:#x}");
                suite.add(&name, &policy, &Case::failing(UNAVAILABLE, attempt).roll(roll))?;
            }
        }
    }
    decorrelated_walk(suite)
}

/// Decorrelated jitter goes on from the wait before, up to the cap and down again.
fn decorrelated_walk(suite: &mut Suite) -> Result<()> {
    let spec =
        PolicySpec { jitter: Jitter::Decorrelated, max_attempts: 9, ..PolicySpec::async_event() };
    let policy = waived("decorrelated", spec)?;
    let mut case = Case::failing(UNAVAILABLE, 1);
    for step in 1..=8 {
        let roll = if step <= 5 { u64::MAX } else { roll::for_attempt(1, 2, step) };
        let name = format!("decorrelated walk: step {step}");
        if let Decision::RetryAt { at, charge, .. } =
            suite.add(&name, &policy, &case.clone().roll(roll))?
        {
            case = Case { history: case.history.charged(charge).begin_attempt(), now: at, ..case };
        }
    }
    Ok(())
}

fn classification(suite: &mut Suite) -> Result<()> {
    let standard = Policy::async_event();
    let narrowed = waived(
        "narrowed",
        PolicySpec {
            retryable_status_codes: Some([503].into()),
            retryable_grpc_codes: Some([14].into()),
            retryable_faults: Some([Fault::ConnectRefused].into()),
            ..PolicySpec::async_event()
        },
    )?;
    let widened = waived(
        "widened",
        PolicySpec {
            retryable_status_codes: Some([409, 425, 503, 520].into()),
            retryable_grpc_codes: Some([2, 13, 14].into()),
            retryable_faults: Some([Fault::Reset, Fault::HttpParse, Fault::Unknown].into()),
            ..PolicySpec::async_event()
        },
    )?;
    let statuses = [
        100, 101, 204, 301, 302, 304, 307, 400, 401, 402, 403, 404, 405, 408, 409, 410, 413, 418,
        422, 423, 425, 428, 429, 431, 451, 499, 500, 501, 502, 503, 504, 505, 506, 507, 508, 511,
        520, 529, 599,
    ];
    for status in statuses {
        let case = Case { outcome: Outcome::http(status), ..Case::failing(UNAVAILABLE, 1) };
        suite.add(&format!("HTTP {status}"), &standard, &case)?;
    }
    for code in 0..=17 {
        let case = Case { outcome: Outcome::grpc(code), ..Case::failing(UNAVAILABLE, 1) };
        suite.add(&format!("gRPC {code}"), &standard, &case)?;
    }
    for fault in Fault::ALL {
        let case = Case::failing(FailureKind::Fault(*fault), 1);
        suite.add(&format!("fault {}", fault.name()), &standard, &case)?;
    }
    for class in [Class::Retryable, Class::Permanent, Class::Unknown] {
        let case = Case::failing(FailureKind::Judged(class), 1);
        suite.add(&format!("the caller says {class}"), &standard, &case)?;
        suite.add(&format!("the caller says {class}, whatever the policy"), &narrowed, &case)?;
    }
    for policy in [&narrowed, &widened] {
        for kind in [
            FailureKind::Http(409),
            FailureKind::Http(425),
            FailureKind::Http(500),
            UNAVAILABLE,
            FailureKind::Http(520),
            FailureKind::Grpc(2),
            FailureKind::Grpc(8),
            FailureKind::Grpc(14),
            FailureKind::Fault(Fault::ConnectRefused),
            FailureKind::Fault(Fault::Reset),
            FailureKind::Fault(Fault::HttpParse),
            FailureKind::Fault(Fault::Unknown),
            FailureKind::Fault(Fault::TlsCertificate),
        ] {
            suite.add(
                &format!("{} policy: {kind}", policy.id()),
                policy,
                &Case::failing(kind, 1),
            )?;
        }
    }
    Ok(())
}

/// Attempts, class limits, DNS, unknown failures, deadlines and call times.
fn limits(suite: &mut Suite) -> Result<()> {
    let sync = Policy::sync_api();
    for attempts in 0..=6 {
        let name = format!("{attempts} of 4 attempts made");
        suite.add(&name, &sync, &Case::failing(UNAVAILABLE, attempts))?;
    }
    twice(suite, &sync, "a DNS failure", FailureKind::Fault(Fault::Dns))?;
    twice(suite, &sync, "an unknown failure", FailureKind::Fault(Fault::Unknown))?;
    twice(suite, &sync, "an unknown status", FailureKind::Http(520))?;

    for millis in [0, 28_999, 29_000, 29_499, 29_500, 29_501, 29_999, 30_000, 30_001, 90_000] {
        let elapsed = Duration::from_millis(millis);
        let case = Case::failing(UNAVAILABLE, 1).after(elapsed);
        suite.add(&format!("{millis} ms of 30000 gone"), &sync, &case)?;
        let gates = FixedGates { estimated_call: Duration::from_millis(400), refuse: None };
        let case = Case { gates, ..case };
        suite.add(&format!("{millis} ms of 30000 gone, calls take 400 ms"), &sync, &case)?;
    }
    let slow = FixedGates { estimated_call: Duration::from_secs(3_600), refuse: None };
    for millis in [19_499, 19_500, 19_501] {
        let case = Case { gates: slow, ..Case::failing(UNAVAILABLE, 1) };
        let name = format!("an estimate counts as the attempt timeout at most, {millis} ms gone");
        suite.add(&name, &sync, &case.after(Duration::from_millis(millis)))?;
    }
    for millis in [999, 1_000, 1_001, 40_000] {
        let case = Case::failing(UNAVAILABLE, 1);
        let history = case.history.with_deadline(CREATED + Duration::from_millis(millis));
        let name = format!("the caller's deadline is at {millis} ms");
        suite.add(&name, &sync, &Case { history, ..case })?;
    }
    let past = Case::failing(UNAVAILABLE, 1);
    let history = History::start(Timestamp::from_secs(2_000), Repeatable::ByKey).begin_attempt();
    suite.add("a clock that stepped back before the creation", &sync, &Case { history, ..past })?;
    class_limits(suite)
}

/// The same failure, then again after the retry it was granted.
fn twice(suite: &mut Suite, policy: &Policy, what: &str, kind: FailureKind) -> Result<()> {
    let first = Case::failing(kind, 1);
    if let Decision::RetryAt { at, charge, .. } =
        suite.add(&format!("{what}, the first"), policy, &first)?
    {
        let history = first.history.charged(charge).begin_attempt();
        let again = Case { history, now: at, ..first.clone() };
        suite.add(&format!("{what}, the second"), policy, &again)?;
        let other = Case { history, now: at, ..Case::failing(UNAVAILABLE, 2) };
        suite.add(&format!("{what}, then something else"), policy, &other)?;
    }
    Ok(())
}

fn class_limits(suite: &mut Suite) -> Result<()> {
    let matrix = Policy::decision_matrix();
    let kinds = [
        (UNAVAILABLE, 30),
        (LIMITED, 60),
        (FailureKind::Http(500), 15),
        (FailureKind::Fault(Fault::DbDeadlock), 10),
        (FailureKind::Fault(Fault::ConnectRefused), 30),
        (FailureKind::Http(502), 60),
    ];
    for (kind, secs) in kinds {
        let mut case = Case::failing(kind, 1).roll(u64::MAX / 16);
        for attempt in 1..=6 {
            let name = format!("matrix: {kind}, attempt {attempt}");
            let Decision::RetryAt { at, charge, .. } = suite.add(&name, &matrix, &case)? else {
                break;
            };
            case = Case { history: case.history.charged(charge).begin_attempt(), now: at, ..case };
        }
        for millis in [secs * 1_000 - 501, secs * 1_000 - 500, secs * 1_000 - 499] {
            let case = Case::failing(kind, 1).after(Duration::from_millis(millis));
            suite.add(&format!("matrix: {kind}, {millis} ms gone"), &matrix, &case)?;
        }
    }
    Ok(())
}

fn retry_after(suite: &mut Suite) -> Result<()> {
    let sync = Policy::sync_api();
    let day = Policy::async_event();
    for millis in [0, 1, 400, 499, 500, 501, 1_000, 5_000, 19_000, 29_499, 29_500, 29_501, 60_000] {
        for roll in [0, u64::MAX / 2, u64::MAX] {
            let case = Case::failing(LIMITED, 1).asked(Duration::from_millis(millis)).roll(roll);
            suite.add(&format!("asked for {millis} ms, roll {roll:#x}"), &sync, &case)?;
        }
    }
    for secs in [120, 3_600, 86_399, 86_400, 1_000_000] {
        let case = Case::failing(UNAVAILABLE, 3).asked(Duration::from_secs(secs)).roll(u64::MAX);
        suite.add(&format!("asked for {secs} s of a day"), &day, &case)?;
    }
    let permanent = Case::failing(FailureKind::Http(404), 1).asked(Duration::from_secs(1));
    suite.add("asked to come back after a 404", &sync, &permanent)?;
    let success = Case { outcome: Outcome::Success, ..permanent };
    suite.add("a success", &sync, &success)?;

    let mut deaf = PolicySpec::sync_api();
    deaf.retry_after.honour = false;
    let case = Case::failing(LIMITED, 1).asked(Duration::from_secs(5));
    suite.add("not honoured", &waived("deaf", deaf)?, &case)?;

    let mut exact = PolicySpec::sync_api();
    exact.retry_after.jitter_ratio = Ratio::from_thousandths(0);
    suite.add(
        "honoured to the nanosecond",
        &waived("exact", exact)?,
        &case.clone().roll(u64::MAX),
    )?;

    let gates = FixedGates { estimated_call: Duration::from_secs(2), refuse: None };
    for millis in [27_499, 27_500, 27_501] {
        let case = Case { gates, ..Case::failing(LIMITED, 1) }.asked(Duration::from_millis(millis));
        suite.add(&format!("asked for {millis} ms, calls take 2 s"), &sync, &case)?;
    }
    let mut stop = Case::failing(FailureKind::Grpc(14), 1);
    if let Outcome::Failure(failure) = &mut stop.outcome {
        failure.hint = Hint::Stop;
    }
    suite.add("a server that pushes back for good", &Policy::grpc_unary(), &stop)?;
    Ok(())
}

fn idempotency(suite: &mut Suite) -> Result<()> {
    let sync = Policy::sync_api();
    let trusting =
        waived("trusting", PolicySpec { assume_repeatable: true, ..PolicySpec::sync_api() })?;
    let ways = [
        ("neither method nor key", Repeatable::No),
        ("an idempotent method", Repeatable::ByMethod),
        ("a key", Repeatable::ByKey),
        ("the caller's word", Repeatable::Declared),
    ];
    for (what, repeatable) in ways {
        let history = History::start(CREATED, repeatable).begin_attempt();
        for kind in [UNAVAILABLE, FailureKind::Http(400), FailureKind::Fault(Fault::ConnectRefused)]
        {
            let case = Case { history, ..Case::failing(kind, 1) };
            suite.add(&format!("{what}: {kind}"), &sync, &case)?;
            suite.add(&format!("{what}: {kind}, trusting policy"), &trusting, &case)?;
        }
        let above = history.with_hop(Hop::RetriedAbove);
        let case = Case { history: above, ..Case::failing(UNAVAILABLE, 1) };
        suite.add(&format!("{what}: retried above"), &sync, &case)?;
        let success = Case { outcome: Outcome::Success, history, ..case };
        suite.add(&format!("{what}: success"), &sync, &success)?;
    }
    Ok(())
}

fn gates(suite: &mut Suite) -> Result<()> {
    let sync = Policy::sync_api();
    let until = CREATED + Duration::from_secs(5);
    for refuse in [Refusal::Budget, Refusal::BreakerOpen { until }] {
        let gates = FixedGates { estimated_call: Duration::ZERO, refuse: Some(refuse) };
        for (what, attempts, outcome) in [
            ("a failure", 1, Outcome::http(503)),
            ("asked to wait", 1, Outcome::http(429).retry_after(Duration::from_secs(2))),
            ("a success", 1, Outcome::Success),
            ("a permanent failure", 1, Outcome::http(400)),
            ("the last attempt", 4, Outcome::http(503)),
        ] {
            let case = Case { gates, outcome, ..Case::failing(UNAVAILABLE, attempts) };
            suite.add(&format!("{refuse}: {what}"), &sync, &case)?;
        }
        let late = Case { gates, ..Case::failing(UNAVAILABLE, 1) }.after(Duration::from_secs(40));
        suite.add(&format!("{refuse}: after the deadline"), &sync, &late)?;
    }
    Ok(())
}

/// Whole lives under each preset, from the first attempt to giving up.
fn lives(suite: &mut Suite) -> Result<()> {
    for (task, spec) in (1..).zip(PolicySpec::presets()) {
        let policy = spec.build(Timestamp::ZERO)?;
        let mut case = Case::failing(UNAVAILABLE, 1);
        for attempt in 1..=12 {
            case.roll = roll::for_attempt(42, task, attempt);
            let name = format!("{}: attempt {attempt}", policy.id());
            let Decision::RetryAt { at, charge, .. } = suite.add(&name, &policy, &case)? else {
                break;
            };
            case = Case {
                history: case.history.charged(charge).begin_attempt(),
                now: at + Duration::from_millis(120),
                ..case
            };
        }
    }
    Ok(())
}
