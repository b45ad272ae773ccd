//! `relent policy preview`: how long a policy waits before each attempt, by rolling it many times.
//! REQ-B5, REQ-L2.
//!
//! The rolls go through the decision itself, against a dependency that answers 503 for ever, so that
//! deadlines and limits count as they do in earnest. Attempts take no time here.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail};
use relent_api::PolicyDocument;
use relent_policy::{
    Decision, GiveUpReason, History, Outcome, Policy, PolicySpec, Repeatable, Timestamp,
};
use relent_policy::{Ungated, decide, roll};
use serde::Serialize;

use super::draw;
use crate::Ended;
use crate::client::Remote;
use crate::output::{self, Format};
use crate::times;

/// The picture says it too.
const TASKS: u64 = 10_000;
pub(super) const BINS: usize = 24;

/// Draw how long a policy waits before each attempt
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A JSON or TOML file, or the id of a policy
    policy: String,
    /// The same seed gives the same picture
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    format: Format,
    #[command(flatten)]
    remote: Remote,
}

/// What the rolls came to.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Preview {
    pub(super) policy_id: String,
    pub(super) seed: u64,
    pub(super) tasks: u64,
    /// From the second on; the first is made at once.
    pub(super) attempts: Vec<Preceded>,
    /// Until a task is given up.
    pub(super) total_ms: Spread,
    /// Why tasks were given up, most frequent first.
    pub(super) ended_because: Vec<(&'static str, u64)>,
}

/// An attempt and the wait before it.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Preceded {
    pub(super) attempt: u32,
    /// How many tasks got so far.
    pub(super) tasks: u64,
    pub(super) wait_ms: Spread,
    /// How many waits were how long, in equal steps from 0 to the longest.
    pub(super) histogram: [u64; BINS],
    /// Since the task was created.
    pub(super) elapsed_ms: Spread,
}

/// How many of something are below what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Spread {
    pub(super) min: f64,
    pub(super) p5: f64,
    pub(super) median: f64,
    pub(super) p95: f64,
    pub(super) max: f64,
}

pub(super) async fn run(args: &Args) -> anyhow::Result<Ended> {
    let policy = find(args).await?;
    let preview = Preview::of(&policy, args.seed);
    if args.format.json {
        output::document(&serde_json::to_string_pretty(&preview)?)?;
    } else {
        output::line(draw::picture(&policy, &preview))?;
    }
    Ok(Ended::Fine)
}

/// A file if there is one; or else a policy that comes with relent; or else the server's.
async fn find(args: &Args) -> anyhow::Result<Policy> {
    let (file, now) = (Path::new(&args.policy), times::now());
    if file.exists() || args.policy == "-" {
        let document = super::read(file)?;
        return Policy::from_document(&document, now).map_err(Into::into);
    }
    if args.policy.ends_with(".json") || args.policy.ends_with(".toml") {
        bail!("there is no file {}", args.policy);
    }
    let preset = PolicySpec::presets().into_iter().find(|preset| preset.policy_id == args.policy);
    if let Some(preset) = preset {
        return preset.build(now).map_err(Into::into);
    }
    let answer = args.remote.client()?.get(&["retry-policies", &args.policy], &[]).await;
    let answer = answer
        .with_context(|| format!("there is no file {0} and no built-in policy {0}", args.policy))?;
    let document: PolicyDocument = answer.read()?;
    // As of the day it was registered, like the server does: a waiver may have expired since.
    let created_at = Timestamp::from_millis(document.created_at);
    document.policy.build(created_at).map_err(Into::into)
}

impl Preview {
    pub(super) fn of(policy: &Policy, seed: u64) -> Preview {
        let retries = usize::try_from(policy.max_attempts().saturating_sub(1)).unwrap_or(0);
        let (mut waits, mut elapsed) = (vec![Vec::new(); retries], vec![Vec::new(); retries]);
        let (mut totals, mut endings) = (Vec::new(), Vec::<(GiveUpReason, u64)>::new());
        for task in 0..TASKS {
            let (total, because) = follow(policy, seed, task, |index, wait, since| {
                waits[index].push(wait);
                elapsed[index].push(since);
            });
            totals.push(total);
            match endings.iter_mut().find(|(reason, _)| *reason == because) {
                Some((_, count)) => *count += 1,
                None => endings.push((because, 1)),
            }
        }
        endings.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let reached = waits.into_iter().zip(elapsed).filter(|(waits, _)| !waits.is_empty());
        Preview {
            policy_id: policy.id().to_owned(),
            seed,
            tasks: TASKS,
            attempts: reached
                .zip(2..)
                .map(|((waits, since), attempt)| Preceded::of(attempt, waits, since))
                .collect(),
            total_ms: Spread::of(totals),
            ended_because: endings.iter().map(|(reason, count)| (reason.name(), *count)).collect(),
        }
    }
}

