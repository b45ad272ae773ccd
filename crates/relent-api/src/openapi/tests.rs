//! The description says what the code does.

use std::collections::BTreeSet;

use relent_policy::{Context, GiveUpReason, PolicySpec, Timestamp};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::*;

const NOW: Timestamp = Timestamp::from_secs(1_785_312_000);

fn openapi() -> Value {
    serde_json::from_str(OPENAPI).unwrap()
}

fn schema(name: &str) -> Value {
    openapi()["components"]["schemas"][name].clone()
}

/// Every object in the description, with those inside of it.
fn each_object(value: &Value, see: &mut impl FnMut(&serde_json::Map<String, Value>)) {
    match value {
        Value::Object(object) => {
            see(object);
            object.values().for_each(|value| each_object(value, see));
        }
        Value::Array(items) => items.iter().for_each(|value| each_object(value, see)),
        _ => {}
    }
}

fn resolved(schema: &Value) -> Value {
    match schema["$ref"].as_str() {
        Some(reference) => openapi().pointer(&reference[1..]).cloned().unwrap(),
        None => schema.clone(),
    }
}

/// Puts what only `other` has into `value`; of lists, into the first item.
fn merge(value: &mut Value, other: Value) {
    match (value, other) {
        (Value::Object(fields), Value::Object(others)) => {
            for (name, other) in others {
                merge(fields.entry(name).or_insert(Value::Null), other);
            }
        }
        (Value::Array(items), Value::Array(others)) => {
            for other in others {
                match items.first_mut() {
                    Some(first) => merge(first, other),
                    None => items.push(other),
                }
            }
        }
        (value @ Value::Null, other) => *value = other,
        _ => {}
    }
}

/// Whether a full example has exactly the properties of its schema, all the way down.
fn assert_described(at: &str, schema: &Value, example: &Value) {
    let schema = resolved(schema);
    if let Some(choices) = schema["oneOf"].as_array() {
        if let Some(object) = choices.iter().find(|choice| choice["$ref"].is_string()) {
            assert_described(at, object, example);
        }
        return;
    }
    match (example, schema["properties"].as_object()) {
        (Value::Object(fields), Some(properties)) => {
            let written: BTreeSet<&String> = fields.keys().collect();
            let described: BTreeSet<&String> = properties.keys().collect();
            assert_eq!(written, described, "{at}");
            for name in schema["required"].as_array().into_iter().flatten() {
                assert!(properties.contains_key(name.as_str().unwrap()), "{at}: {name}");
            }
            for (name, field) in fields {
                assert_described(&format!("{at}.{name}"), &properties[name], field);
            }
        }
        (Value::Array(items), _) => {
            items.iter().for_each(|item| assert_described(at, &schema["items"], item));
        }
        _ => {}
    }
}

fn assert_documented(name: &str, examples: &[Value]) {
    let mut all = Value::Null;
    examples.iter().for_each(|example| merge(&mut all, example.clone()));
    assert_described(name, &json!({"$ref": format!("#/components/schemas/{name}")}), &all);
}

fn written(document: &impl serde::Serialize) -> Value {
    serde_json::to_value(document).unwrap()
}

#[test]
fn every_reference_leads_somewhere() {
    let openapi = openapi();
    assert_eq!(openapi["openapi"], "3.1.0");
    let mut references = 0;
    each_object(&openapi, &mut |object| {
        if let Some(reference) = object.get("$ref").and_then(Value::as_str) {
            references += 1;
            assert!(openapi.pointer(&reference[1..]).is_some(), "{reference}");
        }
    });
    assert!(references > 100);
}

#[test]
fn every_schema_and_parameter_is_used() {
    for kind in ["schemas", "parameters"] {
        for name in openapi()["components"][kind].as_object().unwrap().keys() {
            let reference = format!("\"#/components/{kind}/{name}\"");
            assert!(OPENAPI.contains(&reference), "{reference}");
        }
    }
}

