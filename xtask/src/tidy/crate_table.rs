//! The crate table in ARCHITECTURE.md is true: one row per crate, and no crate uses another that
//! its row does not name.
//!
//! The table stands between two HTML comments and has the columns `crate | does | may use`. The
//! last holds `nobody`, `everything`, or crate names with commas between; the prefix `relent-` may
//! be left out. Dev-dependencies are free: a test may use whatever it likes.

use anyhow::Result;

use super::Finding;
use crate::{
    metadata::{Metadata, Package},
    repo::{Repo, TextFile},
};

const PAGE: &str = "ARCHITECTURE.md";
const OPEN: &str = "<!-- tidy:crates -->";
const CLOSE: &str = "<!-- /tidy:crates -->";
const COLUMNS: [&str; 3] = ["crate", "does", "may use"];

struct Row {
    line: usize,
    name: String,
    may_use: MayUse,
}

enum MayUse {
    Everything,
    Only(Vec<String>),
}

pub(super) fn check(repo: &Repo) -> Result<Vec<Finding>> {
    let Some(page) = repo.text(PAGE) else {
        return Ok(vec![Finding::in_file(PAGE, "missing; expected a page with the crate table")]);
    };
    let metadata = repo.metadata()?;
    Ok(match parse(page) {
        Ok(rows) => compare(&rows, metadata),
        Err(findings) => findings,
    })
}

fn parse(page: &TextFile) -> Result<Vec<Row>, Vec<Finding>> {
    let mut table = page
        .lines()
        .skip_while(|(_, line)| line.trim() != OPEN)
        .take_while(|(_, line)| line.trim() != CLOSE)
        .filter(|(_, line)| line.starts_with('|'))
        .map(|(number, line)| (number, cells(line)));

    match table.next() {
        Some((_, header)) if header == COLUMNS => {}
        _ => {
            let expected = format!("expected a table `{}` after {OPEN}", COLUMNS.join(" | "));
            return Err(vec![Finding::in_file(PAGE, expected)]);
        }
    }

    let mut rows = Vec::new();
    let mut findings = Vec::new();
    for (line, cells) in table.skip(1) {
        match cells.as_slice() {
            [name, _, may_use] => {
                rows.push(Row { line, name: plain(name), may_use: MayUse::parse(may_use) });
            }
            _ => findings.push(Finding::at(
                PAGE,
                line,
                format!("expected {} cells, got {}", COLUMNS.len(), cells.len()),
            )),
        }
    }
    if findings.is_empty() { Ok(rows) } else { Err(findings) }
}

fn compare(rows: &[Row], metadata: &Metadata) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in metadata.members().filter(|package| in_crates_folder(package)) {
        if !rows.iter().any(|row| row.name == package.name) {
            findings.push(Finding::in_file(PAGE, format!("expected a row for `{}`", package.name)));
        }
    }
    for row in rows {
        let Some(package) = metadata.member(&row.name) else {
            let message = format!("no crate `{}` in the workspace", row.name);
            findings.push(Finding::at(PAGE, row.line, message));
            continue;
        };
        let MayUse::Only(names) = &row.may_use else { continue };
        for name in names.iter().filter(|name| metadata.member(name).is_none()) {
            let message = format!("`{}` may use `{name}`, which is no crate here", row.name);
            findings.push(Finding::at(PAGE, row.line, message));
        }
        for used in package.shipped_dependencies().map(|dependency| &dependency.name) {
            if metadata.member(used).is_some() && !names.contains(used) {
                let message = format!("`{}` uses `{used}`, which its row does not name", row.name);
                findings.push(Finding::at(PAGE, row.line, message));
            }
        }
    }
    findings
}

impl MayUse {
    fn parse(cell: &str) -> Self {
        match plain(cell).as_str() {
            "everything" => Self::Everything,
            "nobody" => Self::Only(Vec::new()),
            _ => Self::Only(cell.split(',').map(|name| full_name(&plain(name))).collect()),
        }
    }
}

fn cells(line: &str) -> Vec<&str> {
    line.trim().trim_matches('|').split('|').map(str::trim).collect()
}

/// A cell without its Markdown: backticks and a link around the text.
fn plain(cell: &str) -> String {
    let cell = cell.trim();
    let text = cell.strip_prefix('[').and_then(|rest| rest.split(']').next()).unwrap_or(cell);
    text.replace('`', "")
}

fn full_name(name: &str) -> String {
    if name.starts_with("relent") { name.to_owned() } else { format!("relent-{name}") }
}

fn in_crates_folder(package: &Package) -> bool {
    package.folder.as_deref().is_some_and(|folder| folder.starts_with("crates/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        metadata::Kind,
        tidy::{assert_repository_passes, report},
    };

    const TRUE_TABLE: &str = "\
# Architecture

<!-- tidy:crates -->
| crate | does | may use |
|---|---|---|
| [`relent-policy`](crates/relent-policy) | decides | nobody |
| `relent-api` | speaks | `policy` |
| `relent-cli` | runs | everything |
<!-- /tidy:crates -->

| crate | another table | not read |
|---|---|---|
| `nonsense` | | |
";

    fn workspace(api_uses: &[(&str, Kind)]) -> Vec<Package> {
        vec![
            Package::sample_member("relent-policy", &[("relent-policy", Kind::Dev)]),
            Package::sample_member("relent-api", api_uses),
            Package::sample_member("relent-cli", &[("relent-api", Kind::Normal)]),
        ]
    }

    #[test]
    fn this_repository_passes() {
        assert_repository_passes(check);
    }

    #[test]
    fn a_true_table_passes_and_dev_dependencies_are_free() {
        let uses = [("relent-policy", Kind::Normal), ("relent-cli", Kind::Dev)];
        let repo = Repo::sample(&[(PAGE, TRUE_TABLE)], workspace(&uses));
        assert!(report(check, &repo).is_empty());
    }

    #[test]
    fn a_use_that_the_row_does_not_name_is_found() {
        let uses = [("relent-cli", Kind::Normal), ("relent-cli", Kind::Build)];
        let repo = Repo::sample(&[(PAGE, TRUE_TABLE)], workspace(&uses));
        let message =
            "ARCHITECTURE.md:7: `relent-api` uses `relent-cli`, which its row does not name";
        assert_eq!(report(check, &repo), [message, message]);
    }

    #[test]
    fn a_missing_row_a_stray_row_and_a_stray_name_are_all_found() {
        let table = TRUE_TABLE.replace("| `relent-cli` | runs |", "| `relent-gone` | runs |");
        let table = table.replace("| `policy` |", "| `policy`, `util` |");
        let repo = Repo::sample(&[(PAGE, &table)], workspace(&[]));
        assert_eq!(
            report(check, &repo),
            [
                "ARCHITECTURE.md: expected a row for `relent-cli`",
                "ARCHITECTURE.md:7: `relent-api` may use `relent-util`, which is no crate here",
                "ARCHITECTURE.md:8: no crate `relent-gone` in the workspace",
            ]
        );
    }

    #[test]
    fn a_missing_page_table_or_cell_is_found() {
        let findings = |text| report(check, &Repo::sample(&[(PAGE, text)], workspace(&[])));
        let expected = "expected a table `crate | does | may use` after <!-- tidy:crates -->";
        assert_eq!(findings("# Architecture"), [format!("ARCHITECTURE.md: {expected}")]);
        let two_cells = TRUE_TABLE.replace("| decides ", "");
        assert_eq!(findings(&two_cells), ["ARCHITECTURE.md:6: expected 3 cells, got 2"]);
        assert_eq!(report(check, &Repo::sample(&[], workspace(&[]))).len(), 1);
    }
}
