//! `/retry-tasks`. REQ-S1, REQ-S2, REQ-I1, REQ-I5.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::extract::{Path, RawQuery, Request, State};
use axum::response::{IntoResponse, Response};
use relent_api::{
    AttemptDocument, BatchDocument, Code, CreatedDocument, First, NewTask, Page, Problem, Status,
    TaskQuery,
};
use relent_store::{
    Cancelled, Enqueued, FirstAttempt, State as TaskState, StoredRequest, TaskId, TenantId,
};

use super::documents::{self, status};
use super::{Handled, Refused, body, in_time, json, tenant};
use crate::events::TaskEvent;
use crate::lanes::Lane;
use crate::policies::KnownPolicy;
use crate::service::Service;

const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// How many new lanes are handed to the store together.
const LANES_AT_ONCE: usize = 128;

/// `POST /retry-tasks`: 202 for a new task, 200 for one that is there already.
pub(super) async fn create(State(service): State<Arc<Service>>, request: Request) -> Handled {
    refuse_if_draining(&service)?;
    if body::kind(&request)? == body::Kind::Lines {
        let detail = "one task is one JSON document; send many to /retry-tasks:batch";
        return Err(Problem::new(Code::UnsupportedMediaType, detail).into());
    }
    let key = header_key(request.headers())?;
    let document = body::read(request, service.limits.request_bytes_max).await?;
    let task = NewTask::parse(&document, key.as_deref(), &service.limits, service.store.now())?;
    in_time(store(&service, task)).await
}

async fn store(service: &Service, task: NewTask) -> Handled {
    let tenant = tenant();
    let storing = match &task.key {
        Some(key) => Some(service.being_stored.begin(&tenant, key).ok_or_else(|| {
            let detail = "a task with this idempotency key is being stored right now";
            Problem::new(Code::KeyInProgress, detail).retry_after(1)
        })?),
        None => None,
    };
    let prepared = prepare(service, &tenant, task).await?;
    let about = prepared.about();
    let answers = service.store.enqueue(&tenant, vec![prepared.task]).await?;
    drop(storing);
    match answers.first() {
        Some(Enqueued::Created(id)) => {
            service.metrics.created(1);
            service.events.task(TaskEvent::Created, *id, 0, &about.lane, service.store.now());
            Ok(created(StatusCode::ACCEPTED, &about.document(*id)))
        }
        Some(Enqueued::Existing(id)) => {
            service.metrics.duplicates(1);
            let document = existing(service, &tenant, &about, *id).await?;
            Ok(created(StatusCode::OK, &document))
        }
        Some(Enqueued::Conflict(id)) => {
            let detail = "the idempotency key belongs to a task with other content";
            let mut problem = Problem::new(Code::KeyConflict, detail);
            problem.task_id = id.map(|id| id.to_string());
            Err(problem.into())
        }
        Some(Enqueued::Withheld) | None => {
            Err(Problem::new(Code::Internal, "the store gave no answer for this task").into())
        }
    }
}

/// `POST /retry-tasks:batch`: all of them or none.
pub(super) async fn create_batch(State(service): State<Arc<Service>>, request: Request) -> Handled {
    refuse_if_draining(&service)?;
    let kind = body::kind(&request)?;
    let document = body::read(request, service.limits.request_bytes_max).await?;
    let tasks = match kind {
        body::Kind::Json => {
            relent_api::parse_batch(&document, &service.limits, service.store.now())?
        }
        body::Kind::Lines => {
            relent_api::parse_lines(&document, &service.limits, service.store.now())?
        }
    };
    in_time(store_batch(&service, tasks)).await
}

async fn store_batch(service: &Service, tasks: Vec<NewTask>) -> Handled {
    let tenant = tenant();
    open_lanes(service, &tenant, &tasks).await?;
    let (mut new, mut about) = (Vec::with_capacity(tasks.len()), Vec::with_capacity(tasks.len()));
    for task in tasks {
        let prepared = prepare(service, &tenant, task).await?;
        about.push(prepared.about());
        new.push(prepared.task);
    }
    let answers = service.store.enqueue(&tenant, new).await?;
    let mut conflicts = Problem::new(
        Code::KeyConflict,
        "idempotency keys belong to tasks with other content; nothing was stored",
    );
    let (mut items, mut count_created) = (Vec::with_capacity(answers.len()), 0);
    for (index, (answer, about)) in answers.iter().zip(&about).enumerate() {
        match answer {
            Enqueued::Created(id) => {
                count_created += 1;
                service.events.task(TaskEvent::Created, *id, 0, &about.lane, service.store.now());
                items.push(about.document(*id));
            }
            Enqueued::Existing(id) => items.push(existing(service, &tenant, about, *id).await?),
            Enqueued::Conflict(id) => {
                conflicts = conflicts.with_error(documents::key_conflict(index, *id));
            }
            Enqueued::Withheld => {}
        }
    }
    if !conflicts.errors.is_empty() {
        return Err(conflicts.into());
    }
    service.metrics.created(count_created);
    service.metrics.duplicates(items.len() as u64 - count_created);
    Ok(json(StatusCode::ACCEPTED, &BatchDocument { created: count_created, items }))
}

