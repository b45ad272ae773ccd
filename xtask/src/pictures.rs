//! `cargo xtask pictures`: the pictures under `docs/pictures/`, drawn by the engine itself.
//!
//! Every curve and bar is what the engine answered in a small simulation with fixed rolls, so the
//! pictures cannot drift from the code: the same engine draws the same bytes, and a test says when
//! it no longer does. Without `--bless` this only says which files are stale.

mod backoff;
mod breaker;
mod budget;
mod herd;
mod jitter;

use std::process::ExitCode;

use anyhow::Result;
use relent_policy::{Expiry, Policy, PolicySpec, Rule, Timestamp, Waiver};

use crate::golden::{self, Mode};

pub(crate) fn run(mode: Mode) -> Result<ExitCode> {
    let files = [
        ("backoff-ceilings.svg", backoff::picture()),
        ("breaker-ramp.svg", breaker::picture()),
        ("budget-outage.svg", budget::picture()),
        ("herd.svg", herd::picture()),
        ("jitter-kinds.svg", jitter::picture()?),
    ];
    let files = files.into_iter().map(|(name, text)| (name.to_owned(), text)).collect();
    golden::settle("docs/pictures", files, mode)
}

/// Builds a policy that departs from the standard, as pictures of bad ideas must.
fn build_waived(mut spec: PolicySpec, rule: Rule) -> Result<Policy> {
    let expires: Expiry = "2099-12-31".parse()?;
    let (approver, reason) = ("the docs".to_owned(), "to show what it does".to_owned());
    spec.waivers.push(Waiver { rule, approver, reason, expires });
    Ok(spec.build(Timestamp::ZERO)?)
}

/// 4000 as `4,000`.
fn thousands(number: u64) -> String {
    match number / 1_000 {
        0 => number.to_string(),
        more => format!("{},{:03}", thousands(more), number % 1_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_are_what_the_engine_draws() {
        let outcome = run(Mode::Check).unwrap();
        assert_eq!(outcome, ExitCode::SUCCESS, "see cargo xtask pictures --bless");
    }

    #[test]
    fn large_numbers_are_grouped() {
        let cases = [(7, "7"), (1_020, "1,020"), (1_000_001, "1,000,001")];
        for (number, text) in cases {
            assert_eq!(thousands(number), text);
        }
    }
}
