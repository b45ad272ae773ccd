//! Policies for the calls people make: the five contexts, the webhook schedules and the decision
//! matrix. REQ-B3, REQ-B4, REQ-L1, REQ-L2, REQ-L4, REQ-L5.

use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use super::{ClassLimit, Context, Policy, PolicySpec, RetryAfterRules};
use crate::backoff::Backoff;
use crate::breaker::BreakerRules;
use crate::budget::BudgetRules;
use crate::failure::FailureKind;
use crate::fault::Fault;
use crate::flow::ConcurrencyLimits;
use crate::jitter::Jitter;
use crate::ratio::Ratio;
use crate::time::{NANOS_PER_MILLI, Timestamp, nanos};

const SECOND: Duration = Duration::from_secs(1);
pub(crate) const INITIAL_DELAY: Duration = SECOND;
pub(crate) const MULTIPLIER: Ratio = Ratio::from_thousandths(2_000);
pub(crate) const MAX_DELAY: Duration = Duration::from_secs(30);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);

/// Attempts 2 to 8 of the standard's webhook table.
const WEBHOOK_SCHEDULE: [u64; 7] = [1, 5, 30, 120, 900, 3_600, 14_400];
/// Standard Webhooks, as far as it fits into 24 h with its jitter.
const STANDARD_WEBHOOKS_SCHEDULE: [u64; 6] = [5, 300, 1_800, 7_200, 18_000, 36_000];
/// What proportional jitter adds at most.
pub(crate) const PROPORTIONAL_RATIO: Ratio = Ratio::from_thousandths(300);

impl PolicySpec {
    /// The preset of a context.
    ///
    /// ```
    /// # use relent_policy::{Context, PolicySpec};
    /// assert_eq!(PolicySpec::of(Context::Webhook), PolicySpec::webhook());
    /// ```
    pub fn of(context: Context) -> PolicySpec {
        match context {
            Context::SyncApi => PolicySpec::sync_api(),
            Context::AsyncEvent => PolicySpec::async_event(),
            Context::Webhook => PolicySpec::webhook(),
            Context::BatchItem => PolicySpec::batch_item(),
            Context::GrpcUnary => PolicySpec::grpc_unary(),
        }
    }

    /// All presets.
    ///
    /// ```
    /// # use relent_policy::PolicySpec;
    /// assert!(PolicySpec::presets().iter().any(|preset| preset.policy_id == "decision-matrix"));
    /// ```
    pub fn presets() -> Vec<PolicySpec> {
        let mut presets: Vec<PolicySpec> =
            Context::ALL.iter().copied().map(PolicySpec::of).collect();
        presets.extend([
            PolicySpec::standard_webhooks(),
            PolicySpec::database(),
            PolicySpec::file(),
            PolicySpec::decision_matrix(),
        ]);
        presets
    }

    /// For a call whose caller waits: 3 retries within 30 s.
    ///
    /// ```
    /// # use relent_policy::PolicySpec;
    /// assert_eq!(PolicySpec::sync_api().max_attempts, 4);
    /// ```
    pub fn sync_api() -> PolicySpec {
        exponential(Context::SyncApi, 4, 30 * SECOND)
    }

    /// For events: 5 retries within 24 h.
    ///
    /// ```
    /// # use relent_policy::PolicySpec;
    /// assert_eq!(PolicySpec::async_event().max_attempts, 6);
    /// ```
    pub fn async_event() -> PolicySpec {
        exponential(Context::AsyncEvent, 6, 24 * HOUR)
    }

    /// For webhooks: 5 retries after 1 s, 5 s, 30 s, 2 m and 15 m. The schedule goes on with 1 h and
    /// 4 h for policies with up to 8 attempts.
    ///
    /// ```
    /// # use core::time::Duration;
    /// # use relent_policy::{Backoff, PolicySpec};
    /// let Backoff::Schedule(delays) = PolicySpec::webhook().backoff else { unreachable!() };
    /// assert_eq!(delays[3], Duration::from_secs(120));
    /// ```
    pub fn webhook() -> PolicySpec {
        scheduled("webhook", 6, &WEBHOOK_SCHEDULE)
    }

