//! `/dead-letters`: tasks that were given up, with everything needed to understand them and to try
//! again. REQ-D1, REQ-D3.

use std::sync::Arc;
use std::time::Duration;

use ::http::StatusCode;
use axum::extract::{Path, RawQuery, Request, State};
use relent_api::{
    Code, DeadLetterDocument, Problem, PurgeReport, RedriveReport, RedriveRequest, Selection,
    Status, TaskQuery,
};
use relent_store::{Redrive, Redriven, State as TaskState, TaskId};

use super::documents::{self, Body};
use super::tasks::known_id;
use super::{Handled, Refused, body, json, tenant};
use crate::events::TaskEvent;
use crate::service::Service;

/// `GET /dead-letters`: latest created first.
pub(super) async fn list(
    State(service): State<Arc<Service>>,
    RawQuery(query): RawQuery,
) -> Handled {
    let query =
        TaskQuery::parse_dead_letters(query.as_deref().unwrap_or_default(), &service.limits)?;
    let page = documents::page_of_tasks(&service, &tenant(), &query).await?;
    Ok(json(StatusCode::OK, &page))
}

/// `GET /dead-letters/{taskId}`: with its payload and its attempts.
pub(super) async fn get(
    State(service): State<Arc<Service>>,
    Path(task_id): Path<String>,
) -> Handled {
    let (tenant, id) = (tenant(), known_id(&task_id).map_err(|_| not_found(&task_id))?);
    let found = service.store.task(&tenant, id).await?;
    let found = found
        .filter(|task| task.state == TaskState::Exhausted)
        .ok_or_else(|| not_found(&task_id))?;
    let attempts = service.store.attempts(&tenant, id).await?.unwrap_or_default();
    let mut task = documents::task(&service, &found, Body::Shown).await?;
    documents::with_last_attempt(&mut task, &attempts);
    let attempts = attempts.into_iter().map(|row| documents::attempt(&task_id, row)).collect();
    Ok(json(StatusCode::OK, &DeadLetterDocument { task, attempts }))
}

/// `POST /dead-letters:redrive`: by ids or by filter, paced, with a dry run. A filter takes at most
/// one page; `nextCursor` says where to go on.
pub(super) async fn redrive(State(service): State<Arc<Service>>, request: Request) -> Handled {
    body::kind(&request)?;
    let document = body::read(request, service.limits.request_bytes_max).await?;
    let wanted = RedriveRequest::parse(&document, &service.limits)?;
    let tenant = tenant();
    let policy = match &wanted.policy_id {
        None => None,
        Some(policy_id) => {
            let known = service.latest_policy(&tenant, policy_id).await?;
            Some(known.ok_or_else(|| documents::unknown_policy(policy_id))?)
        }
    };
    let (ids, next_cursor) = select(&service, &wanted.selection).await?;
    if wanted.dry_run {
        let (task_ids, refused) = would_be_redriven(&service, &wanted.selection, ids).await?;
        return Ok(json(
            StatusCode::OK,
            &RedriveReport { dry_run: true, redriven: 0, task_ids, refused, next_cursor },
        ));
    }
    let redrives = ids.iter().zip(0_u32..).map(|(task, index)| Redrive {
        task: *task,
        after: wanted
            .rate_per_second
            .map_or(Duration::ZERO, |rate| Duration::from_secs(1) * index / rate.max(1)),
        policy: policy.as_ref().map(|known| (known.key, known.policy.spec().total_budget)),
    });
    let answers = service.store.redrive(&tenant, redrives.collect()).await?;
    let (mut task_ids, mut refused) = (Vec::new(), Vec::new());
    for (id, answer) in ids.iter().zip(answers) {
        match answer {
            Redriven::Pending => {
                task_ids.push(id.to_string());
                tell(&service, *id).await;
            }
            Redriven::NotDead(_) | Redriven::NotFound => refused.push(id.to_string()),
        }
    }
    let redriven = task_ids.len() as u64;
    Ok(json(
        StatusCode::OK,
        &RedriveReport { dry_run: false, redriven, task_ids, refused, next_cursor },
    ))
}

/// Which of these would be redriven, and which not. What a filter finds is dead letters; what people
/// name may be anything.
async fn would_be_redriven(
    service: &Service,
    selection: &Selection,
    ids: Vec<TaskId>,
) -> Result<(Vec<String>, Vec<String>), Refused> {
    let shown = |ids: Vec<TaskId>| ids.iter().map(ToString::to_string).collect();
    if matches!(selection, Selection::Filter { .. }) {
        return Ok((shown(ids), Vec::new()));
    }
    let (mut would, mut refused) = (Vec::new(), Vec::new());
    for id in ids {
        let found = service.store.task(&tenant(), id).await?;
        let is_dead = found.is_some_and(|task| task.state == TaskState::Exhausted);
        // A task that is named twice is redriven once.
        if is_dead && !would.contains(&id) { would.push(id) } else { refused.push(id) }
    }
    Ok((shown(would), shown(refused)))
}

async fn tell(service: &Service, id: TaskId) {
    if !service.events.is_heard() {
        return;
    }
    if let Ok(Some(task)) = service.store.task(&tenant(), id).await
        && let Ok(Some(lane)) = service.lane_of_id(task.lane).await
    {
        service.events.task(TaskEvent::Redriven, id, task.generation, &lane, service.store.now());
    }
}

/// `DELETE /dead-letters?…`: deletes a page of what the filter finds. The filter must say something.
pub(super) async fn purge(
    State(service): State<Arc<Service>>,
    RawQuery(query): RawQuery,
) -> Handled {
    let query = TaskQuery::parse_purge(query.as_deref().unwrap_or_default(), &service.limits)?;
    let page = documents::find(&service, &tenant(), &query).await?;
    let ids: Vec<TaskId> = page.items.iter().map(|task| task.id).collect();
    let purged = service.store.purge(&tenant(), ids).await?;
    let next_cursor = page.next.map(|cursor| cursor.0.to_string());
    Ok(json(StatusCode::OK, &PurgeReport { purged, next_cursor }))
}

async fn select(
    service: &Arc<Service>,
    selection: &Selection,
) -> Result<(Vec<TaskId>, Option<String>), Refused> {
    match selection {
        Selection::Ids(ids) => {
            let ids: Result<Vec<TaskId>, Refused> =
                ids.iter().map(|id| known_id(id).map_err(|_| not_found(id))).collect();
            Ok((ids?, None))
        }
        Selection::Filter { filter, cursor, limit } => {
            let mut filter = filter.clone();
            filter.statuses = vec![Status::Exhausted];
            let query = TaskQuery { filter, cursor: cursor.clone(), limit: *limit };
            let page = documents::find(service, &tenant(), &query).await?;
            let next_cursor = page.next.map(|cursor| cursor.0.to_string());
            Ok((page.items.iter().map(|task| task.id).collect(), next_cursor))
        }
    }
}

fn not_found(task_id: &str) -> Refused {
    let shown: String = task_id.chars().take(40).collect();
    Problem::new(Code::DeadLetterNotFound, format!("there is no dead letter `{shown}`")).into()
}
