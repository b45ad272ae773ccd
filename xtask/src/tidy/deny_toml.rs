//! `deny.toml` says what the constants of these checks say, so `cargo deny` and tidy agree.
//!
//! Read by lines instead of with a TOML crate: a list has one element per line, and the first
//! quoted text of the line is the element's name.

use std::collections::BTreeSet;

use super::Finding;
use crate::repo::Repo;

const PAGE: &str = "deny.toml";

/// Findings for each name that only one side has in `key = [ … ]` of `[section]`.
pub(super) fn compare_list<'a>(
    repo: &Repo,
    section: &str,
    key: &str,
    expected: impl IntoIterator<Item = &'a str>,
) -> Vec<Finding> {
    compare(repo, &format!("[{section}] {key}"), |text| list(text, section, key), expected)
}

/// The same for a line `# tidy:{key} name name`: what only tidy can check, stated for people.
pub(super) fn compare_comment<'a>(
    repo: &Repo,
    key: &str,
    expected: impl IntoIterator<Item = &'a str>,
) -> Vec<Finding> {
    let prefix = format!("# tidy:{key} ");
    let names = |text: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(&prefix))?;
        Some(line.split_whitespace().map(str::to_owned).collect())
    };
    compare(repo, prefix.trim_end(), names, expected)
}

fn compare<'a>(
    repo: &Repo,
    what: &str,
    names: impl Fn(&str) -> Option<BTreeSet<String>>,
    expected: impl IntoIterator<Item = &'a str>,
) -> Vec<Finding> {
    let Some(stated) = repo.text(PAGE).and_then(|file| names(&file.text)) else {
        return vec![Finding::in_file(PAGE, format!("expected the list `{what}`"))];
    };
    let expected: BTreeSet<String> = expected.into_iter().map(str::to_owned).collect();
    let missing = expected.difference(&stated).map(|name| {
        Finding::in_file(PAGE, format!("`{what}`: expected `{name}`, which xtask has"))
    });
    let extra = stated.difference(&expected).map(|name| {
        let message = format!("`{what}`: xtask does not have `{name}`");
        Finding::near(repo, PAGE, name, message)
    });
    missing.chain(extra).collect()
}

fn list(text: &str, section: &str, key: &str) -> Option<BTreeSet<String>> {
    let header = format!("[{section}]");
    let opening = format!("{key} = [");
    let mut lines = text
        .lines()
        .map(str::trim)
        .skip_while(|line| *line != header)
        .skip(1)
        .take_while(|line| !line.starts_with('['))
        .skip_while(|line| *line != opening);
    lines.next()?;
    let elements = lines.take_while(|line| *line != "]").filter(|line| !line.starts_with('#'));
    Some(elements.filter_map(|line| line.split('"').nth(1)).map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = r#"
[graph]
allow = [
    "wrong section",
]

[licenses]
version = 2
allow = [
    # "Commented-Out",
    "MIT",
    "Zlib", # "Not-A-Name"
]

# tidy:direct chrono once_cell
[bans]
deny = [
    { crate = "native-tls", reason = "rustls" },
]
"#;

    fn sample() -> Repo {
        Repo::sample(&[(PAGE, SAMPLE)], vec![])
    }

    #[test]
    fn equal_lists_pass() {
        assert_eq!(compare_list(&sample(), "licenses", "allow", ["Zlib", "MIT"]), []);
        assert_eq!(compare_list(&sample(), "bans", "deny", ["native-tls"]), []);
        assert_eq!(compare_comment(&sample(), "direct", ["once_cell", "chrono"]), []);
    }

    #[test]
    fn a_name_on_one_side_only_is_found() {
        let found = compare_list(&sample(), "licenses", "allow", ["MIT", "ISC"]);
        let found: Vec<String> = found.iter().map(Finding::to_string).collect();
        assert_eq!(
            found,
            [
                "deny.toml: `[licenses] allow`: expected `ISC`, which xtask has",
                "deny.toml:12: `[licenses] allow`: xtask does not have `Zlib`",
            ]
        );
        assert_eq!(compare_comment(&sample(), "direct", ["chrono"]).len(), 1);
    }

    #[test]
    fn a_list_or_file_that_is_not_there_is_found() {
        assert_eq!(compare_list(&sample(), "bans", "allow", []).len(), 1);
        assert_eq!(compare_comment(&sample(), "service", []).len(), 1);
        assert_eq!(compare_list(&Repo::sample(&[], vec![]), "bans", "deny", []).len(), 1);
    }
}
