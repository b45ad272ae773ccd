//! Which query strings are understood.

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
    let query = TaskQuery::parse_dead_letters("endedBecause=permanent", &limits).unwrap();
    assert_eq!(query.filter.statuses, [Status::Exhausted]);
    assert!(TaskQuery::parse_dead_letters("status=EXHAUSTED", &limits).is_err());
    assert_eq!(PageQuery::parse("limit=7", &limits).unwrap().limit, 7);
    assert!(PageQuery::parse("policyId=a", &limits).is_err());
}

#[test]
fn everything_is_purged_only_when_everything_was_said() {
    let cases = [
        ("all=true", true),
        ("policyId=a", true),
        ("policyId=a&limit=5", true),
        ("", false),
        ("all=false", false),
        ("limit=5", false),
        ("all=true&policyId=a", false),
        ("all=yes", false),
        ("polcyId=a", false),
    ];
    for (query, fine) in cases {
        let result = TaskQuery::parse_purge(query, &Limits::default());
        assert_eq!(result.is_ok(), fine, "{query}: {result:?}");
    }
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
