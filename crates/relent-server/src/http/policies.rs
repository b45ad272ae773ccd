//! `/retry-policies`. A policy that departs from the standard without a waiver is refused with every
//! departure and its rule. REQ-E1, REQ-S2.

use std::sync::Arc;

use ::http::StatusCode;
use axum::extract::{Path, RawQuery, Request, State};
use relent_api::{Code, Page, PolicyDocument, PolicyQuery, Problem};

use super::documents::unknown_policy;
use super::{Handled, body, json, tenant};
use crate::policies::{KnownPolicy, built_in_tenant, new_policy};
use crate::service::Service;

/// `POST /retry-policies`: idempotent by id and content. 201 for a new version, 200 for the same.
pub(super) async fn register(State(service): State<Arc<Service>>, request: Request) -> Handled {
    store(&service, request, None).await
}

/// `PUT /retry-policies/{policyId}`: the same, with the id in the path.
pub(super) async fn replace(
    State(service): State<Arc<Service>>,
    Path(policy_id): Path<String>,
    request: Request,
) -> Handled {
    store(&service, request, Some(&policy_id)).await
}

async fn store(service: &Service, request: Request, path_id: Option<&str>) -> Handled {
    if body::kind(&request)? == body::Kind::Lines {
        let detail = "a policy is one JSON document";
        return Err(Problem::new(Code::UnsupportedMediaType, detail).into());
    }
    let document = body::read(request, service.limits.request_bytes_max).await?;
    let policy =
        relent_api::parse_policy(&document, path_id, &service.limits, service.store.now())?;
    let (tenant, policy_id) = (tenant(), policy.id());
    if !service.policies.versions(built_in_tenant(), policy_id).is_empty() {
        let detail = format!("`{policy_id}` comes with relent; register a policy under another id");
        return Err(Problem::new(Code::PolicyBuiltIn, detail).into());
    }
    let before = service.latest_policy(&tenant, policy_id).await?.map(|known| known.version);
    let record = service.store.put_policy(&tenant, new_policy(policy.spec())).await?;
    let known = service.policies.add(&tenant, &record)?;
    let same = before == Some(known.version);
    let status = if same { StatusCode::OK } else { StatusCode::CREATED };
    Ok(json(status, &self::document(&known, service)))
}

/// `GET /retry-policies`: the latest version of each.
pub(super) async fn list(State(service): State<Arc<Service>>) -> Handled {
    let policies = service.policies.all(&tenant());
    let items: Vec<_> = policies.iter().map(|known| document(known, &service)).collect();
    Ok(json(StatusCode::OK, &Page { items, next_cursor: None }))
}

/// `GET /retry-policies/{policyId}`, `?version=N` for an earlier one.
pub(super) async fn get(
    State(service): State<Arc<Service>>,
    Path(policy_id): Path<String>,
    RawQuery(query): RawQuery,
) -> Handled {
    let query = PolicyQuery::parse(query.as_deref().unwrap_or_default())?;
    let known = match query.version {
        None => service.latest_policy(&tenant(), &policy_id).await?,
        Some(version) => service.policy_version(&tenant(), &policy_id, version).await?,
    };
    let known = known.ok_or_else(|| unknown_policy(&policy_id))?;
    Ok(json(StatusCode::OK, &document(&known, &service)))
}

/// `DELETE /retry-policies/{policyId}`: it takes no new tasks; those it has keep it.
pub(super) async fn delete(
    State(service): State<Arc<Service>>,
    Path(policy_id): Path<String>,
) -> Handled {
    let tenant = tenant();
    let known = service.latest_policy(&tenant, &policy_id).await?;
    let known = known.ok_or_else(|| unknown_policy(&policy_id))?;
    if known.built_in {
        let detail = format!("`{policy_id}` comes with relent and cannot be deleted");
        return Err(Problem::new(Code::PolicyBuiltIn, detail).into());
    }
    service.store.delete_policy(&tenant, &policy_id).await?;
    service.policies.remove(&tenant, &policy_id);
    Ok(json(StatusCode::OK, &document(&known, &service)))
}

fn document(known: &KnownPolicy, service: &Service) -> PolicyDocument {
    PolicyDocument::new(
        &known.policy,
        known.version,
        known.created_at,
        known.built_in,
        service.store.now(),
    )
}
