//! The breaker suite: traces of calls and what became of them.

use anyhow::Result;
use relent_policy::{
    Admission, Breaker, BreakerRules, BreakerState, Health, Policy, Ratio, Timestamp, roll,
};
use serde_json::{Value, json};
use std::time::Duration;

const MS: u64 = 1_000_000;

struct Trace {
    breaker: Breaker,
    events: Vec<Value>,
}

impl Trace {
    fn admit(&mut self, at: u64) -> Option<Admission> {
        let admitted = self.breaker.admit(Timestamp::from_nanos(at));
        let shown = match admitted {
            Ok(admission) => json!(admission_name(admission)),
            Err(refused) => json!(refused.until.as_nanos()),
        };
        self.events.push(json!([at, "admit", shown]));
        admitted.ok()
    }

    fn record(&mut self, at: u64, admission: Admission, health: Health, roll: u64) {
        self.breaker.record(admission, health, Timestamp::from_nanos(at), roll);
        let shown = format!("{roll:#018x}");
        let admission = admission_name(admission);
        self.events.push(json!([at, "record", admission, health_name(health), shown]));
        self.state(at);
    }

    fn exhausted(&mut self, at: u64, roll: u64) {
        self.breaker.budget_exhausted(Timestamp::from_nanos(at), roll);
        self.events.push(json!([at, "exhausted", format!("{roll:#018x}")]));
        self.state(at);
    }

    fn state(&mut self, at: u64) {
        let state = match self.breaker.state(Timestamp::from_nanos(at)) {
            BreakerState::Closed => "closed",
            BreakerState::Open => "open",
            BreakerState::HalfOpen => "half_open",
        };
        self.events.push(json!([at, "state", state]));
    }

    /// Asks, and fails or succeeds at once if let through.
    fn call(&mut self, at: u64, health: Health, roll: u64) {
        if let Some(admission) = self.admit(at) {
            self.record(at, admission, health, roll);
        }
    }
}

type Fill = fn(&mut Trace);

pub(super) fn suite() -> Result<Value> {
    let default = BreakerRules::default();
    let quick = BreakerRules {
        failure_ratio: Ratio::from_thousandths(600),
        calls_min: 5,
        window: Duration::from_secs(3),
        cool_down: Duration::from_millis(700),
        cool_down_max: Duration::from_secs(4),
        probe_timeout: Duration::from_secs(2),
        ramp: Duration::from_millis(1_500),
        exhausted_for: Duration::from_secs(2),
        exhausted_failure_ratio: Ratio::from_thousandths(300),
    };
    let odd_ramp = BreakerRules { ramp: Duration::from_millis(7), ..quick };
    let cases: [(&str, BreakerRules, Fill); 10] = [
        ("opens, probes, relapses, ramps up and closes", default, life),
        ("a lost probe and one that was never sent", default, lost_probes),
        ("sustained exhaustion opens it", default, exhaustion),
        ("exhaustion: its own ratio, exact limits, pauses", picky(), exact_exhaustion),
        ("no signal counts nothing; late results settle nothing", default, silence),
        ("opening forgets what was counted", quick, forgetting),
        ("a ramp of odd length", odd_ramp, odd),
        ("no ramp", BreakerRules { ramp: Duration::ZERO, ..default }, life),
        ("random, quick rules", quick, |trace| random(trace, 11, 600, 150)),
        ("random, default rules", default, |trace| random(trace, 12, 600, 800)),
    ];
    let mut written = Vec::new();
    for (name, rules, fill) in cases {
        let mut trace = Trace { breaker: Breaker::new(rules), events: Vec::new() };
        fill(&mut trace);
        let mut spec = Policy::sync_api().spec().clone();
        spec.breaker = Some(rules);
        let document = serde_json::to_value(spec)?;
        written.push(json!({ "name": name, "rules": document["breaker"], "trace": trace.events }));
    }
    Ok(json!({ "version": 1, "cases": written }))
}

fn life(trace: &mut Trace) {
    (0..20).for_each(|_| trace.call(1_000 * MS, Health::Failing, 0));
    trace.call(5_999 * MS, Health::Alive, 0);
    trace.call(6_000 * MS, Health::Failing, u64::MAX);
    (0..4).for_each(|n| trace.call((7_000 + n * 4_000) * MS, Health::Failing, u64::MAX / 2));
    trace.call(60_000 * MS, Health::Alive, 0);
    (0..60).for_each(|n| trace.call((60_000 + n * 200) * MS, Health::Alive, 0));
    (0..25).for_each(|n| trace.call((80_000 + n) * MS, Health::Failing, 7));
}

fn lost_probes(trace: &mut Trace) {
    (0..20).for_each(|_| trace.call(1_000 * MS, Health::Failing, 0));
    trace.admit(6_000 * MS);
    trace.admit(6_001 * MS);
    trace.record(6_002 * MS, Admission::Normal, Health::Alive, 0);
    trace.admit(36_000 * MS);
    trace.record(36_001 * MS, Admission::Probe, Health::NoSignal, 0);
    trace.call(36_001 * MS, Health::Alive, 0);
    trace.record(36_002 * MS, Admission::Probe, Health::Failing, 0);
}

