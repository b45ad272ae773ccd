//! House rules of the source files, and no trace of anyone's machine in any file.

use anyhow::Result;

use super::{
    Finding,
    rust_source::{code_lines, contains_word, header},
};
use crate::repo::{Repo, TextFile};

const LINES_MAX: usize = 400;
const LONG_BECAUSE: &str = "Long because";

// Needles are put together from halves so that this file does not contain them.
const MACHINE_PATHS: &[&str] =
    &[concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/")];
const UNFINISHED: &[&str] =
    &[concat!("todo", "!("), concat!("unimplemented", "!("), concat!("dbg", "!(")];
const IGNORED_TEST: &str = concat!("#[", "ignore");
const SLEEP: &str = concat!("thread::", "sleep");

pub(super) fn check(repo: &Repo) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for path in repo.paths() {
        if path == "mod.rs" || path.ends_with("/mod.rs") {
            findings.push(Finding::in_file(path, "expected `foo.rs` beside `foo/`, no mod.rs"));
        }
    }
    for file in repo.texts() {
        machine_paths(file, &mut findings);
    }
    for file in repo.with_extension(&["rs"]) {
        opening(file, &mut findings);
        length(file, &mut findings);
        unfinished_code(file, &mut findings);
        sleeping_tests(file, &mut findings);
    }
    Ok(findings)
}

fn machine_paths(file: &TextFile, findings: &mut Vec<Finding>) {
    for (line, text) in file.lines() {
        if let Some(path) = MACHINE_PATHS.iter().find(|path| contains_absolute(text, path)) {
            let message = format!("`{path}…` is a path of one machine");
            findings.push(Finding::at(&file.path, line, message));
        }
    }
}

/// Whether `path` occurs as the start of a path, and not inside a longer one or a URL.
fn contains_absolute(text: &str, path: &str) -> bool {
    text.match_indices(path).any(|(at, _)| {
        !text[..at].ends_with(|before: char| before.is_alphanumeric() || "_-.~})".contains(before))
    })
}

fn opening(file: &TextFile, findings: &mut Vec<Finding>) {
    let parts: Vec<&str> = file.path.split('/').collect();
    let is_source = matches!(parts[..], ["crates", _, "src", ..] | ["xtask", "src", ..]);
    if is_source && !file.text.starts_with("//!") {
        let message = "expected the file to open with `//!`: what it is for";
        findings.push(Finding::at(&file.path, 1, message));
    }
}

fn length(file: &TextFile, findings: &mut Vec<Finding>) {
    let count = file.lines().count();
    if count > LINES_MAX && !header(&file.text).contains(LONG_BECAUSE) {
        let message = format!(
            "{count} lines; expected at most {LINES_MAX}, or \"{LONG_BECAUSE} …\" in its header"
        );
        findings.push(Finding::in_file(&file.path, message));
    }
}

fn unfinished_code(file: &TextFile, findings: &mut Vec<Finding>) {
    for (line, code) in code_lines(&file.text) {
        for word in UNFINISHED.iter().filter(|word| contains_word(code, word)) {
            let message = format!("`{word}…)` is unfinished code");
            findings.push(Finding::at(&file.path, line, message));
        }
        if code.contains(IGNORED_TEST) {
            findings.push(Finding::at(&file.path, line, "no test is ignored"));
        }
    }
}

fn sleeping_tests(file: &TextFile, findings: &mut Vec<Finding>) {
    let mut in_tests = file.path.split('/').any(|part| part == "tests" || part == "tests.rs");
    for (line, code) in code_lines(&file.text) {
        in_tests |= code.contains("#[cfg(test)]");
        if in_tests && code.contains(SLEEP) {
            let message = format!("a test waits on events, never on `{SLEEP}`");
            findings.push(Finding::at(&file.path, line, message));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::{assert_repository_passes, report};

    fn findings(path: &str, text: &str) -> Vec<String> {
        report(check, &Repo::sample(&[(path, text)], vec![]))
    }

    #[test]
    fn this_repository_passes() {
        assert_repository_passes(check);
    }

    #[test]
    fn a_machine_path_is_found_in_any_kind_of_file() {
        for machine_path in MACHINE_PATHS {
            for text in [format!("see {machine_path}x"), format!("file://{machine_path}x")] {
                let expected = format!("notes.txt:2: `{machine_path}…` is a path of one machine");
                assert_eq!(findings("notes.txt", &format!("\n{text}")), [expected]);
            }
            assert!(
                findings("notes.txt", &format!("https://example.com{machine_path}")).is_empty()
            );
        }
    }

    #[test]
    fn a_source_that_does_not_open_with_its_purpose_is_found() {
        for path in ["crates/relent-api/src/task.rs", "xtask/src/main.rs"] {
            assert_eq!(findings(path, "use core::fmt;\n//! Late.").len(), 1);
            assert!(findings(path, "//! Tasks.").is_empty());
        }
        assert!(findings("crates/relent-api/tests/it/main.rs", "use core::fmt;").is_empty());
    }

    #[test]
    fn a_mod_rs_is_found() {
        assert_eq!(findings("crates/relent-api/src/task/mod.rs", "//! Tasks.").len(), 1);
    }

    #[test]
    fn a_long_file_says_why() {
        let filler = "\n".repeat(LINES_MAX);
        let found = findings("a.rs", &format!("//! A table.{filler}\n"));
        assert_eq!(
            found,
            ["a.rs: 401 lines; expected at most 400, or \"Long because …\" in its header"]
        );
        let excused = format!("//! A table. Long\n//! because of its rows.{filler}");
        assert!(findings("a.rs", &excused).is_empty());
        assert!(findings("a.rs", &format!("//! A table.{}", "\n".repeat(LINES_MAX))).is_empty());
    }

    #[test]
    fn unfinished_code_and_ignored_tests_are_found_but_may_be_spoken_of() {
        for word in UNFINISHED {
            assert_eq!(findings("a.rs", &format!("fn a() {{ {word}) }}")).len(), 1, "{word}");
            assert!(findings("a.rs", &format!("// never {word})")).is_empty(), "{word}");
        }
        assert_eq!(findings("a.rs", &format!("{IGNORED_TEST}]\nfn a() {{}}")).len(), 1);
    }

    #[test]
    fn a_sleep_is_found_in_tests_and_only_there() {
        let sleep = format!("std::{SLEEP}(second);");
        assert!(findings("src/a.rs", &sleep).is_empty());
        assert_eq!(findings("tests/it/a.rs", &sleep).len(), 1);
        assert_eq!(findings("src/a/tests.rs", &sleep).len(), 1);
        let expected = format!("src/a.rs:3: a test waits on events, never on `{SLEEP}`");
        assert_eq!(findings("src/a.rs", &format!("{}\n#[cfg(test)]\n{sleep}", "")), [expected]);
    }
}
