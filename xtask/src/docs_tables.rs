//! The tables and examples of the docs say what the engine does. A row too few, a row too many or a
//! wrong cell fails here.

use std::collections::BTreeSet;
use std::time::Duration;

use relent_policy::{
    Class, Context, Document, Effect, FailureKind, Fault, GiveUpReason, Health, Jitter, Outcome,
    Policy, PolicySpec, Rejected, Timestamp,
};
use serde_json::{Value, json};

const POLICY: &str = include_str!("../../docs/concepts/policy.md");
const CLASSIFICATION: &str = include_str!("../../docs/concepts/classification.md");
const CONFORMANCE: &str = include_str!("../../docs/conformance.md");
const CONFIG: &str = include_str!("../../crates/relent-server/config.default.toml");
const NOW: Timestamp = Timestamp::from_secs(1_794_700_800); // 2026-11-15

/// The rows of the first table under a heading, as their cells.
fn table<'p>(page: &'p str, heading: &str) -> Vec<Vec<&'p str>> {
    let (_, section) = page.split_once(&format!("\n## {heading}\n")).expect(heading);
    let lines = section.lines().skip_while(|line| !line.starts_with('|'));
    let rows = lines.take_while(|line| line.starts_with('|')).skip(2);
    rows.map(|row| row.trim_matches('|').split(" | ").map(str::trim).collect()).collect()
}

fn first_cells(rows: &[Vec<&str>]) -> Vec<String> {
    rows.iter().map(|cells| cells[0].trim_matches('`').to_owned()).collect()
}

fn code(text: &str) -> String {
    format!("`{text}`")
}

fn effect(effect: Effect) -> &'static str {
    match effect {
        Effect::NotSent => "not_sent",
        Effect::Ambiguous => "ambiguous",
        Effect::Answered => "answered",
    }
}

fn health(kind: FailureKind) -> &'static str {
    match Health::of(&Outcome::from(kind)) {
        Health::Alive => "alive",
        Health::Failing => "failing",
        Health::NoSignal => "no signal",
    }
}

#[test]
fn every_fault_has_its_row_and_no_other() {
    let expected: Vec<Vec<String>> = Fault::ALL
        .iter()
        .map(|fault| {
            let kind = FailureKind::Fault(*fault);
            vec![
                code(fault.name()),
                fault.class().to_string(),
                effect(fault.effect()).into(),
                health(kind).into(),
            ]
        })
        .collect();
    let rows = table(CLASSIFICATION, "Faults");
    assert!(rows.iter().all(|cells| cells.len() == 5 && !cells[4].is_empty()));
    let written: Vec<&[&str]> = rows.iter().map(|cells| &cells[..4]).collect();
    assert_eq!(written, expected);
}

#[test]
fn every_grpc_code_has_its_row() {
    let rows = table(CLASSIFICATION, "gRPC");
    for (number, row) in (1..=16).zip(&rows) {
        let kind = FailureKind::Grpc(number);
        let expected =
            [Class::of(kind).to_string(), effect(kind.effect()).into(), health(kind).into()];
        assert_eq!(row[0], number.to_string());
        assert_eq!(row[2..], expected);
    }
    assert_eq!(rows.len(), 16);
}

#[test]
fn the_http_table_names_each_retryable_status() {
    let retryable: Vec<String> = (100..600)
        .filter(|status| Class::of(FailureKind::Http(*status)) == Class::Retryable)
        .map(|status| status.to_string())
        .collect();
    let rows = table(CLASSIFICATION, "HTTP");
    assert_eq!(rows[0], ["retryable", &retryable.join(", ")]);
    for (row, class) in [(1, Class::Permanent), (2, Class::Unknown)] {
        let words = rows[row][1].split(|c: char| !c.is_alphanumeric());
        for status in words.filter_map(|word| word.parse().ok()).filter(|status| *status != 100) {
            assert_eq!(Class::of(FailureKind::Http(status)), class, "{status}");
        }
    }
}

#[test]
fn every_reason_to_give_up_is_explained() {
    let names: Vec<&str> = GiveUpReason::ALL.iter().map(|reason| reason.name()).collect();
    assert_eq!(first_cells(&table(CLASSIFICATION, "Every way to give up")), names);
}

/// Every field there is, as `budget.ratio` and `waivers[].rule`.
fn fields() -> BTreeSet<String> {
    let mut spec = PolicySpec::decision_matrix();
    spec.retryable_status_codes = Some([503].into());
    spec.retryable_grpc_codes = Some([14].into());
    spec.retryable_faults = Some([Fault::Reset].into());
    spec.concurrency.rate_per_second = Some(1);
    let mut document = serde_json::to_value(spec).unwrap();
    document["waivers"] = json!([{"rule": "", "approver": "", "reason": "", "expires": ""}]);
    let mut names = BTreeSet::new();
    for document in [document, serde_json::to_value(PolicySpec::webhook()).unwrap()] {
        collect(&document, "", &mut names);
    }
    names
}

fn collect(value: &Value, prefix: &str, names: &mut BTreeSet<String>) {
    match value {
        Value::Object(entries) => {
            for (key, value) in entries {
                let name = format!("{prefix}{key}");
                collect(value, &format!("{name}."), names);
                names.insert(name);
            }
        }
        Value::Array(items) => {
            let prefix = format!("{}[].", prefix.trim_end_matches('.'));
            items.iter().for_each(|item| collect(item, &prefix, names));
        }
        _ => {}
    }
}

