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

    /// Reads the query of `GET /dead-letters`: the same without `status`.
    ///
    /// # Errors
    ///
    /// As with [`parse`](TaskQuery::parse).
    pub fn parse_dead_letters(query: &str, limits: &Limits) -> Result<TaskQuery, Problem> {
        let mut parameters = Parameters::of(query);
        let filter = TaskFilter::of(&mut parameters, limits);
        TaskQuery::finish(filter, parameters, limits)
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

fn cursor(text: &str) -> Result<String, Wrong> {
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
            Some(meant) => format!("a reason to give up; did you mean {meant}?"),
            None => format!("a reason to give up: {}", names.join(", ")),
        };
        Wrong::new(format!("{text:?}"), expected)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(query: &str) -> Result<TaskQuery, Problem> {
        TaskQuery::parse(query, &Limits::default())
    }

    #[test]
    fn every_parameter_is_read() {
        let query = parse(
            "status=EXHAUSTED&status=CANCELLED&policyId=orders&dependency=https%3A%2F%2Fa.b\
             &createdAfter=1785312000000&createdBefore=2026-07-29T10:00:00%2B02:00\
             &idempotencyKey=k-1&endedBecause=class_limit&cursor=abc&limit=200",
        )
        .unwrap();
        let at = Timestamp::from_millis(1_785_312_000_000);
        let filter = TaskFilter {
            statuses: vec![Status::Exhausted, Status::Cancelled],
            policy_id: Some("orders".to_owned()),
            dependency: Some("https://a.b".to_owned()),
            created_after: Some(at),
            created_before: Some(at),
            idempotency_key: IdempotencyKey::try_new("k-1").ok(),
            ended_because: Some(GiveUpReason::ClassLimit),
        };
        assert_eq!(query, TaskQuery { filter, cursor: Some("abc".to_owned()), limit: 200 });
        let query = parse("").unwrap();
        assert!(query.filter.is_empty());
        assert_eq!((query.cursor, query.limit), (None, 50));
    }

    #[test]
    fn each_wrong_parameter_is_told() {
        let cases = [
            ("status=DONE", "a status: PENDING"),
            ("status=pending", "did you mean PENDING?"),
            ("statuses=PENDING", "did you mean status?"),
            ("colour=red", "one of these: status, policyId"),
            ("policyId=a%20b", "the id of a policy"),
            ("dependency=", "1 to 128 visible"),
            ("createdAfter=soon", "RFC 3339"),
            ("createdBefore=-5", "RFC 3339"),
            ("idempotencyKey=%22%22", "1 to 64 characters"),
            ("endedBecause=permanant", "did you mean permanent?"),
            ("endedBecause=x", "permanent, unsafe_to_repeat"),
            ("limit=0", "1 to 200"),
            ("limit=201", "1 to 200"),
            ("limit=ten", "1 to 200"),
            ("limit=1&limit=2", "given once"),
        ];
        for (query, expected) in cases {
            let problem = parse(query).unwrap_err();
            assert_eq!((problem.status().as_u16(), problem.errors.len()), (422, 1), "{query}");
            let error = &problem.errors[0];
            assert!(error.expected.contains(expected), "{query}: {error:?}");
            assert!(matches!(error.at, crate::Place::Parameter(_)));
        }
        assert_eq!(parse("limit=0&x=1&status=2").unwrap_err().errors.len(), 3);
    }

    #[test]
    fn a_cursor_that_cannot_be_one_has_a_code_of_its_own() {
        for query in ["cursor=", "cursor=a%00", "cursor=a%20b"] {
            assert_eq!(parse(query).unwrap_err().code, Code::InvalidCursor, "{query}");
        }
    }

    #[test]
    fn dead_letters_have_no_status_and_plain_lists_no_filter() {
        let limits = Limits::default();
        assert!(TaskQuery::parse_dead_letters("endedBecause=permanent", &limits).is_ok());
        assert!(TaskQuery::parse_dead_letters("status=EXHAUSTED", &limits).is_err());
        assert_eq!(PageQuery::parse("limit=7", &limits).unwrap().limit, 7);
        assert!(PageQuery::parse("policyId=a", &limits).is_err());
    }

    #[test]
    fn a_body_is_shown_when_asked_for() {
        assert_eq!(Include::parse(""), Ok(Include { body: false }));
        assert_eq!(Include::parse("include=body"), Ok(Include { body: true }));
        assert!(Include::parse("include=everything").is_err());
        assert!(Include::parse("body=true").is_err());
    }

    proptest! {
        #[test]
        fn no_query_makes_the_reader_panic(query: String) {
            let _ = parse(&query);
        }
    }
}
