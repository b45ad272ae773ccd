//! Other programs: finding them, starting them so that they end with this one, and their time.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

/// A program's command, in the background: it gets this signal when this process dies, however that
/// comes about. `user`: as whom, if not as who this is.
pub(super) fn background(program: &Path, signal: &str, user: Option<&str>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", signal]);
    if let Some(user) = user {
        command.args(["--reuid", user, "--regid", user, "--clear-groups"]);
    }
    command.arg("--").arg(program).stdin(Stdio::null());
    command
}

/// What a command says, without the line's end. What it complains about is the error.
pub(super) fn output(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("cannot run {name}"))?;
    if !output.status.success() {
        bail!("{name}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
}

/// Where a program is that the PATH has.
pub(super) fn find(program: &str, package: &str) -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(program));
    found
        .into_iter()
        .find(|file| file.is_file())
        .with_context(|| format!("there is no {program}; apt-get install {package}"))
}

/// A port that is free at this moment.
pub(super) fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// Asks until the answer is yes.
pub(super) fn wait_until(what: &str, is_so: impl Fn() -> bool) -> Result<()> {
    let asked_at = Instant::now();
    while !is_so() {
        if asked_at.elapsed() > Duration::from_secs(60) {
            bail!("{what} took more than a minute");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// The processes that a process has started.
pub(super) fn children(pid: u32) -> Result<Vec<u32>> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let text = std::fs::read_to_string(&path).with_context(|| path.clone())?;
    Ok(text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect())
}
