//! Every metric of the service, defined in one place. REQ-O2.
//!
//! Labels are bounded: a dependency is one of the first few hundred that were seen, or `other`;
//! attempt numbers end at `10+`; policies are ids that people registered. Nothing of a task, key or
//! URL is ever a label. The counts of a lane are made once and kept with its name.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, text::encode};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use relent_policy::BreakerState;
use relent_store::{Ended, PolicyKey, SweptBecause};
use std::sync::atomic::AtomicU64;

use crate::lanes::Lane;
use crate::policies::KnownPolicy;

/// More dependencies than these share the label `other`.
const DEPENDENCIES_MAX: usize = 200;

/// See the module's head.
pub(crate) struct Metrics {
    registry: Registry,
    service: String,
    dependencies: Mutex<HashMap<Arc<str>, Arc<str>>>,
    attempts: Family<AttemptLabels, Counter>,
    exhausted: Family<DependencyLabels, Counter>,
    dead_letters: Family<QueueLabels, Counter>,
    backoff: Histogram,
    latency: Histogram,
    lateness: Histogram,
    claims: Histogram,
    age: Histogram,
    created: Counter,
    duplicates: Counter,
    abandoned: Counter,
    overdue: Counter,
    stale: Counter,
    budget: Family<DependencyLabels, Gauge<f64, AtomicU64>>,
    breaker: Family<DependencyLabels, Gauge>,
    in_flight: Gauge,
    nodes: Gauge,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct AttemptLabels {
    service: String,
    dependency: String,
    attempt_number: &'static str,
    outcome: &'static str,
    policy: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct DependencyLabels {
    service: String,
    dependency: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct QueueLabels {
    queue: String,
}

/// What is counted of an attempt.
pub(crate) struct AttemptSeen<'a> {
    pub(crate) lane: &'a Lane,
    pub(crate) policy: &'a KnownPolicy,
    pub(crate) number: u32,
    pub(crate) ended: Ended,
    pub(crate) took: Duration,
    pub(crate) backoff: Option<Duration>,
}

/// The counts that a lane has used: their labels are put together once, not for every attempt.
#[derive(Debug, Default)]
pub(crate) struct LaneCounts(RwLock<Vec<(AttemptKind, Counter)>>);

/// What tells the counts of a lane apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct AttemptKind {
    policy: PolicyKey,
    attempt_number: &'static str,
    outcome: &'static str,
}

/// A lane under very many policies keeps the counts of the first.
const COUNTS_KEPT: usize = 64;

impl LaneCounts {
    fn of(&self, kind: AttemptKind, make: impl FnOnce() -> Counter) -> Counter {
        let kept = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, count)) = kept.iter().find(|(known, _)| *known == kind) {
            return count.clone();
        }
        drop(kept);
        let count = make();
        let mut kept = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < COUNTS_KEPT {
            kept.push((kind, count.clone()));
        }
        count
    }
}

const SECONDS: [f64; 14] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];
const LATENESS_SECONDS: [f64; 10] = [0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5, 10.0];
const CLAIM_SECONDS: [f64; 16] = [
    0.0002, 0.0005, 0.001, 0.0015, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.025, 0.05, 0.1,
    0.25, 1.0, 5.0,
];
const LONG_SECONDS: [f64; 10] =
    [0.1, 0.5, 1.0, 5.0, 30.0, 120.0, 900.0, 3_600.0, 14_400.0, 86_400.0];

impl Metrics {
    pub(crate) fn new(service: String) -> Metrics {
        let mut metrics = Metrics {
            registry: Registry::default(),
            service,
            dependencies: Mutex::default(),
            attempts: Family::default(),
            exhausted: Family::default(),
            dead_letters: Family::default(),
            backoff: Histogram::new(LONG_SECONDS),
            latency: Histogram::new(SECONDS),
            lateness: Histogram::new(LATENESS_SECONDS),
            claims: Histogram::new(CLAIM_SECONDS),
            age: Histogram::new(LONG_SECONDS),
            created: Counter::default(),
            duplicates: Counter::default(),
            abandoned: Counter::default(),
            overdue: Counter::default(),
            stale: Counter::default(),
            budget: Family::default(),
            breaker: Family::default(),
            in_flight: Gauge::default(),
            nodes: Gauge::default(),
        };
        metrics.register();
        metrics
    }

