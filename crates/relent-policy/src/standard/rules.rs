//! What each rule asks of a policy.

use alloc::format;
use alloc::vec::Vec;
use core::time::Duration;

use super::{Departure, Rule};
use crate::backoff::Backoff;
use crate::classify::Class;
use crate::failure::FailureKind;
use crate::fault::Fault;
use crate::jitter::Jitter;
use crate::policy::{Context, PolicySpec};
use crate::problem::Problem;
use crate::ratio::Ratio;
use crate::time::millis;

/// Every place where the policy departs from the standard, rule by rule.
pub(super) fn departures(spec: &PolicySpec) -> Vec<Departure> {
    let mut found = Found(Vec::new());
    backoff(spec, &mut found);
    jitter(spec, &mut found);
    retries(spec, &mut found);
    duration(spec, &mut found);
    classes(spec, &mut found);
    retry_after(spec, &mut found);
    idempotency(spec, &mut found);
    budget(spec, &mut found);
    dead_letters(spec, &mut found);
    certificates(spec, &mut found);
    found.0
}

struct Found(Vec<Departure>);

impl Found {
    fn unless(&mut self, keeps: bool, rule: Rule, problem: impl FnOnce() -> Problem, fix: &str) {
        if !keeps {
            self.0.push(Departure { problem: problem().rule(rule, fix), waivable: true });
        }
    }
}

/// Below this an exponential backoff is a fixed one in disguise.
const MULTIPLIER_MIN: Ratio = Ratio::from_thousandths(1_500);
const MULTIPLIER_MAX: Ratio = Ratio::from_thousandths(10_000);
/// Below this a retry is as good as immediate.
const INITIAL_DELAY_MIN: Duration = Duration::from_millis(10);

fn backoff(spec: &PolicySpec, found: &mut Found) {
    let webhook = spec.context == Context::Webhook;
    let expected = if webhook { "EXPONENTIAL or SCHEDULE" } else { "EXPONENTIAL" };
    let kind = || Problem::new("backoff", spec.backoff.name(), expected);
    match &spec.backoff {
        Backoff::Exponential { initial, multiplier } => {
            found.unless(
                *initial >= INITIAL_DELAY_MIN,
                Rule::R1,
                || Problem::new("initialDelayMs", millis(*initial), "10 or more"),
                "leave the dependency time to recover; the default is 1000",
            );
            found.unless(
                (MULTIPLIER_MIN..=MULTIPLIER_MAX).contains(multiplier),
                Rule::R1,
                || Problem::new("multiplier", multiplier, "1.5 to 10"),
                "let each delay grow; the default is 2",
            );
        }
        Backoff::Linear { .. } | Backoff::Fixed { .. } => {
            found.unless(false, Rule::R1, kind, "use EXPONENTIAL");
        }
        Backoff::Schedule(delays) => {
            found.unless(webhook, Rule::R1, kind, "use EXPONENTIAL");
            let increasing = delays.windows(2).all(|pair| pair[0] < pair[1]);
            let starts = delays.first().is_none_or(|first| *first >= INITIAL_DELAY_MIN);
            found.unless(
                increasing && starts,
                Rule::R3,
                || {
                    let shown: Vec<_> = delays.iter().map(|delay| millis(*delay)).collect();
                    Problem::new(
                        "scheduleMs",
                        format!("{shown:?}"),
                        "10 or more, each longer than the one before",
                    )
                },
                "sort the delays and drop repeated ones",
            );
        }
    }
}

fn jitter(spec: &PolicySpec, found: &mut Found) {
    let scheduled =
        matches!(spec.backoff, Backoff::Schedule(_)) && spec.context == Context::Webhook;
    let keeps = match spec.jitter {
        Jitter::Full | Jitter::Decorrelated => true,
        Jitter::Proportional { .. } => scheduled,
        Jitter::Equal | Jitter::Additive | Jitter::None => false,
    };
    let expected = if scheduled { "FULL or PROPORTIONAL" } else { "FULL or DECORRELATED" };
    let problem = || Problem::new("jitterType", spec.jitter.name(), expected);
    found.unless(keeps, Rule::R1, problem, "use FULL");
}

fn retries(spec: &PolicySpec, found: &mut Found) {
    let allowed = spec.context.retries_allowed();
    let retries = spec.max_attempts.saturating_sub(1);
    let (least, most) = (allowed.start(), allowed.end());
    let expected = || {
        format!("{} to {} ({least} to {most} retries) for {}", least + 1, most + 1, spec.context)
    };
    let problem = || Problem::new("maxAttempts", spec.max_attempts, expected());
    found.unless(allowed.contains(&retries), Rule::R2, problem, "choose a number in the range");
}

