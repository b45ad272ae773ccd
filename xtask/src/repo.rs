//! The repository as the checks see it: its files, their text, and what cargo knows about it.
//!
//! Files are read once, up front, so that a check is a plain function from text to findings and
//! its tests can hand it an invented repository. Files that are not UTF-8 have a path but no text.

use std::{
    cell::OnceCell,
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};

use crate::metadata::Metadata;

pub(crate) struct Repo {
    root: PathBuf,
    paths: BTreeSet<String>,
    texts: Vec<TextFile>,
    metadata: OnceCell<Metadata>,
}

/// A file that can be read as text; `path` is relative to the root, with forward slashes.
pub(crate) struct TextFile {
    pub(crate) path: String,
    pub(crate) text: String,
}

impl Repo {
    pub(crate) fn load() -> Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"))
            .parent()
            .context("xtask has no parent folder")?
            .to_path_buf();
        let paths = match git_files(&root) {
            Some(paths) => paths,
            None => walk(&root)?,
        };
        let mut texts = Vec::new();
        for path in &paths {
            let bytes = fs::read(root.join(path)).with_context(|| format!("cannot read {path}"))?;
            if let Ok(text) = String::from_utf8(bytes) {
                texts.push(TextFile { path: path.clone(), text });
            }
        }
        Ok(Self { root, paths, texts, metadata: OnceCell::new() })
    }

    /// Asked for late, because only some checks need cargo to run.
    pub(crate) fn metadata(&self) -> Result<&Metadata> {
        if let Some(metadata) = self.metadata.get() {
            return Ok(metadata);
        }
        let metadata = Metadata::load(&self.root)?;
        Ok(self.metadata.get_or_init(|| metadata))
    }

    pub(crate) fn paths(&self) -> &BTreeSet<String> {
        &self.paths
    }

    pub(crate) fn texts(&self) -> &[TextFile] {
        &self.texts
    }

    pub(crate) fn text(&self, path: &str) -> Option<&TextFile> {
        self.texts.iter().find(|file| file.path == path)
    }

    pub(crate) fn with_extension<'a>(
        &'a self,
        extensions: &'a [&str],
    ) -> impl Iterator<Item = &'a TextFile> {
        self.texts.iter().filter(|file| extensions.contains(&file.extension()))
    }
}

impl TextFile {
    pub(crate) fn extension(&self) -> &str {
        Path::new(&self.path).extension().and_then(|it| it.to_str()).unwrap_or_default()
    }

    /// Lines with their numbers, counted from 1.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.text.lines())
    }

    /// The number of the first line that contains `needle`.
    pub(crate) fn line_of(&self, needle: &str) -> Option<usize> {
        self.lines().find(|(_, line)| line.contains(needle)).map(|(number, _)| number)
    }
}

/// Tracked files and new ones that are not ignored; `None` where there is no git or no checkout,
/// as in an unpacked source archive.
fn git_files(root: &Path) -> Option<BTreeSet<String>> {
    if !root.join(".git").exists() {
        return None;
    }
    let output = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let listing = String::from_utf8(output.stdout).ok()?;
    let exists = |path: &&str| !path.is_empty() && root.join(path).is_file();
    Some(listing.split('\0').filter(exists).map(str::to_owned).collect())
}

fn walk(root: &Path) -> Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        for entry in
            fs::read_dir(root.join(&folder)).with_context(|| format!("reading {folder}"))?
        {
            let entry = entry?;
            let Some(name) = entry.file_name().to_str().map(str::to_owned) else { continue };
            let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
            if path == "target" || path == ".git" {
                continue;
            }
            let kind = entry.file_type()?;
            if kind.is_dir() {
                folders.push(path);
            } else if kind.is_file() {
                found.insert(path);
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
impl Repo {
    /// An invented repository of these files, whose workspace has these packages.
    pub(crate) fn sample(files: &[(&str, &str)], packages: Vec<crate::metadata::Package>) -> Self {
        Self {
            root: PathBuf::new(),
            paths: files.iter().map(|(path, _)| (*path).to_owned()).collect(),
            texts: files
                .iter()
                .map(|(path, text)| TextFile { path: (*path).into(), text: (*text).into() })
                .collect(),
            metadata: OnceCell::from(Metadata { packages }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_contains_this_very_file() {
        let repo = Repo::load().unwrap();
        let this = repo.text("xtask/src/repo.rs").unwrap();
        assert_eq!(this.extension(), "rs");
        assert_eq!(this.line_of("//! The repository as the checks see it"), Some(1));
    }

    #[test]
    fn without_git_the_walk_finds_the_sources_and_skips_the_build() {
        let repo = Repo::load().unwrap();
        let walked = walk(&repo.root).unwrap();
        assert!(walked.contains("xtask/src/repo.rs"));
        assert!(!walked.iter().any(|path| path.starts_with("target/")));
        assert!(!walked.iter().any(|path| path.starts_with(".git/")));
    }
}
