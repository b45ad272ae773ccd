//! Whether the service lives, whether it can be used, and what it counts. REQ-O2.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ::http::{HeaderValue, header};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use relent_api::{Code, OPENAPI, Problem};

use super::{Handled, Refused};
use crate::service::Service;

/// A store that does not answer within this is not ready.
const STORE_WITHIN: Duration = Duration::from_secs(2);

/// The process runs. No dependency is asked: a restart would not help it.
pub(super) async fn live() -> &'static str {
    "ok\n"
}

/// Tasks can be taken and delivered.
pub(super) async fn ready(State(service): State<Arc<Service>>) -> Handled {
    if service.draining.load(Ordering::Relaxed) {
        return Err(Problem::new(Code::Draining, "the service is on its way out")
            .retry_after(1)
            .into());
    }
    match tokio::time::timeout(STORE_WITHIN, service.store.check()).await {
        Ok(checked) => checked?,
        Err(_) => {
            let detail = "the store did not answer within 2 s";
            return Err(Problem::new(Code::StoreUnavailable, detail).retry_after(1).into());
        }
    }
    Ok("ok\n".into_response())
}

/// All metrics as OpenMetrics text.
pub(super) async fn metrics(State(service): State<Arc<Service>>) -> Response {
    service.metrics.nodes(service.cluster.nodes());
    let text =
        service.metrics.text(&service.lanes.all(), service.places.taken(), service.store.now());
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, HeaderValue::from_static(kind))], text).into_response()
}

/// The description of this API.
pub(super) async fn openapi() -> Result<Response, Refused> {
    Ok(([(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], OPENAPI)
        .into_response())
}
