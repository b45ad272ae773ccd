//! Reads a policy document (JSON) and says what is wrong with it, or what it does.
//!
//! Exit code 0 if the policy may be used, 1 if it is refused, 2 if the file cannot be read.

use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use relent_policy::{Document, Policy, Timestamp};

fn main() -> ExitCode {
    let Some(path) = std::env::args().nth(1) else {
        eprintln!("usage: cargo run --example check_policy -- POLICY.json");
        return ExitCode::from(2);
    };
    let document =
        std::fs::read_to_string(&path).map_err(|error| error.to_string()).and_then(|text| {
            serde_json::from_str::<Document>(&text).map_err(|error| error.to_string())
        });
    let document = match document {
        Ok(document) => document,
        Err(error) => {
            eprintln!("cannot read {path}: {error}");
            return ExitCode::from(2);
        }
    };
    let today = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = Timestamp::ZERO + today;
    match Policy::from_document(&document, now) {
        Ok(policy) => {
            describe(&policy, now);
            ExitCode::SUCCESS
        }
        Err(rejected) => {
            println!("{rejected}");
            ExitCode::FAILURE
        }
    }
}

fn describe(policy: &Policy, now: Timestamp) {
    println!("policy `{}` may be used", policy.id());
    println!("  after attempt   shortest      median     longest");
    for attempt in 1..policy.max_attempts() {
        let ceiling = policy.ceiling(attempt);
        let delay = |roll| seconds(policy.delay(attempt, ceiling / 3, roll));
        println!(
            "  {attempt:>13} {:>10} {:>11} {:>11}",
            delay(0),
            delay(u64::MAX / 2),
            delay(u64::MAX)
        );
    }
    for waived in policy.waived(now) {
        let waiver = &waived.waiver;
        println!("  waived until {}: {} ({})", waiver.expires, waived.problem, waiver.approver);
    }
}

fn seconds(delay: Duration) -> String {
    format!("{:.3} s", delay.as_secs_f64())
}
