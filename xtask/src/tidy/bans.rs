//! Which packages may not be in the graph, and where packages may come from.
//!
//! Some crates are unwelcome anywhere; some only as our own choice, since a dependency may well
//! have reasons of its own; one only in the service, whose requests leave through one guarded
//! client. `cargo deny` can say only the first kind, so the others stand in deny.toml as comments.

use anyhow::Result;

use super::{Finding, deny_toml};
use crate::{
    metadata::{Kind, Metadata, Package},
    repo::Repo,
};

const BANNED: &[(&str, &str)] = &[
    ("aws-lc-rs", "the one TLS provider is ring"),
    ("aws-lc-sys", "the one TLS provider is ring"),
    ("failure", "errors are thiserror or anyhow"),
    ("native-tls", "TLS is rustls"),
    ("openssl-sys", "TLS is rustls"),
    ("sqlx", "PostgreSQL is tokio-postgres"),
];

const BANNED_AS_DIRECT: &[(&str, &str)] = &[
    ("chrono", "time is jiff, and only at the edges"),
    ("lazy_static", "std has LazyLock"),
    ("once_cell", "std has OnceLock and LazyLock"),
];

const BANNED_IN_SERVICE: &[(&str, &str)] =
    &[("reqwest", "what the service sends goes through its own guarded client")];

const SERVICE_CRATES: &[&str] = &["relent-server", "relent-cli"];

const TLS_PROVIDERS: &[&str] = &["aws-lc-rs", "openssl", "ring"];

const CRATE_REGISTRY: &[&str] =
    &["registry+https://github.com/rust-lang/crates.io-index", "sparse+https://index.crates.io/"];

pub(super) fn check(repo: &Repo) -> Result<Vec<Finding>> {
    let metadata = repo.metadata()?;
    let mut findings = deny_toml::compare_list(repo, "bans", "deny", names(BANNED));
    findings.extend(deny_toml::compare_comment(repo, "direct", names(BANNED_AS_DIRECT)));
    findings.extend(deny_toml::compare_comment(repo, "service", names(BANNED_IN_SERVICE)));
    findings.extend(banned_anywhere(repo, metadata));
    findings.extend(metadata.members().flat_map(|package| banned_as_direct(repo, package)));
    findings.extend(tls_providers(metadata));
    findings.extend(sources(repo, metadata));
    Ok(findings)
}

fn banned_anywhere(repo: &Repo, metadata: &Metadata) -> Vec<Finding> {
    let banned = metadata.packages.iter().filter_map(|package| {
        let why = reason(BANNED, &package.name)?;
        let message = format!("{} {} is banned: {why}", package.name, package.version);
        Some(in_lock_file(repo, package, message))
    });
    banned.collect()
}

fn banned_as_direct(repo: &Repo, package: &Package) -> Vec<Finding> {
    let in_service = SERVICE_CRATES.contains(&package.name.as_str());
    let banned = package.dependencies.iter().filter_map(|dependency| {
        let shipped_always = dependency.kind != Kind::Dev && !dependency.optional;
        let why = reason(BANNED_AS_DIRECT, &dependency.name).or_else(|| {
            let applies = in_service && shipped_always;
            applies.then(|| reason(BANNED_IN_SERVICE, &dependency.name)).flatten()
        })?;
        let name = &dependency.name;
        let message = format!("`{}` may not depend on {name}: {why}", package.name);
        Some(Finding::near(repo, &package.manifest(), name, message))
    });
    banned.collect()
}

fn tls_providers(metadata: &Metadata) -> Option<Finding> {
    let is_present = |name: &&str| metadata.packages.iter().any(|package| package.name == *name);
    let present: Vec<&str> = TLS_PROVIDERS.iter().copied().filter(is_present).collect();
    (present.len() > 1).then(|| {
        let message = format!("expected at most one TLS provider, got {}", present.join(", "));
        Finding::in_file("Cargo.lock", message)
    })
}

