//! `relent sim replay`: recorded arrivals through other policies.
//!
//! The arrivals are what was; what would have become of them is simulated, in the world that a
//! scenario describes: its servers, its network and its trouble.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, anyhow, bail};
use relent_api::{Page, TaskDocument};
use relent_policy::Timestamp;
use relent_sim::{Load, Study, parse_trace};

use super::{input, summary};
use crate::Ended;
use crate::client::{self, Remote};
use crate::output;
use crate::times;

/// Run recorded arrivals through other policies
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A CSV file; the first column is when each operation began, in seconds
    #[arg(required_unless_present = "tasks", conflicts_with = "tasks")]
    trace: Option<PathBuf>,
    /// Take the arrivals from the tasks of a running server
    #[arg(long)]
    tasks: bool,
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    remote: Remote,
    /// The scenario with the servers and the trouble: a TOML file, or a name
    #[arg(long = "in", value_name = "SCENARIO")]
    scenario: String,
    #[command(flatten)]
    amount: input::Amount,
    /// Write a page with all pictures to this file
    #[arg(long, value_name = "FILE.html")]
    out: Option<PathBuf>,
    /// Write all figures as JSON, for machines
    #[arg(long)]
    json: bool,
}

/// Which tasks of a running server.
#[derive(Debug, clap::Args)]
struct Which {
    /// Only those that call this dependency
    #[arg(long, value_name = "NAME", requires = "tasks")]
    dependency: Option<String>,
    /// Only those created at this time or later
    #[arg(long, value_name = "TIME", value_parser = times::parse_time, requires = "tasks")]
    created_after: Option<Timestamp>,
    /// Only those created before this time
    #[arg(long, value_name = "TIME", value_parser = times::parse_time, requires = "tasks")]
    created_before: Option<Timestamp>,
}

impl Which {
    /// Under the names that the server gives them.
    fn pairs(&self) -> Vec<(&'static str, String)> {
        let millis = |at: Timestamp| at.as_millis().to_string();
        let pairs = [
            ("dependency", self.dependency.clone()),
            ("createdAfter", self.created_after.map(millis)),
            ("createdBefore", self.created_before.map(millis)),
        ];
        pairs.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }
}

/// When tasks of a running server were created, page by page.
async fn created(remote: &Remote, which: &Which) -> anyhow::Result<Vec<u64>> {
    let (client, mut at, mut cursor) = (remote.client()?, Vec::new(), None::<String>);
    loop {
        let mut query = which.pairs();
        query.extend(cursor.map(|cursor| ("cursor", cursor)));
        let page: Page<TaskDocument> = client.get(&["retry-tasks"], &query).await?.read()?;
        at.extend(page.items.iter().map(|task| task.created_at.saturating_mul(1_000_000)));
        cursor = page.next_cursor;
        if cursor.is_none() {
            at.sort_unstable();
            return Ok(at);
        }
    }
}

fn arrivals(args: &Args) -> anyhow::Result<Vec<u64>> {
    let Some(trace) = &args.trace else {
        let at = client::block_on(created(&args.remote, &args.which))?;
        if at.is_empty() {
            bail!("the server has no such tasks");
        }
        return Ok(at);
    };
    let path = trace.display();
    let text = fs::read_to_string(trace).with_context(|| format!("cannot read {path}"))?;
    parse_trace(&text).map_err(|why| anyhow!("{path} is no trace: {why}"))
}

pub(super) fn run(args: &Args) -> anyhow::Result<Ended> {
    let at = arrivals(args)?;
    let mut scenario = input::scenario(&args.scenario)?;
    // Recorded times may count from anything; the scenario's count from the first arrival.
    let first = at.first().copied().unwrap_or(0);
    let at: Vec<u64> = at.into_iter().map(|at| at - first).collect();
    if at.last().is_some_and(|last| *last >= scenario.horizon) {
        output::hint("what begins after the scenario's horizon is left out");
    }
    scenario.clients.load = Load::Trace { at };
    let study = args.amount.study(scenario, false)?;
    if study.results.len() < 2 {
        bail!("name at least two policies with --policy: the one in use, and the changed one");
    }
    if let Some(path) = &args.out {
        let page = study.html();
        fs::write(path, page).with_context(|| format!("cannot write {}", path.display()))?;
        output::note(format_args!("wrote {}", path.display()));
    }
    if args.json {
        output::document(&study.json())?;
    } else {
        output::line(summary::of(&study))?;
        output::line(difference(&study))?;
    }
    Ok(Ended::Fine)
}

/// Each policy against the first.
fn difference(study: &Study) -> String {
    let [first, others @ ..] = &study.results[..] else { return String::new() };
    let mut lines = vec![format!("against {}:", first.policy.id())];
    for other in others {
        let change = |of: fn(&relent_sim::Run) -> f64| {
            let (before, after) = (first.figure(of).mean, other.figure(of).mean);
            if before > 0.0 { (after / before - 1.0) * 100.0 } else { 0.0 }
        };
        let points = (other.figure(|run| run.success_ratio).mean
            - first.figure(|run| run.success_ratio).mean)
            * 100.0;
        lines.push(format!(
            "  {}: calls {:+.1} %, busiest second {:+.1} %, success {points:+.1} points",
            other.policy.id(),
            change(|run| run.sent[0] as f64),
            change(|run| run.peak_per_second as f64),
        ));
    }
    lines.join("\n")
}
