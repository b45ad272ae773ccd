//! The HTTP API: routes, and what every handler shares. REQ-S2.
//!
//! A handler reads a request into a checked type, asks the service, and answers with a document or a
//! problem. It decides nothing about retrying.

pub(crate) mod accept;
mod body;
mod dead_letters;
mod documents;
mod events;
mod health;
mod lanes;
mod policies;
mod tasks;

use std::sync::Arc;
use std::time::Duration;

use ::http::{HeaderValue, StatusCode, header};
use axum::Router;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use relent_api::{Code, Problem};
use relent_store::{Error, TenantId};
use serde::Serialize;

use crate::seldom::Seldom;
use crate::service::Service;

/// The whole API on a service.
pub(crate) fn router(service: Arc<Service>) -> Router {
    Router::new()
        .route("/retry-tasks", post(tasks::create).get(tasks::list))
        .route("/retry-tasks:batch", post(tasks::create_batch))
        .route("/retry-tasks/{task_id}", get(tasks::get).delete(tasks::cancel))
        .route("/retry-tasks/{task_id}/attempts", get(tasks::attempts))
        .route("/retry-policies", post(policies::register).get(policies::list))
        .route(
            "/retry-policies/{policy_id}",
            get(policies::get).put(policies::replace).delete(policies::delete),
        )
        .route("/lanes", get(lanes::list))
        .route("/lanes/{lane_id}", get(lanes::get))
        .route("/lanes/{lane_id}/pause", post(lanes::pause))
        .route("/lanes/{lane_id}/resume", post(lanes::resume))
        .route("/lanes/{lane_id}/limits", axum::routing::put(lanes::limits))
        .route("/dead-letters", get(dead_letters::list).delete(dead_letters::purge))
        .route("/dead-letters:redrive", post(dead_letters::redrive))
        .route("/dead-letters/{task_id}", get(dead_letters::get))
        .route("/events", get(events::stream))
        .route("/livez", get(health::live))
        .route("/readyz", get(health::ready))
        .route("/metrics", get(health::metrics))
        .route("/openapi.json", get(health::openapi))
        .fallback(no_such_route)
        .method_not_allowed_fallback(no_such_method)
        .with_state(service)
}

/// What a node answers that takes no tasks.
pub(crate) fn worker_router(service: Arc<Service>) -> Router {
    Router::new()
        .route("/livez", get(health::live))
        .route("/readyz", get(health::ready))
        .route("/metrics", get(health::metrics))
        .fallback(worker_only)
        .method_not_allowed_fallback(no_such_method)
        .with_state(service)
}

async fn worker_only() -> Refused {
    Problem::new(
        Code::NotFound,
        "this node has the worker role only: it answers /livez, /readyz and /metrics; ask a node \
         with the api role",
    )
    .into()
}

async fn no_such_route() -> Refused {
    Problem::new(
        Code::NotFound,
        "there is nothing at this path; GET /openapi.json lists what there is",
    )
    .into()
}

async fn no_such_method() -> Refused {
    Problem::new(
        Code::MethodNotAllowed,
        "this path does not take this method; GET /openapi.json lists what there is",
    )
    .into()
}

/// Whoever asks does not wait for a store longer than this.
const STORE_WITHIN: Duration = Duration::from_secs(5);

/// What the store answers, if it does in time. What it was asked for it may still do.
async fn in_time<T, E: From<Error>>(asked: impl Future<Output = Result<T, E>>) -> Result<T, E> {
    match tokio::time::timeout(STORE_WITHIN, asked).await {
        Ok(answer) => answer,
        Err(_) => Err(Error::Unavailable("it did not answer within 5 s".to_owned()).into()),
    }
}

/// What a handler returns.
type Handled = Result<Response, Refused>;

/// A request that was not done, with the problem that says why.
#[derive(Debug)]
pub(crate) struct Refused(Box<Problem>);

impl From<Problem> for Refused {
    fn from(problem: Problem) -> Refused {
        Refused(Box::new(problem))
    }
}

impl From<Error> for Refused {
    fn from(error: Error) -> Refused {
        let problem = match error {
            Error::Overloaded => {
                Problem::new(Code::Overloaded, "too much is being stored; try again shortly")
                    .retry_after(1)
            }
            Error::Full(_) => Problem::new(
                Code::StorageFull,
                "there is no room for new tasks; nothing was stored, and tasks that are stored go on",
            ),
            Error::TooManyLanes { max } => Problem::new(
                Code::TooManyLanes,
                format!(
                    "there are {max} lanes already: give tasks that belong together the same `dependency`"
                ),
            ),
            Error::Unavailable(ref reason) | Error::Damaged(ref reason) => {
                static SELDOM: Seldom = Seldom::new();
                if let Some(untold) = SELDOM.tell() {
                    tracing::error!(%reason, untold, "the store failed");
                }
                Problem::new(
                    Code::StoreUnavailable,
                    "the store cannot be used at present; what was asked may have been done or not: ask again, for a task with the same idempotency key",
                )
                .retry_after(1)
            }
        };
        problem.into()
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let problem = *self.0;
        let mut response = json(problem.status(), &problem);
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = problem.retry_after_secs {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }
}

/// A JSON answer.
fn json(status: StatusCode, document: &impl Serialize) -> Response {
    match serde_json::to_vec(document) {
        Ok(text) => {
            (status, [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], text)
                .into_response()
        }
        Err(error) => {
            tracing::error!(%error, "a document could not be written");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

/// Whose request it is. There is one tenant until there are keys.
fn tenant() -> TenantId {
    static DEFAULT: std::sync::OnceLock<TenantId> = std::sync::OnceLock::new();
    DEFAULT.get_or_init(TenantId::default_tenant).clone()
}
