//! Every package in the graph, dev-dependencies included, comes under a licence we accept.

use anyhow::Result;

use super::{Finding, deny_toml, spdx};
use crate::repo::Repo;

const ALLOWED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unicode-DFS-2016",
    "Unlicense",
    "Zlib",
];

pub(super) fn check(repo: &Repo) -> Result<Vec<Finding>> {
    let mut findings = deny_toml::compare_list(repo, "licenses", "allow", ALLOWED.iter().copied());
    for package in &repo.metadata()?.packages {
        let problem = match &package.license {
            None => "states no licence".to_owned(),
            Some(expression) => match spdx::is_satisfied(expression, ALLOWED) {
                Ok(true) => continue,
                Ok(false) => format!("licence `{expression}` is not covered by the allowed ones"),
                Err(error) => format!("licence `{expression}`: {error}"),
            },
        };
        let message = format!("{} {}: {problem}", package.name, package.version);
        let entry = format!("name = \"{}\"", package.name);
        findings.push(Finding::near(repo, "Cargo.lock", &entry, message));
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        metadata::Package,
        tidy::{assert_repository_passes, report},
    };

    fn findings(license: Option<&str>) -> Vec<String> {
        let deny = format!("[licenses]\nallow = [\n\"{}\"\n]\n", ALLOWED.join("\"\n\""));
        let lock = "[[package]]\nname = \"other\"\n\n[[package]]\nname = \"leftpad\"\n";
        let package = Package::sample_from_registry("leftpad", license);
        report(check, &Repo::sample(&[("deny.toml", &deny), ("Cargo.lock", lock)], vec![package]))
    }

    #[test]
    fn this_repository_passes() {
        assert_repository_passes(check);
    }

    #[test]
    fn an_allowed_licence_passes() {
        assert!(findings(Some("GPL-3.0 OR MIT")).is_empty());
    }

    #[test]
    fn other_broken_and_absent_licences_are_found() {
        for (license, problem) in [
            (Some("GPL-3.0"), "licence `GPL-3.0` is not covered by the allowed ones"),
            (Some("MIT AND"), "licence `MIT AND`: expected a licence, got the end"),
            (None, "states no licence"),
        ] {
            assert_eq!(findings(license), [format!("Cargo.lock:5: leftpad 1.0.0: {problem}")]);
        }
    }
}
