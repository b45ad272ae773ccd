//! `relent store copy`: moves everything from one store to another. REQ-S7.
//!
//! Policies and lanes first, then tasks in the order of their ids, a batch at a time. What is there
//! already is left alone, so that a copy that was interrupted is completed by running it again. At
//! the end the two are counted; only equal counts are a success.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use relent_server::config::{StoreConfig, StorePlace};
use relent_store::{Copying, Extent};

use crate::client::block_on;
use crate::progress::bar;
use crate::settings::StoreArgs;
use crate::{Ended, output};

/// Tasks in one batch, if their bodies are not large.
const BATCH: u32 = 500;
/// Lanes in one batch.
const LANES: usize = 1_000;
const CLOSE_WITHIN: Duration = Duration::from_secs(30);

/// Copy everything from one store to another, and count it
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The store to copy: `sqlite:DIRECTORY`, `postgres://…`, `redis://…`
    #[arg(long, value_name = "URL")]
    from: String,
    /// The store to copy to: an empty one, or one with the beginning of the same copy
    #[arg(long, value_name = "URL")]
    to: String,
    /// Copy although servers are at work on a store: what they change meanwhile may be missing
    #[arg(long)]
    even_if_in_use: bool,
    /// Write a JSON document, for machines
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: StoreArgs,
}

/// What was copied.
#[derive(Default, serde::Serialize)]
struct Copied {
    policies: u64,
    lanes: u64,
    tasks: u64,
    attempts: u64,
    /// Tasks that were there from an earlier run.
    before: u64,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Ended> {
    let config = args.settings.load()?;
    let (from, to) = (at(&config.store, &args.from)?, at(&config.store, &args.to)?);
    ensure!(from.place != to.place, "--from and --to are the same store");
    block_on(async {
        let source = from.open_copying().with_context(|| format!("cannot open {from}"))?;
        let target = to.open_copying().with_context(|| format!("cannot open {to}"))?;
        for (store, config) in [(&source, &from), (&target, &to)] {
            let nodes = store.nodes().await?;
            ensure!(
                nodes == 0 || args.even_if_in_use,
                "servers at work on {config}: {nodes}; stop them, or say --even-if-in-use"
            );
        }
        let copied = copy(&source, &target).await.context("the copy is not complete")?;
        let extent = compare(&source, &target).await?;
        for store in [&source, &target] {
            store.close(CLOSE_WITHIN).await?;
        }
        show(args.json, &copied, &extent)
    })?;
    Ok(Ended::Fine)
}

fn at(config: &StoreConfig, url: &str) -> anyhow::Result<StoreConfig> {
    match StorePlace::from_url(url, std::path::Path::new("")) {
        Some(StorePlace::Memory) => bail!("a store in memory cannot be copied: it is gone"),
        Some(StorePlace::Sqlite(data)) if data.as_os_str().is_empty() => {
            bail!("say in which directory: sqlite:DIRECTORY")
        }
        Some(place) => Ok(config.at(place)),
        None => bail!("expected sqlite:DIRECTORY, postgres://… or redis://…"),
    }
}

async fn copy(from: &Arc<dyn Copying>, to: &Arc<dyn Copying>) -> anyhow::Result<Copied> {
    let (whole, there) = (from.extent().await?, to.extent().await?);
    ensure!(
        there.tasks() <= whole.tasks(),
        "the target has {} tasks, and the source only {}: it holds something else",
        there.tasks(),
        whole.tasks()
    );
    let mut copied = Copied {
        policies: to.import_policies(from.export_policies().await?).await?,
        ..Copied::default()
    };
    for lanes in from.lanes().await?.chunks(LANES) {
        copied.lanes += to.import_lanes(lanes.to_vec()).await?;
    }
    let bar = bar(Some(whole.tasks()), "copying tasks");
    let mut after = None;
    loop {
        let batch = from.export(after, BATCH).await?;
        let Some(last) = batch.last() else { break };
        after = Some(last.task.id);
        let (count, attempts) = (batch.len() as u64, batch.iter().map(|one| one.attempts.len()));
        let attempts = attempts.sum::<usize>() as u64;
        let new = to.import(batch).await?;
        copied.tasks += new;
        copied.before += count - new;
        if new > 0 {
            copied.attempts += attempts;
        }
        bar.inc(count);
    }
    bar.finish_and_clear();
    Ok(copied)
}

async fn compare(from: &Arc<dyn Copying>, to: &Arc<dyn Copying>) -> anyhow::Result<Extent> {
    let (source, target) = (from.extent().await?, to.extent().await?);
    ensure!(
        source == target,
        "the two are not the same: the source has {}; the target has {}. Was one of them in use, or \
         was the target not empty?",
        words(&source),
        words(&target)
    );
    Ok(source)
}

fn words(extent: &Extent) -> String {
    let Extent { policies, lanes, pending, in_flight, succeeded, exhausted, cancelled } = extent;
    format!(
        "{policies} versions of policies, {lanes} lanes, {} tasks ({pending} pending, {in_flight} in \
         flight, {succeeded} succeeded, {exhausted} exhausted, {cancelled} cancelled)",
        extent.tasks()
    )
}

fn show(json: bool, copied: &Copied, extent: &Extent) -> anyhow::Result<()> {
    if json {
        return Ok(output::line(serde_json::to_string(copied)?)?);
    }
    let Copied { policies, lanes, tasks, attempts, before } = copied;
    output::line(format_args!(
        "copied {policies} versions of policies, {lanes} lanes, {tasks} tasks with {attempts} attempts"
    ))?;
    if *before > 0 {
        output::line(format_args!("{before} tasks were there from an earlier run"))?;
    }
    output::line(format_args!("both have {}", words(extent)))?;
    Ok(())
}