#[test]
fn documents_have_the_fields_that_are_described() {
    let task = TaskDocument {
        body_base64: Some(Payload("AA==".to_owned())),
        body_ref: Some("blobs/1".to_owned()),
        ended_at: Some(1),
        ended_because: Some("permanent".to_owned()),
        ..examples::task()
    };
    assert_documented("Task", &[written(&task)]);
    assert_documented("Created", &[written(&examples::created())]);
    let batch = BatchDocument { created: 1, items: vec![examples::created()] };
    assert_documented("BatchCreated", &[written(&batch)]);
    assert_documented("Attempt", &[written(&examples::attempt())]);
    assert_documented("Lane", &[written(&examples::lane())]);
    assert_documented("Event", &[written(&examples::event())]);
    assert_documented("RedriveReport", &[written(&examples::redrive())]);
    let purge = PurgeReport { purged: 1, next_cursor: None };
    assert_documented("PurgeReport", &[written(&purge)]);
    let page = Page { items: vec![task.clone()], next_cursor: None };
    assert_documented("TaskPage", &[written(&page)]);

    let letter = DeadLetterDocument { task, attempts: vec![examples::attempt()] };
    let more = &schema("DeadLetter")["allOf"][1]["properties"];
    for name in written(&letter).as_object().unwrap().keys() {
        let of_task = schema("Task")["properties"].get(name).is_some();
        assert!(of_task || more.get(name).is_some(), "{name}");
    }
}

#[test]
fn policies_have_the_fields_that_are_described() {
    let mut documents: Vec<Value> = PolicySpec::presets()
        .into_iter()
        .map(|policy| written(&PolicyDocument { policy, ..examples::policy() }))
        .collect();
    documents.push(json!({
        "retryableStatusCodes": [503], "retryableGrpcCodes": [14], "retryableFailures": ["dns"],
        "concurrency": {"ratePerSecond": 1},
        "waivers": [{"rule": "R-2", "approver": "a", "reason": "r", "expires": "2999-01-01"}],
    }));
    assert_documented("Policy", &documents);
    let mut policy = schema("Policy")["properties"].clone();
    for set_by_the_service in ["version", "createdAt", "builtIn", "waived"] {
        policy.as_object_mut().unwrap().remove(set_by_the_service);
    }
    assert_eq!(policy, schema("PolicyRequest")["properties"]);
}

#[test]
fn problems_have_the_fields_that_are_described() {
    let mut problem = Problem::new(Code::InvalidRequest, "why").about_task("t").retry_after(1);
    for at in [Place::Pointer, Place::Parameter, Place::Header] {
        let error = FieldError::new(at("x".to_owned()), "a", "b");
        let (rule, fix) = (Some("R-1".to_owned()), Some("f".to_owned()));
        problem.errors.push(FieldError { rule, fix, ..error });
    }
    let mut document = written(&problem);
    let rest = document["errors"].as_array_mut().unwrap().split_off(1);
    assert_documented("Problem", &[document, json!({"errors": rest})]);
}

/// What a reader says it knows, when it meets a field that it does not.
fn fields_of(problem: &Problem) -> BTreeSet<String> {
    let unknown = problem.errors.iter().find(|error| error.got == "an unknown field").unwrap();
    let (_, names) = unknown.expected.split_once(": ").unwrap();
    names.split(", ").map(str::to_owned).collect()
}

