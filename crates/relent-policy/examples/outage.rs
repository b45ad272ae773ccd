//! What a policy does to a dependency that is down for thirty seconds, second by second.
//!
//! A thousand operations begin each second; the dependency answers nothing but 503 from second 5 to
//! second 35. Each policy runs on the same virtual clock and the same rolls, through the engine that
//! would decide in production.

use std::collections::BTreeMap;
use std::time::Duration;

use relent_policy::{
    Backoff, Decision, Expiry, History, Jitter, Lane, Outcome, Policy, PolicySpec, Rejected,
    Repeatable, Rule, Timestamp, Turn, Waiver, decide, roll,
};

const RATE: u64 = 1_000;
const SECONDS: u64 = 60;
const OUTAGE: std::ops::Range<u64> = 5..35;
const ROLL_SEED: u64 = 42;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("{RATE} operations/s; the dependency is down from second 5 to 35\n");
    let careless = PolicySpec {
        backoff: Backoff::Fixed { delay: Duration::from_secs(1) },
        jitter: Jitter::None,
        budget: None,
        breaker: None,
        ..PolicySpec::sync_api()
    };
    let jittered = PolicySpec { budget: None, breaker: None, ..PolicySpec::sync_api() };
    let budgeted = PolicySpec { breaker: None, ..PolicySpec::sync_api() };
    for (title, spec) in [
        ("fixed delay of 1 s, no budget (needs waivers)", careless),
        ("exponential with full jitter, no budget (needs a waiver)", jittered),
        ("the same with the 20 % budget", budgeted),
        ("sync-api: with budget and breaker", PolicySpec::sync_api()),
    ] {
        let policy = waived(spec)?;
        draw(title, &run(&policy));
    }
    Ok(())
}

struct Load {
    per_second: BTreeMap<u64, u64>,
    succeeded: u64,
}

fn run(policy: &Policy) -> Load {
    let mut lane = Lane::new(policy);
    let mut load =
        Load { per_second: (0..SECONDS).map(|second| (second, 0)).collect(), succeeded: 0 };
    // Attempts in the order in which they are due; the second number tells equal times apart.
    let mut due = BTreeMap::new();
    for task in 0..RATE * SECONDS {
        let at = Timestamp::from_nanos(task * 1_000_000_000 / RATE);
        due.insert((at, task), History::start(at, Repeatable::ByMethod));
    }
    while let Some(((now, task), history)) = due.pop_first() {
        let second = now.as_millis() / 1_000;
        if second >= SECONDS {
            break;
        }
        let history = history.begin_attempt();
        let Ok(pass) = lane.admit(Turn::of_attempt(history.attempts()), now) else { continue };
        *load.per_second.entry(second).or_default() += 1;
        let outcome = Outcome::http(if OUTAGE.contains(&second) { 503 } else { 200 });
        let roll = roll::for_attempt(ROLL_SEED, task, history.attempts());
        lane.finish(pass, &outcome, now, roll);
        match decide(policy, &history, &outcome, &mut lane.gates(), now, roll) {
            Decision::Done => load.succeeded += 1,
            Decision::RetryAt { at, charge, .. } => {
                due.insert((at, task), history.charged(charge));
            }
            Decision::GiveUp { .. } => {}
        }
    }
    load
}

fn draw(title: &str, load: &Load) {
    let peak = load.per_second.values().copied().max().unwrap_or(0);
    let total: u64 = load.per_second.values().sum();
    let bars: String = load.per_second.values().map(|requests| bar(*requests)).collect();
    println!("{title}\n  {bars}");
    println!(
        "  worst second {peak}, in all {total} requests for {} operations, {:.1} % succeeded\n",
        RATE * SECONDS,
        load.succeeded as f64 * 100.0 / (RATE * SECONDS) as f64,
    );
}

/// One character a second: an eighth of the height is 500 requests.
fn bar(requests: u64) -> char {
    const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    BARS[usize::try_from(requests.div_ceil(500)).unwrap_or(8).min(8)]
}

/// The policy, with waivers for the rules it breaks.
fn waived(spec: PolicySpec) -> Result<Policy, Box<dyn std::error::Error>> {
    let expires: Expiry = "2099-12-31".parse()?;
    let broken: Vec<Rule> =
        spec.problems(Timestamp::ZERO).into_iter().filter_map(|problem| problem.rule).collect();
    let waiver = |rule: &Rule| Waiver {
        rule: *rule,
        approver: "this example".into(),
        reason: "to see the harm".into(),
        expires: expires.clone(),
    };
    let waivers = Rule::ALL.iter().filter(|rule| broken.contains(rule)).map(waiver).collect();
    let mut spec = PolicySpec { waivers, ..spec };
    spec.concurrency.in_flight_max = 100_000;
    spec.concurrency.retries_in_flight_max = 100_000;
    Ok(spec.build(Timestamp::ZERO).map_err(|rejected: Rejected| rejected.to_string())?)
}
