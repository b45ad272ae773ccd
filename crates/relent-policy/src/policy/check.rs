//! What no policy can do without, whatever the standard or a waiver says: numbers in range, and
//! fields that agree with each other.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Display;
use core::ops::RangeInclusive;
use core::time::Duration;

use super::PolicySpec;
use crate::backoff::Backoff;
use crate::history::CLASS_LIMITS_MAX;
use crate::jitter::Jitter;
use crate::problem::Problem;
use crate::standard::Rule;
use crate::time::millis;

const ATTEMPTS_MAX: u32 = 100;
const PREVIEW_BYTES_MAX: u32 = 4_096;
const DAY_MS: u64 = 86_400_000;
/// No wait and no life is longer.
const LONGEST_MS: u64 = 30 * DAY_MS;
const WAIVERS_MAX: usize = 10;
const TEXT_MAX: usize = 200;

/// Everything about the policy that could not work.
pub(super) fn structure(spec: &PolicySpec) -> Vec<Problem> {
    let mut checks = Checks::default();
    checks.identity(spec);
    checks.timing(spec);
    checks.codes(spec);
    checks.class_limits(spec);
    checks.shared_state(spec);
    checks.waivers(spec);
    checks.problems
}

#[derive(Default)]
struct Checks {
    problems: Vec<Problem>,
}

impl Checks {
    fn require(&mut self, holds: bool, field: &str, got: impl ToString, expected: impl ToString) {
        if !holds {
            self.problems.push(Problem::new(field, got, expected));
        }
    }

    fn within<T: PartialOrd + Display>(&mut self, field: &str, got: T, range: RangeInclusive<T>) {
        let expected = format!("{} to {}", range.start(), range.end());
        self.require(range.contains(&got), field, got, expected);
    }

    /// Documents write whole milliseconds; a finer duration would not survive being stored.
    fn millis(&mut self, field: &str, got: Duration, range: RangeInclusive<u64>) {
        self.within(field, millis(got), range);
        let whole =
            got == Duration::from_millis(millis(got)) || got > Duration::from_millis(LONGEST_MS);
        self.require(whole, field, format!("{got:?}"), "whole milliseconds");
    }

    fn identity(&mut self, spec: &PolicySpec) {
        let id = &spec.policy_id;
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        if !(1..=64).contains(&id.len()) || !id.chars().all(allowed) {
            let expected = "1 to 64 characters from A-Z a-z 0-9 _ - .";
            // The id is a label of every metric and a field of every log line.
            let problem = Problem::new("policyId", format!("{id:?}"), expected);
            self.problems.push(problem.rule(Rule::R10, "choose a short, plain name"));
        }
        self.within("maxAttempts", spec.max_attempts, 1..=ATTEMPTS_MAX);
        self.within("responsePreviewBytes", spec.response_preview_bytes, 0..=PREVIEW_BYTES_MAX);
    }

    fn timing(&mut self, spec: &PolicySpec) {
        self.millis("maxDelayMs", spec.max_delay, 0..=LONGEST_MS);
        self.millis("totalBudgetMs", spec.total_budget, 1..=LONGEST_MS);
        self.millis("attemptTimeoutMs", spec.attempt_timeout, 1..=millis(spec.total_budget).max(1));
        self.millis(
            "connectTimeoutMs",
            spec.connect_timeout,
            1..=millis(spec.attempt_timeout).max(1),
        );
        self.backoff(spec);
        if let Jitter::Proportional { ratio } = spec.jitter {
            self.within("jitterRatio", f64::from(ratio), 0.001..=1.0);
        }
        let after = &spec.retry_after;
        self.within("retryAfter.jitterRatio", f64::from(after.jitter_ratio), 0.0..=1.0);
        self.millis("retryAfter.jitterMaxMs", after.jitter_max, 0..=LONGEST_MS);
    }

