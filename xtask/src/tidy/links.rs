//! Markdown links lead somewhere, and every page under docs/ can be reached from the front page.
//!
//! Only links within the repository are followed; anchors and addresses on the web are not checked.

use std::collections::BTreeSet;

use anyhow::Result;

use super::Finding;
use crate::repo::{Repo, TextFile};

const FRONT_PAGES: &[&str] = &["README.md", "docs/README.md"];

struct Link {
    line: usize,
    target: String,
}

pub(super) fn check(repo: &Repo) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for page in repo.with_extension(&["md"]) {
        for Link { line, target } in links(page) {
            if let Some(path) = resolve(&page.path, &target)
                && !exists(repo, &path)
            {
                let message = format!("link to `{target}`: expected a file `{path}`");
                findings.push(Finding::at(&page.path, line, message));
            }
        }
    }
    if repo.text(FRONT_PAGES[0]).is_some() {
        let reached = reachable(repo);
        for page in repo.with_extension(&["md"]).filter(|page| page.path.starts_with("docs/")) {
            if !reached.contains(&page.path) {
                let message = format!("expected a way of links from {}", FRONT_PAGES.join(" or "));
                findings.push(Finding::in_file(&page.path, message));
            }
        }
    }
    Ok(findings)
}

fn reachable(repo: &Repo) -> BTreeSet<String> {
    let mut reached = BTreeSet::new();
    let mut ahead: Vec<String> = FRONT_PAGES.iter().map(|path| (*path).to_owned()).collect();
    while let Some(path) = ahead.pop() {
        let Some(page) = repo.text(&path).filter(|page| page.extension() == "md") else { continue };
        if !reached.insert(path) {
            continue;
        }
        for target in links(page).iter().filter_map(|link| resolve(&page.path, &link.target)) {
            // A link to a folder shows the folder's front page.
            ahead.push(format!("{target}/README.md"));
            ahead.push(target);
        }
    }
    reached
}

fn exists(repo: &Repo, path: &str) -> bool {
    let folder = format!("{path}/");
    path.is_empty()
        || repo.paths().contains(path)
        || repo.paths().range(folder.clone()..).next().is_some_and(|next| next.starts_with(&folder))
}

/// The links of a page, inline and by reference, outside code.
fn links(page: &TextFile) -> Vec<Link> {
    let mut found = Vec::new();
    let mut fence: Option<String> = None;
    for (line, text) in page.lines() {
        let start = text.trim_start();
        if let Some(open) = &fence {
            if start.starts_with(open.as_str()) && start.trim_end().ends_with(open.as_str()) {
                fence = None;
            }
            continue;
        }
        fence = fence_of(start);
        if fence.is_none() {
            let text = without_code(text);
            found.extend(targets(&text).into_iter().map(|target| Link { line, target }));
        }
    }
    found
}

fn fence_of(line: &str) -> Option<String> {
    let mark = ['`', '~'].into_iter().find(|mark| line.starts_with(*mark))?;
    let fence: String = line.chars().take_while(|it| *it == mark).collect();
    (fence.len() >= 3).then_some(fence)
}

fn targets(text: &str) -> Vec<String> {
    let inline = text.match_indices("](").filter_map(|(at, _)| {
        let rest = &text[at + 2..];
        let mut depth = 1;
        let end = rest.find(|it| {
            depth += match it {
                '(' => 1,
                ')' => -1,
                _ => 0,
            };
            depth == 0
        })?;
        rest[..end].split_whitespace().next()
    });
    let by_reference = text
        .strip_prefix('[')
        .filter(|rest| !rest.starts_with('^'))
        .and_then(|rest| rest.split_once("]: "))
        .and_then(|(_, rest)| rest.split_whitespace().next());
    inline.chain(by_reference).map(|it| it.trim_matches(['<', '>']).to_owned()).collect()
}

/// The line without its `code spans`; an unpaired backtick is only a backtick.
fn without_code(line: &str) -> String {
    let parts: Vec<&str> = line.split('`').collect();
    let is_paired = parts.len() % 2 == 1;
    let is_text = |at: usize| at.is_multiple_of(2) || (!is_paired && at == parts.len() - 1);
    let kept = parts.iter().enumerate().filter(|(at, _)| is_text(*at)).map(|(_, part)| *part);
    kept.collect()
}

/// The path a link means, from the root; `None` for the web and for places on the same page.
fn resolve(page: &str, target: &str) -> Option<String> {
    let is_web = ["http://", "https://", "mailto:"].iter().any(|it| target.starts_with(it));
    let path = target.split(['#', '?']).next().unwrap_or_default();
    if is_web || path.is_empty() {
        return None;
    }
    let mut parts: Vec<&str> = match path.starts_with('/') {
        true => Vec::new(),
        false => page.split('/').collect(),
    };
    parts.pop();
    for part in path.split('/').filter(|part| !part.is_empty() && *part != ".") {
        match part {
            ".." if parts.last().is_some_and(|last| *last != "..") => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::{assert_repository_passes, report};

    fn findings(files: &[(&str, &str)]) -> Vec<String> {
        report(check, &Repo::sample(files, vec![]))
    }

    #[test]
    fn this_repository_passes() {
        assert_repository_passes(check);
    }

    #[test]
    fn links_to_files_folders_anchors_and_the_web_pass() {
        let page = "[a](../README.md#top) [b](.) [c](#here) [d](https://x.org/y) \
                    [`e`](b(1).md \"title\") [f](/docs/a.md) ![g](<a.md>)\n[h]: a.md\n[^1]: note\n";
        let readme = "[docs](docs/a.md), [b](docs/b(1).md), [all](docs/), [here](./)";
        assert_eq!(
            findings(&[("README.md", readme), ("docs/a.md", page), ("docs/b(1).md", "")]),
            Vec::<String>::new()
        );
    }

    #[test]
    fn links_to_nowhere_are_found() {
        let page = "[a](gone.md)\n\n[b](../../up.md), `code` [c](c.md#x)\n[d]: d.md\n";
        assert_eq!(
            findings(&[("docs/a.md", page)]),
            [
                "docs/a.md:1: link to `gone.md`: expected a file `docs/gone.md`",
                "docs/a.md:3: link to `../../up.md`: expected a file `../up.md`",
                "docs/a.md:3: link to `c.md#x`: expected a file `docs/c.md`",
                "docs/a.md:4: link to `d.md`: expected a file `docs/d.md`",
            ]
        );
    }

    #[test]
    fn code_holds_no_links() {
        let page = "`[a](gone.md)`\n```md\n[b](gone.md)\n```\n~~~~\n~~~\n[c](gone.md)\n~~~~\n";
        assert!(findings(&[("a.md", page)]).is_empty());
        let after = "```rust\nlet x = 1;\n```\n[d](gone.md)\n";
        assert_eq!(findings(&[("a.md", after)]).len(), 1);
    }

    #[test]
    fn a_page_nobody_links_to_is_found() {
        let files = [
            ("README.md", "[docs](docs/)"),
            ("docs/README.md", "[a](a.md)"),
            ("docs/a.md", "[b](deep/b.md)"),
            ("docs/deep/b.md", "[a](../a.md)"),
            ("docs/lost.md", "[a](a.md)"),
        ];
        let expected = "docs/lost.md: expected a way of links from README.md or docs/README.md";
        assert_eq!(findings(&files), [expected]);
        assert!(findings(&files[2..]).is_empty(), "without a front page nobody can be lost");
    }
}
