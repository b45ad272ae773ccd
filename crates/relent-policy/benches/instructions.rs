//! Instructions per operation, counted by callgrind: the same on a busy machine as on an idle one.
//!
//! `cargo bench -p relent-policy --bench instructions` runs itself under `valgrind` twice for each
//! operation, with 1,000 and with 2,000 repetitions, and divides the difference.

use std::hint::black_box;
use std::process::{Command, ExitCode};
use std::time::Duration;

use backon::BackoffBuilder;
use relent_policy::{
    Budget, BudgetRules, Health, History, Lane, Outcome, Policy, Repeatable, Timestamp, Turn,
    Ungated, decide,
};
use tower::retry::budget::{Budget as _, TpsBudget};

const NOW: Timestamp = Timestamp::from_secs(1_794_700_800);
const REPETITIONS: [u64; 2] = [1_000, 2_000];

/// Repeats an operation so many times.
type Repeat = fn(u64);

const OPERATIONS: [(&str, Repeat); 11] = [
    ("an empty loop", |n| repeat(n, black_box)),
    ("decide: success", |n| decision(n, Policy::sync_api(), Outcome::Success)),
    ("decide: permanent failure", |n| decision(n, Policy::sync_api(), Outcome::http(404))),
    ("decide: retry, full jitter", |n| decision(n, Policy::sync_api(), Outcome::http(503))),
    ("decide: retry, Retry-After", |n| {
        decision(n, Policy::sync_api(), Outcome::http(429).retry_after(Duration::from_secs(5)));
    }),
    ("decide: retry, decision matrix", |n| {
        decision(n, Policy::decision_matrix(), Outcome::http(503));
    }),
    ("budget: first attempt", first_attempt),
    ("budget: refused retry", refused_retry),
    ("lane: successful call", successful_call),
    ("peer backon: next delay", backon_next),
    ("peer tower: deposit", tower_deposit),
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    if let [_, flag, index, repetitions] = args.as_slice()
        && flag == "--operation"
        && let (Ok(index), Ok(repetitions)) = (index.parse::<usize>(), repetitions.parse())
    {
        OPERATIONS[index].1(repetitions);
        return ExitCode::SUCCESS;
    }
    println!("{:<34} instructions", "operation");
    for (index, (name, _)) in OPERATIONS.iter().enumerate() {
        let counts = REPETITIONS.map(|repetitions| count(&args[0], index, repetitions));
        let [Some(few), Some(many)] = counts else {
            eprintln!("valgrind did not run; on Debian: apt-get install valgrind");
            return ExitCode::from(2);
        };
        println!("{name:<34} {:>12}", (many - few) / (REPETITIONS[1] - REPETITIONS[0]));
    }
    ExitCode::SUCCESS
}

fn count(program: &str, index: usize, repetitions: u64) -> Option<u64> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", program, "--operation"])
        .args([index.to_string(), repetitions.to_string()])
        .output()
        .ok()?;
    let report = String::from_utf8(output.stderr).ok()?;
    let line = report.lines().find(|line| line.contains("Collected : "))?;
    line.rsplit(' ').next()?.parse().ok()
}

fn repeat<T>(repetitions: u64, mut operation: impl FnMut(u64) -> T) {
    for n in 0..repetitions {
        black_box(operation(n));
    }
}

fn decision(repetitions: u64, policy: Policy, outcome: Outcome) {
    let history = History::start(NOW, Repeatable::ByKey).begin_attempt();
    repeat(repetitions, |n| {
        let roll = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        decide(
            black_box(&policy),
            black_box(&history),
            black_box(&outcome),
            &mut Ungated,
            NOW,
            roll,
        )
    });
}

fn first_attempt(repetitions: u64) {
    let mut budget = Budget::new(BudgetRules::default());
    budget.count_first_attempt(NOW);
    repeat(repetitions, |_| black_box(&mut budget).count_first_attempt(NOW));
}

fn refused_retry(repetitions: u64) {
    let mut budget = Budget::new(BudgetRules::default());
    (0..5).for_each(|_| budget.note(Health::Failing));
    repeat(repetitions, |_| black_box(&mut budget).try_retry(NOW).is_err());
}

fn successful_call(repetitions: u64) {
    let mut lane = Lane::new(&Policy::sync_api());
    repeat(repetitions, |_| {
        if let Ok(pass) = black_box(&mut lane).admit(Turn::First, NOW) {
            lane.finish(pass, &Outcome::Success, NOW, 0);
        }
    });
}

fn backon_next(repetitions: u64) {
    let builder = backon::ExponentialBuilder::default()
        .with_jitter()
        .with_min_delay(Duration::from_secs(1))
        .with_max_delay(Duration::from_secs(30))
        .without_max_times();
    let mut delays = builder.build();
    repeat(repetitions, |_| black_box(&mut delays).next());
}

fn tower_deposit(repetitions: u64) {
    let budget = TpsBudget::new(Duration::from_secs(30), 0, 0.2);
    repeat(repetitions, |_| black_box(&budget).deposit());
}
