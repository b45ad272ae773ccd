//! One attempt, from a claimed task to what is written down about it.
//!
//! The five steps of the straight line: the lane has admitted it, it is sent, the engine decides, the
//! store records, and those who want to know are told. Nothing here decides by itself. REQ-S4,
//! REQ-S10, REQ-A1, REQ-C1, REQ-L2, REQ-L3, REQ-O1.

use std::future::poll_fn;
use std::mem;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use ::http::{HeaderMap, HeaderName, HeaderValue};
use relent_policy::{Decision, Fault, Gates, Outcome, Pass, Refusal, Timestamp, Turn, decide};
use relent_store::{
    AttemptRecord, Claimed, Ended, Error, Phases, PolicyKey, Record, Recorded, Swept, SweptBecause,
    Then, Waiting,
};

use crate::egress::{Answer, Outgoing};
use crate::events::TaskEvent;
use crate::lanes::Lane;
use crate::metrics::AttemptSeen;
use crate::policies::KnownPolicy;
use crate::preview;
use crate::scheduler::QUANTUM;
use crate::seldom::Seldom;
use crate::service::Service;

/// What of a lease must be left when an attempt ends: the time to write it down.
const LEASE_RESERVE: Duration = Duration::from_secs(5);

/// Makes the attempt that was claimed.
pub(crate) async fn run(service: Arc<Service>, lane: Arc<Lane>, claimed: Claimed, pass: Pass) {
    let turn = Turn::of_attempt(claimed.history.attempts());
    let task = claimed.lease.task;
    let mut attempt = pin!(attempt(&service, &lane, claimed, pass));
    let mut has_begun = false;
    poll_fn(|context| {
        let polled = attempt.as_mut().poll(context);
        // The request is on its way now, or its connection is.
        if !mem::replace(&mut has_begun, true) && lane.starting.begun(QUANTUM) {
            service.inbox.freed(lane.id);
        }
        polled
    })
    .await;
    service.under_way.ended(task);
    // Who waits for nothing is not woken.
    if service.places.leave(turn) || lane.is_held() {
        service.inbox.freed(lane.id);
    }
}

async fn attempt(service: &Service, lane: &Arc<Lane>, claimed: Claimed, pass: Pass) {
    let Some(known) = policy(service, claimed.policy).await else {
        tracing::error!(task = %claimed.lease.task, policy = %claimed.policy, "a task's policy is unknown");
        lane.abandon(pass, service.store.now());
        return;
    };
    let started_at = service.store.now();
    service.metrics.lateness(started_at.saturating_since(claimed.due_at));
    if !service.under_way.may_send(claimed.lease.task) {
        lane.abandon(pass, started_at);
        called_off(service, lane, &known, claimed, started_at).await;
        return;
    }
    let of_lease = claimed.lease.until.saturating_since(started_at).saturating_sub(LEASE_RESERVE);
    if of_lease.is_zero() {
        // The process was stopped, or the claim's answer was long on its way. Whoever takes the
        // task over would send at the same time.
        tracing::warn!(task = %claimed.lease.task, "an attempt's lease was over before it was sent");
        lane.abandon(pass, started_at);
        return;
    }
    let answer = match outgoing(&claimed, &known, started_at, of_lease) {
        Some(outgoing) => service.egress.send(outgoing).await,
        None => Answer::without_call(Outcome::from(Fault::Configuration)),
    };

    let (now, roll) = (service.store.now(), fastrand::u64(..));
    let finished = lane.finish(pass, &answer.outcome, now, roll);
    service.tell_breaker(lane, &finished);
    let mut gates = Estimate(finished.estimated_call);
    let decision = decide(&known.policy, &claimed.history, &answer.outcome, &mut gates, now, roll);
    let (ended, then) = carried_out(decision, &claimed.history);
    let row = AttemptRecord {
        generation: claimed.generation,
        number: claimed.history.attempts(),
        started_at,
        took: answer.phases.total,
        status: answer.status,
        failure: failure_of(&answer.outcome),
        ended,
        roll,
        phases: Phases {
            dns: answer.phases.dns,
            connect: answer.phases.connect,
            tls: answer.phases.tls,
            first_byte: answer.phases.first_byte,
        },
        preview: answer.preview.as_deref().and_then(preview::of),
    };
    let attempt = Told { lane, known: &known, claimed: &claimed, row: &row, now };
    tell_attempt(service, &attempt);
    let record = Record { lease: claimed.lease, attempt: Some(row.clone()), then };
    if let Some(recorded) = write_down(service, record).await {
        tell_end(service, &attempt, recorded);
    }
}

