//! Which tasks are looked for: the query strings of lists, and the filters in documents.
//! REQ-S2, REQ-D3.

use std::str::FromStr;

use relent_policy::{GiveUpReason, IdempotencyKey, Timestamp};

use crate::fields::Fields;
use crate::limits::Limits;
use crate::names::closest;
use crate::parameters::{self, Parameters};
use crate::problem::{Code, Problem};
use crate::report::{Report, Wrong};
use crate::task::check;
use crate::task_document::Status;
use crate::time::{A_TIME, Time};

const CURSOR_CHARS_MAX: usize = 512;

/// Which tasks are looked for; what is left out does not matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskFilter {
    /// Those with one of these statuses; empty means any.
    pub statuses: Vec<Status>,
    /// Those retried by this policy.
    pub policy_id: Option<String>,
    /// Those that call this dependency.
    pub dependency: Option<String>,
    /// Those created at this time or later.
    pub created_after: Option<Timestamp>,
    /// Those created before this time.
    pub created_before: Option<Timestamp>,
    /// The one with this key.
    pub idempotency_key: Option<IdempotencyKey>,
    /// Those that gave up for this reason.
    pub ended_because: Option<GiveUpReason>,
}

/// The query of `GET /retry-tasks` or `GET /dead-letters`.
///
/// ```
/// use relent_api::{Limits, Status, TaskQuery};
///
/// let query = TaskQuery::parse("status=PENDING,IN_FLIGHT&limit=10", &Limits::default())?;
/// assert_eq!(query.filter.statuses, [Status::Pending, Status::InFlight]);
/// assert_eq!(query.limit, 10);
///
/// let problem = TaskQuery::parse("state=PENDING", &Limits::default()).unwrap_err();
/// assert!(problem.detail.contains("did you mean status?"));
/// # Ok::<(), relent_api::Problem>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskQuery {
    /// Which tasks.
    pub filter: TaskFilter,
    /// Where to go on.
    pub cursor: Option<String>,
    /// How many at most.
    pub limit: u32,
}

/// The query of a list without filters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageQuery {
    /// Where to go on.
    pub cursor: Option<String>,
    /// How many at most.
    pub limit: u32,
}

/// The query of one task: what is shown of it beside what always is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Include {
    /// Its body (`include=body`).
    pub body: bool,
}

impl TaskQuery {
    /// Reads the query of `GET /retry-tasks`, as it stands after the `?`.
    ///
    /// # Errors
    ///
    /// Every parameter that is unknown, repeated or not allowed.
    pub fn parse(query: &str, limits: &Limits) -> Result<TaskQuery, Problem> {
        let mut parameters = Parameters::of(query);
        let statuses = statuses(&mut parameters);
        let filter = TaskFilter { statuses, ..TaskFilter::of(&mut parameters, limits) };
        TaskQuery::finish(filter, parameters, limits)
    }

    /// Reads the query of `GET /dead-letters`: the same without `status`, which is `EXHAUSTED`.
    ///
    /// # Errors
    ///
    /// As with [`parse`](TaskQuery::parse).
    pub fn parse_dead_letters(query: &str, limits: &Limits) -> Result<TaskQuery, Problem> {
        let mut parameters = Parameters::of(query);
        let filter = TaskFilter::of(&mut parameters, limits);
        TaskQuery::finish(filter.of_dead_letters(), parameters, limits)
    }

    /// Reads the query of `DELETE /dead-letters`. Without any filter it wants `all=true`: a filter
    /// that got lost on its way must not delete everything.
    ///
    /// # Errors
    ///
    /// As with [`parse`](TaskQuery::parse).
    pub fn parse_purge(query: &str, limits: &Limits) -> Result<TaskQuery, Problem> {
        let mut parameters = Parameters::of(query);
        let filter = TaskFilter::of(&mut parameters, limits);
        let all = parameters.read("all", parameters::flag).unwrap_or_default();
        if all != filter.is_empty() && parameters.is_right() {
            let (got, expected) = match all {
                true => ("true with a filter", "left out with a filter"),
                false => ("nothing", "true where there is no filter"),
            };
            parameters.wrong("all", Wrong::new(got, expected));
        }
        TaskQuery::finish(filter.of_dead_letters(), parameters, limits)
    }

    fn finish(
        filter: TaskFilter,
        mut parameters: Parameters<'_>,
        limits: &Limits,
    ) -> Result<TaskQuery, Problem> {
        let PageQuery { cursor, limit } = PageQuery::of(&mut parameters, limits);
        parameters.finish(TaskQuery { filter, cursor, limit })
    }
}

