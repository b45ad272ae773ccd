//! A Redis of one's own, with an append-only file that is flushed every second.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result};

use super::process::{background, find, free_port, output, wait_until};
use super::server::Work;
use crate::bench::service::{cpu_seconds, cpu_seconds_of_ended};

const SETTINGS: [&str; 10] = [
    "--bind",
    "127.0.0.1",
    "--appendonly",
    "yes",
    "--appendfsync",
    "everysec",
    "--save",
    "",
    "--maxmemory-policy",
    "noeviction",
];

/// A running server; killed when it is dropped.
#[derive(Debug)]
pub(super) struct Redis {
    child: Child,
    client: PathBuf,
    port: u16,
}

impl Redis {
    pub(super) fn start(directory: &Path) -> Result<Redis> {
        let (program, client) =
            (find("redis-server", "redis-server")?, find("redis-cli", "redis-tools")?);
        let port = free_port()?;
        let mut redis = background(&program, "KILL", None);
        redis.args(["--port", &port.to_string(), "--dir"]).arg(directory).args(SETTINGS);
        let child = redis.stdout(Stdio::null()).spawn().context("redis-server")?;
        let server = Redis { child, client, port };
        let is_there = || server.ask(&["PING"]).is_ok_and(|answer| answer == "PONG");
        wait_until("the start of Redis", is_there)?;
        Ok(server)
    }

    pub(super) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub(super) fn version(&self) -> Result<String> {
        let info = self.ask(&["INFO", "server"])?;
        Ok(field(&info, "redis_version:").unwrap_or("of an unknown version").to_owned())
    }

    /// What a command answers.
    pub(super) fn ask(&self, command: &[&str]) -> Result<String> {
        output(Command::new(&self.client).args(["-p", &self.port.to_string()]).args(command))
    }

    pub(super) fn cpu_seconds(&self) -> Result<f64> {
        let pid = self.child.id().to_string();
        Ok(cpu_seconds(&pid)? + cpu_seconds_of_ended(&pid)?)
    }

    /// Commands that were sent, and all that were done, also within scripts.
    pub(super) fn work(&self) -> Result<Work> {
        let info = self.ask(&["INFO", "commandstats"])?;
        let calls = |is_meant: fn(&str) -> bool| -> f64 {
            let lines = info.lines().filter_map(|line| line.trim().strip_prefix("cmdstat_"));
            let counts = lines.filter_map(|line| {
                let (name, rest) = line.split_once(":calls=")?;
                is_meant(name).then(|| rest.split(',').next()?.parse::<f64>().ok()).flatten()
            });
            counts.sum()
        };
        let scripts = calls(|name| matches!(name, "eval" | "evalsha" | "fcall"));
        Ok(Work { sent: scripts, done: calls(|_| true) })
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn field<'i>(info: &'i str, name: &str) -> Option<&'i str> {
    info.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}