    /// The schedule of Standard Webhooks: 5 s, 5 m, 30 m, 2 h, 5 h, 10 h. Its last three steps (14 h,
    /// 20 h, 24 h) do not fit into the 24 h that the standard allows.
    ///
    /// ```
    /// # use relent_policy::PolicySpec;
    /// assert_eq!(PolicySpec::standard_webhooks().max_attempts, 7);
    /// ```
    pub fn standard_webhooks() -> PolicySpec {
        scheduled("standard-webhooks", 7, &STANDARD_WEBHOOKS_SCHEDULE)
    }

    /// For the items of a batch job: 3 retries within 10 minutes.
    ///
    /// ```
    /// # use relent_policy::PolicySpec;
    /// assert_eq!(PolicySpec::batch_item().max_attempts, 4);
    /// ```
    pub fn batch_item() -> PolicySpec {
        exponential(Context::BatchItem, 4, 10 * MINUTE)
    }

    /// For unary gRPC calls: 3 retries within 30 s.
    ///
    /// ```
    /// # use relent_policy::PolicySpec;
    /// assert_eq!(PolicySpec::grpc_unary().max_attempts, 4);
    /// ```
    pub fn grpc_unary() -> PolicySpec {
        exponential(Context::GrpcUnary, 4, 30 * SECOND)
    }

    /// For database calls: deadlocks and lost races pass quickly, so 3 retries from 50 ms on,
    /// within 10 s.
    ///
    /// ```
    /// # use core::time::Duration;
    /// # use relent_policy::Policy;
    /// assert_eq!(Policy::database().ceiling(3), Duration::from_millis(200));
    /// ```
    pub fn database() -> PolicySpec {
        quick("database", 4, Duration::from_millis(50))
    }

    /// For files: a lock that somebody holds for a moment, 5 retries from 20 ms on, within 10 s.
    ///
    /// ```
    /// # use core::time::Duration;
    /// # use relent_policy::Policy;
    /// assert_eq!(Policy::file().ceiling(5), Duration::from_millis(320));
    /// ```
    pub fn file() -> PolicySpec {
        quick("file", 6, Duration::from_millis(20))
    }

    /// A limit for each kind of failure: timeouts, 503 and refused connections 5 retries in 30 s,
    /// 429 3 in 60 s, 500 3 in 15 s, database deadlocks 3 in 10 s.
    ///
    /// ```
    /// # use relent_policy::PolicySpec;
    /// assert_eq!(PolicySpec::decision_matrix().class_limits.len(), 4);
    /// ```
    pub fn decision_matrix() -> PolicySpec {
        let limit = |failures: &[FailureKind], max_retries, secs| ClassLimit {
            failures: failures.to_vec(),
            max_retries,
            max_elapsed: Duration::from_secs(secs),
        };
        let transient = [
            FailureKind::Http(408),
            FailureKind::Http(503),
            FailureKind::Http(504),
            FailureKind::Grpc(4),
            FailureKind::Grpc(14),
            FailureKind::Fault(Fault::ConnectRefused),
            FailureKind::Fault(Fault::ConnectTimeout),
            FailureKind::Fault(Fault::TlsHandshakeTimeout),
            FailureKind::Fault(Fault::ResponseTimeout),
            FailureKind::Fault(Fault::IoTimedOut),
        ];
        PolicySpec {
            policy_id: "decision-matrix".to_string(),
            class_limits: vec![
                limit(&transient, 5, 30),
                limit(&[FailureKind::Http(429), FailureKind::Grpc(8)], 3, 60),
                limit(&[FailureKind::Http(500)], 3, 15),
                limit(&[FailureKind::Fault(Fault::DbDeadlock)], 3, 10),
            ],
            ..exponential(Context::AsyncEvent, 6, MINUTE)
        }
    }
}