    fn backoff(&mut self, spec: &PolicySpec) {
        let cap = millis(spec.max_delay);
        match &spec.backoff {
            Backoff::Exponential { initial, multiplier } => {
                self.millis("initialDelayMs", *initial, 0..=cap);
                self.within("multiplier", f64::from(*multiplier), 1.0..=100.0);
            }
            Backoff::Linear { initial: delay } | Backoff::Fixed { delay } => {
                self.millis("initialDelayMs", *delay, 0..=cap);
            }
            Backoff::Schedule(delays) => {
                let needed =
                    usize::try_from(spec.max_attempts.saturating_sub(1)).unwrap_or(usize::MAX);
                let expected = format!("{needed} to 100 delays, one for each retry of maxAttempts");
                let fits = (needed.max(1)..=100).contains(&delays.len());
                self.require(fits, "scheduleMs", format!("{} delays", delays.len()), expected);
                for (index, delay) in delays.iter().enumerate() {
                    self.millis(&format!("scheduleMs[{index}]"), *delay, 0..=cap);
                }
                let follows = !matches!(spec.jitter, Jitter::Decorrelated | Jitter::Additive);
                let expected = "FULL, EQUAL, PROPORTIONAL or NONE with a schedule";
                self.require(follows, "jitterType", spec.jitter.name(), expected);
            }
        }
    }

    fn codes(&mut self, spec: &PolicySpec) {
        for status in spec.retryable_status_codes.iter().flatten() {
            let failure = matches!(status, 100..=199 | 300..=599);
            self.require(
                failure,
                "retryableStatusCodes",
                status,
                "statuses from 100 to 599, not 2xx",
            );
        }
        for code in spec.retryable_grpc_codes.iter().flatten() {
            self.require((1..=16).contains(code), "retryableGrpcCodes", code, "codes from 1 to 16");
        }
    }

    fn class_limits(&mut self, spec: &PolicySpec) {
        let count = spec.class_limits.len();
        let expected = format!("at most {CLASS_LIMITS_MAX} limits");
        self.require(count <= CLASS_LIMITS_MAX, "classLimits", format!("{count} limits"), expected);
        let mut seen = BTreeSet::new();
        for (index, limit) in spec.class_limits.iter().enumerate() {
            let field = |name: &str| format!("classLimits[{index}].{name}");
            self.require(
                !limit.failures.is_empty(),
                &field("failures"),
                "[]",
                "at least one failure",
            );
            for failure in &limit.failures {
                let name = failure.to_string();
                let new = seen.insert(name.clone());
                self.require(new, &field("failures"), name, "failures that no other limit names");
            }
            self.within(&field("maxRetries"), limit.max_retries, 0..=ATTEMPTS_MAX);
            self.millis(&field("maxElapsedMs"), limit.max_elapsed, 1..=LONGEST_MS);
        }
    }

    fn shared_state(&mut self, spec: &PolicySpec) {
        if let Some(budget) = &spec.budget {
            self.within("budget.ratio", f64::from(budget.ratio), 0.001..=1.0);
            self.millis("budget.windowMs", budget.window, 1_000..=600_000);
            self.within("budget.burst", budget.burst, 1..=100_000);
            self.within("budget.floorRetries", budget.floor_retries, 0..=100_000);
            self.millis("budget.floorWindowMs", budget.floor_window, 1_000..=600_000);
        }
        if let Some(breaker) = &spec.breaker {
            self.within("breaker.failureRatio", f64::from(breaker.failure_ratio), 0.001..=1.0);
            self.within("breaker.callsMin", breaker.calls_min, 1..=1_000_000);
            self.millis("breaker.windowMs", breaker.window, 1_000..=600_000);
            self.millis(
                "breaker.coolDownMs",
                breaker.cool_down,
                1..=millis(breaker.cool_down_max).max(1),
            );
            self.millis("breaker.coolDownMaxMs", breaker.cool_down_max, 1..=DAY_MS);
            self.millis("breaker.probeTimeoutMs", breaker.probe_timeout, 1..=DAY_MS);
            self.millis("breaker.rampMs", breaker.ramp, 0..=DAY_MS);
            self.millis("breaker.exhaustedForMs", breaker.exhausted_for, 1..=DAY_MS);
            let ratio = f64::from(breaker.exhausted_failure_ratio);
            self.within("breaker.exhaustedFailureRatio", ratio, 0.001..=1.0);
        }
        let limits = &spec.concurrency;
        self.within("concurrency.inFlightMax", limits.in_flight_max, 1..=1_000_000);
        let retries = 1..=limits.in_flight_max.max(1);
        self.within("concurrency.retriesInFlightMax", limits.retries_in_flight_max, retries);
        if let Some(rate) = limits.rate_per_second {
            self.within("concurrency.ratePerSecond", rate, 1..=1_000_000);
        }
    }