/// What is sent; `None` if the stored request makes none, which its checks at the door rule out.
fn outgoing(
    claimed: &Claimed,
    known: &KnownPolicy,
    now: Timestamp,
    of_lease: Duration,
) -> Option<Outgoing> {
    let request = &claimed.request;
    let mut headers = HeaderMap::with_capacity(request.headers.len() + 4);
    for (name, value) in &request.headers {
        headers.append(
            HeaderName::from_bytes(name.as_bytes()).ok()?,
            HeaderValue::from_str(value).ok()?,
        );
    }
    if let Some(key) = &claimed.key {
        headers.insert("idempotency-key", HeaderValue::from_str(key.as_str()).ok()?);
    }
    headers.insert("retry-attempt", claimed.history.attempts().into());
    headers.insert("retry-max-attempts", known.policy.max_attempts().into());
    if let Some(status) = claimed.previous_status {
        headers.insert("retry-previous-status", status.into());
    }
    let spec = known.policy.spec();
    let until_deadline = known.policy.deadline_of(&claimed.history).saturating_since(now);
    let attempt_timeout = spec.attempt_timeout.min(until_deadline).min(of_lease);
    Some(Outgoing {
        method: request.method.parse().ok()?,
        target: request.url.parse().ok()?,
        headers,
        body: request.body.clone(),
        connect_timeout: spec.connect_timeout.min(attempt_timeout),
        attempt_timeout,
        preview_max: usize::try_from(spec.response_preview_bytes).unwrap_or(0),
    })
}

/// A task that was cancelled between its claim and its sending: the attempt was counted and not made.
async fn called_off(
    service: &Service,
    lane: &Arc<Lane>,
    known: &Arc<KnownPolicy>,
    claimed: Claimed,
    now: Timestamp,
) {
    let waiting = Waiting::Backoff;
    let row = AttemptRecord {
        generation: claimed.generation,
        number: claimed.history.attempts(),
        started_at: now,
        took: Duration::ZERO,
        status: None,
        failure: failure_of(&Outcome::from(Fault::CalledOff)),
        ended: Ended::RetryAt { at: now, waiting },
        roll: 0,
        phases: Phases::default(),
        preview: None,
    };
    let then = Then::RetryAt { at: now, waiting, history: claimed.history };
    let record = Record { lease: claimed.lease, attempt: Some(row.clone()), then };
    if let Some(recorded) = write_down(service, record).await {
        tell_end(service, &Told { lane, known, claimed: &claimed, row: &row, now }, recorded);
    }
}

/// Decides about a task that was taken over: a lost attempt, or a deadline that passed while it
/// waited.
pub(crate) async fn take_over(service: &Service, swept: Swept) {
    let Some(known) = policy(service, swept.policy).await else {
        tracing::error!(task = %swept.lease.task, policy = %swept.policy, "a task's policy is unknown");
        return;
    };
    let (now, roll) = (service.store.now(), fastrand::u64(..));
    let (attempt, then) = match swept.because {
        SweptBecause::DeadlinePassed => {
            (None, Then::Exhaust { because: relent_policy::GiveUpReason::DeadlineWouldPass })
        }
        SweptBecause::LeaseExpired { began_at } => {
            let outcome = Outcome::from(Fault::Abandoned);
            let mut gates = Estimate(Duration::ZERO);
            let decision = decide(&known.policy, &swept.history, &outcome, &mut gates, now, roll);
            let (ended, then) = carried_out(decision, &swept.history);
            let row = AttemptRecord {
                generation: swept.generation,
                number: swept.history.attempts(),
                started_at: began_at,
                took: now.saturating_since(began_at),
                status: None,
                failure: failure_of(&outcome),
                ended,
                roll,
                phases: Phases::default(),
                preview: None,
            };
            (Some(row), then)
        }
    };
    service.metrics.taken_over(&swept.because);
    tracing::warn!(task = %swept.lease.task, because = ?swept.because, ?then, "took a task over");
    let (task, generation) = (swept.lease.task, swept.generation);
    let record = Record { lease: swept.lease, attempt, then };
    if write_down(service, record).await == Some(Recorded::Applied)
        && let Then::Exhaust { because } = then
        && let Ok(Some(lane)) = service.lane_of_id(swept.lane).await
    {
        service.metrics.exhausted(&lane.dependency);
        service.events.task(TaskEvent::Exhausted { because }, task, generation, &lane, now);
    }
}

/// A task's policy. One that cannot be looked up is as good as unknown: its lease runs out, and
/// somebody takes the task over.
async fn policy(service: &Service, key: PolicyKey) -> Option<Arc<KnownPolicy>> {
    service.policy(key).await.unwrap_or_else(|error| {
        tracing::error!(%error, policy = %key, "could not look for a policy");
        None
    })
}