/// Opens the lanes that a batch is the first to need. Not one by one: what a store is handed together
/// it writes together.
async fn open_lanes(
    service: &Service,
    tenant: &TenantId,
    tasks: &[NewTask],
) -> Result<(), Refused> {
    let (mut new, mut names) = (Vec::new(), HashSet::new());
    // Before any lane is opened: a batch that is refused leaves nothing behind.
    for task in tasks {
        let Some(policy) = service.latest_policy(tenant, &task.policy_id).await? else {
            return Err(documents::unknown_policy(&task.policy_id).into());
        };
        let name = task.dependency_name();
        if service.lanes.named(tenant, name).is_none() && names.insert(name) {
            new.push((name, policy.key));
        }
    }
    for some in new.chunks(LANES_AT_ONCE) {
        let open = |(name, policy): &(&str, _)| service.store.open_lane(tenant, name, *policy);
        let opening: Vec<_> = some.iter().map(open).collect();
        for lane in opening {
            service.take_lane(lane.await?).await?;
        }
    }
    Ok(())
}

/// What is told of a task that was there already: how it stands, under the policy it has.
async fn existing(
    service: &Service,
    tenant: &TenantId,
    about: &About,
    id: TaskId,
) -> Result<CreatedDocument, Refused> {
    let mut document = about.document(id);
    if let Some(task) = service.store.task(tenant, id).await? {
        document.status = status(task.state);
        document.next_attempt_at = documents::next_attempt_at(&task);
        if let Some(policy) = service.policy(task.policy).await? {
            document.policy_id.clone_from(&policy.policy_id);
            document.policy_version = policy.version;
        }
    }
    Ok(document)
}

fn created(status: StatusCode, document: &CreatedDocument) -> Response {
    let mut response = json(status, document);
    let location = ["/retry-tasks/", &document.task_id].concat();
    if let Ok(location) = HeaderValue::from_str(&location) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}

fn refuse_if_draining(service: &Service) -> Result<(), Refused> {
    if service.draining.load(Ordering::Relaxed) {
        return Err(Problem::new(Code::Draining, "the service is on its way out")
            .retry_after(1)
            .into());
    }
    Ok(())
}

fn header_key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let mut values = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(first) = values.next() else { return Ok(None) };
    match (first.to_str(), values.next()) {
        (Ok(key), None) => Ok(Some(key.to_owned())),
        _ => Err(Problem::new(
            Code::InvalidRequest,
            "expected one Idempotency-Key header of visible ASCII characters",
        )),
    }
}

/// A checked task on its way to the store.
struct Prepared {
    task: relent_store::NewTask,
    lane: Arc<Lane>,
    policy: Arc<KnownPolicy>,
    first: First,
}

/// What the answer says about a task beside its id.
struct About {
    lane: Arc<Lane>,
    policy: Arc<KnownPolicy>,
    first: First,
}

impl Prepared {
    fn about(&self) -> About {
        About { lane: Arc::clone(&self.lane), policy: Arc::clone(&self.policy), first: self.first }
    }
}

impl About {
    fn document(&self, id: TaskId) -> CreatedDocument {
        let created_at = id.created_at();
        CreatedDocument {
            task_id: id.to_string(),
            status: Status::Pending,
            policy_id: self.policy.policy_id.clone(),
            policy_version: self.policy.version,
            dependency: self.lane.dependency.to_string(),
            lane_id: self.lane.id.to_string(),
            created_at: created_at.as_millis(),
            next_attempt_at: Some(self.first.due_at(created_at).as_millis_ceil()),
        }
    }
}

