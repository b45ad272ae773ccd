//! `relent dead-letter`: looking at tasks that were given up, trying them again, deleting them.
//! REQ-D1, REQ-D3.
//!
//! What changes many things is asked first without changing anything, and done only with `--yes`.

use std::time::Duration;

use anyhow::{bail, ensure};
use clap::Subcommand;
use http::Method;
use relent_api::{DeadLetterDocument, PurgeReport, RedriveReport};
use serde_json::{Map, Value, json};

use crate::Ended;
use crate::client::{Body, Client, Remote};
use crate::output::{self, Format};
use crate::task::{self, FilterArgs, PageArgs};
use crate::{progress, times};

/// Look at tasks that were given up, and try them again
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List dead letters, latest first
    List {
        #[command(flatten)]
        filter: FilterArgs,
        #[command(flatten)]
        page: PageArgs,
        #[command(flatten)]
        format: Format,
        #[command(flatten)]
        remote: Remote,
    },
    /// Show a dead letter: the task, its body, its attempts
    Show {
        /// The task's id
        task_id: String,
        #[command(flatten)]
        format: Format,
        #[command(flatten)]
        remote: Remote,
    },
    /// Try dead letters again
    Redrive(RedriveArgs),
    /// Delete dead letters, with everything known of them
    Purge(PurgeArgs),
}

/// Try dead letters again
#[derive(Debug, clap::Args)]
pub(crate) struct RedriveArgs {
    /// These tasks
    task_ids: Vec<String>,
    #[command(flatten)]
    bulk: BulkArgs,
    /// At most so many a second
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    rate_per_second: Option<u32>,
    /// Under this policy instead of their own
    #[arg(long, value_name = "ID")]
    new_policy: Option<String>,
    #[command(flatten)]
    remote: Remote,
}

/// Delete dead letters, with everything known of them
#[derive(Debug, clap::Args)]
pub(crate) struct PurgeArgs {
    #[command(flatten)]
    bulk: BulkArgs,
    #[command(flatten)]
    remote: Remote,
}

/// Which of many, and whether it is meant.
#[derive(Debug, clap::Args)]
struct BulkArgs {
    #[command(flatten)]
    filter: FilterArgs,
    /// Every dead letter there is
    #[arg(long)]
    all: bool,
    /// Only say what would be done
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
    /// Do it
    #[arg(long)]
    yes: bool,
}

pub(crate) async fn run(command: Command) -> anyhow::Result<Ended> {
    match command {
        Command::List { filter, page, format, remote } => {
            let query: Vec<_> = filter.pairs().into_iter().chain(page.pairs()).collect();
            let answer = remote.client()?.get(&["dead-letters"], &query).await?;
            if format.json {
                output::document(&answer.text)?;
            } else {
                task::show_page(&answer.read()?)?;
            }
        }
        Command::Show { task_id, format, remote } => {
            let answer = remote.client()?.get(&["dead-letters", &task_id], &[]).await?;
            if format.json {
                output::document(&answer.text)?;
            } else {
                show(&answer.read()?)?;
            }
        }
        Command::Redrive(args) => return redrive(&args).await,
        Command::Purge(args) => purge(&args).await?,
    }
    Ok(Ended::Fine)
}

fn show(letter: &DeadLetterDocument) -> anyhow::Result<()> {
    output::line(task::sheet(&letter.task, times::now()))?;
    output::line(format_args!("\n{}", task::attempts_table(&letter.attempts)))?;
    match (&letter.task.body, &letter.task.body_base64) {
        (Some(body), _) if !body.0.is_empty() => output::line(format_args!("\n{}", body.0))?,
        (_, Some(body)) => output::line(format_args!("\nin base64: {}", body.0))?,
        _ => {}
    }
    Ok(())
}

/// Exit 1 when something that was named is no dead letter: a redrive that reaches nobody says so.
async fn redrive(args: &RedriveArgs) -> anyhow::Result<Ended> {
    let client = args.remote.client()?;
    let mut wish = selection(&args.bulk, &args.task_ids)?;
    wish.extend(args.rate_per_second.map(|rate| ("ratePerSecond".to_owned(), json!(rate))));
    wish.extend(args.new_policy.as_ref().map(|id| ("policyId".to_owned(), json!(id))));
    let Found { task_ids, refused } = find(&client, &wish).await?;
    for task_id in &refused {
        output::note(format_args!("{task_id} is no dead letter"));
    }
    let ended = if refused.is_empty() { Ended::Fine } else { Ended::Found };
    if !is_meant(&args.bulk, &task_ids, "redrive", args.task_ids.len() == 1)? {
        return Ok(ended);
    }
    let named = !args.task_ids.is_empty();
    if named {
        wish.insert("ids".to_owned(), json!(task_ids));
    }
    let bar = progress::bar(Some(task_ids.len() as u64), "redriving");
    let (mut redriven, mut gone, mut cursor) = (0, 0, None);
    loop {
        let report = send(&client, &wish, cursor, false).await?;
        redriven += report.redriven;
        gone += report.refused.len();
        bar.inc(report.redriven);
        cursor = report.next_cursor;
        if cursor.is_none() {
            break;
        }
        // Each request spreads its own tasks over time, beginning at once.
        if let Some(rate) = args.rate_per_second {
            let spread = report.redriven as f64 / f64::from(rate);
            tokio::time::sleep(Duration::from_secs_f64(spread)).await;
        }
    }
    bar.finish_and_clear();
    output::line(format_args!("{redriven} redriven"))?;
    if gone > 0 {
        output::note(format_args!("{gone} were no longer dead letters"));
    }
    Ok(if named && gone > 0 { Ended::Found } else { ended })
}