fn exhaustion(trace: &mut Trace) {
    for n in 0..1_300_u64 {
        let health = if n % 20 < 9 { Health::Failing } else { Health::Alive };
        trace.call(n * 10 * MS, health, 0);
        if n % 50 == 0 {
            trace.exhausted(n * 10 * MS, 0);
        }
    }
}

/// Opens only through exhaustion, at 30 % failures.
fn picky() -> BreakerRules {
    BreakerRules {
        failure_ratio: Ratio::ONE,
        calls_min: 10,
        exhausted_for: Duration::from_secs(3),
        exhausted_failure_ratio: Ratio::from_thousandths(300),
        ramp: Duration::from_secs(20),
        ..BreakerRules::default()
    }
}

fn exact_exhaustion(trace: &mut Trace) {
    let calls = |trace: &mut Trace, at: u64, failing: u64| {
        for n in 0..10 {
            let health = if n < failing { Health::Failing } else { Health::Alive };
            trace.record(at, Admission::Normal, health, 0);
        }
    };
    calls(trace, 0, 2);
    (0..5).for_each(|n| trace.exhausted(n * 1_000 * MS, 0)); // long enough, too few failures
    calls(trace, 10_000 * MS, 3);
    trace.exhausted(10_000 * MS, 0);
    trace.exhausted(11_000 * MS, 0);
    trace.exhausted(12_000 * MS + 1, 0); // a nanosecond more than a second: begins anew
    trace.exhausted(13_000 * MS, 0);
    trace.exhausted(14_000 * MS, 0);
    trace.exhausted(15_000 * MS, 0);
    trace.exhausted(15_000 * MS + 1, 0); // three seconds exactly
    trace.call(20_000 * MS + 1, Health::Alive, 0);
    trace.exhausted(21_000 * MS, 0); // ramping: opens too, and begins anew
    calls(trace, 21_000 * MS, 4);
    (0..4).for_each(|n| trace.exhausted((22_000 + n * 1_000) * MS, 0));
}

fn silence(trace: &mut Trace) {
    (0..30).for_each(|_| trace.call(1_000 * MS, Health::NoSignal, 0));
    (0..20).for_each(|_| trace.call(1_500 * MS, Health::Failing, 0));
    trace.record(1_600 * MS, Admission::Probe, Health::Alive, 0);
    trace.record(1_600 * MS, Admission::Normal, Health::Failing, 0);
    trace.state(6_499 * MS);
    trace.state(6_500 * MS);
    trace.admit(6_500 * MS);
    trace.exhausted(6_501 * MS, 0);
}

/// The failures that opened it do not count again after the ramp begins.
fn forgetting(trace: &mut Trace) {
    (0..5).for_each(|n| trace.call((1_000 + n) * MS, Health::Failing, 0));
    trace.call(1_800 * MS, Health::Alive, 0);
    (0..4).for_each(|_| trace.record(1_801 * MS, Admission::Normal, Health::Failing, 0));
    trace.record(1_802 * MS, Admission::Normal, Health::Alive, 0);
    (0..3).for_each(|_| trace.record(4_900 * MS, Admission::Normal, Health::Failing, 0));
}

fn odd(trace: &mut Trace) {
    (0..5).for_each(|_| trace.call(1_000 * MS, Health::Failing, 3));
    trace.call(1_800 * MS, Health::Alive, 0);
    (0..80).for_each(|n| trace.call(1_800 * MS + n * 99_991, Health::Alive, 0));
}

fn random(trace: &mut Trace, seed: u64, length: u64, pause_max_ms: u64) {
    let draw = |n, max| roll::up_to(max, roll::for_attempt(seed, n, 0));
    let (mut now, mut probing) = (0, false);
    for n in 0..length {
        now += draw(3 * n, pause_max_ms * MS);
        let roll = roll::for_attempt(seed, 3 * n + 1, 1);
        match draw(3 * n + 2, 19) {
            0..=10 => match trace.admit(now) {
                Some(Admission::Normal) => {
                    trace.record(now, Admission::Normal, Health::Failing, roll);
                }
                Some(Admission::Probe) => probing = true,
                None => {}
            },
            11..=14 => trace.record(now, Admission::Normal, Health::Alive, roll),
            15 | 16 if probing => {
                probing = false;
                let health = [Health::Alive, Health::Failing, Health::NoSignal][(n % 3) as usize];
                trace.record(now, Admission::Probe, health, roll);
            }
            _ => trace.exhausted(now, roll),
        }
    }
}

fn admission_name(admission: Admission) -> &'static str {
    match admission {
        Admission::Normal => "normal",
        Admission::Probe => "probe",
    }
}

pub(super) fn health_name(health: Health) -> &'static str {
    match health {
        Health::Alive => "alive",
        Health::Failing => "failing",
        Health::NoSignal => "no_signal",
    }
}
