//! Attempts as metrics, through the `metrics` facade. REQ-O2, REQ-O3, REQ-P2.
//!
//! | name | kind | labels |
//! |---|---|---|
//! | `retry_attempts_total` | counter | `service`, `dependency`, `policy`, `attempt_number`, `outcome` |
//! | `retry_exhausted_total` | counter | `service`, `dependency` |
//! | `retry_backoff_duration_seconds` | histogram | `service`, `dependency` |
//! | `retry_attempt_duration_seconds` | histogram | `service`, `dependency` |
//! | `retry_budget_utilization_ratio` | gauge | `service`, `dependency` |
//! | `retry_breaker_state` | gauge | `service`, `dependency` |
//!
//! The number of series is bounded by the program, not by its traffic: services, dependencies and
//! policies are names in the code, `attempt_number` has ten values and `outcome` three. Neither an
//! error nor anything a server has said becomes a label.
//!
//! The gauges are set when an attempt ends, so without traffic they stand still.

use std::sync::Once;

use ::metrics::{Label, Unit};
use ::metrics::{counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};
use relent_policy::{BreakerState, GiveUpReason};

use super::{AttemptEvent, GiveUpEvent, Observer};

const ATTEMPTS: &str = "retry_attempts_total";
const EXHAUSTED: &str = "retry_exhausted_total";
const BACKOFF: &str = "retry_backoff_duration_seconds";
const ATTEMPT_DURATION: &str = "retry_attempt_duration_seconds";
const BUDGET: &str = "retry_budget_utilization_ratio";
const BREAKER: &str = "retry_breaker_state";

/// Counts and measures every attempt with whatever recorder is installed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Meters;

impl Observer for Meters {
    fn attempt(&self, event: &AttemptEvent<'_>) {
        describe();
        let labels = labels(event.service, event.dependency);
        let mut attempt = labels.clone();
        attempt.push(Label::new("policy", event.policy.to_owned()));
        attempt.push(Label::from_static_parts("attempt_number", attempt_number(event.attempt)));
        attempt.push(Label::from_static_parts("outcome", outcome(event)));
        counter!(ATTEMPTS, attempt).increment(1);
        histogram!(ATTEMPT_DURATION, labels.clone()).record(event.took);
        if let Some(wait) = event.wait {
            histogram!(BACKOFF, labels.clone()).record(wait);
        }
        if let Some(ratio) = event.budget_utilization_ratio {
            gauge!(BUDGET, labels.clone()).set(ratio);
        }
        if let Some(state) = event.breaker {
            gauge!(BREAKER, labels).set(breaker_state(state));
        }
    }

    fn gave_up(&self, event: &GiveUpEvent<'_>) {
        describe();
        if is_exhausted(event.because) {
            counter!(EXHAUSTED, labels(event.service, event.dependency)).increment(1);
        }
    }
}

fn labels(service: &str, dependency: &str) -> Vec<Label> {
    vec![Label::new("service", service.to_owned()), Label::new("dependency", dependency.to_owned())]
}

/// Policies may allow any number of attempts; the series may not.
fn attempt_number(attempt: u32) -> &'static str {
    const NUMBERS: [&str; 10] = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"];
    let index = usize::try_from(attempt).unwrap_or(usize::MAX);
    NUMBERS.get(index).copied().unwrap_or("10+")
}

fn outcome(event: &AttemptEvent<'_>) -> &'static str {
    match (event.failure, event.wait) {
        (None, _) => "success",
        (Some(_), Some(_)) => "retry",
        (Some(_), None) => "give_up",
    }
}

/// Whether retrying was in order and came to its end. A permanent failure is an answer, and a call
/// that must not be repeated here was never one for retrying.
fn is_exhausted(because: GiveUpReason) -> bool {
    !matches!(
        because,
        GiveUpReason::Permanent
            | GiveUpReason::UnsafeToRepeat
            | GiveUpReason::RetriedAbove
            | GiveUpReason::RefusedByServer
    )
}

fn breaker_state(state: BreakerState) -> f64 {
    match state {
        BreakerState::Closed => 0.0,
        BreakerState::HalfOpen => 1.0,
        BreakerState::Open => 2.0,
    }
}

/// Tells the recorder what the names mean: at the first event rather than when a retrier is made,
/// because those are often statics that exist before a recorder does.
fn describe() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        describe_counter!(
            ATTEMPTS,
            Unit::Count,
            "Attempts that have ended, the first of each call included."
        );
        describe_counter!(
            EXHAUSTED,
            Unit::Count,
            "Calls that failed after all the retries they could have."
        );
        describe_histogram!(BACKOFF, Unit::Seconds, "Waits between an attempt and the next.");
        describe_histogram!(ATTEMPT_DURATION, Unit::Seconds, "How long attempts took.");
        describe_gauge!(
            BUDGET,
            "Share of the retry budget that is spent: 0 untouched, 1 all of it."
        );
        describe_gauge!(BREAKER, "The circuit breaker: 0 closed, 1 half-open, 2 open.");
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_beyond_the_ninth_share_a_series() {
        let numbers = [1, 9, 10, 11, u32::MAX].map(attempt_number);
        assert_eq!(numbers, ["1", "9", "10+", "10+", "10+"]);
    }
}
