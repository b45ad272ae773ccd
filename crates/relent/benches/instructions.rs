//! Instructions per successful call, counted by callgrind: the same on a busy machine as on an idle
//! one.
//!
//! `cargo bench -p relent --bench instructions` runs itself under `valgrind` twice for each call, with
//! 1,000 and with 2,000 repetitions, and divides the difference.

#[path = "common/subjects.rs"]
#[expect(dead_code, reason = "the failing calls are only timed")]
mod subjects;

use std::hint::black_box;
use std::process::{Command, ExitCode};

const REPETITIONS: [u64; 2] = [1_000, 2_000];

/// Repeats a call so many times.
type Repeat = fn(u64);

const CALLS: [(&str, Repeat); 13] = [
    ("an empty loop", |n| repeat(n, |_| true)),
    ("bare future", |n| repeat(n, subjects::bare)),
    ("reading the clock", |n| {
        repeat(n, |_| black_box(std::time::Instant::now()).elapsed().is_zero());
    }),
    ("relent: budget, deadline, breaker", |n| {
        repeat(n, subjects::relent_call(subjects::gated()));
    }),
    ("relent: ungated", |n| repeat(n, subjects::relent_call(subjects::ungated()))),
    ("relent run: budget, deadline, breaker", |n| {
        repeat(n, subjects::relent_run(subjects::gated()));
    }),
    ("relent run: ungated", |n| repeat(n, subjects::relent_run(subjects::ungated()))),
    ("peer backon", |n| repeat(n, subjects::backon_plain)),
    ("peer backon: jitter, when, notify", |n| repeat(n, subjects::backon_all)),
    ("peer tower", |n| repeat(n, subjects::tower_plain())),
    ("peer tower: TpsBudget", |n| repeat(n, subjects::tower_budgeted())),
    ("peer execution-policy: budget, timeouts", |n| {
        repeat(n, subjects::execution_policy_budgeted());
    }),
    ("peer google-cloud-gax", |n| repeat(n, subjects::gax_plain())),
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    if let [_, flag, index, repetitions] = args.as_slice()
        && flag == "--call"
        && let (Ok(index), Ok(repetitions)) = (index.parse::<usize>(), repetitions.parse())
    {
        CALLS[index].1(repetitions);
        return ExitCode::SUCCESS;
    }
    println!("{:<42} instructions", "call");
    for (index, (name, _)) in CALLS.iter().enumerate() {
        let counts = REPETITIONS.map(|repetitions| count(&args[0], index, repetitions));
        let [Some(few), Some(many)] = counts else {
            eprintln!("valgrind did not run; on Debian: apt-get install valgrind");
            return ExitCode::from(2);
        };
        println!("{name:<42} {:>12}", (many - few) / (REPETITIONS[1] - REPETITIONS[0]));
    }
    ExitCode::SUCCESS
}

fn count(program: &str, index: usize, repetitions: u64) -> Option<u64> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", program, "--call"])
        .args([index.to_string(), repetitions.to_string()])
        .output()
        .ok()?;
    let report = String::from_utf8(output.stderr).ok()?;
    let line = report.lines().find(|line| line.contains("Collected : "))?;
    line.rsplit(' ').next()?.parse().ok()
}

fn repeat(repetitions: u64, mut call: impl FnMut(u64) -> bool) {
    for n in 1..=repetitions {
        black_box(call(black_box(n)));
    }
}