/// The decision as the attempt log and as the task's next state.
fn carried_out(decision: Decision, history: &relent_policy::History) -> (Ended, Then) {
    match decision {
        Decision::Done => (Ended::Done, Then::Succeed),
        Decision::RetryAt { at, because, charge } => {
            let waiting = Waiting::from(because);
            (
                Ended::RetryAt { at, waiting },
                Then::RetryAt { at, waiting, history: history.charged(charge) },
            )
        }
        Decision::GiveUp { because } => (Ended::GaveUp { because }, Then::Exhaust { because }),
    }
}

fn failure_of(outcome: &Outcome) -> Option<relent_policy::FailureKind> {
    match outcome {
        Outcome::Success => None,
        Outcome::Failure(failure) => Some(failure.kind),
    }
}

/// Writes a result down, however long the store takes to allow it: a result that is not written
/// down is an attempt that is lost. Gives up when the lease ends; the sweep finds the task then.
async fn write_down(service: &Service, record: Record) -> Option<Recorded> {
    let until = record.lease.until;
    let mut pause = Duration::from_millis(10);
    loop {
        match service.store.record(vec![record.clone()]).await {
            Ok(recorded) => return recorded.first().copied(),
            Err(error @ (Error::Overloaded | Error::Unavailable(_)))
                if service.store.now() < until =>
            {
                static SELDOM: Seldom = Seldom::new();
                if let Some(untold) = SELDOM.tell() {
                    let task = record.lease.task;
                    tracing::warn!(%error, %task, untold, "could not record an attempt yet");
                }
            }
            Err(error) => {
                tracing::error!(%error, task = %record.lease.task, "an attempt's result is lost");
                return None;
            }
        }
        tokio::time::sleep(pause.mul_f64(fastrand::f64())).await;
        pause = (pause * 2).min(Duration::from_secs(1));
    }
}

/// An attempt that is over, for those who are told.
struct Told<'a> {
    lane: &'a Arc<Lane>,
    known: &'a Arc<KnownPolicy>,
    claimed: &'a Claimed,
    row: &'a AttemptRecord,
    now: Timestamp,
}

fn tell_attempt(service: &Service, told: &Told<'_>) {
    let Told { lane, known, claimed, row, now } = told;
    let backoff = match row.ended {
        Ended::RetryAt { at, .. } => Some(at.saturating_since(*now)),
        Ended::Done | Ended::GaveUp { .. } => None,
    };
    service.metrics.attempt(&AttemptSeen {
        lane,
        policy: known,
        number: row.number,
        ended: row.ended,
        took: row.took,
        backoff,
    });
    service.events.attempt(claimed.lease.task, row, lane, *now);
    let error_type = row.failure.map(|failure| failure.to_string());
    macro_rules! log {
        ($level:ident, $message:literal) => {
            tracing::$level!(
                task = %claimed.lease.task,
                correlation_id = claimed.request.correlation_id.as_deref(),
                dependency = &*lane.dependency,
                attempt = row.number,
                max_attempts = known.policy.max_attempts(),
                backoff_ms = backoff.map(|backoff| u64::try_from(backoff.as_millis()).unwrap_or(u64::MAX)),
                error_type,
                idempotency_key = claimed.key.as_ref().map(relent_policy::IdempotencyKey::as_str),
                elapsed_ms = u64::try_from(row.took.as_millis()).unwrap_or(u64::MAX),
                $message
            )
        };
    }
    match row.ended {
        Ended::Done => log!(debug, "delivered"),
        Ended::RetryAt { .. } => log!(info, "attempt failed, will be tried again"),
        Ended::GaveUp { .. } => log!(warn, "attempt failed, task given up"),
    }
}

fn tell_end(service: &Service, told: &Told<'_>, recorded: Recorded) {
    let Told { lane, claimed, row, now, .. } = told;
    let event = match (recorded, row.ended) {
        (Recorded::Stale, _) => {
            service.metrics.stale();
            return;
        }
        (Recorded::Cancelled, _) => TaskEvent::Cancelled,
        (Recorded::Applied, Ended::Done) => TaskEvent::Succeeded,
        (Recorded::Applied, Ended::GaveUp { because }) => {
            service.metrics.exhausted(&lane.dependency);
            TaskEvent::Exhausted { because }
        }
        (Recorded::Applied, Ended::RetryAt { .. }) => return,
    };
    service.metrics.task_ended(now.saturating_since(claimed.history.created_at()));
    service.events.task(event, claimed.lease.task, claimed.generation, lane, *now);
}

/// The engine's gates at the moment of decision: only the estimate counts. Breaker and budget are
/// asked when the retry is due, and hold it back instead of giving it up.
struct Estimate(Duration);

impl Gates for Estimate {
    fn estimated_call(&self) -> Duration {
        self.0
    }

    fn reserve_retry(&mut self, _now: Timestamp, _roll: u64) -> Result<(), Refusal> {
        Ok(())
    }
}