macro_rules! presets_of_policy {
    ($($(#[$doc:meta])* $name:ident)*) => {
        impl Policy {
            $(
                #[doc = concat!("[`PolicySpec::", stringify!($name), "`], built.")]
                ///
                /// ```
                /// # use relent_policy::Policy;
                #[doc = concat!("assert!(Policy::", stringify!($name), "().max_attempts() > 1);")]
                /// ```
                pub fn $name() -> Policy {
                    let built = PolicySpec::$name().build(Timestamp::ZERO);
                    built.expect("presets conform: a test builds every one of them")
                }
            )*
        }
    };
}

presets_of_policy! {
    sync_api async_event webhook standard_webhooks batch_item grpc_unary database file
    decision_matrix
}

fn exponential(context: Context, max_attempts: u32, total_budget: Duration) -> PolicySpec {
    PolicySpec {
        policy_id: context.name().to_string(),
        context,
        max_attempts,
        backoff: Backoff::Exponential { initial: INITIAL_DELAY, multiplier: MULTIPLIER },
        max_delay: MAX_DELAY,
        jitter: Jitter::Full,
        total_budget,
        attempt_timeout: 10 * SECOND,
        connect_timeout: 3 * SECOND,
        retryable_status_codes: None,
        retryable_grpc_codes: None,
        retryable_faults: None,
        class_limits: Vec::new(),
        retry_after: RetryAfterRules::default(),
        budget: Some(BudgetRules::default()),
        breaker: Some(BreakerRules::default()),
        concurrency: ConcurrencyLimits::default(),
        dead_letter: context.needs_dead_letters(),
        assume_repeatable: false,
        response_preview_bytes: 0,
        waivers: Vec::new(),
    }
}

/// For resources close by, which recover in milliseconds or not at all.
fn quick(id: &str, max_attempts: u32, initial: Duration) -> PolicySpec {
    PolicySpec {
        policy_id: id.to_string(),
        backoff: Backoff::Exponential { initial, multiplier: MULTIPLIER },
        max_delay: SECOND,
        attempt_timeout: 5 * SECOND,
        connect_timeout: 2 * SECOND,
        ..exponential(Context::SyncApi, max_attempts, 10 * SECOND)
    }
}

fn scheduled(id: &str, max_attempts: u32, secs: &[u64]) -> PolicySpec {
    let schedule: Vec<Duration> = secs.iter().copied().map(Duration::from_secs).collect();
    PolicySpec {
        policy_id: id.to_string(),
        max_delay: roof_of(&schedule, PROPORTIONAL_RATIO),
        backoff: Backoff::Schedule(schedule),
        jitter: Jitter::Proportional { ratio: PROPORTIONAL_RATIO },
        attempt_timeout: 15 * SECOND,
        ..exponential(Context::Webhook, max_attempts, 24 * HOUR)
    }
}

/// The cap that leaves a schedule its whole spread, in whole milliseconds.
pub(crate) fn roof_of(schedule: &[Duration], ratio: Ratio) -> Duration {
    let longest = schedule.iter().max().copied().unwrap_or(Duration::ZERO);
    let spread = ratio.of(nanos(longest));
    Duration::from_millis(nanos(longest).saturating_add(spread).div_ceil(NANOS_PER_MILLI))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_conforms_without_a_waiver() {
        for spec in PolicySpec::presets() {
            assert_eq!(spec.problems(Timestamp::ZERO), [], "{}", spec.policy_id);
        }
    }

    #[test]
    fn retries_by_default_are_those_of_the_standard() {
        let retries: Vec<u32> =
            Context::ALL.iter().map(|context| PolicySpec::of(*context).max_attempts - 1).collect();
        assert_eq!(retries, [3, 5, 5, 3, 3]);
    }

    #[test]
    fn webhook_waits_always_increase_whatever_the_rolls() {
        for policy in [Policy::webhook(), Policy::standard_webhooks()] {
            let delay = |attempt, roll| policy.delay(attempt, Duration::ZERO, roll);
            for attempt in 1..policy.max_attempts() - 1 {
                assert!(delay(attempt, u64::MAX) < delay(attempt + 1, 0), "attempt {attempt}");
            }
        }
    }

    #[test]
    fn the_longest_standard_webhooks_life_fits_into_a_day() {
        let policy = Policy::standard_webhooks();
        let waits: Duration = (1..7).map(|n| policy.delay(n, Duration::ZERO, u64::MAX)).sum();
        assert!(waits + 7 * policy.spec().attempt_timeout < 24 * HOUR, "{waits:?}");
    }
}
