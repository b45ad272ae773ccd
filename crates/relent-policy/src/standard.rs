//! The standard that every policy is held to, and the waivers that let one depart from it.
//!
//! Ten rules, R-1 to R-10. All of them are checked at once, and each finding says which rule, which
//! field, what was there, what is allowed and how to put it right. A departure is possible only with
//! a waiver that names the rule, who approved it, why, and until when; it stays visible as long as
//! it holds, and counts as a violation from the day it expires. REQ-E1.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use crate::calendar;
use crate::policy::PolicySpec;
use crate::problem::Problem;
use crate::time::Timestamp;

mod rules;

macro_rules! rules {
    ($($variant:ident $id:literal $title:literal)*) => {
        /// A rule of the standard.
        ///
        /// ```
        /// use relent_policy::Rule;
        ///
        /// assert_eq!(Rule::R7.to_string(), "R-7");
        /// assert_eq!("R-7".parse(), Ok(Rule::R7));
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Rule {
            $(#[doc = $title] $variant,)*
        }

        impl Rule {
            /// Every rule there is.
            pub const ALL: &[Rule] = &[$(Rule::$variant),*];

            /// Its number, as documents and messages write it.
            ///
            /// ```
            /// # use relent_policy::Rule;
            /// assert_eq!(Rule::R1.id(), "R-1");
            /// ```
            pub const fn id(self) -> &'static str {
                match self { $(Rule::$variant => $id),* }
            }

            /// What it asks for, in a few words.
            ///
            /// ```
            /// # use relent_policy::Rule;
            /// assert_eq!(Rule::R7.title(), "Retry budget");
            /// ```
            pub const fn title(self) -> &'static str {
                match self { $(Rule::$variant => $title),* }
            }
        }
    };
}

rules! {
    R1 "R-1" "Exponential backoff with full jitter"
    R2 "R-2" "Maximum retry count"
    R3 "R-3" "Total retry duration"
    R4 "R-4" "Retryable and non-retryable failures"
    R5 "R-5" "Retry-After compliance"
    R6 "R-6" "Idempotency"
    R7 "R-7" "Retry budget"
    R8 "R-8" "Dead-letter routing"
    R9 "R-9" "Security"
    R10 "R-10" "Observability"
}

/// The permission to depart from one rule for a while.
///
/// ```
/// use relent_policy::{Expiry, PolicySpec, Rule, Timestamp, Waiver};
///
/// let mut spec = PolicySpec { max_attempts: 8, ..PolicySpec::sync_api() };
/// assert!(spec.clone().build(Timestamp::ZERO).is_err());
/// spec.waivers.push(Waiver {
///     rule: Rule::R2,
///     approver: "Integration Architecture Board".into(),
///     reason: "the partner's gateway needs up to a minute after a deploy".into(),
///     expires: "2027-01-31".parse()?,
/// });
/// assert!(spec.build(Timestamp::ZERO).is_ok());
/// # Ok::<(), relent_policy::BadExpiry>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiver {
    /// The rule it is for.
    pub rule: Rule,
    /// Who allowed it.
    pub approver: String,
    /// Why.
    pub reason: String,
    /// The last day it holds.
    pub expires: Expiry,
}

/// The last day (UTC) on which a waiver holds.
///
/// ```
/// use relent_policy::{Expiry, Timestamp};
///
/// let expiry: Expiry = "1970-01-02".parse()?;
/// assert!(expiry.holds(Timestamp::from_secs(2 * 86_400 - 1)));
/// assert!(!expiry.holds(Timestamp::from_secs(2 * 86_400)));
/// assert_eq!(expiry.to_string(), "1970-01-02");
/// # Ok::<(), relent_policy::BadExpiry>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expiry {
    day: String,
    over_at: Timestamp,
}

impl Expiry {
    /// Whether the day is not over yet.
    pub fn holds(&self, now: Timestamp) -> bool {
        now < self.over_at
    }
}

impl core::str::FromStr for Expiry {
    type Err = BadExpiry;

    fn from_str(day: &str) -> Result<Expiry, BadExpiry> {
        let over_at = calendar::end_of_day(day).ok_or(BadExpiry)?;
        Ok(Expiry { day: day.to_string(), over_at })
    }
}

impl fmt::Display for Expiry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.day)
    }
}

/// The text is not a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadExpiry;

impl fmt::Display for BadExpiry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a day as YYYY-MM-DD")
    }
}

impl core::error::Error for BadExpiry {}

/// The standard, as something that policies are checked against.
///
/// ```
/// use relent_policy::{Jitter, PolicySpec, Rule, Standard, Timestamp};
///
/// let spec = PolicySpec { jitter: Jitter::None, budget: None, ..PolicySpec::sync_api() };
/// let conformance = Standard::check(&spec, Timestamp::ZERO);
/// let rules: Vec<_> = conformance.violations.iter().filter_map(|found| found.rule).collect();
/// assert_eq!(rules, [Rule::R1, Rule::R7]);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Standard;

/// How a policy stands to the standard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conformance {
    /// Departures that nothing allows.
    pub violations: Vec<Problem>,
    /// Departures under a waiver.
    pub waived: Vec<Waived>,
    /// Waivers for rules that the policy keeps anyway: they can go.
    pub idle_waivers: Vec<Waiver>,
}

/// A departure and the waiver that allows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waived {
    /// The departure.
    pub problem: Problem,
    /// What allows it.
    pub waiver: Waiver,
}

impl Standard {
    /// Checks a policy against every rule.
    pub fn check(spec: &PolicySpec, now: Timestamp) -> Conformance {
        let mut conformance = Conformance::default();
        let departures = rules::departures(spec);
        for waiver in &spec.waivers {
            if !departures.iter().any(|departure| departure.problem.rule == Some(waiver.rule)) {
                conformance.idle_waivers.push(waiver.clone());
            }
        }
        for departure in departures {
            conformance.sort(departure, &spec.waivers, now);
        }
        conformance
    }
}

/// A departure, and whether a waiver may allow it at all.
pub(crate) struct Departure {
    pub(crate) problem: Problem,
    pub(crate) waivable: bool,
}

impl Conformance {
    fn sort(&mut self, departure: Departure, waivers: &[Waiver], now: Timestamp) {
        let Departure { mut problem, waivable } = departure;
        let waiver = waivers.iter().find(|waiver| Some(waiver.rule) == problem.rule);
        match waiver.filter(|_| waivable) {
            Some(waiver) if waiver.expires.holds(now) => {
                self.waived.push(Waived { problem, waiver: waiver.clone() });
                return;
            }
            Some(waiver) => {
                problem.fix =
                    [&problem.fix, "; the waiver expired on ", &waiver.expires.day].concat();
            }
            None if waivable => problem.fix.push_str(", or add a waiver for the rule"),
            None => problem.fix.push_str("; no waiver can allow it"),
        }
        self.violations.push(problem);
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}

/// The text names no rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownRule;

impl fmt::Display for UnknownRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a rule from R-1 to R-10")
    }
}

impl core::error::Error for UnknownRule {}

impl core::str::FromStr for Rule {
    type Err = UnknownRule;

    fn from_str(text: &str) -> Result<Rule, UnknownRule> {
        Rule::ALL.iter().copied().find(|rule| rule.id() == text).ok_or(UnknownRule)
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for Rule {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.id())
    }
}

#[cfg(test)]
mod tests;
