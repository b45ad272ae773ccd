//! From what a policy says to a document that says it, every field spelled out.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

use serde::{Serialize, Serializer};

use crate::backoff::Backoff;
use crate::jitter::Jitter;
use crate::policy::PolicySpec;
use crate::ratio::Ratio;
use crate::standard::Waiver;
use crate::time::millis;

impl Serialize for PolicySpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Written::of(self).serialize(serializer)
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Written<'s> {
    policy_id: &'s str,
    context: &'static str,
    max_attempts: u32,
    backoff: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    initial_delay_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    multiplier: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    schedule_ms: Option<Vec<u64>>,
    max_delay_ms: u64,
    jitter_type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    jitter_ratio: Option<f64>,
    total_budget_ms: u64,
    attempt_timeout_ms: u64,
    connect_timeout_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    retryable_status_codes: Option<Vec<u16>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retryable_grpc_codes: Option<Vec<u8>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retryable_failures: Option<Vec<&'static str>>,
    class_limits: Vec<WrittenLimit>,
    retry_after: WrittenRetryAfter,
    budget: Option<WrittenBudget>,
    breaker: Option<WrittenBreaker>,
    concurrency: WrittenConcurrency,
    dead_letter: bool,
    assume_repeatable: bool,
    response_preview_bytes: u32,
    waivers: Vec<WrittenWaiver<'s>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WrittenLimit {
    failures: Vec<String>,
    max_retries: u32,
    max_elapsed_ms: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WrittenRetryAfter {
    honour: bool,
    jitter_ratio: f64,
    jitter_max_ms: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WrittenBudget {
    ratio: f64,
    window_ms: u64,
    burst: u32,
    floor_retries: u32,
    floor_window_ms: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WrittenBreaker {
    failure_ratio: f64,
    calls_min: u32,
    window_ms: u64,
    cool_down_ms: u64,
    cool_down_max_ms: u64,
    probe_timeout_ms: u64,
    ramp_ms: u64,
    exhausted_for_ms: u64,
    exhausted_failure_ratio: f64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WrittenConcurrency {
    in_flight_max: u32,
    retries_in_flight_max: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    rate_per_second: Option<u32>,
}

#[derive(Serialize)]
struct WrittenWaiver<'s> {
    rule: &'static str,
    approver: &'s str,
    reason: &'s str,
    expires: String,
}

impl Written<'_> {
    fn of(spec: &PolicySpec) -> Written<'_> {
        let (initial, multiplier, schedule) = parameters(&spec.backoff);
        let jitter_ratio = match spec.jitter {
            Jitter::Proportional { ratio } => Some(f64::from(ratio)),
            _ => None,
        };
        Written {
            policy_id: &spec.policy_id,
            context: spec.context.name(),
            max_attempts: spec.max_attempts,
            backoff: spec.backoff.name(),
            initial_delay_ms: initial.map(millis),
            multiplier: multiplier.map(f64::from),
            schedule_ms: schedule.map(|delays| delays.iter().copied().map(millis).collect()),
            max_delay_ms: millis(spec.max_delay),
            jitter_type: spec.jitter.name(),
            jitter_ratio,
            total_budget_ms: millis(spec.total_budget),
            attempt_timeout_ms: millis(spec.attempt_timeout),
            connect_timeout_ms: millis(spec.connect_timeout),
            retryable_status_codes: spec
                .retryable_status_codes
                .as_ref()
                .map(|set| Vec::from_iter(set.iter().copied())),
            retryable_grpc_codes: spec
                .retryable_grpc_codes
                .as_ref()
                .map(|set| Vec::from_iter(set.iter().copied())),
            retryable_failures: spec
                .retryable_faults
                .as_ref()
                .map(|set| set.iter().map(|fault| fault.name()).collect()),
            class_limits: limits(spec),
            retry_after: WrittenRetryAfter {
                honour: spec.retry_after.honour,
                jitter_ratio: spec.retry_after.jitter_ratio.into(),
                jitter_max_ms: millis(spec.retry_after.jitter_max),
            },
            budget: budget(spec),
            breaker: breaker(spec),
            concurrency: WrittenConcurrency {
                in_flight_max: spec.concurrency.in_flight_max,
                retries_in_flight_max: spec.concurrency.retries_in_flight_max,
                rate_per_second: spec.concurrency.rate_per_second,
            },
            dead_letter: spec.dead_letter,
            assume_repeatable: spec.assume_repeatable,
            response_preview_bytes: spec.response_preview_bytes,
            waivers: spec.waivers.iter().map(waiver).collect(),
        }
    }
}

fn parameters(backoff: &Backoff) -> (Option<Duration>, Option<Ratio>, Option<&[Duration]>) {
    match backoff {
        Backoff::Exponential { initial, multiplier } => (Some(*initial), Some(*multiplier), None),
        Backoff::Linear { initial: delay } | Backoff::Fixed { delay } => (Some(*delay), None, None),
        Backoff::Schedule(delays) => (None, None, Some(delays)),
    }
}

fn limits(spec: &PolicySpec) -> Vec<WrittenLimit> {
    let limit = |limit: &crate::policy::ClassLimit| WrittenLimit {
        failures: limit.failures.iter().map(ToString::to_string).collect(),
        max_retries: limit.max_retries,
        max_elapsed_ms: millis(limit.max_elapsed),
    };
    spec.class_limits.iter().map(limit).collect()
}

fn budget(spec: &PolicySpec) -> Option<WrittenBudget> {
    spec.budget.map(|rules| WrittenBudget {
        ratio: rules.ratio.into(),
        window_ms: millis(rules.window),
        burst: rules.burst,
        floor_retries: rules.floor_retries,
        floor_window_ms: millis(rules.floor_window),
    })
}

fn breaker(spec: &PolicySpec) -> Option<WrittenBreaker> {
    spec.breaker.map(|rules| WrittenBreaker {
        failure_ratio: rules.failure_ratio.into(),
        calls_min: rules.calls_min,
        window_ms: millis(rules.window),
        cool_down_ms: millis(rules.cool_down),
        cool_down_max_ms: millis(rules.cool_down_max),
        probe_timeout_ms: millis(rules.probe_timeout),
        ramp_ms: millis(rules.ramp),
        exhausted_for_ms: millis(rules.exhausted_for),
        exhausted_failure_ratio: rules.exhausted_failure_ratio.into(),
    })
}

fn waiver(waiver: &Waiver) -> WrittenWaiver<'_> {
    WrittenWaiver {
        rule: waiver.rule.id(),
        approver: &waiver.approver,
        reason: &waiver.reason,
        expires: waiver.expires.to_string(),
    }
}
