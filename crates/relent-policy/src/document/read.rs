//! From a document to what it says. Fields that are left out take the context's defaults.

use alloc::string::ToString;
use alloc::vec::Vec;

use super::fields::{Fields, MILLISECONDS, as_text, duration, whole};
use super::{Document, names};
use crate::backoff::Backoff;
use crate::breaker::BreakerRules;
use crate::budget::BudgetRules;
use crate::failure::FailureKind;
use crate::fault::Fault;
use crate::flow::ConcurrencyLimits;
use crate::jitter::Jitter;
use crate::policy::presets;
use crate::policy::{ClassLimit, Context, PolicySpec, RetryAfterRules};
use crate::problem::Problem;
use crate::standard::{BadExpiry, UnknownRule, Waiver};

/// The policy, with defaults where a field is missing or cannot be read, and all that is wrong.
pub(super) fn spec(document: &Document) -> (PolicySpec, Vec<Problem>) {
    let mut fields = Fields::of(document, "");
    let id = fields.text("policyId").map(ToString::to_string);
    if id.is_none() && !fields.has("policyId") {
        fields.problem("policyId", "nothing", "a name for the policy");
    }
    let context = fields.parse("context", CONTEXTS).unwrap_or(Context::AsyncEvent);
    let mut spec = PolicySpec { policy_id: id.unwrap_or_default(), ..PolicySpec::of(context) };

    replace(&mut spec.max_attempts, fields.u32("maxAttempts"));
    timing(&mut spec, &mut fields);
    failures(&mut spec, &mut fields);
    shared_state(&mut spec, &mut fields);
    replace(&mut spec.dead_letter, fields.bool("deadLetter"));
    replace(&mut spec.assume_repeatable, fields.bool("assumeRepeatable"));
    replace(&mut spec.response_preview_bytes, fields.u32("responsePreviewBytes"));
    replace(&mut spec.waivers, fields.objects("waivers", waiver));
    (spec, fields.finish())
}

const CONTEXTS: &str = "sync-api, async-event, webhook, batch-item or grpc-unary";

fn replace<T>(field: &mut T, read: Option<T>) {
    if let Some(value) = read {
        *field = value;
    }
}

fn timing(spec: &mut PolicySpec, fields: &mut Fields<'_>) {
    let kind = fields.word("backoff", &names::BACKOFFS);
    let initial = fields.millis("initialDelayMs");
    let multiplier = fields.ratio("multiplier");
    let schedule = fields.list("scheduleMs", MILLISECONDS, duration);
    let max_delay = fields.millis("maxDelayMs");
    let jitter = fields.word("jitterType", &names::JITTERS);
    let jitter_ratio = fields.ratio("jitterRatio");

    // A document that gives the parameters of one kind and not the kind itself means that kind.
    let exponential = fields.has("initialDelayMs") || fields.has("multiplier");
    let kind = match kind {
        Some(kind) => kind,
        None if fields.has("scheduleMs") => "SCHEDULE",
        None if exponential => "EXPONENTIAL",
        None => spec.backoff.name(),
    };
    let scheduled = kind == "SCHEDULE";
    for (name, fits) in [
        ("initialDelayMs", !scheduled),
        ("multiplier", kind == "EXPONENTIAL"),
        ("scheduleMs", scheduled),
    ] {
        if fields.has(name) && !fits {
            fields.problem(name, "a value", &["left out with ", kind].concat());
        }
    }

    let initial = initial.unwrap_or(presets::INITIAL_DELAY);
    let preset = core::mem::replace(&mut spec.backoff, Backoff::Schedule(Vec::new()));
    spec.backoff = match (kind, preset) {
        ("LINEAR", _) => Backoff::Linear { initial },
        ("FIXED", _) => Backoff::Fixed { delay: initial },
        ("SCHEDULE", Backoff::Schedule(preset)) => Backoff::Schedule(schedule.unwrap_or(preset)),
        ("SCHEDULE", _) => Backoff::Schedule(schedule.unwrap_or_default()),
        _ => {
            Backoff::Exponential { initial, multiplier: multiplier.unwrap_or(presets::MULTIPLIER) }
        }
    };
    spec.jitter = match jitter {
        Some("FULL") => Jitter::Full,
        Some("DECORRELATED") => Jitter::Decorrelated,
        Some("EQUAL") => Jitter::Equal,
        Some("ADDITIVE") => Jitter::Additive,
        Some("NONE") => Jitter::None,
        None if !scheduled => Jitter::Full,
        _ => Jitter::Proportional { ratio: jitter_ratio.unwrap_or(presets::PROPORTIONAL_RATIO) },
    };
    if fields.has("jitterRatio") && !matches!(spec.jitter, Jitter::Proportional { .. }) {
        let with = ["left out with ", spec.jitter.name()].concat();
        fields.problem("jitterRatio", "a value", &with);
    }
    let default_max_delay = match (&spec.backoff, spec.jitter) {
        (Backoff::Schedule(delays), Jitter::Proportional { ratio }) => {
            presets::roof_of(delays, ratio)
        }
        (Backoff::Schedule(delays), _) => delays.iter().max().copied().unwrap_or_default(),
        _ => presets::MAX_DELAY,
    };
    spec.max_delay = max_delay.unwrap_or(default_max_delay);

    replace(&mut spec.total_budget, fields.millis("totalBudgetMs"));
    let attempt_timeout = fields.millis("attemptTimeoutMs");
    let connect_timeout = fields.millis("connectTimeoutMs");
    // Defaults give way to a shorter limit that was asked for.
    spec.attempt_timeout = attempt_timeout.unwrap_or(spec.attempt_timeout.min(spec.total_budget));
    spec.connect_timeout =
        connect_timeout.unwrap_or(spec.connect_timeout.min(spec.attempt_timeout));
}

