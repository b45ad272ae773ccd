//! What is wrong with a scenario is told at once, with line, key and what is allowed.
//!
//! `RELENT_BLESS=1 cargo test -p relent-sim --test it reading` writes the golden file anew.

use std::fs;
use std::path::Path;

use relent_sim::Scenario;

fn problems(text: &str) -> String {
    Scenario::parse(text, &|path| Err(format!("cannot read {path}"))).unwrap_err().to_string()
}

#[test]
fn every_problem_is_told_with_its_line() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/golden");
    let text = fs::read_to_string(folder.join("bad.toml")).unwrap();
    let told = problems(&text) + "\n";
    let path = folder.join("bad.txt");
    if std::env::var_os("RELENT_BLESS").is_some() {
        fs::write(&path, &told).unwrap();
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), told);
}

#[test]
fn what_is_no_toml_is_told_with_its_line() {
    let told = problems("name = 'x'\nhorizon = \n");
    assert!(told.contains("line 2: the file is not TOML"), "{told}");
}

#[test]
fn an_empty_scenario_says_what_it_lacks() {
    let told = problems("");
    for missing in ["name", "horizon", "clients", "servers"] {
        assert!(told.contains(&format!("line 1: {missing} is missing: ")), "{told}");
    }
}

#[test]
fn a_trace_that_cannot_be_read_is_told() {
    let told = problems(
        "name = 'x'\nhorizon = '1s'\n[clients]\nload = 'trace'\ntrace = 'a.csv'\n[[servers]]",
    );
    assert!(told.contains("line 5: clients.trace must be a CSV file"), "{told}");
    assert!(told.contains("cannot read a.csv"), "{told}");
}