fn sources(repo: &Repo, metadata: &Metadata) -> Vec<Finding> {
    let strangers = metadata.packages.iter().filter_map(|package| {
        let found = match &package.source {
            Some(source) if CRATE_REGISTRY.contains(&source.as_str()) => return None,
            Some(source) => source.as_str(),
            None if package.folder.is_some() => return None,
            None => "a folder outside the workspace",
        };
        let message = format!(
            "{} {}: expected the crate registry or the workspace as its source, got {found}",
            package.name, package.version
        );
        Some(in_lock_file(repo, package, message))
    });
    strangers.collect()
}

fn in_lock_file(repo: &Repo, package: &Package, message: String) -> Finding {
    Finding::near(repo, "Cargo.lock", &format!("name = \"{}\"", package.name), message)
}

fn reason(bans: &[(&str, &'static str)], name: &str) -> Option<&'static str> {
    bans.iter().find(|(banned, _)| *banned == name).map(|(_, why)| *why)
}

fn names(bans: &'static [(&str, &str)]) -> impl Iterator<Item = &'static str> {
    bans.iter().map(|(name, _)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::{assert_repository_passes, report};

    fn findings(packages: Vec<Package>) -> Vec<String> {
        let join = |bans, separator| names(bans).collect::<Vec<_>>().join(separator);
        let deny = format!(
            "# tidy:direct {}\n# tidy:service {}\n[bans]\ndeny = [\n\"{}\"\n]\n",
            join(BANNED_AS_DIRECT, " "),
            join(BANNED_IN_SERVICE, " "),
            join(BANNED, "\"\n\""),
        );
        report(check, &Repo::sample(&[("deny.toml", &deny)], packages))
    }

    #[test]
    fn this_repository_passes() {
        assert_repository_passes(check);
    }

    #[test]
    fn a_banned_package_is_found_however_deep() {
        for (name, why) in BANNED {
            let found = findings(vec![Package::sample_from_registry(name, None)]);
            assert_eq!(found, [format!("Cargo.lock: {name} 1.0.0 is banned: {why}")]);
        }
    }

    #[test]
    fn some_are_banned_only_as_our_own_choice() {
        for (name, why) in BANNED_AS_DIRECT {
            assert!(findings(vec![Package::sample_from_registry(name, None)]).is_empty());
            let ours = Package::sample_member("relent-api", &[(name, Kind::Dev)]);
            let expected = format!(
                "crates/relent-api/Cargo.toml: `relent-api` may not depend on {name}: {why}"
            );
            assert_eq!(findings(vec![ours]), [expected]);
        }
    }

    #[test]
    fn reqwest_is_banned_where_the_service_would_always_ship_it() {
        let uses = |name, kind| Package::sample_member(name, &[("reqwest", kind)]);
        assert_eq!(findings(vec![uses("relent-server", Kind::Normal)]).len(), 1);
        assert_eq!(findings(vec![uses("relent-cli", Kind::Normal)]).len(), 1);
        assert!(findings(vec![uses("relent-server", Kind::Dev)]).is_empty());
        assert!(findings(vec![uses("relent", Kind::Normal)]).is_empty());

        let mut optional = uses("relent-server", Kind::Normal);
        optional.dependencies[0].optional = true;
        assert!(findings(vec![optional]).is_empty());
    }

    #[test]
    fn a_second_tls_provider_is_found() {
        let package = |name| Package::sample_from_registry(name, None);
        assert!(findings(vec![package("ring")]).is_empty());
        assert_eq!(
            findings(vec![package("ring"), package("openssl")]),
            ["Cargo.lock: expected at most one TLS provider, got openssl, ring"]
        );
    }

    #[test]
    fn git_other_registries_and_outside_folders_are_found() {
        for source in [Some("git+https://example.com/x"), Some("registry+https://x.org"), None] {
            let mut package = Package::sample_from_registry("leftpad", None);
            package.source = source.map(str::to_owned);
            assert_eq!(findings(vec![package]).len(), 1, "{source:?}");
        }
    }

    #[test]
    fn a_ban_that_deny_toml_lacks_is_found() {
        assert_eq!(report(check, &Repo::sample(&[("deny.toml", "")], vec![])).len(), 3);
    }
}
