//! What is wrong with a scenario: in which line, which key, what is allowed, what was there.

use std::fmt;

/// One thing that is wrong with a scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioProblem {
    /// The line, from 1.
    pub line: usize,
    /// The key with those it is in: `clients.load`, `faults[0].kind`.
    pub key: String,
    /// What is wrong with it, and what is allowed.
    pub what: String,
}

/// A scenario that was refused, with every reason, by line.
///
/// ```
/// use relent_sim::Scenario;
///
/// let refused = Scenario::parse("horizon = 'soon'", &|_| Err("no files".into())).unwrap_err();
/// assert!(refused.to_string().contains("line 1: horizon must be a time such as"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadScenario {
    /// Everything that is wrong, by line.
    pub problems: Vec<ScenarioProblem>,
}

impl fmt::Display for ScenarioProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {} {}", self.line, self.key, self.what)
    }
}

impl fmt::Display for BadScenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.problems.len();
        let problems = if count == 1 { "1 problem" } else { &format!("{count} problems") };
        write!(f, "the scenario has {problems}")?;
        self.problems.iter().try_for_each(|problem| write!(f, "\n  {problem}"))
    }
}

impl std::error::Error for BadScenario {}
