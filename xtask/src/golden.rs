//! Files that are worked out, kept in the repository, and compared with what is worked out today.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};

/// What to do about files that are not what they should be.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Check,
    Bless,
}

/// Says which of the files in `folder` (from the root) are stale, or writes them anew.
pub(crate) fn settle(folder: &str, files: Vec<(String, String)>, mode: Mode) -> Result<ExitCode> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder);
    let mut stale = 0;
    for (name, text) in files {
        let path = folder.join(&name);
        if fs::read_to_string(&path).is_ok_and(|old| old == text) {
            continue;
        }
        stale += 1;
        match mode {
            Mode::Check => println!("{name} is not what the engine says"),
            Mode::Bless => {
                let parent = path.parent().context("a golden file has a folder")?;
                fs::create_dir_all(parent)?;
                fs::write(&path, text).with_context(|| format!("cannot write {name}"))?;
                println!("wrote {name}");
            }
        }
    }
    let clean = stale == 0 || mode == Mode::Bless;
    Ok(if clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
