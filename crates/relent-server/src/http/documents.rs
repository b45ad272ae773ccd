//! From what the store keeps to the documents that cross the wire.

use std::sync::Arc;

use relent_api::{
    AttemptDocument, Code, Decided, Page, Payload, PhaseDocument, Problem, Status, TaskDocument,
    TaskQuery, WaitingReason, redacted_headers,
};
use relent_policy::{Effect, FailureKind, Timestamp, Turn};
use relent_store::{
    AttemptRecord, Cursor, Ended, State, TaskFilter, TaskId, TaskRecord, TenantId, Waiting,
};

use super::Refused;
use crate::service::Service;

/// Whether a task's body is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Body {
    Shown,
    Left,
}

pub(super) fn status(state: State) -> Status {
    match state {
        State::Pending => Status::Pending,
        State::InFlight => Status::InFlight,
        State::Succeeded => Status::Succeeded,
        State::Exhausted => Status::Exhausted,
        State::Cancelled => Status::Cancelled,
    }
}

pub(super) fn state(status: Status) -> State {
    match status {
        Status::Pending => State::Pending,
        Status::InFlight => State::InFlight,
        Status::Succeeded => State::Succeeded,
        Status::Exhausted => State::Exhausted,
        Status::Cancelled => State::Cancelled,
    }
}

pub(super) fn next_attempt_at(task: &TaskRecord) -> Option<u64> {
    (task.state == State::Pending).then(|| task.due_at.as_millis_ceil())
}

/// What a waiting task waits for: its own time, or its lane's leave.
fn waiting_reason(service: &Service, task: &TaskRecord, now: Timestamp) -> Option<WaitingReason> {
    if task.state != State::Pending {
        return None;
    }
    let lane = service.lanes.get(task.lane);
    let held = lane.and_then(|lane| lane.held(Turn::of_attempt(task.attempts + 1), now));
    if task.due_at <= now
        && let Some(held) = held
    {
        return Some(held.reason);
    }
    Some(match task.waiting {
        Waiting::Scheduled => WaitingReason::Scheduled,
        Waiting::Backoff => WaitingReason::Backoff,
        Waiting::RetryAfter => WaitingReason::RetryAfter,
    })
}

pub(super) async fn task(
    service: &Service,
    task: &TaskRecord,
    body: Body,
) -> Result<TaskDocument, Refused> {
    let now = service.store.now();
    let policy = service.policy(task.policy).await?;
    let lane = service.lane_of_id(task.lane).await?;
    let mut document = TaskDocument {
        task_id: task.id.to_string(),
        status: status(task.state),
        waiting_reason: waiting_reason(service, task, now),
        idempotency_key: task.key.as_ref().map(ToString::to_string),
        correlation_id: task.request.correlation_id.clone(),
        target_url: task.request.url.clone(),
        method: task.request.method.parse().unwrap_or(relent_api::Method::Post),
        headers: redacted_headers(&task.request.headers),
        body_bytes: task.body_bytes,
        body: None,
        body_base64: None,
        body_ref: None,
        policy_id: policy.as_ref().map(|policy| policy.policy_id.clone()).unwrap_or_default(),
        policy_version: policy.as_ref().map_or(0, |policy| policy.version),
        dependency: lane.map(|lane| lane.dependency.to_string()).unwrap_or_default(),
        lane_id: task.lane.to_string(),
        attempt_number: task.attempts,
        max_attempts: policy.map_or(0, |policy| policy.policy.max_attempts()),
        generation: task.generation + 1,
        created_at: task.id.created_at().as_millis(),
        next_attempt_at: next_attempt_at(task),
        deadline_at: Some(task.deadline_at.as_millis()),
        last_attempt_at: None,
        last_status: task.last_status,
        last_error: None,
        cancel_requested: task.cancel_requested,
        ended_at: task.ended_at.map(Timestamp::as_millis),
        ended_because: task.because.map(|because| because.name().to_owned()),
    };
    if body == Body::Shown {
        document.show_body(&task.request.body);
    }
    Ok(document)
}

/// Adds what the last row of the attempt log knows.
pub(super) fn with_last_attempt(document: &mut TaskDocument, attempts: &[AttemptRecord]) {
    if let Some(last) = attempts.last() {
        document.last_attempt_at = Some(last.started_at.as_millis());
        document.last_error = last.failure.map(|failure| failure.to_string());
    }
}