fn duration(spec: &PolicySpec, found: &mut Found) {
    let allowed = spec.context.total_budget_allowed();
    let expected = || format!("at most {} for {}", millis(allowed), spec.context);
    found.unless(
        spec.total_budget <= allowed,
        Rule::R3,
        || Problem::new("totalBudgetMs", millis(spec.total_budget), expected()),
        "shorten it, or hand the work over to an asynchronous task",
    );
}

fn classes(spec: &PolicySpec, found: &mut Found) {
    let fix = "take it out: trying again cannot help";
    for status in spec.retryable_status_codes.iter().flatten() {
        let retryable = Class::of(FailureKind::Http(*status)) == Class::Retryable;
        let expected = "from 408, 429, 500, 502, 503, 504";
        let problem = || Problem::new("retryableStatusCodes", status, expected);
        found.unless(retryable, Rule::R4, problem, fix);
    }
    for code in spec.retryable_grpc_codes.iter().flatten() {
        let retryable = Class::of(FailureKind::Grpc(*code)) == Class::Retryable;
        let problem = || Problem::new("retryableGrpcCodes", code, "from 4, 8, 10, 14");
        found.unless(retryable, Rule::R4, problem, fix);
    }
    let faults = spec.retryable_faults.iter().flatten();
    for fault in faults.filter(|fault| **fault != Fault::TlsCertificate) {
        let retryable = fault.class() == Class::Retryable;
        let expected = "transient failures, such as connect_refused or reset";
        let problem = || Problem::new("retryableFailures", fault.name(), expected);
        found.unless(retryable, Rule::R4, problem, fix);
    }
}

fn retry_after(spec: &PolicySpec, found: &mut Found) {
    let problem = || Problem::new("retryAfter.honour", "false", "true");
    found.unless(spec.retry_after.honour, Rule::R5, problem, "wait as long as the server asks");
}

fn idempotency(spec: &PolicySpec, found: &mut Found) {
    let problem = || Problem::new("assumeRepeatable", "true", "false");
    let fix = "send an idempotency key with POST and PATCH";
    found.unless(!spec.assume_repeatable, Rule::R6, problem, fix);
}

const BUDGET_RATIO_MAX: Ratio = Ratio::from_thousandths(200);
const BUDGET_WINDOW_MAX: Duration = Duration::from_secs(30);
const BURST_MAX: u32 = 10;
const FLOOR_MAX: u32 = 10;

fn budget(spec: &PolicySpec, found: &mut Found) {
    let Some(budget) = &spec.budget else {
        let problem =
            || Problem::new("budget", "null", "a budget of at most 0.2 over at most 30 s");
        found.unless(false, Rule::R7, problem, "leave the field out to get the default");
        return;
    };
    let fix = "lower it";
    let ratio = || Problem::new("budget.ratio", budget.ratio, "at most 0.2");
    found.unless(budget.ratio <= BUDGET_RATIO_MAX, Rule::R7, ratio, fix);
    let window = || Problem::new("budget.windowMs", millis(budget.window), "at most 30000");
    found.unless(budget.window <= BUDGET_WINDOW_MAX, Rule::R7, window, fix);
    let burst = || Problem::new("budget.burst", budget.burst, "at most 10");
    found.unless(budget.burst <= BURST_MAX, Rule::R7, burst, fix);
    let floor = || Problem::new("budget.floorRetries", budget.floor_retries, "at most 10");
    found.unless(budget.floor_retries <= FLOOR_MAX, Rule::R7, floor, fix);
}

fn dead_letters(spec: &PolicySpec, found: &mut Found) {
    let keeps = spec.dead_letter || !spec.context.needs_dead_letters();
    let expected = || format!("true for {}", spec.context);
    let problem = || Problem::new("deadLetter", "false", expected());
    found.unless(keeps, Rule::R8, problem, "let what is given up go to the dead letters");
}

/// A certificate error may be somebody in the middle: the one departure that no waiver allows.
fn certificates(spec: &PolicySpec, found: &mut Found) {
    if spec.retryable_faults.iter().flatten().any(|fault| *fault == Fault::TlsCertificate) {
        let problem =
            Problem::new("retryableFailures", "tls_certificate", "anything but tls_certificate");
        let problem = problem.rule(Rule::R9, "take it out: a bad certificate is never retried");
        found.0.push(Departure { problem, waivable: false });
    }
}
