//! What a policy says, field by field, before anybody has checked it.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use crate::backoff::Backoff;
use crate::breaker::BreakerRules;
use crate::budget::BudgetRules;
use crate::classify::VerdictTable;
use crate::failure::FailureKind;
use crate::fault::Fault;
use crate::flow::ConcurrencyLimits;
use crate::jitter::Jitter;
use crate::ratio::Ratio;
use crate::standard::Waiver;

/// A policy as it is written. Start from a preset and change what differs.
///
/// Field by field this is the `RetryPolicy` document; `docs/concepts/policy.md` has the wire names.
///
/// ```
/// use core::time::Duration;
/// use relent_policy::{PolicySpec, Timestamp};
///
/// let spec = PolicySpec { max_attempts: 3, ..PolicySpec::sync_api() };
/// assert!(spec.build(Timestamp::ZERO).is_ok());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicySpec {
    /// Its name: 1 to 64 characters from `A-Z a-z 0-9 _ - .`.
    pub policy_id: String,
    /// What kind of call it is for: decides which limits the standard sets.
    pub context: Context,
    /// Attempts in all, the first included.
    pub max_attempts: u32,
    /// How the delay grows.
    pub backoff: Backoff,
    /// No wait of the policy's own is longer; the server may ask for longer.
    pub max_delay: Duration,
    /// How a delay is drawn.
    pub jitter: Jitter,
    /// How long all attempts and waits may take together, counted from creation.
    pub total_budget: Duration,
    /// How long one attempt may take.
    pub attempt_timeout: Duration,
    /// How long making the connection may take within that.
    pub connect_timeout: Duration,
    /// The HTTP statuses to retry, if not the standard's.
    pub retryable_status_codes: Option<BTreeSet<u16>>,
    /// The gRPC codes to retry, if not the standard's.
    pub retryable_grpc_codes: Option<BTreeSet<u8>>,
    /// The faults to retry, if not the standard's.
    pub retryable_faults: Option<BTreeSet<Fault>>,
    /// Tighter limits for some failures.
    pub class_limits: Vec<ClassLimit>,
    /// What to do with `Retry-After`.
    pub retry_after: RetryAfterRules,
    /// Which share of the traffic may be retries; `None` needs a waiver.
    pub budget: Option<BudgetRules>,
    /// When to stop calling; `None` is allowed.
    pub breaker: Option<BreakerRules>,
    /// How much at once and how fast.
    pub concurrency: ConcurrencyLimits,
    /// Whether what is given up goes to the dead letters; `false` needs a waiver where work is
    /// asynchronous.
    pub dead_letter: bool,
    /// Whether calls without key or idempotent method are retried all the same; needs a waiver.
    pub assume_repeatable: bool,
    /// How much of an answer's body the service keeps with each attempt, secrets taken out; 0 keeps
    /// none.
    pub response_preview_bytes: u32,
    /// Permissions to depart from the standard.
    pub waivers: Vec<Waiver>,
}

/// What kind of call a policy is for.
///
/// ```
/// use relent_policy::Context;
///
/// assert_eq!("grpc-unary".parse(), Ok(Context::GrpcUnary));
/// assert_eq!(Context::Webhook.retries_allowed(), 3..=8);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Context {
    /// A caller waits for the answer.
    SyncApi,
    /// An event is processed; nobody waits.
    AsyncEvent,
    /// A webhook is delivered.
    Webhook,
    /// One item of a batch job.
    BatchItem,
    /// A unary gRPC call.
    GrpcUnary,
}

impl Context {
    /// Every context there is.
    pub const ALL: &[Context] = &[
        Context::SyncApi,
        Context::AsyncEvent,
        Context::Webhook,
        Context::BatchItem,
        Context::GrpcUnary,
    ];

