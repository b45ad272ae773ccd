//! What is wrong with a policy: where, what was there, what was expected, and by which rule.
//!
//! Problems are collected, never thrown one at a time: whoever fixes a policy sees all of them.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use crate::standard::Rule;

/// One thing that is wrong with a policy.
///
/// ```
/// use relent_policy::{PolicySpec, Timestamp};
///
/// let spec = PolicySpec { max_attempts: 13, ..PolicySpec::sync_api() };
/// let rejected = spec.build(Timestamp::ZERO).unwrap_err();
/// assert_eq!(
///     rejected.problems[0].to_string(),
///     "maxAttempts must be 2 to 6 (1 to 5 retries) for sync-api, got 13 (R-2)",
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Problem {
    /// Where, as the policy document writes it: `budget.ratio`, `waivers[0].expires`.
    pub field: String,
    /// What was there.
    pub got: String,
    /// What is allowed there.
    pub expected: String,
    /// The rule of the standard that says so; none where no policy could work like this.
    pub rule: Option<Rule>,
    /// How to put it right.
    pub fix: String,
}

/// A policy that was refused, with every reason.
///
/// ```
/// use relent_policy::{PolicySpec, Timestamp};
///
/// let mut spec = PolicySpec::sync_api();
/// spec.max_attempts = 0;
/// spec.budget = None;
/// let rejected = spec.build(Timestamp::ZERO).unwrap_err();
/// assert!(rejected.problems.len() >= 2);
/// assert!(rejected.to_string().starts_with("policy `sync-api` was refused:"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// The policy's id, as far as it could be read.
    pub policy_id: String,
    /// Everything that is wrong with it, in the order of its fields.
    pub problems: Vec<Problem>,
}

/// Longer values are cut in messages; a policy document may hold anything.
const SHOWN_MAX: usize = 60;

impl Problem {
    pub(crate) fn new(field: &str, got: impl ToString, expected: impl ToString) -> Problem {
        let expected = expected.to_string();
        let fix = ["set ", &shown(field), " to ", &expected].concat();
        Problem { field: shown(field), got: shown(&got.to_string()), expected, rule: None, fix }
    }

    pub(crate) fn rule(self, rule: Rule, fix: &str) -> Problem {
        Problem { rule: Some(rule), fix: fix.to_string(), ..self }
    }
}

fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => [&text[..end], "…"].concat(),
        None => text.to_string(),
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} must be {}, got {}", self.field, self.expected, self.got)?;
        match self.rule {
            Some(rule) => write!(f, " ({rule})"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "policy `{}` was refused:", self.policy_id)?;
        for problem in &self.problems {
            write!(f, "\n  {problem}\n    fix: {}", problem.fix)?;
        }
        Ok(())
    }
}

impl core::error::Error for Rejected {}