/// One task to its end: tells each wait, and how long it took and why it ended.
fn follow(
    policy: &Policy,
    seed: u64,
    task: u64,
    mut tell: impl FnMut(usize, Duration, Duration),
) -> (Duration, GiveUpReason) {
    let started_at = Timestamp::from_secs(1_000_000_000);
    let (mut now, mut index) = (started_at, 0);
    let mut history = History::start(started_at, Repeatable::ByKey).begin_attempt();
    loop {
        let roll = roll::for_attempt(seed, task, history.attempts());
        match decide(policy, &history, &Outcome::http(503), &mut Ungated, now, roll) {
            Decision::RetryAt { at, charge, .. } => {
                tell(index, at.saturating_since(now), at.saturating_since(started_at));
                history = history.charged(charge).begin_attempt();
                (now, index) = (at, index + 1);
            }
            Decision::GiveUp { because } => return (now.saturating_since(started_at), because),
            // A 503 never succeeds.
            Decision::Done => return (now.saturating_since(started_at), GiveUpReason::Permanent),
        }
    }
}

impl Preceded {
    fn of(attempt: u32, waits: Vec<Duration>, since: Vec<Duration>) -> Preceded {
        let longest = waits.iter().max().copied().unwrap_or_default().as_nanos().max(1);
        let mut histogram = [0; BINS];
        for wait in &waits {
            let bin = usize::try_from(wait.as_nanos() * BINS as u128 / longest).unwrap_or(BINS);
            histogram[bin.min(BINS - 1)] += 1;
        }
        Preceded {
            attempt,
            tasks: waits.len() as u64,
            wait_ms: Spread::of(waits),
            histogram,
            elapsed_ms: Spread::of(since),
        }
    }
}

impl Spread {
    fn of(mut durations: Vec<Duration>) -> Spread {
        durations.sort_unstable();
        let at = |percent: usize| {
            let index = durations.len().saturating_sub(1) * percent / 100;
            durations.get(index).map_or(0.0, |duration| round(duration.as_secs_f64() * 1e3))
        };
        Spread { min: at(0), p5: at(5), median: at(50), p95: at(95), max: at(100) }
    }
}

/// To microseconds, which is more than a picture shows.
fn round(millis: f64) -> f64 {
    (millis * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_jitter_fills_every_part_of_its_interval() {
        let preview = Preview::of(&Policy::sync_api(), 1);
        assert_eq!(preview.attempts.len(), 3);
        for (attempt, ceiling_ms) in preview.attempts.iter().zip([1_000.0, 2_000.0, 4_000.0]) {
            let Spread { min, median, max, .. } = attempt.wait_ms;
            assert!(min < 0.01 * ceiling_ms && max > 0.99 * ceiling_ms, "{attempt:?}");
            assert!((median / ceiling_ms - 0.5).abs() < 0.02, "{attempt:?}");
            assert!(attempt.histogram.iter().all(|count| *count > 300), "{attempt:?}");
        }
        assert_eq!(preview.ended_because, [("attempts_exhausted", TASKS)]);
    }

    #[test]
    fn the_same_seed_gives_the_same_preview() {
        let policy = Policy::webhook();
        assert_eq!(Preview::of(&policy, 7), Preview::of(&policy, 7));
        assert_ne!(Preview::of(&policy, 7), Preview::of(&policy, 8));
    }

    #[test]
    fn deadlines_count() {
        let policy = PolicySpec {
            total_budget: Duration::from_secs(3),
            attempt_timeout: Duration::from_secs(1),
            connect_timeout: Duration::from_secs(1),
            ..PolicySpec::sync_api()
        };
        let preview = Preview::of(&policy.build(Timestamp::ZERO).unwrap(), 1);
        assert!(preview.total_ms.max <= 3_000.0);
        assert!(preview.ended_because.iter().any(|(reason, _)| *reason == "deadline_would_pass"));
    }
}
