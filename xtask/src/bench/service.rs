//! The service as a child process, and what the system says about it.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use super::Bench;

/// A directory for a service's data, deleted in the end. It is beside the binary unless somebody says
/// otherwise, as temporary directories may be in memory.
#[derive(Debug)]
pub(super) struct DataDirectory(PathBuf);

impl DataDirectory {
    pub(super) fn new(bench: &Bench<'_>) -> Result<DataDirectory> {
        DataDirectory::named(bench, "data")
    }

    /// One of several at a time.
    pub(super) fn named(bench: &Bench<'_>, name: &str) -> Result<DataDirectory> {
        let name = format!("bench-{name}-{}", std::process::id());
        let path = match &bench.options.data {
            Some(directory) => directory.join(name),
            None => std::env::current_exe().context("cannot find myself")?.with_file_name(name),
        };
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(DataDirectory(path))
    }

    /// How long the disk takes to keep 64 KiB for good, as often as it is asked; sorted, in
    /// milliseconds.
    pub(super) fn flushes(&self) -> Result<Vec<f64>> {
        const FLUSHES: u64 = 200;
        let (block, path) = (vec![1; 64 << 10], self.0.join("flushed"));
        let file = fs::File::create(&path)?;
        for index in 0..FLUSHES {
            file.write_all_at(&block, index * block.len() as u64)?;
        }
        file.sync_all()?;
        let mut flushes = Vec::new();
        for index in 0..FLUSHES {
            file.write_all_at(&block, index * block.len() as u64)?;
            let started_at = Instant::now();
            file.sync_data()?;
            flushes.push(started_at.elapsed().as_secs_f64() * 1e3);
        }
        fs::remove_file(path)?;
        flushes.sort_unstable_by(f64::total_cmp);
        Ok(flushes)
    }

    /// Everything in it, in bytes.
    pub(super) fn bytes(&self) -> Result<u64> {
        let mut bytes = 0;
        for entry in fs::read_dir(&self.0)? {
            bytes += entry?.metadata()?.len();
        }
        Ok(bytes)
    }
}

impl Drop for DataDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A running service; killed when it is dropped.
#[derive(Debug)]
pub(super) struct Service {
    child: Child,
    pub(super) address: SocketAddr,
    /// When the process was started.
    pub(super) spawned_at: Instant,
    /// When it said that it listens.
    pub(super) ready_at: Instant,
}

/// What of a service is in memory, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Memory {
    pub(super) resident: f64,
    /// Shared pages counted in part.
    pub(super) proportional: f64,
    /// Not backed by a file.
    pub(super) anonymous: f64,
}

impl Service {
    pub(super) fn start(bench: &Bench<'_>, data: &DataDirectory) -> Result<Service> {
        Service::on(bench.binary, &bench.options.store, &data.0)
    }

    /// On a store, with what else it keeps in a directory.
    pub(super) fn on(binary: &Path, store: &str, data: &Path) -> Result<Service> {
        let spawned_at = Instant::now();
        let mut child = Command::new(binary)
            .args(["serve", "--listen", "127.0.0.1:0", "--store", store])
            .arg("--data")
            .arg(data)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot start {}", binary.display()))?;
        let stdout = child.stdout.take().context("no output")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        let ready_at = Instant::now();
        let address =
            line.trim().strip_prefix("listening on http://").and_then(|at| at.parse().ok());
        let Some(address) = address else {
            let _ = child.kill();
            bail!("the service did not start; it said `{}`", line.trim());
        };
        Ok(Service { child, address, spawned_at, ready_at })
    }

    /// CPU time that its threads have used, in seconds.
    pub(super) fn cpu_seconds(&self) -> Result<f64> {
        cpu_seconds(&self.child.id().to_string())
    }

    pub(super) fn memory(&self) -> Result<Memory> {
        let text = fs::read_to_string(format!("/proc/{}/smaps_rollup", self.child.id()))?;
        let bytes = |name: &str| -> f64 {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse().ok());
            kib.map_or(0.0, |kib: f64| kib * 1_024.0)
        };
        Ok(Memory {
            resident: bytes("Rss:"),
            proportional: bytes("Pss:"),
            anonymous: bytes("Anonymous:"),
        })
    }

    /// SIGTERM, and waits for its end.
    pub(super) async fn stop(mut self) -> Result<()> {
        let pid = self.child.id().to_string();
        if !Command::new("kill").args(["-TERM", &pid]).status()?.success() {
            bail!("cannot send SIGTERM");
        }
        let asked_at = Instant::now();
        while self.child.try_wait()?.is_none() {
            if asked_at.elapsed() > Duration::from_secs(60) {
                bail!("the service did not stop within a minute");
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// CPU time of this process: the load generator and the sink.
pub(super) fn own_cpu_seconds() -> Result<f64> {
    cpu_seconds("self")
}

/// CPU time of this process's threads of a name.
pub(super) fn own_cpu_seconds_of(thread: &str) -> Result<f64> {
    let mut seconds = 0.0;
    for entry in fs::read_dir("/proc/self/task")? {
        let path = entry?.path();
        let name = fs::read_to_string(path.join("comm")).unwrap_or_default();
        if name.trim() == thread {
            seconds += ticks_as_seconds(&path.join("stat"), 11)?;
        }
    }
    Ok(seconds)
}

/// CPU time of a process, in seconds.
pub(super) fn cpu_seconds(pid: &str) -> Result<f64> {
    ticks_as_seconds(&Path::new("/proc").join(pid).join("stat"), 11)
}

/// CPU time of those that a process has started and that have ended, in seconds.
pub(super) fn cpu_seconds_of_ended(pid: &str) -> Result<f64> {
    ticks_as_seconds(&Path::new("/proc").join(pid).join("stat"), 13)
}

/// User and system time, which stand one after the other in the fields after the name in brackets;
/// that one may have spaces. The kernel counts in ticks of 10 ms, the same on every usual Linux.
fn ticks_as_seconds(path: &Path, field: usize) -> Result<f64> {
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let fields = stat.rsplit_once(") ").map(|(_, fields)| fields.split(' ')).context("stat")?;
    let ticks = fields.skip(field).take(2).filter_map(|ticks| ticks.parse::<f64>().ok());
    Ok(ticks.sum::<f64>() / TICKS_PER_SECOND)
}
