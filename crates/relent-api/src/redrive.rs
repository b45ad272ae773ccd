//! Dead letters that are to be tried again: `POST /dead-letters:redrive`. REQ-D3.

use serde::{Deserialize, Serialize};

use crate::fields::Fields;
use crate::filter::{self, TaskFilter};
use crate::json::Text;
use crate::limits::Limits;
use crate::problem::{Problem, pointer};
use crate::report::{Report, Wrong};
use crate::task::check;

const RATE_MAX: u32 = 1_000_000;
const ID_CHARS_MAX: usize = 64;

/// Which dead letters are to be redriven, and how.
///
/// ```
/// use relent_api::{Limits, RedriveRequest};
///
/// let json = br#"{"filter": {"dependency": "https://api.example.com"}, "ratePerSecond": 20}"#;
/// let request = RedriveRequest::parse(json, &Limits::default())?;
/// assert_eq!(request.rate_per_second, Some(20));
/// assert!(!request.dry_run);
/// # Ok::<(), relent_api::Problem>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedriveRequest {
    /// Which ones.
    pub selection: Selection,
    /// Whether only to tell what would be redriven.
    pub dry_run: bool,
    /// How many first attempts may become due in a second; the lane's own limits hold anyway.
    pub rate_per_second: Option<u32>,
    /// The policy they are retried by from now on, if not their own.
    pub policy_id: Option<String>,
}

/// Some dead letters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// Those with these ids.
    Ids(Vec<String>),
    /// Those that pass a filter, a page of them.
    Filter {
        /// Which ones.
        filter: TaskFilter,
        /// Where to go on.
        cursor: Option<String>,
        /// How many at most.
        limit: u32,
    },
}

/// What a redrive came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RedriveReport {
    /// Whether nothing was changed.
    pub dry_run: bool,
    /// How many were redriven.
    pub redriven: u64,
    /// Those that were redriven, or would be.
    pub task_ids: Vec<String>,
    /// Those that were meant and are no dead letters.
    pub refused: Vec<String>,
    /// What to send as `cursor` to go on; null when none are left.
    pub next_cursor: Option<String>,
}

impl RedriveRequest {
    /// Reads the document of `POST /dead-letters:redrive`.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it.
    pub fn parse(json: &[u8], limits: &Limits) -> Result<RedriveRequest, Problem> {
        let mut fields = Fields::of_document(json, limits)?;
        let mut report = Report::default();
        let selection = selection(&mut fields, limits, &mut report);
        let dry_run = fields.read("dryRun", "true or false", &mut report).unwrap_or_default();
        let rate_per_second = fields.number("ratePerSecond", 1, RATE_MAX, &mut report);
        let policy_id = fields.read_as("policyId", check::policy_id, &mut report);
        fields.finish("a redrive", &mut report);
        let request = selection.map(|selection| RedriveRequest {
            selection,
            dry_run,
            rate_per_second,
            policy_id,
        });
        report.finish(request)
    }
}

fn selection(fields: &mut Fields<'_>, limits: &Limits, report: &mut Report) -> Option<Selection> {
    let (ids, filter) = (fields.get("ids").is_some(), fields.get("filter"));
    let cursor = fields.read_as("cursor", filter::cursor, report);
    let limit_max = u32::try_from(limits.batch_tasks_max).unwrap_or(u32::MAX);
    let limit = fields.number("limit", 1, limit_max, report);
    match (ids, filter) {
        (true, Some(_)) => {
            report.at("/filter", Wrong::new("both", "left out when ids are given"));
            None
        }
        (false, None) => {
            let wrong = Wrong::new("neither ids nor filter", "one that says which dead letters");
            report.at("", wrong.fix("give ids, or filter; {} means all of them"));
            None
        }
        (true, None) => {
            let ids: Vec<Text<'_>> = fields.read("ids", "a list of ids", report)?;
            Some(Selection::Ids(checked(ids, limits, report)))
        }
        (false, Some(value)) => {
            let mut fields = Fields::of(value, "/filter", report)?;
            let filter = TaskFilter::in_fields(&mut fields, limits, report);
            fields.finish("a filter", report);
            let limit = limit.unwrap_or(limits.page_items_max);
            Some(Selection::Filter { filter: filter.of_dead_letters(), cursor, limit })
        }
    }
}

