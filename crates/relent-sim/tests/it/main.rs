//! The simulator against results nobody here wrote, against theory, and against itself.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod anything;
mod herd;
mod occ;
mod parts;
mod reading;
mod reports;
mod shipped;
mod theory;

use relent_policy::Policy;
use relent_sim::{Plan, Run, Scenario, Study, candidate, simulate};

/// A scenario that comes with the crate.
fn known(name: &str) -> Scenario {
    let known = relent_sim::shipped().iter().find(|known| known.name == name).unwrap();
    read(known.text)
}

#[track_caller]
fn read(text: &str) -> Scenario {
    Scenario::parse(text, &|_| Err("no files here".into())).unwrap()
}

/// Runs a scenario once with one of its policies.
fn run(scenario: &Scenario, policy: &str) -> Run {
    let policy = scenario.policies.iter().find(|known| known.id() == policy).unwrap();
    simulate(scenario, policy, 1)
}

fn policy(text: &str) -> Policy {
    candidate(&toml::from_str(text).unwrap()).unwrap()
}

fn study(scenario: &Scenario, seeds: u64) -> Study {
    let plan = Plan { seeds, first_seed: 1, sweeps: false, threads: 2 };
    Study::run(scenario, &scenario.policies, plan, &|_, _| {})
}

#[track_caller]
fn assert_near(found: f64, expected: f64, share: f64, what: &str) {
    let off = (found / expected - 1.0).abs();
    assert!(off <= share, "{what}: expected {expected} within {share}, found {found}");
}
