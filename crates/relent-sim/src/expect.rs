//! What a scenario asks of the results: assertions for continuous integration. REQ-X1.

use std::fmt;

use crate::report::duration;
use crate::study::{PolicyResult, Study};
use crate::verdict::Verdict;

/// What must be true of the results; `None` asks for nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Expectations {
    /// The policies it is asked of; all of them if empty.
    pub policies: Vec<String>,
    /// Calls to the last server for each operation, at most.
    pub max_amplification: Option<f64>,
    /// Calls in one second, at most.
    pub max_peak_per_second: Option<f64>,
    /// Attempts a second that clients send on average, at most.
    pub max_load_per_second: Option<f64>,
    /// The time to recovery, at most.
    pub recover_within: Option<u64>,
    /// The share of operations that succeed, at least.
    pub min_success_ratio: Option<f64>,
    /// The 99th percentile of the time an operation takes, at most.
    pub max_p99: Option<u64>,
    /// Whether a metastable result is forbidden.
    pub not_metastable: bool,
}

/// An expectation that does not hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Broken {
    /// The policy.
    pub policy: String,
    /// The expectation's key in the scenario.
    pub key: &'static str,
    /// What was found.
    pub found: String,
    /// What was expected.
    pub expected: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Broken { policy, key, found, expected } = self;
        write!(f, "{policy}: {key} = {expected}, found {found}")
    }
}

impl Study {
    /// Every expectation of the scenario that does not hold.
    pub fn broken(&self) -> Vec<Broken> {
        let expected = &self.scenario.expectations;
        let asked = |result: &&PolicyResult| {
            let named = &expected.policies;
            named.is_empty() || named.iter().any(|name| name == result.policy.id())
        };
        self.results.iter().filter(asked).flat_map(|result| broken(expected, result)).collect()
    }

    /// How many expectations were looked at.
    pub fn expectations_checked(&self) -> usize {
        let expected = &self.scenario.expectations;
        let asked = |result: &&PolicyResult| {
            let named = &expected.policies;
            named.is_empty() || named.iter().any(|name| name == result.policy.id())
        };
        self.results.iter().filter(asked).count() * expected.count()
    }
}

impl Expectations {
    /// How many things are asked of each policy.
    pub fn count(&self) -> usize {
        let asked = [
            self.max_amplification.is_some(),
            self.max_peak_per_second.is_some(),
            self.max_load_per_second.is_some(),
            self.recover_within.is_some(),
            self.min_success_ratio.is_some(),
            self.max_p99.is_some(),
            self.not_metastable,
        ];
        asked.into_iter().filter(|asked| *asked).count()
    }
}

fn broken(expected: &Expectations, result: &PolicyResult) -> Vec<Broken> {
    let mut broken = Vec::new();
    let mut report = |key, found: String, expected: String| {
        broken.push(Broken { policy: result.policy.id().to_owned(), key, found, expected });
    };
    let mean = |of: fn(&crate::figures::Run) -> f64| result.figure(of).mean;
    let at_most = [
        ("max_amplification", expected.max_amplification, mean(|run| run.amplification)),
        ("max_peak_per_second", expected.max_peak_per_second, {
            mean(|run| run.peak_per_second as f64)
        }),
        ("max_load_per_second", expected.max_load_per_second, mean(|run| run.load_per_second)),
    ];
    for (key, most, found) in at_most {
        if let Some(most) = most.filter(|most| found > *most) {
            report(key, format!("{found:.3}"), most.to_string());
        }
    }
    let found = mean(|run| run.success_ratio);
    if let Some(least) = expected.min_success_ratio.filter(|least| found < *least) {
        report("min_success_ratio", format!("{found:.4}"), least.to_string());
    }
    if let Some(within) = expected.recover_within {
        let within = within as f64 / 1e9;
        match result.recovery_seconds() {
            Some(figure) if figure.mean <= within => {}
            Some(figure) => report("recover_within", duration(figure.mean), duration(within)),
            None if result.verdict == Verdict::NothingToRecoverFrom => {
                let found = "nothing to recover from".to_owned();
                report("recover_within", found, duration(within));
            }
            None => report("recover_within", "never".to_owned(), duration(within)),
        }
    }
    if let Some(most) = expected.max_p99 {
        let most = most as f64 / 1e9;
        let found = result.completion_seconds(0.99).filter(|p99| *p99 > most);
        if let Some(p99) = found {
            report("max_p99", duration(p99), duration(most));
        }
    }
    if expected.not_metastable && result.verdict == Verdict::Metastable {
        report("not_metastable", "metastable".to_owned(), "true".to_owned());
    }
    broken
}