fn checked(ids: Vec<Text<'_>>, limits: &Limits, report: &mut Report) -> Vec<String> {
    let max = limits.batch_tasks_max;
    if ids.is_empty() || ids.len() > max {
        report.at("/ids", Wrong::new(format!("{} ids", ids.len()), format!("1 to {max} ids")));
        return Vec::new();
    }
    let mut checked: Vec<String> = Vec::with_capacity(ids.len());
    for (index, Text(id)) in ids.into_iter().enumerate() {
        checked
            .extend(report.keep(&pointer::item("/ids", index), check::visible(id, ID_CHARS_MAX)));
    }
    checked
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use relent_policy::{GiveUpReason, Timestamp};

    use super::*;

    fn parse(json: &str) -> Result<RedriveRequest, Problem> {
        RedriveRequest::parse(json.as_bytes(), &Limits::default())
    }

    #[test]
    fn dead_letters_are_named_by_id_or_by_filter() {
        let request = parse(r#"{"ids": ["a", "b"], "dryRun": true, "policyId": "p"}"#).unwrap();
        assert_eq!(request.selection, Selection::Ids(vec!["a".to_owned(), "b".to_owned()]));
        assert!(request.dry_run);
        assert_eq!(request.policy_id.as_deref(), Some("p"));

        let request = parse(
            r#"{"filter": {"endedBecause": "permanent", "createdAfter": 5,
                "createdBefore": "1970-01-01T00:00:01Z"}, "limit": 10, "cursor": "c"}"#,
        )
        .unwrap();
        let filter = TaskFilter {
            ended_because: Some(GiveUpReason::Permanent),
            created_after: Some(Timestamp::from_millis(5)),
            created_before: Some(Timestamp::from_secs(1)),
            ..TaskFilter::default().of_dead_letters()
        };
        let cursor = Some("c".to_owned());
        assert_eq!(request.selection, Selection::Filter { filter, cursor, limit: 10 });
        let filter = TaskFilter::default().of_dead_letters();
        assert_eq!(
            parse(r#"{"filter": {}}"#).unwrap().selection,
            Selection::Filter { filter, cursor: None, limit: 200 }
        );
    }

    #[test]
    fn each_wrong_field_is_told_with_its_place() {
        let cases = [
            ("{}", "", "which dead letters"),
            ("[]", "", "an object"),
            (r#"{"ids": ["a"], "filter": {}}"#, "/filter", "left out"),
            (r#"{"ids": []}"#, "/ids", "1 to 1000 ids"),
            (r#"{"ids": "a"}"#, "/ids", "a list of ids"),
            (r#"{"ids": ["a", "b c"]}"#, "/ids/1", "visible ASCII"),
            (r#"{"filter": 5}"#, "/filter", "an object"),
            (r#"{"filter": {"state": "x"}}"#, "/filter/state", "a field of a filter"),
            (r#"{"filter": {"policyId": 5}}"#, "/filter/policyId", "a text"),
            (r#"{"filter": {"endedBecause": "x"}}"#, "/filter/endedBecause", "a reason"),
            (r#"{"filter": {}, "dryRun": "yes"}"#, "/dryRun", "true or false"),
            (r#"{"filter": {}, "ratePerSecond": 0}"#, "/ratePerSecond", "1 to 1000000"),
            (r#"{"filter": {}, "limit": -1}"#, "/limit", "1 to 1000"),
            (r#"{"filter": {}, "cursor": ""}"#, "/cursor", "nextCursor"),
            (r#"{"filter": {}, "dryrun": true}"#, "/dryrun", "did you mean dryRun?"),
        ];
        for (json, pointer, expected) in cases {
            let problem = parse(json).unwrap_err();
            assert_eq!(problem.errors.len(), 1, "{json}: {problem}");
            let error = &problem.errors[0];
            assert_eq!(error.at, crate::Place::Pointer(pointer.to_owned()), "{json}");
            assert!(error.expected.contains(expected), "{json}: {error:?}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(json: Vec<u8>) {
            let _ = RedriveRequest::parse(&json, &Limits::default());
        }
    }
}
