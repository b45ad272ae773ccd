//! `/lanes`: what each dependency's traffic is held to, and holding it. REQ-G3, REQ-K1, REQ-L6.

use std::collections::HashMap;
use std::sync::Arc;

use ::http::StatusCode;
use axum::extract::{Path, Request, State};
use relent_api::{
    BreakerDocument, BudgetDocument, Code, LaneDocument, LaneLimits, Page, Problem, RulesFrom,
};
use relent_policy::{Timestamp, Turn};
use relent_store::{Counts, LaneChange, LaneId};

use super::{Handled, Refused, body, json, tenant};
use crate::lanes::{Held, Lane};
use crate::service::Service;

/// `GET /lanes`.
pub(super) async fn list(State(service): State<Arc<Service>>) -> Handled {
    let counts = counts(&service).await?;
    let lanes = service.lanes.of_tenant(&tenant());
    let items: Vec<_> = lanes.iter().map(|lane| document(&service, lane, &counts)).collect();
    Ok(json(StatusCode::OK, &Page { items, next_cursor: None }))
}

/// `GET /lanes/{laneId}`.
pub(super) async fn get(
    State(service): State<Arc<Service>>,
    Path(lane_id): Path<String>,
) -> Handled {
    let lane = find(&service, &lane_id).await?;
    answer(&service, &lane).await
}

/// `POST /lanes/{laneId}/pause`: nothing more is sent. What is under way ends.
pub(super) async fn pause(
    State(service): State<Arc<Service>>,
    Path(lane_id): Path<String>,
) -> Handled {
    set_paused(&service, &lane_id, true).await
}

/// `POST /lanes/{laneId}/resume`.
pub(super) async fn resume(
    State(service): State<Arc<Service>>,
    Path(lane_id): Path<String>,
) -> Handled {
    set_paused(&service, &lane_id, false).await
}

async fn set_paused(service: &Service, lane_id: &str, paused: bool) -> Handled {
    let lane = find(service, lane_id).await?;
    let changed = lane.settings().paused != paused;
    change(service, &lane, LaneChange::Paused(paused)).await?;
    if changed {
        service.events.paused(&lane, paused, service.store.now());
    }
    answer(service, &lane).await
}

/// `PUT /lanes/{laneId}/limits`: what is left out is the policy's again.
pub(super) async fn limits(
    State(service): State<Arc<Service>>,
    Path(lane_id): Path<String>,
    request: Request,
) -> Handled {
    let lane = find(&service, &lane_id).await?;
    body::kind(&request)?;
    let document = body::read(request, service.limits.request_bytes_max).await?;
    let limits = LaneLimits::parse(&document, &service.limits)?;
    let limits = LaneChange::Limits {
        in_flight_max: limits.in_flight_max,
        retries_in_flight_max: limits.retries_in_flight_max,
        rate_per_second: limits.rate_per_second,
    };
    change(&service, &lane, limits).await?;
    answer(&service, &lane).await
}

async fn change(service: &Service, lane: &Lane, change: LaneChange) -> Result<(), Refused> {
    let _one_at_a_time = lane.changes.lock().await;
    let settings = service.store.change_lane(&tenant(), lane.id, change).await?;
    lane.set(settings.ok_or_else(|| not_found(&lane.id.to_string()))?);
    service.inbox.freed(lane.id);
    Ok(())
}

async fn find(service: &Service, lane_id: &str) -> Result<Arc<Lane>, Refused> {
    let id: LaneId = lane_id.parse().map_err(|_| not_found(lane_id))?;
    let lane = service.lane_of_id(id).await?.filter(|lane| lane.tenant == tenant());
    lane.ok_or_else(|| not_found(lane_id))
}

fn not_found(lane_id: &str) -> Refused {
    let shown: String = lane_id.chars().take(40).collect();
    Problem::new(Code::LaneNotFound, format!("there is no lane `{shown}`; GET /lanes lists them"))
        .into()
}

async fn counts(service: &Service) -> Result<HashMap<LaneId, Counts>, Refused> {
    Ok(service.store.counts().await?.into_iter().collect())
}

async fn answer(service: &Service, lane: &Lane) -> Handled {
    let counts = counts(service).await?;
    Ok(json(StatusCode::OK, &document(service, lane, &counts)))
}

fn document(service: &Service, lane: &Lane, counts: &HashMap<LaneId, Counts>) -> LaneDocument {
    let now = service.store.now();
    let view = lane.view(now);
    let counts = counts.get(&lane.id).copied().unwrap_or_default();
    let policy = service.policies.get(lane.policy);
    // What holds a line is of no interest while nothing stands in it.
    let lines = [(Turn::First, counts.first), (Turn::Retry, counts.retries)];
    let held = lines.into_iter().filter(|(_, waiting)| *waiting > 0);
    let held = held.filter_map(|(turn, _)| lane.held(turn, now)).next();
    let until = |held: Held| (held.until < Timestamp::MAX).then(|| held.until.as_millis_ceil());
    LaneDocument {
        lane_id: lane.id.to_string(),
        dependency: lane.dependency.to_string(),
        paused: view.settings.paused,
        blocked_by: held.map(|held| held.reason),
        blocked_until: held.and_then(until),
        in_flight: if service.cluster.is_shared() {
            // Other nodes' too.
            u32::try_from(counts.in_flight).unwrap_or(u32::MAX)
        } else {
            view.in_flight
        },
        retries_in_flight: view.retries_in_flight,
        waiting_first: counts.first,
        waiting_retries: counts.retries,
        dead_letters: counts.dead_letters,
        budget: view
            .budget_utilization
            .map(|utilization_ratio| BudgetDocument { utilization_ratio }),
        breaker: view.breaker.map(|state| BreakerDocument {
            until: view.breaker_until.map(Timestamp::as_millis_ceil),
            ..BreakerDocument::new(state)
        }),
        limits: LaneLimits {
            in_flight_max: Some(view.limits.in_flight_max),
            retries_in_flight_max: Some(view.limits.retries_in_flight_max),
            rate_per_second: view.limits.rate_per_second,
        },
        rules_from: policy.map(|policy| RulesFrom {
            policy_id: policy.policy_id.clone(),
            version: policy.version,
        }),
    }
}