async fn prepare(service: &Service, tenant: &TenantId, task: NewTask) -> Result<Prepared, Refused> {
    let Some(policy) = service.latest_policy(tenant, &task.policy_id).await? else {
        return Err(documents::unknown_policy(&task.policy_id).into());
    };
    let lane = service.lane(tenant, task.dependency_name(), &policy).await?;
    let (fingerprint, repeatable, first) = (task.fingerprint(), task.repeatable(), task.first);
    let task = relent_store::NewTask {
        lane: lane.id,
        policy: policy.key,
        key: task.key,
        fingerprint,
        first: match first {
            First::Now => FirstAttempt::Now,
            First::After(delay) => FirstAttempt::After(delay),
            First::NotBefore(at) => FirstAttempt::NotBefore(at),
        },
        lifetime: policy.policy.spec().total_budget,
        repeatable,
        request: StoredRequest {
            method: task.method.to_string(),
            url: task.target.as_str().to_owned(),
            headers: task.headers,
            body: task.body,
            correlation_id: task.correlation_id,
        },
    };
    Ok(Prepared { task, lane, policy, first })
}

/// `GET /retry-tasks`: latest first.
pub(super) async fn list(
    State(service): State<Arc<Service>>,
    RawQuery(query): RawQuery,
) -> Handled {
    let query = TaskQuery::parse(query.as_deref().unwrap_or_default(), &service.limits)?;
    let page = documents::page_of_tasks(&service, &tenant(), &query).await?;
    Ok(json(StatusCode::OK, &page))
}

/// `GET /retry-tasks/{taskId}`.
pub(super) async fn get(
    State(service): State<Arc<Service>>,
    Path(task_id): Path<String>,
) -> Handled {
    let task = in_time(service.store.task(&tenant(), known_id(&task_id)?)).await?;
    let task = task.ok_or_else(|| not_found(&task_id))?;
    Ok(json(StatusCode::OK, &documents::task(&service, &task, documents::Body::Left).await?))
}

/// `DELETE /retry-tasks/{taskId}`: 200 when it is cancelled, 202 while an attempt is under way.
pub(super) async fn cancel(
    State(service): State<Arc<Service>>,
    Path(task_id): Path<String>,
) -> Handled {
    let (tenant, id) = (tenant(), known_id(&task_id)?);
    let code = match in_time(service.store.cancel(&tenant, id)).await? {
        Cancelled::Now => StatusCode::OK,
        Cancelled::AfterAttempt => {
            service.under_way.call_off(id);
            StatusCode::ACCEPTED
        }
        Cancelled::Ended(TaskState::Cancelled) => StatusCode::OK,
        Cancelled::Ended(state) => {
            let detail = format!("the task has ended already: {}", status(state));
            return Err(Problem::new(Code::AlreadyEnded, detail).about_task(task_id).into());
        }
        Cancelled::NotFound => return Err(not_found(&task_id)),
    };
    let task =
        in_time(service.store.task(&tenant, id)).await?.ok_or_else(|| not_found(&task_id))?;
    if code == StatusCode::OK
        && let Some(lane) = service.lane_of_id(task.lane).await?
    {
        service.events.task(TaskEvent::Cancelled, id, task.generation, &lane, service.store.now());
    }
    Ok(json(code, &documents::task(&service, &task, documents::Body::Left).await?))
}

/// `GET /retry-tasks/{taskId}/attempts`: in order, a page at a time.
pub(super) async fn attempts(
    State(service): State<Arc<Service>>,
    Path(task_id): Path<String>,
    RawQuery(query): RawQuery,
) -> Handled {
    let query =
        relent_api::PageQuery::parse(query.as_deref().unwrap_or_default(), &service.limits)?;
    let attempts = in_time(service.store.attempts(&tenant(), known_id(&task_id)?)).await?;
    let attempts = attempts.ok_or_else(|| not_found(&task_id))?;
    let skip = match &query.cursor {
        None => 0,
        Some(cursor) => documents::attempts_cursor(cursor)?,
    };
    let all = attempts.len();
    let items: Vec<AttemptDocument> = attempts
        .into_iter()
        .skip(skip)
        .take(query.limit as usize)
        .map(|attempt| documents::attempt(&task_id, attempt))
        .collect();
    let end = skip + items.len();
    let next_cursor = (end < all).then(|| end.to_string());
    Ok(json(StatusCode::OK, &Page { items, next_cursor }).into_response())
}

/// The id in a path. A text that is no id names no task.
pub(super) fn known_id(text: &str) -> Result<TaskId, Refused> {
    text.parse().map_err(|_| not_found(text))
}

fn not_found(task_id: &str) -> Refused {
    let shown: String = task_id.chars().take(40).collect();
    Problem::new(Code::TaskNotFound, format!("there is no task `{shown}`")).into()
}
