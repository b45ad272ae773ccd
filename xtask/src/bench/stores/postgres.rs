//! A PostgreSQL of one's own: found where `./test` finds it, started for one measurement.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, bail};

use super::process::{background, children, find, free_port, output, wait_until};
use super::server::{Counting, Work};
use crate::bench::service::{cpu_seconds, cpu_seconds_of_ended};

/// Beside its defaults: room for what is measured in memory and in the log, so that no checkpoint
/// falls into one measurement and not into another.
const SETTINGS: [&str; 5] = [
    "listen_addresses=127.0.0.1",
    "unix_socket_directories=",
    "max_connections=200",
    "shared_buffers=256MB",
    "max_wal_size=4GB",
];

/// A running server; killed when it is dropped.
#[derive(Debug)]
pub(super) struct Postgres {
    child: Child,
    programs: PathBuf,
    port: u16,
}

impl Postgres {
    pub(super) fn start(directory: &Path, counting: Counting) -> Result<Postgres> {
        let programs = programs()?;
        let user = (output(Command::new("id").arg("-u"))? == "0").then_some("postgres");
        let data = directory.join("postgres");
        fs::create_dir_all(&data)?;
        if let Some(user) = user {
            output(Command::new("chown").arg(user).arg(&data))?;
        }
        let mut initdb = background(&programs.join("initdb"), "KILL", user);
        initdb.current_dir(&data).arg("--pgdata").arg(&data);
        initdb.args(["--username=relent", "--auth=trust", "--no-sync"]);
        output(initdb.args(["--encoding=UTF8", "--locale=C"])).context("initdb")?;

        let port = free_port()?;
        let log = fs::File::create(directory.join("postgres.log"))?;
        let mut postgres = background(&programs.join("postgres"), "QUIT", user);
        postgres.current_dir(&data).arg("-D").arg(&data).args(["-p", &port.to_string()]);
        for setting in SETTINGS {
            postgres.args(["-c", setting]);
        }
        if counting == Counting::Statements {
            postgres.args(["-c", "shared_preload_libraries=pg_stat_statements"]);
        }
        let child = postgres.stdout(Stdio::null()).stderr(log).spawn().context("postgres")?;
        let server = Postgres { child, programs, port };
        wait_until("the start of PostgreSQL", || server.query("SELECT 1").is_ok())?;
        if counting == Counting::Statements {
            server.query("CREATE EXTENSION pg_stat_statements")?;
        }
        Ok(server)
    }

    pub(super) fn url(&self) -> String {
        format!("postgres://relent@127.0.0.1:{}/postgres", self.port)
    }

    pub(super) fn version(&self) -> Result<String> {
        self.query("SHOW server_version")
    }

    /// What a statement answers, without headings.
    pub(super) fn query(&self, sql: &str) -> Result<String> {
        output(self.client().args(["--no-align", "--tuples-only", "--command", sql]))
    }

    /// A client's command.
    pub(super) fn client(&self) -> Command {
        let mut client = Command::new(self.programs.join("psql"));
        client.args(["--no-psqlrc", "--quiet", "--host=127.0.0.1", "--username=relent"]);
        client.args(["--port", &self.port.to_string(), "postgres"]);
        client
    }

    /// A number that a statement answers.
    pub(super) fn number(&self, sql: &str) -> Result<f64> {
        let answer = self.query(sql)?;
        answer.parse().with_context(|| format!("expected a number from `{sql}`, got `{answer}`"))
    }

    /// Of all its processes, those that have ended included.
    pub(super) fn cpu_seconds(&self) -> Result<f64> {
        let pid = self.child.id();
        let mut seconds = cpu_seconds_of_ended(&pid.to_string())?;
        for pid in children(pid)?.into_iter().chain([pid]) {
            // One that ends this moment is counted with those that have.
            seconds += cpu_seconds(&pid.to_string()).unwrap_or(0.0);
        }
        Ok(seconds)
    }

    pub(super) fn work(&self) -> Result<Work> {
        // Counts of sessions that are idle are written down after a second.
        let calls = "SELECT coalesce(sum(calls), 0) FROM pg_stat_statements";
        let transactions =
            "SELECT sum(xact_commit) FROM pg_stat_database WHERE datname = 'postgres'";
        Ok(Work { sent: self.number(calls)?, done: self.number(transactions)? })
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // At once, but not by SIGKILL, which would leave shared memory behind.
        let pid = self.child.id().to_string();
        if !Command::new("kill").args(["-QUIT", &pid]).status().is_ok_and(|it| it.success()) {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

/// The programs of the newest version, which Debian keeps out of the PATH.
fn programs() -> Result<PathBuf> {
    let mut newest: Option<(u32, PathBuf)> = None;
    for entry in fs::read_dir("/usr/lib/postgresql").into_iter().flatten() {
        let entry = entry?;
        let version = entry.file_name().to_string_lossy().parse().unwrap_or(0);
        let programs = entry.path().join("bin");
        let is_newer = newest.as_ref().is_none_or(|(known, _)| version > *known);
        if programs.join("initdb").exists() && is_newer {
            newest = Some((version, programs));
        }
    }
    if let Some((_, programs)) = newest {
        return Ok(programs);
    }
    match find("initdb", "postgresql")?.parent() {
        Some(programs) => Ok(programs.to_owned()),
        None => bail!("initdb is in no folder"),
    }
}
