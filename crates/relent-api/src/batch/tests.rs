//! What may be sent as a batch.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::problem::{Code, Place};

const NOW: Timestamp = Timestamp::from_secs(1_785_312_000);

fn parse(json: &str) -> Result<Vec<NewTask>, Problem> {
    parse_batch(json.as_bytes(), &Limits::default(), NOW)
}

fn lines(text: &str) -> Result<Vec<NewTask>, Problem> {
    parse_lines(text.as_bytes(), &Limits::default(), NOW)
}

fn pointers(problem: &Problem) -> Vec<&str> {
    let pointer = |at: &'_ Place| matches!(at, Place::Pointer(_));
    assert!(problem.errors.iter().all(|error| pointer(&error.at)));
    let errors = problem.errors.iter();
    errors
        .map(|error| match &error.at {
            Place::Pointer(at) | Place::Parameter(at) | Place::Header(at) => at.as_str(),
        })
        .collect()
}

fn task(number: usize) -> Value {
    json!({"targetUrl": "https://a.b/", "idempotencyKey": format!("k-{number}"), "body": number})
}

#[test]
fn the_three_forms_mean_the_same() {
    let items: Vec<Value> = (0..5).map(task).collect();
    let object = parse(&json!({"tasks": items}).to_string()).unwrap();
    assert_eq!(object.len(), 5);
    assert_eq!(parse(&format!(" {}", Value::from(items.clone()))).unwrap(), object);
    let text: Vec<String> = items.iter().map(|item| format!("{item}\r\n\n")).collect();
    assert_eq!(lines(&text.concat()).unwrap(), object);
}

#[test]
fn all_problems_of_all_tasks_are_told() {
    let wrong = r#"{"targetUrl": "nowhere", "idempotencyKey": "k", "methud": 1}"#;
    let fine = task(1);
    let all = ["/1/methud", "/1/targetUrl", "/2/idempotencyKey"];
    let keyless = r#"{"targetUrl": "http://a.b"}"#;
    let list = format!("[{fine}, {wrong}, {keyless}]");
    assert_eq!(pointers(&parse(&list).unwrap_err()), all);
    let inside = all.map(|pointer| format!("/tasks{pointer}"));
    assert_eq!(pointers(&parse(&format!(r#"{{"tasks": {list}}}"#)).unwrap_err()), inside);
    assert_eq!(pointers(&lines(&format!("{fine}\n{wrong}\n{keyless}")).unwrap_err()), inside);
}

#[test]
fn problems_are_told_as_well_where_every_task_can_be_read() {
    let problem = parse(r#"[{"targetUrl": "x"}, {"targetUrl": "http://a.b"}]"#).unwrap_err();
    assert_eq!(pointers(&problem), ["/0/targetUrl", "/0/idempotencyKey", "/1/idempotencyKey"]);
    let problem = parse(r#"[{"targetUrl": "http://a.b"}]"#).unwrap_err();
    assert_eq!(problem.code, Code::MissingIdempotencyKey);
}

#[test]
fn a_batch_has_at_least_one_task_and_at_most_a_thousand() {
    let many = |count: usize| Value::from_iter((0..count).map(task)).to_string();
    assert_eq!(parse(&many(1_000)).unwrap().len(), 1_000);
    for json in ["[]", r#"{"tasks": []}"#, &many(1_001)] {
        let problem = parse(json).unwrap_err();
        assert!(problem.detail.contains("1 to 1000 tasks"), "{}", problem.detail);
    }
    assert!(lines("\n \n").unwrap_err().detail.contains("1 to 1000 tasks"));
}

#[test]
fn a_hundred_errors_are_told() {
    let problem = parse(&Value::from_iter((0..500).map(|_| json!({}))).to_string()).unwrap_err();
    assert_eq!(problem.errors.len(), 100);
    assert!(problem.detail.starts_with("1000 problems, of which 100 are listed"));
}

#[test]
fn what_is_no_batch_is_refused() {
    let cases: [(&str, Code, &[&str]); 9] = [
        ("", Code::MalformedJson, &[]),
        ("[", Code::MalformedJson, &[]),
        ("[1,]", Code::MalformedJson, &[]),
        ("5", Code::InvalidRequest, &[""]),
        ("{}", Code::InvalidRequest, &["/tasks"]),
        (r#"{"tasks": 5}"#, Code::InvalidRequest, &["/tasks"]),
        (r#"{"task": []}"#, Code::InvalidRequest, &["/tasks", "/task"]),
        (r#"{"tasks": [[]]}"#, Code::InvalidRequest, &["/tasks/0"]),
        ("[null]", Code::InvalidRequest, &["/0"]),
    ];
    for (json, code, expected) in cases {
        let problem = parse(json).unwrap_err();
        assert_eq!((problem.code, pointers(&problem)), (code, expected.to_vec()), "{json}");
    }
    let problem = lines("{}x\n").unwrap_err();
    assert_eq!((problem.code, pointers(&problem)), (Code::MalformedJson, vec!["/tasks/0"]));
}

#[test]
fn a_key_may_be_repeated_with_the_same_content_only() {
    let (one, other) = (task(1), json!({"targetUrl": "https://a.b/", "idempotencyKey": "k-1"}));
    assert_eq!(parse(&json!([one, one]).to_string()).unwrap().len(), 2);
    let problem = parse(&json!([one, task(2), other]).to_string()).unwrap_err();
    assert_eq!((problem.code, pointers(&problem)), (Code::KeyConflict, vec!["/2/idempotencyKey"]));
    assert!(problem.detail.contains("the key of task 0"));
}

proptest! {
    #[test]
    fn no_bytes_make_the_reader_panic(bytes: Vec<u8>) {
        let _ = parse_batch(&bytes, &Limits::default(), NOW);
        let _ = parse_lines(&bytes, &Limits::default(), NOW);
    }

    #[test]
    fn no_list_makes_the_reader_panic(items in prop::collection::vec("[{}\\[\\]\":,a1 ]{0,20}", 0..5)) {
        let _ = parse(&format!("[{}]", items.join(",")));
        let _ = lines(&items.join("\n"));
    }
}