pub(super) fn attempt(task_id: &str, attempt: AttemptRecord) -> AttemptDocument {
    let (decision, because, next_at) = match attempt.ended {
        Ended::Done => (Decided::Done, None, None),
        Ended::RetryAt { at, waiting } => {
            let because = match waiting {
                Waiting::RetryAfter => "retry_after",
                Waiting::Backoff | Waiting::Scheduled => "backoff",
            };
            (Decided::Retry, Some(because), Some(at))
        }
        Ended::GaveUp { because } => (Decided::GiveUp, Some(because.name()), None),
    };
    let ended_at = attempt.started_at + attempt.took;
    AttemptDocument {
        task_id: task_id.to_owned(),
        generation: attempt.generation + 1,
        attempt_number: attempt.number,
        started_at: attempt.started_at.as_millis(),
        duration_ms: millis(attempt.took),
        duration_us: micros(attempt.took),
        response_status: attempt.status,
        error: attempt.failure.map(|failure| failure.to_string()),
        error_message: attempt.failure.map(relent_api::error_message),
        effect: attempt.failure.map_or(Effect::Answered, FailureKind::effect).into(),
        decision,
        because: because.map(ToOwned::to_owned),
        next_attempt_at: next_at.map(Timestamp::as_millis_ceil),
        backoff_ms: next_at.map(|at| millis(at.saturating_since(ended_at))),
        roll: format!("{:016x}", attempt.roll),
        phases: PhaseDocument {
            dns_us: attempt.phases.dns.map(micros),
            connect_us: attempt.phases.connect.map(micros),
            tls_us: attempt.phases.tls.map(micros),
            first_byte_us: attempt.phases.first_byte.map(micros),
        },
        response_preview: attempt
            .preview
            .map(|preview| Payload(String::from_utf8_lossy(&preview).into_owned())),
    }
}

fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn micros(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// A page of tasks, without bodies.
pub(super) async fn page_of_tasks(
    service: &Arc<Service>,
    tenant: &TenantId,
    query: &TaskQuery,
) -> Result<Page<TaskDocument>, Refused> {
    let page = find(service, tenant, query).await?;
    let mut items = Vec::with_capacity(page.items.len());
    for found in &page.items {
        items.push(task(service, found, Body::Left).await?);
    }
    Ok(Page { items, next_cursor: page.next.map(|Cursor(id)| id.to_string()) })
}

/// The tasks that a query asks for.
pub(super) async fn find(
    service: &Arc<Service>,
    tenant: &TenantId,
    query: &TaskQuery,
) -> Result<relent_store::Page<TaskRecord>, Refused> {
    let cursor = match &query.cursor {
        None => None,
        Some(cursor) => Some(Cursor(cursor.parse().map_err(|_| bad_cursor())?)),
    };
    let Some(filter) = filter(service, tenant, &query.filter).await? else {
        return Ok(relent_store::Page { items: Vec::new(), next: None });
    };
    let Some(key) = &query.filter.idempotency_key else {
        return Ok(service.store.list(tenant, filter, cursor, query.limit).await?);
    };
    // A key has one task, which must meet the rest of the filter too.
    let mut items = Vec::new();
    if let Some(id) = service.store.task_by_key(tenant, key).await?
        && let Some(mut found) = service.store.task(tenant, id).await?
        && meets(&found, &filter)
    {
        found.request.body = bytes::Bytes::new();
        items.push(found);
    }
    Ok(relent_store::Page { items, next: None })
}

/// The store's filter for an API filter; `None` if nothing can meet it.
async fn filter(
    service: &Service,
    tenant: &TenantId,
    filter: &relent_api::TaskFilter,
) -> Result<Option<TaskFilter>, Refused> {
    let lanes = match &filter.dependency {
        None => None,
        Some(dependency) => match service.lane_of_name(tenant, dependency).await? {
            Some(lane) => Some(vec![lane.id]),
            None => return Ok(None),
        },
    };
    let policies = match &filter.policy_id {
        None => None,
        Some(policy_id) => match service.keys_of_policy(policy_id).await? {
            keys if keys.is_empty() => return Ok(None),
            keys => Some(keys),
        },
    };
    Ok(Some(TaskFilter {
        states: filter.statuses.iter().copied().map(state).collect(),
        lanes,
        policies,
        created_after: filter.created_after,
        created_before: filter.created_before,
        because: filter.ended_because,
    }))
}

fn meets(task: &TaskRecord, filter: &TaskFilter) -> bool {
    let created_at = task.id.created_at();
    (filter.states.is_empty() || filter.states.contains(&task.state))
        && filter.lanes.as_ref().is_none_or(|lanes| lanes.contains(&task.lane))
        && filter.policies.as_ref().is_none_or(|policies| policies.contains(&task.policy))
        && filter.created_after.is_none_or(|after| created_at >= after)
        && filter.created_before.is_none_or(|before| created_at < before)
        && filter.because.is_none_or(|because| task.because == Some(because))
}

pub(super) fn bad_cursor() -> Problem {
    Problem::new(Code::InvalidCursor, "expected `nextCursor` of the page before, unchanged")
}

/// How many rows a cursor into a task's attempts skips.
pub(super) fn attempts_cursor(cursor: &str) -> Result<usize, Problem> {
    cursor.parse().map_err(|_| bad_cursor())
}

/// A task of a batch whose key belongs to another.
pub(super) fn key_conflict(index: usize, other: Option<TaskId>) -> relent_api::FieldError {
    let got = match other {
        Some(id) => format!("the key of {id}"),
        None => "the key of an earlier task of this batch".to_owned(),
    };
    let at = relent_api::Place::Pointer(format!("/tasks/{index}/idempotencyKey"));
    relent_api::FieldError::new(
        at,
        &got,
        "a key of its own, or the content that the key stands for",
    )
}

/// A task asks for a policy that nobody has registered.
pub(super) fn unknown_policy(policy_id: &str) -> Problem {
    let shown: String = policy_id.chars().take(60).collect();
    Problem::new(
        Code::PolicyNotFound,
        format!("there is no policy `{shown}`; GET /retry-policies lists them"),
    )
}