#[test]
fn requests_have_the_fields_that_are_described() {
    let (json, limits) = (br#"{"????????": 1}"#, Limits::default());
    let in_filter = br#"{"filter": {"????????": 1}}"#;
    let read = [
        ("TaskRequest", NewTask::parse(json, None, &limits, NOW).unwrap_err()),
        ("Batch", parse_batch(json, &limits, NOW).unwrap_err()),
        ("LaneLimits", LaneLimits::parse(json, &limits).unwrap_err()),
        ("RedriveRequest", RedriveRequest::parse(json, &limits).unwrap_err()),
        ("DeadLetterFilter", RedriveRequest::parse(in_filter, &limits).unwrap_err()),
    ];
    for (name, problem) in read {
        let described = schema(name)["properties"].as_object().unwrap().keys().cloned().collect();
        assert_eq!(fields_of(&problem), described, "{name}");
    }
}

#[test]
fn query_strings_have_the_parameters_that_are_described() {
    let limits = Limits::default();
    let read = [
        ("/retry-tasks", "get", TaskQuery::parse("????????", &limits).unwrap_err()),
        ("/dead-letters", "get", TaskQuery::parse_dead_letters("????????", &limits).unwrap_err()),
        ("/dead-letters", "delete", TaskQuery::parse_purge("????????", &limits).unwrap_err()),
        ("/retry-tasks/{taskId}", "get", Include::parse("????????").unwrap_err()),
        ("/retry-policies/{policyId}", "get", PolicyQuery::parse("????????").unwrap_err()),
        (
            "/retry-tasks/{taskId}/attempts",
            "get",
            PageQuery::parse("????????", &limits).unwrap_err(),
        ),
    ];
    for (path, method, problem) in read {
        let unknown =
            problem.errors.iter().find(|error| error.got == "an unknown parameter").unwrap();
        let (_, names) = unknown.expected.split_once(": ").unwrap();
        let names: BTreeSet<String> = names.split(", ").map(str::to_owned).collect();
        let parameters = openapi()["paths"][path][method]["parameters"].clone();
        let parameters = parameters.as_array().unwrap().iter().map(resolved);
        let described: BTreeSet<String> = parameters
            .filter(|parameter| parameter["in"] == "query")
            .map(|parameter| parameter["name"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(names, described, "{method} {path}");
    }
}

#[test]
fn words_are_those_of_the_code() {
    let names = |names: Vec<&str>| json!(names);
    let codes = Code::ALL.iter().map(|code| code.name()).collect();
    let reasons = GiveUpReason::ALL.iter().map(|reason| reason.name()).collect();
    let contexts = Context::ALL.iter().map(|context| context.name()).collect();
    for (schema, expected) in [
        (schema("Status"), names(Status::NAMES.to_vec())),
        (schema("WaitingReason"), names(WaitingReason::NAMES.to_vec())),
        (schema("Method"), names(Method::NAMES.to_vec())),
        (schema("EventType"), names(EventKind::NAMES.to_vec())),
        (schema("Attempt")["properties"]["decision"].clone(), names(Decided::NAMES.to_vec())),
        (schema("Attempt")["properties"]["effect"].clone(), names(EffectName::NAMES.to_vec())),
        (schema("LaneBreaker")["properties"]["state"].clone(), names(BreakerName::NAMES.to_vec())),
        (schema("Code"), names(codes)),
        (schema("EndedBecause"), names(reasons)),
        (schema("PolicyRequest")["properties"]["context"].clone(), names(contexts)),
    ] {
        assert_eq!(schema["enum"], expected);
    }
}

#[test]
fn every_problem_is_listed_where_it_occurs_under_its_status() {
    let openapi = openapi();
    let mut listed = BTreeSet::new();
    each_object(&openapi, &mut |object| {
        for (status, response) in object {
            for code in response["x-codes"].as_array().into_iter().flatten() {
                let code: Code = code.as_str().unwrap().parse().unwrap();
                if status != "Problem" {
                    assert_eq!(code.status().as_str(), status, "{code}");
                    assert!(response["description"].as_str().unwrap().contains(code.name()));
                }
                listed.insert(code);
            }
        }
    });
    assert_eq!(listed, Code::ALL.iter().copied().collect());
}

#[test]
fn examples_are_taken_and_read() {
    let limits = Limits::default();
    let examples = |name: &str| {
        let examples = schema(name)["examples"].as_array().unwrap().clone();
        examples.into_iter().map(|example| example.to_string().into_bytes()).collect::<Vec<_>>()
    };
    for json in examples("TaskRequest") {
        NewTask::parse(&json, None, &limits, NOW).unwrap();
    }
    for json in examples("PolicyRequest") {
        parse_policy(&json, None, &limits, NOW).unwrap();
    }
    for json in examples("RedriveRequest") {
        RedriveRequest::parse(&json, &limits).unwrap();
    }
    for json in examples("LaneLimits") {
        LaneLimits::parse(&json, &limits).unwrap();
    }
    fn read<T: DeserializeOwned + serde::Serialize>(json: &[u8]) {
        let document: T = serde_json::from_slice(json).unwrap();
        assert_eq!(written(&document), serde_json::from_slice::<Value>(json).unwrap());
    }
    examples("Task").iter().for_each(|json| read::<TaskDocument>(json));
    examples("Created").iter().for_each(|json| read::<CreatedDocument>(json));
    examples("Attempt").iter().for_each(|json| read::<AttemptDocument>(json));
    examples("Lane").iter().for_each(|json| read::<LaneDocument>(json));
    examples("Event").iter().for_each(|json| read::<EventDocument>(json));
    examples("Problem").iter().for_each(|json| read::<Problem>(json));
}