#[test]
fn every_field_of_a_policy_has_its_row_and_no_other() {
    let rows = table(POLICY, "The fields");
    let names = first_cells(&rows);
    assert_eq!(names.iter().cloned().collect::<BTreeSet<_>>(), fields());
    assert_eq!(names.len(), fields().len(), "no row stands twice");
    assert!(rows.iter().all(|cells| cells.len() == 5), "{rows:?}");
}

#[test]
fn the_table_of_fields_has_the_defaults_of_the_engine() {
    let document = serde_json::to_value(PolicySpec::sync_api()).unwrap();
    for cells in table(POLICY, "The fields") {
        let path = cells[0].trim_matches('`').replace('.', "/");
        let Some(number) = document.pointer(&format!("/{path}")).and_then(Value::as_f64) else {
            continue;
        };
        if cells[2] != "by context" {
            let default = cells[2].split([',', ';']).next().unwrap();
            assert_eq!(default.parse(), Ok(number), "{}", cells[0]);
        }
    }
}

fn human(duration: Duration) -> String {
    match duration.as_secs() {
        0 => format!("{} ms", duration.as_millis()),
        secs if secs % 3_600 == 0 => format!("{} h", secs / 3_600),
        secs if secs % 60 == 0 => format!("{} min", secs / 60),
        secs => format!("{secs} s"),
    }
}

fn yes(flag: bool) -> String {
    if flag { "yes" } else { "no" }.to_owned()
}

#[test]
fn every_context_has_its_row() {
    let expected: Vec<Vec<String>> = Context::ALL
        .iter()
        .map(|context| {
            let (spec, allowed) = (PolicySpec::of(*context), context.retries_allowed());
            vec![
                code(context.name()),
                (spec.max_attempts - 1).to_string(),
                format!("{} to {}", allowed.start(), allowed.end()),
                human(spec.total_budget),
                human(context.total_budget_allowed()),
                yes(context.needs_dead_letters()),
            ]
        })
        .collect();
    assert_eq!(table(POLICY, "Contexts"), expected);
}

#[test]
fn every_preset_has_its_row() {
    let expected: Vec<Vec<String>> = PolicySpec::presets()
        .into_iter()
        .map(|spec| {
            let wait = |attempt| human(spec.backoff.ceiling(attempt, spec.max_delay));
            let waits: Vec<String> = (1..spec.max_attempts).map(wait).collect();
            vec![
                code(&spec.policy_id),
                code(spec.context.name()),
                spec.max_attempts.to_string(),
                waits.join(", "),
                human(spec.total_budget),
                human(spec.attempt_timeout),
                yes(spec.dead_letter),
            ]
        })
        .collect();
    assert_eq!(table(POLICY, "Presets"), expected);
}

/// conformance.md: relent's own row beside those of peers.
#[test]
fn the_defaults_beside_those_of_peers_are_the_defaults() {
    let spec = PolicySpec::webhook();
    let wait = |attempt| human(spec.backoff.ceiling(attempt, spec.max_delay));
    let waits: Vec<String> = (1..spec.max_attempts).map(wait).collect();
    let Jitter::Proportional { ratio } = spec.jitter else { panic!("{:?}", spec.jitter) };
    let setting = |name: &str| {
        let line = CONFIG.lines().find_map(|line| line.strip_prefix(&format!("{name} = ")));
        line.expect(name).trim_matches('"')
    };
    let days = |name: &str| setting(name).parse::<u32>().unwrap() / 24;
    assert_eq!(setting("ended_hours"), setting("attempts_hours"));
    let row = format!(
        "\n| relent (`webhook`) | {} attempts in {}: after {}, each up to {} % longer | {} | {} days; \
         dead letters {} days | as long as the task is kept | {} |\n",
        spec.max_attempts,
        human(spec.total_budget),
        waits.join(", "),
        ratio.thousandths() / 10,
        human(spec.attempt_timeout),
        days("ended_hours"),
        days("dead_letters_hours"),
        setting("listen").rsplit(':').next().unwrap(),
    );
    assert!(CONFORMANCE.contains(&row), "expected the row{row}");
}

fn read(text: &str) -> Result<Policy, Rejected> {
    let document: Document = serde_json::from_str(text).expect("an example is JSON");
    Policy::from_document(&document, NOW)
}

/// What stands between two fences, and the fence's language.
fn blocks(page: &str) -> Vec<(&str, &str)> {
    let fenced = page.split("\n```").skip(1).step_by(2);
    fenced.filter_map(|block| block.split_once('\n')).collect()
}

#[test]
fn examples_are_accepted_or_refused_in_these_words() {
    let blocks = blocks(POLICY);
    let mut seen = [0, 0];
    for (index, (_, text)) in blocks.iter().enumerate().filter(|(_, block)| block.0 == "json") {
        match blocks.get(index + 1) {
            Some(("text", refusal)) => {
                assert_eq!(read(text).unwrap_err().to_string(), *refusal);
                seen[0] += 1;
            }
            _ => {
                assert_eq!(read(text).map_err(|rejected| rejected.to_string()).err(), None);
                seen[1] += 1;
            }
        }
    }
    assert_eq!(seen, [1, 1], "one refused and one accepted example");
}
