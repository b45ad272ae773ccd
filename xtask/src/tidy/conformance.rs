//! Every test that docs/conformance.md names for the service exists.
//!
//! Its rows are `| S1 | … | `test`, `test` |`; the library's rows, `| B1 |`, are checked by the
//! library's own tests. A test is a function with a test's attribute, or a name in the list of a macro
//! that makes tests: alone on its line, or after `as`.

use std::collections::BTreeSet;

use anyhow::Result;

use super::Finding;
use crate::repo::{Repo, TextFile};

const PAGE: &str = "docs/conformance.md";
const CRATES: &[&str] =
    &["relent-api", "relent-cli", "relent-policy", "relent-server", "relent-store"];

pub(super) fn check(repo: &Repo) -> Result<Vec<Finding>> {
    let rows: Vec<(usize, &str)> = repo
        .text(PAGE)
        .map_or_else(Vec::new, |page| page.lines().filter(|(_, line)| is_row(line)).collect());
    if rows.is_empty() {
        return Ok(vec![Finding::in_file(
            PAGE,
            "no row `| S1 | …`; expected those of the service",
        )]);
    }
    let known: BTreeSet<&str> =
        repo.with_extension(&["rs"]).filter(is_ours).flat_map(tests).collect();
    let mut findings = Vec::new();
    for (line, row) in rows {
        let proofs = row.trim_end().trim_end_matches('|').rsplit('|').next().unwrap_or_default();
        let names: Vec<&str> = proofs.split('`').skip(1).step_by(2).collect();
        if names.is_empty() {
            findings.push(Finding::at(PAGE, line, "the row names no test"));
        }
        for name in names.iter().filter(|name| !known.contains(*name)) {
            findings.push(Finding::at(PAGE, line, format!("there is no test `{name}`")));
        }
    }
    Ok(findings)
}

fn is_row(line: &str) -> bool {
    line.strip_prefix("| S").is_some_and(|rest| rest.starts_with(|it: char| it.is_ascii_digit()))
}

fn is_ours(file: &&TextFile) -> bool {
    let path = file.path.strip_prefix("crates/").and_then(|path| path.split_once('/'));
    path.is_some_and(|(name, _)| CRATES.contains(&name))
}

fn tests(file: &TextFile) -> Vec<&str> {
    let (mut found, mut is_test) = (Vec::new(), false);
    for (_, line) in file.lines() {
        let line = line.trim();
        if line.starts_with("#[test") || line.starts_with("#[tokio::test") {
            is_test = true;
            continue;
        }
        let function = line.split_once("fn ").and_then(|(_, rest)| rest.split_once('('));
        if let Some((name, _)) = function {
            found.extend(is_test.then_some(name));
            is_test = false;
        }
        let renamed = line.rsplit_once(" as ").and_then(|(_, name)| name.strip_suffix(';'));
        found.extend([renamed.unwrap_or_default(), line].iter().filter(|name| is_name(name)));
    }
    found
}

fn is_name(text: &str) -> bool {
    text.contains('_') && text.chars().all(|it| matches!(it, 'a'..='z' | '0'..='9' | '_'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::{assert_repository_passes, report};

    const CODE: &str = "
#[tokio::test(flavor = \"multi_thread\")]
#[expect(clippy::unwrap_used, reason = \"a test\")]
async fn it_is_kept() {}

fn a_helper() {}

facts! {
    taking {
        it_is_told
    }
}

on_every_store! {
    nodes::killed as it_is_taken_over;
}
";

    fn findings(page: &str) -> Vec<String> {
        let files = [(PAGE, page), ("crates/relent-store/tests/it/main.rs", CODE)];
        report(check, &Repo::sample(&files, vec![]))
    }

    #[test]
    fn this_repository_passes() {
        assert_repository_passes(check);
    }

    #[test]
    fn every_kind_of_test_is_found() {
        let page = "| B1 | `nobody` |\n| S1 | a `peer` | `it_is_kept`, `it_is_told`, `it_is_taken_over` |\n";
        assert_eq!(findings(page), [""; 0]);
    }

    #[test]
    fn made_up_names_and_helpers_are_no_tests() {
        let page = "# Page\n| S1 | `it_is_kept`, `it_is_lost` |\n| S2 | `a_helper` |\n";
        let expected = [
            "docs/conformance.md:2: there is no test `it_is_lost`",
            "docs/conformance.md:3: there is no test `a_helper`",
        ];
        assert_eq!(findings(page), expected);
    }

    #[test]
    fn a_row_without_a_test_and_a_page_without_rows_are_found() {
        assert_eq!(findings("| S1 | hope |\n"), ["docs/conformance.md:1: the row names no test"]);
        assert_eq!(findings("| B1 | `it_is_kept` |\n").len(), 1);
    }

    #[test]
    fn tests_of_other_crates_do_not_count() {
        let files =
            [(PAGE, "| S1 | `it_is_kept` |\n"), ("crates/relent-sim/tests/it/main.rs", CODE)];
        assert_eq!(report(check, &Repo::sample(&files, vec![])).len(), 1);
    }
}