    fn waivers(&mut self, spec: &PolicySpec) {
        let count = spec.waivers.len();
        let expected = format!("at most {WAIVERS_MAX} waivers");
        self.require(count <= WAIVERS_MAX, "waivers", format!("{count} waivers"), expected);
        let mut seen = BTreeSet::new();
        for (index, waiver) in spec.waivers.iter().enumerate() {
            let field = |name: &str| format!("waivers[{index}].{name}");
            let new = seen.insert(waiver.rule);
            self.require(new, &field("rule"), waiver.rule, "a rule that no other waiver names");
            for (name, text) in [("approver", &waiver.approver), ("reason", &waiver.reason)] {
                self.text(&field(name), text);
            }
        }
    }

    fn text(&mut self, field: &str, text: &String) {
        let fits = !text.trim().is_empty() && text.chars().count() <= TEXT_MAX;
        self.require(fits, field, format!("{text:?}"), format!("1 to {TEXT_MAX} characters"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Policy;
    use crate::time::Timestamp;

    /// A change to a preset, and the fields that must be reported for it.
    fn broken() -> Vec<(&'static [&'static str], PolicySpec)> {
        let base = PolicySpec::sync_api;
        let mut shared = base();
        if let (Some(budget), Some(breaker)) = (&mut shared.budget, &mut shared.breaker) {
            budget.burst = 0;
            budget.window = Duration::from_millis(999);
            breaker.calls_min = 0;
            breaker.cool_down = Duration::from_secs(31);
        }
        shared.concurrency.retries_in_flight_max = 1_001;
        shared.concurrency.rate_per_second = Some(0);
        let mut limited = PolicySpec::decision_matrix();
        limited.class_limits[1].failures = limited.class_limits[0].failures.clone();
        limited.class_limits[1].failures.truncate(1);
        limited.class_limits[2].failures.clear();
        let mut crowded = PolicySpec::decision_matrix();
        crowded.class_limits = (0..7)
            .map(|n| super::super::ClassLimit {
                failures: [crate::failure::FailureKind::Http(500 + n)].to_vec(),
                max_retries: 1,
                max_elapsed: Duration::from_secs(1),
            })
            .collect();
        let tiny = Duration::from_micros(1_500);
        let month = Duration::from_secs(31 * 86_400);
        alloc::vec![
            (&["policyId"], PolicySpec { policy_id: String::new(), ..base() }),
            (&["policyId"], PolicySpec { policy_id: "a/b".into(), ..base() }),
            (&["policyId"], PolicySpec { policy_id: "x".repeat(65), ..base() }),
            (&["maxAttempts"], PolicySpec { max_attempts: 0, ..base() }),
            (&["maxAttempts"], PolicySpec { max_attempts: 101, ..base() }),
            (&["initialDelayMs"], PolicySpec { max_delay: Duration::from_millis(999), ..base() }),
            (&["maxDelayMs"], PolicySpec { max_delay: month, ..base() }),
            (&["connectTimeoutMs"], PolicySpec { connect_timeout: tiny, ..base() }),
            (
                &["attemptTimeoutMs", "connectTimeoutMs"],
                PolicySpec { attempt_timeout: Duration::ZERO, ..base() }
            ),
            (&["attemptTimeoutMs"], PolicySpec { total_budget: Duration::from_secs(9), ..base() }),
            (&["scheduleMs"], PolicySpec { max_attempts: 9, ..PolicySpec::webhook() }),
            (&["jitterType"], PolicySpec { jitter: Jitter::Decorrelated, ..PolicySpec::webhook() }),
            (
                &["retryableStatusCodes"],
                PolicySpec { retryable_status_codes: Some([204].into()), ..base() }
            ),
            (
                &["retryableGrpcCodes"],
                PolicySpec { retryable_grpc_codes: Some([0].into()), ..base() }
            ),
            (
                &[
                    "budget.windowMs",
                    "budget.burst",
                    "breaker.callsMin",
                    "breaker.coolDownMs",
                    "concurrency.retriesInFlightMax",
                    "concurrency.ratePerSecond",
                ],
                shared,
            ),
            (&["classLimits[1].failures", "classLimits[2].failures"], limited),
            (&["classLimits"], crowded),
        ]
    }

    #[test]
    fn what_cannot_work_is_refused_by_field() {
        for (fields, spec) in broken() {
            let found: Vec<String> =
                structure(&spec).into_iter().map(|problem| problem.field).collect();
            assert_eq!(found, fields, "{spec:#?}");
            assert!(spec.build(Timestamp::ZERO).is_err());
        }
    }

    #[test]
    fn the_presets_stay_what_they_are() {
        assert_eq!(structure(Policy::webhook().spec()), []);
    }
}
