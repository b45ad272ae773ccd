//! What cargo knows: every package of the dependency graph, all features and platforms included.
//!
//! Only the fields the checks ask about are kept.

use std::{env, path::Path, process::Command};

use anyhow::{Context, Result, bail};
use serde_json::Value;

pub(crate) struct Metadata {
    pub(crate) packages: Vec<Package>,
}

pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    /// The SPDX expression.
    pub(crate) license: Option<String>,
    /// `None` for a package that lives in a folder.
    pub(crate) source: Option<String>,
    /// Relative to the workspace; `None` when the package lives outside it.
    pub(crate) folder: Option<String>,
    pub(crate) is_member: bool,
    /// As declared in the manifest, whether or not a feature switches them on.
    pub(crate) dependencies: Vec<Dependency>,
}

pub(crate) struct Dependency {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) optional: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Normal,
    Build,
    Dev,
}

impl Metadata {
    pub(crate) fn load(root: &Path) -> Result<Self> {
        let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let output = Command::new(cargo)
            .args(["metadata", "--format-version", "1", "--all-features", "--locked"])
            .current_dir(root)
            .output()
            .context("cannot start cargo metadata")?;
        if !output.status.success() {
            bail!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        let json = serde_json::from_slice(&output.stdout).context("cargo metadata: bad JSON")?;
        Self::parse(&json)
    }

    fn parse(json: &Value) -> Result<Self> {
        let root = text(json, "workspace_root")?;
        let members = list(json, "workspace_members")?;
        let packages = list(json, "packages")?
            .iter()
            .map(|package| Package::parse(package, root, members))
            .collect::<Result<_>>()?;
        Ok(Self { packages })
    }

    pub(crate) fn members(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|package| package.is_member)
    }

    pub(crate) fn member(&self, name: &str) -> Option<&Package> {
        self.members().find(|package| package.name == name)
    }
}

impl Package {
    fn parse(json: &Value, root: &str, members: &[Value]) -> Result<Self> {
        let folder = Path::new(text(json, "manifest_path")?)
            .strip_prefix(root)
            .ok()
            .and_then(Path::parent)
            .map(|path| path.to_string_lossy().replace('\\', "/"));
        let dependencies = list(json, "dependencies")?
            .iter()
            .map(|dependency| {
                Ok(Dependency {
                    name: text(dependency, "name")?.to_owned(),
                    kind: match dependency["kind"].as_str() {
                        Some("dev") => Kind::Dev,
                        Some("build") => Kind::Build,
                        _ => Kind::Normal,
                    },
                    optional: dependency["optional"].as_bool().unwrap_or(false),
                })
            })
            .collect::<Result<_>>()?;
        Ok(Self {
            name: text(json, "name")?.to_owned(),
            version: text(json, "version")?.to_owned(),
            license: json["license"].as_str().map(str::to_owned),
            source: json["source"].as_str().map(str::to_owned),
            folder,
            is_member: members.contains(&json["id"]),
            dependencies,
        })
    }

    /// What users of the package get along with it: all but dev-dependencies.
    pub(crate) fn shipped_dependencies(&self) -> impl Iterator<Item = &Dependency> {
        self.dependencies.iter().filter(|dependency| dependency.kind != Kind::Dev)
    }

    pub(crate) fn manifest(&self) -> String {
        format!("{}/Cargo.toml", self.folder.as_deref().unwrap_or(&self.name))
    }
}

fn text<'a>(json: &'a Value, key: &str) -> Result<&'a str> {
    json[key].as_str().with_context(|| format!("cargo metadata: expected a text `{key}`"))
}

fn list<'a>(json: &'a Value, key: &str) -> Result<&'a [Value]> {
    let list = json[key].as_array();
    list.map(Vec::as_slice).with_context(|| format!("cargo metadata: expected a list `{key}`"))
}

#[cfg(test)]
impl Package {
    pub(crate) fn sample_member(name: &str, dependencies: &[(&str, Kind)]) -> Self {
        Self {
            name: name.into(),
            version: "0.1.0".into(),
            license: Some("MIT".into()),
            source: None,
            folder: Some(format!("crates/{name}")),
            is_member: true,
            dependencies: dependencies
                .iter()
                .map(|(name, kind)| Dependency {
                    name: (*name).into(),
                    kind: *kind,
                    optional: false,
                })
                .collect(),
        }
    }

    pub(crate) fn sample_from_registry(name: &str, license: Option<&str>) -> Self {
        Self {
            name: name.into(),
            version: "1.0.0".into(),
            license: license.map(str::to_owned),
            source: Some("registry+https://github.com/rust-lang/crates.io-index".into()),
            folder: None,
            is_member: false,
            dependencies: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn members_kinds_and_folders_are_told_apart() {
        let metadata = Metadata::parse(&json!({
            "workspace_root": "/checkout",
            "workspace_members": ["a-id"],
            "packages": [
                {
                    "id": "a-id", "name": "a", "version": "0.1.0", "license": "MIT", "source": null,
                    "manifest_path": "/checkout/crates/a/Cargo.toml",
                    "dependencies": [
                        { "name": "b", "kind": null, "optional": true },
                        { "name": "c", "kind": "dev", "optional": false },
                    ],
                },
                {
                    "id": "b-id", "name": "b", "version": "1.0.0", "license": null, "source": "git+x",
                    "manifest_path": "/elsewhere/b/Cargo.toml", "dependencies": [],
                },
            ],
        }))
        .unwrap();

        let a = metadata.member("a").unwrap();
        assert_eq!(a.manifest(), "crates/a/Cargo.toml");
        let shipped: Vec<_> = a.shipped_dependencies().map(|it| it.name.as_str()).collect();
        assert_eq!(shipped, ["b"]);
        assert!(a.dependencies[0].optional);

        assert!(metadata.member("b").is_none());
        assert_eq!(metadata.packages[1].folder, None);
    }
}