fn failures(spec: &mut PolicySpec, fields: &mut Fields<'_>) {
    let status = |item: &Document| whole(item).and_then(|status| u16::try_from(status).ok());
    let code = |item: &Document| whole(item).and_then(|code| u8::try_from(code).ok());
    let kind = |item: &Document| as_text(item)?.parse::<FailureKind>().ok();
    let fault = |item: &Document| match kind(item) {
        Some(FailureKind::Fault(fault)) => Some(fault),
        _ => None,
    };
    let statuses = fields.list("retryableStatusCodes", "an HTTP status", status);
    let codes = fields.list("retryableGrpcCodes", "a gRPC code", code);
    let faults = fields.list("retryableFailures", FAILURE, fault);
    spec.retryable_status_codes = statuses.map(|list| list.into_iter().collect());
    spec.retryable_grpc_codes = codes.map(|list| list.into_iter().collect());
    spec.retryable_faults = faults.map(|list: Vec<Fault>| list.into_iter().collect());

    let limits = fields.objects("classLimits", |fields| {
        let failures = fields.list("failures", ANY_FAILURE, kind);
        let max_retries = fields.u32("maxRetries");
        let max_elapsed = fields.millis("maxElapsedMs");
        for name in ["failures", "maxRetries", "maxElapsedMs"] {
            if !fields.has(name) {
                fields.problem(name, "nothing", "given in a class limit");
            }
        }
        Some(ClassLimit {
            failures: failures?,
            max_retries: max_retries?,
            max_elapsed: max_elapsed?,
        })
    });
    replace(&mut spec.class_limits, limits);
}

const FAILURE: &str = "the name of a failure, such as connect_refused";
const ANY_FAILURE: &str = "a failure, such as http_503, grpc_14 or connect_refused";

fn shared_state(spec: &mut PolicySpec, fields: &mut Fields<'_>) {
    if let Some(document) = fields.get("retryAfter") {
        spec.retry_after = object(fields, document, "retryAfter", retry_after);
    }
    if let Some(document) = fields.get("budget") {
        spec.budget = nullable(fields, document, "budget", budget);
    }
    if let Some(document) = fields.get("breaker") {
        spec.breaker = nullable(fields, document, "breaker", breaker);
    }
    if let Some(document) = fields.get("concurrency") {
        spec.concurrency = object(fields, document, "concurrency", concurrency);
    }
}

fn object<T>(
    outer: &mut Fields<'_>,
    document: &Document,
    name: &str,
    read: fn(&mut Fields<'_>) -> T,
) -> T {
    let mut fields = Fields::of(document, name);
    let value = read(&mut fields);
    outer.report(fields.finish());
    value
}

fn nullable<T>(
    outer: &mut Fields<'_>,
    document: &Document,
    name: &str,
    read: fn(&mut Fields<'_>) -> T,
) -> Option<T> {
    (*document != Document::Null).then(|| object(outer, document, name, read))
}

fn retry_after(fields: &mut Fields<'_>) -> RetryAfterRules {
    let mut rules = RetryAfterRules::default();
    replace(&mut rules.honour, fields.bool("honour"));
    replace(&mut rules.jitter_ratio, fields.ratio("jitterRatio"));
    replace(&mut rules.jitter_max, fields.millis("jitterMaxMs"));
    rules
}

fn budget(fields: &mut Fields<'_>) -> BudgetRules {
    let mut rules = BudgetRules::default();
    replace(&mut rules.ratio, fields.ratio("ratio"));
    replace(&mut rules.window, fields.millis("windowMs"));
    replace(&mut rules.burst, fields.u32("burst"));
    replace(&mut rules.floor_retries, fields.u32("floorRetries"));
    replace(&mut rules.floor_window, fields.millis("floorWindowMs"));
    rules
}

fn breaker(fields: &mut Fields<'_>) -> BreakerRules {
    let mut rules = BreakerRules::default();
    replace(&mut rules.failure_ratio, fields.ratio("failureRatio"));
    replace(&mut rules.calls_min, fields.u32("callsMin"));
    replace(&mut rules.window, fields.millis("windowMs"));
    replace(&mut rules.cool_down, fields.millis("coolDownMs"));
    replace(&mut rules.cool_down_max, fields.millis("coolDownMaxMs"));
    replace(&mut rules.probe_timeout, fields.millis("probeTimeoutMs"));
    replace(&mut rules.ramp, fields.millis("rampMs"));
    replace(&mut rules.exhausted_for, fields.millis("exhaustedForMs"));
    replace(&mut rules.exhausted_failure_ratio, fields.ratio("exhaustedFailureRatio"));
    rules
}

fn concurrency(fields: &mut Fields<'_>) -> ConcurrencyLimits {
    let mut limits = ConcurrencyLimits::default();
    replace(&mut limits.in_flight_max, fields.u32("inFlightMax"));
    let retries = fields.u32("retriesInFlightMax");
    limits.retries_in_flight_max =
        retries.unwrap_or(limits.retries_in_flight_max.min(limits.in_flight_max));
    limits.rate_per_second = fields.u32("ratePerSecond");
    limits
}

fn waiver(fields: &mut Fields<'_>) -> Option<Waiver> {
    let rule = fields.parse("rule", &UnknownRule.to_string());
    let approver = fields.text("approver").map(ToString::to_string);
    let reason = fields.text("reason").map(ToString::to_string);
    let expires = fields.parse("expires", &BadExpiry.to_string());
    for name in ["rule", "approver", "reason", "expires"] {
        if !fields.has(name) {
            fields.problem(name, "nothing", "given in a waiver");
        }
    }
    Some(Waiver { rule: rule?, approver: approver?, reason: reason?, expires: expires? })
}