impl PageQuery {
    /// Reads `cursor` and `limit`.
    ///
    /// # Errors
    ///
    /// Every parameter that is unknown, repeated or not allowed.
    pub fn parse(query: &str, limits: &Limits) -> Result<PageQuery, Problem> {
        let mut parameters = Parameters::of(query);
        let page = PageQuery::of(&mut parameters, limits);
        parameters.finish(page)
    }

    fn of(parameters: &mut Parameters<'_>, limits: &Limits) -> PageQuery {
        let max = limits.page_items_max;
        let cursor = parameters.read("cursor", cursor);
        let limit = parameters.read("limit", |text| parameters::number(text, 1, max));
        PageQuery { cursor, limit: limit.unwrap_or(limits.page_items_default) }
    }
}

impl Include {
    /// Reads `include`.
    ///
    /// # Errors
    ///
    /// When something unknown is to be included, or there are other parameters.
    pub fn parse(query: &str) -> Result<Include, Problem> {
        let mut parameters = Parameters::of(query);
        let body = parameters.read("include", |text| match text {
            "body" => Ok(true),
            _ => Err(Wrong::new(format!("{text:?}"), "body")),
        });
        parameters.finish(Include { body: body.unwrap_or_default() })
    }
}

impl TaskFilter {
    /// Whether every task passes.
    pub fn is_empty(&self) -> bool {
        *self == TaskFilter::default()
    }

    /// The same filter, for dead letters only.
    #[must_use]
    pub fn of_dead_letters(self) -> TaskFilter {
        TaskFilter { statuses: vec![Status::Exhausted], ..self }
    }

    /// The filter in a query string, without the status.
    pub(crate) fn of(parameters: &mut Parameters<'_>, limits: &Limits) -> TaskFilter {
        let max = limits.dependency_chars_max;
        TaskFilter {
            statuses: Vec::new(),
            policy_id: parameters.read("policyId", check::policy_id),
            dependency: parameters.read("dependency", |text| check::visible(text.into(), max)),
            created_after: parameters.read("createdAfter", time),
            created_before: parameters.read("createdBefore", time),
            idempotency_key: parameters.read("idempotencyKey", check::key_of),
            ended_because: parameters.read("endedBecause", reason),
        }
    }

    /// The filter in a document, without the status.
    pub(crate) fn in_fields(
        fields: &mut Fields<'_>,
        limits: &Limits,
        report: &mut Report,
    ) -> TaskFilter {
        let max = limits.dependency_chars_max;
        let visible = |text: &str| check::visible(text.into(), max);
        let at = |Time(time)| time;
        TaskFilter {
            statuses: Vec::new(),
            policy_id: fields.read_as("policyId", check::policy_id, report),
            dependency: fields.read_as("dependency", visible, report),
            created_after: fields.read("createdAfter", A_TIME, report).map(at),
            created_before: fields.read("createdBefore", A_TIME, report).map(at),
            idempotency_key: fields.read_as("idempotencyKey", check::key_of, report),
            ended_because: fields.read_as("endedBecause", reason, report),
        }
    }
}

fn statuses(parameters: &mut Parameters<'_>) -> Vec<Status> {
    let mut statuses = Vec::new();
    for value in parameters.all("status") {
        for text in value.split(',') {
            match Status::from_str(text) {
                Ok(status) if statuses.contains(&status) => {}
                Ok(status) => statuses.push(status),
                Err(unknown) => {
                    let wrong = Wrong::new(format!("{text:?}"), unknown.to_string());
                    parameters.wrong("status", wrong);
                }
            }
        }
    }
    statuses
}

fn time(text: &str) -> Result<Timestamp, Wrong> {
    let time = Time::parse(text).map(|Time(time)| time);
    time.ok_or_else(|| Wrong::new(format!("{text:?}"), A_TIME))
}

pub(crate) fn cursor(text: &str) -> Result<String, Wrong> {
    let cursor = check::visible(text.into(), CURSOR_CHARS_MAX);
    cursor.map_err(|_| {
        let expected = "nextCursor of the page before";
        Wrong::new(crate::json::text_of(text.len()), expected).code(Code::InvalidCursor)
    })
}

fn reason(text: &str) -> Result<GiveUpReason, Wrong> {
    let mut reasons = GiveUpReason::ALL.iter().copied();
    reasons.find(|reason| reason.name() == text).ok_or_else(|| {
        let names: Vec<&str> = GiveUpReason::ALL.iter().map(|reason| reason.name()).collect();
        let expected = match closest(text, &names) {
            Some(meant) => format!("a reason to give up (did you mean {meant}?)"),
            None => format!("a reason to give up: {}", names.join(", ")),
        };
        Wrong::new(format!("{text:?}"), expected)
    })
}

#[cfg(test)]
mod tests;
