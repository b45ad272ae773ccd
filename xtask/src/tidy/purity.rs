//! Pure crates stay pure: no clock, no randomness, no I/O, no async, no log.
//!
//! Time and chance are arguments there (REQ-B5), so the same input gives the same answer anywhere.
//! `#![no_std]` already keeps most of it out; the words catch what a feature or an
//! `extern crate std` would let back in, and the list of dependencies what would come in by proxy.
//! Test code is free, as are dev-dependencies.

use anyhow::Result;

use super::{
    Finding,
    rust_source::{code_lines, contains_word, shipped_code_lines},
};
use crate::{metadata::Package, repo::Repo};

const PURE_CRATES: &[&str] = &["relent-policy"];

/// What a pure crate may depend on, besides other pure crates.
const ALLOWED_DEPENDENCIES: &[&str] = &["serde"];

const FORBIDDEN_WORDS: &[(&str, &str)] = &[
    ("Instant::now", "a clock"),
    ("SystemTime", "a clock"),
    ("rand::", "randomness"),
    ("fastrand", "randomness"),
    ("getrandom", "randomness"),
    ("std::fs", "I/O"),
    ("print!", "I/O"),
    ("println!", "I/O"),
    ("eprint!", "I/O"),
    ("eprintln!", "I/O"),
    ("thread::", "threads"),
    ("tokio", "async"),
    ("async fn", "async"),
    ("async move", "async"),
    ("async {", "async"),
    (".await", "async"),
    ("log::", "a log"),
    ("tracing::", "a log"),
    ("std::", "the standard library"),
    ("extern crate std", "the standard library"),
];

pub(super) fn check(repo: &Repo) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for name in PURE_CRATES {
        match repo.metadata()?.member(name) {
            Some(package) => check_crate(repo, package, &mut findings),
            None => {
                let message = format!("expected the pure crate `{name}` in the workspace");
                findings.push(Finding::in_file("Cargo.toml", message));
            }
        }
    }
    Ok(findings)
}

fn check_crate(repo: &Repo, package: &Package, findings: &mut Vec<Finding>) {
    let sources = format!("crates/{}/src/", package.name);
    let is_shipped = |path: &str| path.starts_with(&sources) && !path.ends_with("/tests.rs");
    for file in repo.with_extension(&["rs"]).filter(|file| is_shipped(&file.path)) {
        for (line, code) in shipped_code_lines(&file.text) {
            let forbidden = FORBIDDEN_WORDS.iter().find(|(word, _)| contains_word(code, word));
            if let Some((word, what)) = forbidden {
                let message = format!("`{word}` is {what}, and `{}` is pure", package.name);
                findings.push(Finding::at(&file.path, line, message));
            }
        }
    }

    let lib = format!("{sources}lib.rs");
    let has_no_std = |text: &str| code_lines(text).any(|(_, code)| code.trim() == "#![no_std]");
    if !repo.text(&lib).is_some_and(|file| has_no_std(&file.text)) {
        findings.push(Finding::in_file(&lib, "expected `#![no_std]`: the crate is pure"));
    }

    for used in package.shipped_dependencies().map(|dependency| dependency.name.as_str()) {
        if !ALLOWED_DEPENDENCIES.contains(&used) && !PURE_CRATES.contains(&used) {
            let allowed = ALLOWED_DEPENDENCIES.join(", ");
            let message = format!("a pure crate depends on {allowed} at most, got `{used}`");
            findings.push(Finding::near(repo, &package.manifest(), used, message));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        metadata::Kind,
        tidy::{assert_repository_passes, report},
    };

    const LIB: &str = "crates/relent-policy/src/lib.rs";
    const ROLL: &str = "crates/relent-policy/src/roll.rs";

    fn findings(files: &[(&str, &str)], dependencies: &[(&str, Kind)]) -> Vec<String> {
        let package = Package::sample_member("relent-policy", dependencies);
        report(check, &Repo::sample(files, vec![package]))
    }

    #[test]
    fn this_repository_passes() {
        assert_repository_passes(check);
    }

    #[test]
    fn pure_code_passes_and_its_comments_may_speak_of_clocks() {
        let lib = "//! Not std::time.\n#![no_std]\nuse core::time; // never Instant::now\n";
        let dependencies = [("serde", Kind::Normal), ("tokio", Kind::Dev)];
        assert!(findings(&[(LIB, lib)], &dependencies).is_empty());
    }

    #[test]
    fn tests_may_use_what_they_like() {
        let lib = "#![no_std]\n#[cfg(test)]\nextern crate std;\n#[cfg(test)]\nmod tests;\n";
        let tests = "crates/relent-policy/src/tests.rs";
        let inline = "#[cfg(test)]\nmod tests {\n    use std::fs;\n}\n";
        assert!(findings(&[(LIB, lib), (ROLL, inline), (tests, "use std::fs;")], &[]).is_empty());
        let after = format!("{inline}use std::fs;\n");
        assert_eq!(findings(&[(LIB, lib), (ROLL, &after)], &[]).len(), 1);
    }

    #[test]
    fn every_forbidden_word_is_found() {
        for (word, what) in FORBIDDEN_WORDS {
            let code = format!("fn f() {{ {word} }}");
            let found = findings(&[(LIB, "#![no_std]"), (ROLL, &code)], &[]);
            assert_eq!(found.len(), 1, "{word}: {found:?}");
            assert!(found[0].starts_with(&format!("{ROLL}:1: ")), "{found:?}");
            assert!(found[0].contains(what), "{word}: {found:?}");
        }
    }

    #[test]
    fn a_lib_without_no_std_is_found() {
        let expected = format!("{LIB}: expected `#![no_std]`: the crate is pure");
        assert_eq!(findings(&[(LIB, "// #![no_std]")], &[]), [expected]);
    }

    #[test]
    fn a_dependency_off_the_list_is_found_at_its_line() {
        let manifest = ("crates/relent-policy/Cargo.toml", "[dependencies]\nuuid = \"1\"\n");
        let found = findings(&[(LIB, "#![no_std]"), manifest], &[("uuid", Kind::Normal)]);
        let expected = "crates/relent-policy/Cargo.toml:2: \
                        a pure crate depends on serde at most, got `uuid`";
        assert_eq!(found, [expected]);
    }

    #[test]
    fn a_pure_crate_that_is_gone_is_found() {
        assert_eq!(report(check, &Repo::sample(&[], vec![])).len(), PURE_CRATES.len());
    }
}