async fn purge(args: &PurgeArgs) -> anyhow::Result<()> {
    let client = args.remote.client()?;
    let found = find(&client, &selection(&args.bulk, &[])?).await?.task_ids;
    if !is_meant(&args.bulk, &found, "delete", false)? {
        return Ok(());
    }
    let mut filter = args.bulk.filter.pairs();
    filter.extend(args.bulk.all.then(|| ("all", "true".to_owned())));
    let bar = progress::bar(Some(found.len() as u64), "deleting");
    let (mut purged, mut cursor) = (0, None::<String>);
    loop {
        let query = filter.iter().cloned().chain(cursor.map(|cursor| ("cursor", cursor)));
        let query: Vec<_> = query.collect();
        let answer = client.send(Method::DELETE, &["dead-letters"], &query, Body::None).await?;
        let report: PurgeReport = answer.read()?;
        purged += report.purged;
        bar.inc(report.purged);
        cursor = report.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    bar.finish_and_clear();
    output::line(format_args!("{purged} deleted"))?;
    Ok(())
}

/// Which dead letters are meant, as the server is asked for them.
fn selection(bulk: &BulkArgs, task_ids: &[String]) -> anyhow::Result<Map<String, Value>> {
    let filter = bulk.filter.pairs();
    let said = [!task_ids.is_empty(), !filter.is_empty(), bulk.all];
    if said.iter().filter(|said| **said).count() != 1 {
        bail!(
            "say which dead letters: tasks, filters such as --dependency, or --all; one of these"
        );
    }
    if !task_ids.is_empty() {
        return Ok(Map::from_iter([("ids".to_owned(), json!(task_ids))]));
    }
    let filter: Map<String, Value> =
        filter.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
    Ok(Map::from_iter([("filter".to_owned(), filter.into())]))
}

async fn send(
    client: &Client,
    wish: &Map<String, Value>,
    cursor: Option<String>,
    dry_run: bool,
) -> anyhow::Result<RedriveReport> {
    let mut wish = wish.clone();
    wish.insert("dryRun".to_owned(), dry_run.into());
    wish.extend(cursor.map(|cursor| ("cursor".to_owned(), cursor.into())));
    let body = Body::Json(Value::Object(wish).to_string().into());
    client.send(Method::POST, &["dead-letters:redrive"], &[], body).await?.read()
}

/// What a wish comes to.
#[derive(Default)]
struct Found {
    task_ids: Vec<String>,
    /// Named, and no dead letters.
    refused: Vec<String>,
}

/// Every dead letter that is meant; nothing is changed.
async fn find(client: &Client, wish: &Map<String, Value>) -> anyhow::Result<Found> {
    let bar = progress::bar(None, "looking");
    let (mut found, mut cursor) = (Found::default(), None);
    loop {
        let report = send(client, wish, cursor, true).await?;
        found.task_ids.extend(report.task_ids);
        found.refused.extend(report.refused);
        bar.set_position(found.task_ids.len() as u64);
        cursor = report.next_cursor;
        if cursor.is_none() {
            bar.finish_and_clear();
            return Ok(found);
        }
    }
}

const SHOWN: usize = 10;

/// Shows what would be done; whether it is to be done.
fn is_meant(bulk: &BulkArgs, found: &[String], verb: &str, alone: bool) -> anyhow::Result<bool> {
    if found.is_empty() {
        output::line(format_args!("nothing to {verb}"))?;
        return Ok(false);
    }
    if bulk.yes || (alone && !bulk.dry_run) {
        return Ok(true);
    }
    match found.len() {
        1 => output::line(format_args!("would {verb} 1 dead letter"))?,
        count => output::line(format_args!("would {verb} {count} dead letters"))?,
    }
    for task_id in found.iter().take(SHOWN) {
        output::line(format_args!("  {task_id}"))?;
    }
    if found.len() > SHOWN {
        output::line(format_args!("  and {} more", found.len() - SHOWN))?;
    }
    ensure!(bulk.dry_run, "nothing was changed; add --yes to {verb} them");
    Ok(false)
}
