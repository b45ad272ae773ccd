//! Every requirement that is cited exists in docs/requirements.md.
//!
//! A requirement is defined there by a line `- **REQ-B1** …`, a rule of the standard by a table row
//! `| R-1 | …`. Anything else of that shape, in code or prose, is a citation.

use std::collections::BTreeSet;

use anyhow::Result;

use super::Finding;
use crate::repo::{Repo, TextFile};

const PAGE: &str = "docs/requirements.md";
const EXTENSIONS: &[&str] = &["rs", "md", "toml", "json", "py"];

pub(super) fn check(repo: &Repo) -> Result<Vec<Finding>> {
    let Some(page) = repo.text(PAGE) else {
        return Ok(vec![Finding::in_file(PAGE, "missing; expected the list of requirements")]);
    };
    let mut findings = Vec::new();
    let known = definitions(page, &mut findings);
    for file in repo.with_extension(EXTENSIONS) {
        for (line, text) in file.lines() {
            for name in citations(text).filter(|name| !known.contains(name)) {
                let message = format!("`{name}` is not in {PAGE}");
                findings.push(Finding::at(&file.path, line, message));
            }
        }
    }
    Ok(findings)
}

fn definitions<'a>(page: &'a TextFile, findings: &mut Vec<Finding>) -> BTreeSet<&'a str> {
    let mut known = BTreeSet::new();
    for (line, text) in page.lines() {
        let requirement = text.strip_prefix("- **").and_then(|rest| rest.split("**").next());
        let rule = text.strip_prefix("| ").and_then(|rest| rest.split(" |").next());
        let Some(name) = requirement.or(rule) else { continue };
        if citations(name).next() == Some(name) && !known.insert(name) {
            findings.push(Finding::at(PAGE, line, format!("`{name}` is defined twice")));
        }
    }
    known
}

fn citations(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices("R").filter_map(move |(start, _)| {
        let is_tail = line[..start].ends_with(|it: char| is_word(it) || it == '-');
        if is_tail {
            return None;
        }
        let rest = &line[start..];
        let prefix = ["REQ-", "R-"].into_iter().find(|prefix| rest.starts_with(prefix))?;
        let number = &rest[prefix.len()..];
        let number = &number[..number.find(|it| !is_word(it)).unwrap_or(number.len())];
        let cites = match prefix {
            "R-" => number.starts_with(|it: char| it.is_ascii_digit()),
            _ => !number.is_empty(),
        };
        cites.then(|| &rest[..prefix.len() + number.len()])
    })
}

fn is_word(it: char) -> bool {
    it.is_alphanumeric() || it == '_'
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::{assert_repository_passes, report};

    /// Stands in for the prefixes, so that the invented names below are not citations themselves.
    fn cite(text: &str) -> String {
        text.replace("REQ~", "REQ-").replace("R~", "R-")
    }

    fn findings(code: &str) -> Vec<String> {
        let page = cite("- **REQ~B1** Backoff.\n- **REQ~B2** Jitter.\n\n| R~1 | Full jitter |\n");
        report(check, &Repo::sample(&[(PAGE, &page), ("src/lib.rs", &cite(code))], vec![]))
    }

    #[test]
    fn this_repository_passes() {
        assert_repository_passes(check);
    }

    #[test]
    fn known_names_pass_alone_and_in_lists() {
        assert!(findings("//! REQ~B1, REQ~B2.\n/// (R~1) see `REQ~B1`").is_empty());
    }

    #[test]
    fn unknown_names_are_found_with_their_line() {
        let expected = ["REQ~B9", "R~11", "REQ~b1"].map(cite);
        let expected: Vec<String> = [1, 2, 2]
            .iter()
            .zip(expected)
            .map(|(line, name)| format!("src/lib.rs:{line}: `{name}` is not in {PAGE}"))
            .collect();
        assert_eq!(findings("//! REQ~B1, REQ~B9.\n// R~11 and REQ~b1"), expected);
    }

    #[test]
    fn parts_of_other_words_are_not_citations() {
        assert!(findings("AR~15 STD-R~99 R~x REQ~ (R~) MY_REQ~Z1").is_empty());
    }

    #[test]
    fn a_name_defined_twice_is_found() {
        let page = cite("- **REQ~B1** One.\n- **REQ~B1** Two.\n");
        let found = report(check, &Repo::sample(&[(PAGE, &page)], vec![]));
        assert_eq!(found, [cite("docs/requirements.md:2: `REQ~B1` is defined twice")]);
    }

    #[test]
    fn a_missing_page_is_found() {
        assert_eq!(report(check, &Repo::sample(&[], vec![])).len(), 1);
    }
}
