//! The command line: what it prints where, and how it ends.
//!
//! Golden files are what the commands print; `RELENT_BLESS=1 cargo test -p relent-cli --test it cli`
//! writes them anew.

mod dead_letters;
mod lanes;
mod offline;
mod policies;
mod serving;
mod simulating;
mod tasks;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use crate::rig::{Relent, soon};

/// How a command ended, and what it said.
#[derive(Debug)]
pub(crate) struct Ran {
    code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    /// What it printed, when it ended as it should.
    #[track_caller]
    pub(crate) fn exit(self, code: i32) -> Ran {
        assert_eq!(self.code, code, "{self:?}");
        self
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }

    /// How wide columns are does not matter.
    #[track_caller]
    pub(crate) fn says(self, text: &str) -> Ran {
        let said = [&self.stdout, &self.stderr].map(|said| narrow(said)).concat();
        assert!(
            said.contains(&narrow(text)),
            "{text:?} is not in\n{}\n{}",
            self.stdout,
            self.stderr
        );
        self
    }
}

fn narrow(text: &str) -> String {
    let lines =
        text.split('\n').map(|line| line.split_ascii_whitespace().collect::<Vec<_>>().join(" "));
    lines.collect::<Vec<_>>().join("\n")
}

/// Runs a command that needs no server.
pub(crate) async fn run(arguments: &[&str]) -> Ran {
    run_with(arguments, &[], "").await
}

/// Runs a command against a server.
async fn run_on(relent: &Relent, arguments: &[&str]) -> Ran {
    feed_on(relent, arguments, "").await
}

/// Runs a command against a server, with something on stdin.
async fn feed_on(relent: &Relent, arguments: &[&str], stdin: &str) -> Ran {
    run_with(arguments, &[("RELENT_URL", &format!("http://{}", relent.address))], stdin).await
}

async fn run_with(arguments: &[&str], env: &[(&str, &str)], stdin: &str) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_relent"));
    command.args(arguments).env_remove("RELENT_LOG").env_remove("RELENT_URL");
    command.envs(env.iter().copied()).current_dir(env!("CARGO_MANIFEST_DIR"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.kill_on_drop(true).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    // A command that reads nothing may have ended already.
    let _ = input.write_all(stdin.as_bytes()).await;
    drop(input);
    let output = soon("the command has ended", child.wait_with_output()).await.unwrap();
    Ran {
        code: output.status.code().unwrap(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Compares with what was printed before.
#[track_caller]
fn assert_golden(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/cli/golden").join(name);
    if std::env::var_os("RELENT_BLESS").is_some() {
        fs::write(&path, text).unwrap();
    }
    let golden = fs::read_to_string(&path).unwrap_or_default();
    assert!(golden == text, "{name} is not what is printed now:\n{text}");
}

/// A file for a command to read.
fn file(directory: &tempfile::TempDir, name: &str, text: &str) -> String {
    let path: PathBuf = directory.path().join(name);
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}
