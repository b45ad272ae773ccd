//! `cargo xtask bench`: measures the service as its users meet it.
//!
//! The real binary, built in release, runs as a process of its own on a fresh directory. Load comes
//! from here over HTTP, and what it delivers arrives at a sink in here. Both are as cheap as they can
//! be made, because they share the machine with what they measure: requests are formatted before the
//! clock starts, and of an answer only its status and its length are read.
//!
//! Every scenario runs several times; the table has the median of the runs and their range.

mod delivery;
mod figures;
mod http;
mod intake;
mod lateness;
mod neighbour;
mod options;
mod requests;
mod service;
mod sink;
mod stores;
mod waiting;

use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use figures::{Aim, Figures, quantile};
use options::{Options, Scenario};
use service::DataDirectory;

/// Chosen scenarios, one after the other.
pub(crate) fn run(args: &[&str]) -> Result<ExitCode> {
    if let ["stores", args @ ..] = args {
        return stores::run(args);
    }
    let options = Options::read(args)?;
    if cfg!(debug_assertions) {
        return run_optimised(args);
    }
    let binary = match &options.binary {
        Some(binary) => binary.clone(),
        None => build()?,
    };
    let mut figures = Figures::default();
    for scenario in &options.scenarios {
        for run in 1..=options.runs {
            eprintln!("{scenario} (run {run} of {})", options.runs);
            let bench = Bench { binary: &binary, options: &options };
            bench.measure_machine(&mut figures)?;
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let measured = runtime.block_on(bench.measure(*scenario, &mut figures));
            measured.with_context(|| format!("{scenario}, run {run}"))?;
        }
    }
    print!("{}", figures.table());
    if let Some(file) = &options.json {
        std::fs::write(file, figures.json())
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What a scenario needs to know.
struct Bench<'b> {
    binary: &'b PathBuf,
    options: &'b Options,
}

impl Bench<'_> {
    /// What waits for a durable commit can be no faster than the disk was at the time, and nothing
    /// is more on time than a thread that only sleeps.
    fn measure_machine(&self, figures: &mut Figures) -> Result<()> {
        let flushes = DataDirectory::new(self)?.flushes()?;
        figures.add("disk", "flush of 64 KiB, p50", quantile(&flushes, 0.5), "ms", Aim::None);
        figures.add("disk", "flush of 64 KiB, p99", quantile(&flushes, 0.99), "ms", Aim::None);
        let wakes = late_wakes();
        for (what, share) in [("p50", 0.5), ("p99", 0.99), ("latest", 1.0)] {
            let late = quantile(&wakes, share);
            figures.add("machine", format!("a sleeper wakes late, {what}"), late, "ms", Aim::None);
        }
        Ok(())
    }

    async fn measure(&self, scenario: Scenario, figures: &mut Figures) -> Result<()> {
        match scenario {
            Scenario::Enqueue => intake::enqueue(self, figures).await,
            Scenario::Batch => intake::batch(self, figures).await,
            Scenario::EndToEnd => delivery::end_to_end(self, figures).await,
            Scenario::Lateness => lateness::lateness(self, figures).await,
            Scenario::Waiting => waiting::waiting(self, figures).await,
            Scenario::Restart => waiting::restart(self, figures).await,
            Scenario::Neighbour => neighbour::neighbour(self, figures).await,
        }
    }
}

/// How late a thread wakes that wants to every 2 ms; sorted, in milliseconds.
fn late_wakes() -> Vec<f64> {
    const WAKES: u32 = 1_000;
    let started_at = Instant::now();
    let mut late = Vec::new();
    for wake in 1..=WAKES {
        let at = started_at + wake * Duration::from_millis(2);
        std::thread::sleep(at.saturating_duration_since(Instant::now()));
        late.push(at.elapsed().as_secs_f64() * 1e3);
    }
    late.sort_unstable_by(f64::total_cmp);
    late
}

/// A load generator without optimisation would measure itself.
fn run_optimised(args: &[&str]) -> Result<ExitCode> {
    let cargo = ["run", "--quiet", "--release", "--package", "xtask", "--", "bench"];
    let status = Command::new("cargo").args(cargo).args(args).status().context("cargo")?;
    Ok(status.code().map_or(ExitCode::from(2), |code| u8::try_from(code).unwrap_or(2).into()))
}

fn build() -> Result<PathBuf> {
    eprintln!("building relent");
    let cargo = ["build", "--quiet", "--release", "--package", "relent-cli", "--bin", "relent"];
    if !Command::new("cargo").args(cargo).status().context("cargo")?.success() {
        bail!("relent does not build");
    }
    let own = std::env::current_exe().context("cannot find myself")?;
    Ok(own.with_file_name("relent"))
}
