//! What is found about a server's settings, and what that comes to.

use relent_store::{Assurance, PostgresOptions, PostgresStore, Severity, Survives};

use super::{Schema, is_there, run, server};

/// Through a connection that sets this.
fn examine(schema: &Schema, settings: &str, prepare: bool) -> Assurance {
    let url = format!("{} options='{settings}'", server());
    let options = PostgresOptions { prepare, ..schema.options() };
    PostgresStore::examine(&url, &options).unwrap()
}

#[track_caller]
fn expect(assurance: &Assurance, name: &str, severity: Severity, found: &str) {
    let finding = assurance.findings.iter().find(|finding| finding.name == name);
    let finding = finding.unwrap_or_else(|| panic!("nothing about {name}: {assurance:?}"));
    assert_eq!(finding.severity, severity, "{finding}");
    assert!(finding.found.contains(found), "{finding}");
    assert_eq!(finding.way_out.is_some(), severity > Severity::Good, "{finding}");
}

#[test]
fn settings_that_lose_tasks_are_dangers() {
    if !is_there() {
        return;
    }
    let schema = Schema::new();
    let found = examine(&schema, "", true);
    // The tests' own server flushes nothing.
    expect(&found, "fsync", Severity::Danger, "off");
    assert!(matches!(found.survives.power_loss, Survives::No(_)), "{:?}", found.survives);
    assert_eq!(found.survives.store_crash, Survives::Yes);
    expect(&found, "full_page_writes", Severity::Good, "on");
    expect(&found, "role", Severity::Good, "primary");
    expect(&found, "version", Severity::Good, ".");
    expect(&found, "LISTEN", Severity::Good, "works");
    expect(&found, "TLS", Severity::Good, "off");
    assert_eq!(found.dangers().count(), 1, "{found:?}");

    // relent's own connections see to it, unless they may set nothing.
    let found = examine(&schema, "-c synchronous_commit=off", true);
    expect(&found, "synchronous_commit", Severity::Good, "on");
    let found = examine(&schema, "-c synchronous_commit=off", false);
    expect(&found, "synchronous_commit", Severity::Danger, "off");
    let late = Survives::MayLose("the last 600 ms".to_owned());
    assert_eq!(found.survives.store_crash, late);

    let found = examine(&schema, "-c default_transaction_read_only=on", true);
    expect(&found, "role", Severity::Danger, "read-only");
    let found = examine(&schema, "-c statement_timeout=900 -c idle_session_timeout=60000", false);
    expect(&found, "statement_timeout", Severity::Caution, "900 ms");
    expect(&found, "idle_session_timeout", Severity::Caution, "1min");
}

#[test]
fn tables_of_another_version_are_found() {
    if !is_there() {
        return;
    }
    let schema = Schema::new();
    expect(&examine(&schema, "", true), "schema version", Severity::Good, "not there yet");
    drop(schema.connect(schema.options()));
    let version = |number: i64| {
        let name = schema.options().schema;
        run(&format!("UPDATE {name}.meta SET value = {number} WHERE name = 'version'"));
    };
    let found = examine(&schema, "", true);
    expect(&found, "schema version", Severity::Good, "");
    version(0);
    expect(&examine(&schema, "", true), "schema version", Severity::Caution, "0, needed: ");
    version(99);
    expect(&examine(&schema, "", true), "schema version", Severity::Danger, "99, known: ");
}