    /// The registry appends `_total` to counters.
    fn register(&mut self) {
        let registry = &mut self.registry;
        registry.register("retry_attempts", "Attempts by how they ended", self.attempts.clone());
        registry.register("retry_exhausted", "Tasks that were given up", self.exhausted.clone());
        registry.register(
            "dlq_messages",
            "Tasks that became dead letters",
            self.dead_letters.clone(),
        );
        registry.register(
            "retry_backoff_duration_seconds",
            "Waits between attempts",
            self.backoff.clone(),
        );
        registry.register(
            "retry_attempt_duration_seconds",
            "How long attempts take",
            self.latency.clone(),
        );
        registry.register(
            "retry_schedule_lateness_seconds",
            "From due to started",
            self.lateness.clone(),
        );
        registry.register(
            "retry_claim_duration_seconds",
            "How long the store takes to hand out due tasks",
            self.claims.clone(),
        );
        registry.register("retry_task_age_seconds", "From due to ended", self.age.clone());
        registry.register("retry_tasks_created", "Tasks that were stored", self.created.clone());
        registry.register(
            "retry_duplicates",
            "Tasks that were there already",
            self.duplicates.clone(),
        );
        registry.register(
            "retry_attempts_abandoned",
            "Attempts lost with their worker",
            self.abandoned.clone(),
        );
        registry.register(
            "retry_deadlines_passed_waiting",
            "Tasks that ended while held back",
            self.overdue.clone(),
        );
        registry.register(
            "retry_stale_results",
            "Results of owners that were too late",
            self.stale.clone(),
        );
        registry.register(
            "retry_budget_utilization_ratio",
            "Share of the budget in use",
            self.budget.clone(),
        );
        registry.register(
            "retry_breaker_state",
            "0 closed, 1 half open or ramping, 2 open",
            self.breaker.clone(),
        );
        registry.register("retry_attempts_in_flight", "Attempts under way", self.in_flight.clone());
        registry.register("retry_nodes", "Nodes that share the work", self.nodes.clone());
    }

    /// A dependency's label.
    fn label(&self, dependency: &Arc<str>) -> Arc<str> {
        let mut labels = self.dependencies.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(label) = labels.get(dependency) {
            return Arc::clone(label);
        }
        if labels.len() >= DEPENDENCIES_MAX {
            return "other".into();
        }
        labels.insert(Arc::clone(dependency), Arc::clone(dependency));
        Arc::clone(dependency)
    }

    fn of(&self, dependency: &Arc<str>) -> DependencyLabels {
        let dependency = self.label(dependency).to_string();
        DependencyLabels { service: self.service.clone(), dependency }
    }

    pub(crate) fn attempt(&self, seen: &AttemptSeen<'_>) {
        let outcome = match seen.ended {
            Ended::Done => "success",
            Ended::RetryAt { .. } => "retry",
            Ended::GaveUp { .. } => "give_up",
        };
        let (policy, attempt_number) = (seen.policy.key, number_label(seen.number));
        let count = seen.lane.counts.of(AttemptKind { policy, attempt_number, outcome }, || {
            let labels = AttemptLabels {
                service: self.service.clone(),
                dependency: self.label(&seen.lane.dependency).to_string(),
                attempt_number,
                outcome,
                policy: seen.policy.policy_id.clone(),
            };
            self.attempts.get_or_create(&labels).clone()
        });
        count.inc();
        self.latency.observe(seen.took.as_secs_f64());
        if let Some(backoff) = seen.backoff {
            self.backoff.observe(backoff.as_secs_f64());
        }
    }

    pub(crate) fn exhausted(&self, dependency: &Arc<str>) {
        self.exhausted.get_or_create(&self.of(dependency)).inc();
        let queue = self.label(dependency).to_string();
        self.dead_letters.get_or_create(&QueueLabels { queue }).inc();
    }

    pub(crate) fn lateness(&self, late: Duration) {
        self.lateness.observe(late.as_secs_f64());
    }

    pub(crate) fn claimed(&self, took: Duration) {
        self.claims.observe(took.as_secs_f64());
    }

    pub(crate) fn task_ended(&self, age: Duration) {
        self.age.observe(age.as_secs_f64());
    }

    pub(crate) fn created(&self, tasks: u64) {
        self.created.inc_by(tasks);
    }

    pub(crate) fn duplicates(&self, tasks: u64) {
        self.duplicates.inc_by(tasks);
    }

    pub(crate) fn taken_over(&self, because: &SweptBecause) {
        match because {
            SweptBecause::LeaseExpired { .. } => self.abandoned.inc(),
            SweptBecause::DeadlinePassed => self.overdue.inc(),
        };
    }

    pub(crate) fn stale(&self) {
        self.stale.inc();
    }

    /// So many nodes share the work.
    pub(crate) fn nodes(&self, nodes: u32) {
        self.nodes.set(i64::from(nodes));
    }

    /// Everything as OpenMetrics text. Gauges are read from the lanes as they are now.
    pub(crate) fn text(
        &self,
        lanes: &[Arc<Lane>],
        in_flight: u32,
        now: relent_policy::Timestamp,
    ) -> String {
        self.in_flight.set(i64::from(in_flight));
        for lane in lanes {
            let (view, labels) = (lane.view(now), self.of(&lane.dependency));
            if let Some(utilization) = view.budget_utilization {
                self.budget.get_or_create(&labels).set(utilization);
            }
            if let Some(state) = view.breaker {
                let level = match state {
                    BreakerState::Closed => 0,
                    BreakerState::HalfOpen => 1,
                    BreakerState::Open => 2,
                };
                self.breaker.get_or_create(&labels).set(level);
            }
        }
        let mut text = String::new();
        let written = encode(&mut text, &self.registry);
        debug_assert!(written.is_ok(), "writing to a string does not fail");
        text
    }
}

fn number_label(number: u32) -> &'static str {
    const LABELS: [&str; 10] = ["1", "2", "3", "4", "5", "6", "7", "8", "9", "10+"];
    let index = usize::try_from(number.saturating_sub(1)).unwrap_or(usize::MAX);
    LABELS.get(index).copied().unwrap_or("10+")
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}