    /// Its name in policy documents.
    ///
    /// ```
    /// # use relent_policy::Context;
    /// assert_eq!(Context::SyncApi.name(), "sync-api");
    /// ```
    pub const fn name(self) -> &'static str {
        match self {
            Context::SyncApi => "sync-api",
            Context::AsyncEvent => "async-event",
            Context::Webhook => "webhook",
            Context::BatchItem => "batch-item",
            Context::GrpcUnary => "grpc-unary",
        }
    }

    /// How many retries the standard allows (attempts are one more).
    pub const fn retries_allowed(self) -> core::ops::RangeInclusive<u32> {
        match self {
            Context::SyncApi | Context::BatchItem | Context::GrpcUnary => 1..=5,
            Context::AsyncEvent => 1..=10,
            Context::Webhook => 3..=8,
        }
    }

    /// The longest total time the standard allows. It sets none for batch items; they are held to
    /// the limit of asynchronous work.
    ///
    /// ```
    /// # use core::time::Duration;
    /// # use relent_policy::Context;
    /// assert_eq!(Context::SyncApi.total_budget_allowed(), Duration::from_secs(30));
    /// ```
    pub const fn total_budget_allowed(self) -> Duration {
        match self {
            Context::SyncApi | Context::GrpcUnary => Duration::from_secs(30),
            Context::AsyncEvent | Context::Webhook | Context::BatchItem => {
                Duration::from_secs(24 * 3_600)
            }
        }
    }

    /// Whether what is given up must be kept as a dead letter.
    ///
    /// ```
    /// # use relent_policy::Context;
    /// assert!(Context::Webhook.needs_dead_letters());
    /// ```
    pub const fn needs_dead_letters(self) -> bool {
        matches!(self, Context::AsyncEvent | Context::Webhook)
    }
}

impl fmt::Display for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The text names no context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownContext;

impl fmt::Display for UnknownContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected sync-api, async-event, webhook, batch-item or grpc-unary")
    }
}

impl core::error::Error for UnknownContext {}

impl core::str::FromStr for Context {
    type Err = UnknownContext;

    fn from_str(text: &str) -> Result<Context, UnknownContext> {
        Context::ALL.iter().copied().find(|context| context.name() == text).ok_or(UnknownContext)
    }
}

/// A tighter limit for some failures: retries after them, and time since creation.
///
/// ```
/// use core::time::Duration;
/// use relent_policy::{ClassLimit, FailureKind};
///
/// let limit = ClassLimit {
///     failures: vec![FailureKind::Http(500)],
///     max_retries: 3,
///     max_elapsed: Duration::from_secs(15),
/// };
/// assert_eq!(limit.failures[0].to_string(), "http_500");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassLimit {
    /// The failures it is for.
    pub failures: Vec<FailureKind>,
    /// How many of them may be retried in the life of a task.
    pub max_retries: u32,
    /// How long after creation such a retry may still end.
    pub max_elapsed: Duration,
}

/// What to do with `Retry-After`.
///
/// # Default
///
/// - honoured
/// - spread by up to half of what was asked, 30 s at most
///
/// ```
/// use relent_policy::RetryAfterRules;
///
/// assert!(RetryAfterRules::default().honour);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryAfterRules {
    /// Whether to wait at least as long as the server asks; `false` needs a waiver.
    pub honour: bool,
    /// The share of what was asked that may be added, so that callers do not return together.
    pub jitter_ratio: Ratio,
    /// The most that may be added.
    pub jitter_max: Duration,
}

impl Default for RetryAfterRules {
    fn default() -> RetryAfterRules {
        RetryAfterRules {
            honour: true,
            jitter_ratio: Ratio::from_thousandths(500),
            jitter_max: Duration::from_secs(30),
        }
    }
}

impl PolicySpec {
    /// What this policy makes of every failure.
    pub(crate) fn verdicts(&self) -> VerdictTable {
        let mut table = VerdictTable::new(|kind| match kind {
            FailureKind::Http(status) => {
                self.retryable_status_codes.as_ref().map(|listed| listed.contains(&status))
            }
            FailureKind::Grpc(code) => {
                self.retryable_grpc_codes.as_ref().map(|listed| listed.contains(&code))
            }
            FailureKind::Fault(fault) => {
                self.retryable_faults.as_ref().map(|listed| listed.contains(&fault))
            }
            FailureKind::Judged(_) => None,
        });
        for (index, limit) in (0..).zip(&self.class_limits) {
            limit.failures.iter().for_each(|kind| table.limit(*kind, index));
        }
        table
    }
}
