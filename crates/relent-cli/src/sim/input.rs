//! What is typed and what is meant: scenarios and policies by file or by name, and how much to run.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use anyhow::{Context as _, anyhow, bail};
use relent_policy::{Policy, PolicySpec, Timestamp};
use relent_sim::{Lanes, Plan, Scenario, Study, candidate, shipped};

use crate::progress;

/// How much to run.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Amount {
    /// A policy, instead of the scenario's own: a JSON or TOML file, or the name of a built-in one
    #[arg(long = "policy", value_name = "FILE|NAME")]
    pub(super) policies: Vec<String>,
    /// How many seeds to run each policy with
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub(super) seeds: u64,
    /// The first seed
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,
    /// How many clients, instead of the scenario's number
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=20_000_000))]
    pub(super) clients: Option<u32>,
    /// How many threads to run on; as many as there are processors if left out
    #[arg(long)]
    pub(super) threads: Option<usize>,
}

impl Amount {
    /// Runs a scenario, with a bar on a terminal.
    pub(super) fn study(&self, mut scenario: Scenario, sweeps: bool) -> anyhow::Result<Study> {
        if let Some(count) = self.clients {
            scenario.clients.count = count;
            let versioned = scenario.servers.iter().any(|server| server.versioned);
            let most = match scenario.clients.lanes {
                _ if versioned => 60_000,
                Lanes::PerClient => 1_000_000,
                Lanes::Shared => u32::MAX,
            };
            if count > most {
                bail!(
                    "--clients must be at most {most} in scenario `{}`, got {count}",
                    scenario.name
                );
            }
        }
        if !self.policies.is_empty() {
            let policies = self.policies.iter().map(|name| policy(name));
            scenario.policies = policies.collect::<anyhow::Result<Vec<_>>>()?;
            let ids: Vec<&str> = scenario.policies.iter().map(Policy::id).collect();
            if let Some(twice) = ids.iter().find(|id| ids.iter().filter(|it| it == id).count() > 1)
            {
                bail!("two of the policies are called `{twice}`; give each its own policyId");
            }
            // What was expected of the scenario's own policies is expected of these.
            scenario.expectations.policies.clear();
        }
        if scenario.policies.is_empty() {
            bail!(
                "scenario `{}` has no policies of its own; name some with --policy",
                scenario.name
            );
        }
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let plan = Plan {
            seeds: self.seeds,
            first_seed: self.seed,
            sweeps,
            threads: self.threads.unwrap_or(processors).clamp(1, 256),
        };
        let bar = progress::bar(Some(0), "simulating");
        let study = Study::run(&scenario, &scenario.policies, plan, &|done, total| {
            bar.set_length(total as u64);
            bar.set_position(done as u64);
        });
        bar.finish_and_clear();
        Ok(study)
    }
}

/// A scenario by its file, or by its name if it comes with relent.
pub(super) fn scenario(name: &str) -> anyhow::Result<Scenario> {
    let path = Path::new(name);
    let text = if path.exists() {
        fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?
    } else {
        known(name)?.to_owned()
    };
    let beside = |file: &str| {
        let path: PathBuf = path.parent().unwrap_or(Path::new("")).join(file);
        fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
    };
    Scenario::parse(&text, &beside).map_err(|bad| anyhow!("{name}: {bad}"))
}

/// The text of a scenario that comes with relent.
pub(super) fn known(name: &str) -> anyhow::Result<&'static str> {
    if let Some(known) = shipped().iter().find(|known| known.name == name) {
        return Ok(known.text);
    }
    let near = shipped().iter().map(|known| (strsim::osa_distance(known.name, name), known.name));
    match near.min().filter(|(distance, known)| distance * 3 <= known.len()) {
        Some((_, meant)) => {
            bail!("there is no file and no scenario called {name}; did you mean `{meant}`?")
        }
        None => bail!(
            "there is no file and no scenario called {name}; `relent sim list` lists those there are"
        ),
    }
}

/// A policy by its file, or by its name if it is built in.
fn policy(name: &str) -> anyhow::Result<Policy> {
    if Path::new(name).exists() {
        let document = crate::policy::read(Path::new(name))?;
        return candidate(&document).map_err(|rejected| anyhow!("{name}: {rejected}"));
    }
    let preset = PolicySpec::presets().into_iter().find(|preset| preset.policy_id == name);
    match preset {
        Some(preset) => preset.build(Timestamp::ZERO).map_err(Into::into),
        None => bail!("there is no file {name} and no built-in policy {name}"),
    }
}
