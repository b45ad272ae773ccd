//! `relent task`: creating tasks, and seeing what becomes of them. REQ-S1, REQ-S2.

mod create;
mod watch;

use clap::Subcommand;
use http::Method;
use relent_api::{AttemptDocument, Decided, HeaderText, Page, Status, TaskDocument};
use relent_policy::Timestamp;
use std::time::Duration;

use crate::Ended;
use crate::client::{Body, Remote};
use crate::output::{self, Format};
use crate::times;

/// Create tasks, and see what becomes of them
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Have a request delivered
    Create(Box<create::Args>),
    /// Show a task
    Get {
        /// Its id
        task_id: String,
        #[command(flatten)]
        format: Format,
        #[command(flatten)]
        remote: Remote,
    },
    /// List tasks, latest first
    List {
        /// Only these statuses, such as PENDING,IN_FLIGHT
        #[arg(long, value_delimiter = ',')]
        status: Vec<Status>,
        #[command(flatten)]
        filter: FilterArgs,
        #[command(flatten)]
        page: PageArgs,
        #[command(flatten)]
        format: Format,
        #[command(flatten)]
        remote: Remote,
    },
    /// Call a task off
    Cancel {
        /// Its id
        task_id: String,
        #[command(flatten)]
        format: Format,
        #[command(flatten)]
        remote: Remote,
    },
    /// Show what was tried
    Attempts {
        /// The task's id
        task_id: String,
        #[command(flatten)]
        page: PageArgs,
        #[command(flatten)]
        format: Format,
        #[command(flatten)]
        remote: Remote,
    },
    /// Follow a task until it ends; exit 1 if it gave up
    Watch {
        /// Its id
        task_id: String,
        #[command(flatten)]
        format: Format,
        #[command(flatten)]
        remote: Remote,
    },
}

/// Which tasks.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct FilterArgs {
    /// Only those of this policy
    #[arg(long, value_name = "ID")]
    policy: Option<String>,
    /// Only those that call this dependency
    #[arg(long, value_name = "NAME")]
    dependency: Option<String>,
    /// Only those created at this time or later
    #[arg(long, value_name = "TIME", value_parser = times::parse_time)]
    created_after: Option<Timestamp>,
    /// Only those created before this time
    #[arg(long, value_name = "TIME", value_parser = times::parse_time)]
    created_before: Option<Timestamp>,
    /// Only the one with this idempotency key
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Only those given up for this reason, such as attempts_exhausted
    #[arg(long, value_name = "REASON")]
    because: Option<String>,
}

impl FilterArgs {
    /// Under the names that the server gives them.
    pub(crate) fn pairs(&self) -> Vec<(&'static str, String)> {
        let millis = |at: Timestamp| at.as_millis().to_string();
        let pairs = [
            ("policyId", self.policy.clone()),
            ("dependency", self.dependency.clone()),
            ("createdAfter", self.created_after.map(millis)),
            ("createdBefore", self.created_before.map(millis)),
            ("idempotencyKey", self.key.clone()),
            ("endedBecause", self.because.clone()),
        ];
        pairs.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }
}

/// Which page of a list.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct PageArgs {
    /// How many at most
    #[arg(long, value_name = "COUNT")]
    limit: Option<u32>,
    /// Where to go on: `nextCursor` of the page before
    #[arg(long)]
    cursor: Option<String>,
}

impl PageArgs {
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&'static str, String)> {
        let limit = self.limit.map(|limit| ("limit", limit.to_string()));
        limit.into_iter().chain(self.cursor.clone().map(|cursor| ("cursor", cursor)))
    }
}

pub(crate) async fn run(command: Command) -> anyhow::Result<Ended> {
    match command {
        Command::Create(args) => return create::run(&args).await,
        Command::Watch { task_id, format, remote } => {
            return watch::run(&remote.client()?, &task_id, format).await;
        }
        Command::Get { task_id, format, remote } => {
            let answer = remote.client()?.get(&["retry-tasks", &task_id], &[]).await?;
            if format.json {
                output::document(&answer.text)?;
            } else {
                output::line(sheet(&answer.read()?, times::now()))?;
            }
        }
        Command::List { status, filter, page, format, remote } => {
            let status = status.iter().map(|status| ("status", status.to_string()));
            let query: Vec<_> = status.chain(filter.pairs()).chain(page.pairs()).collect();
            let answer = remote.client()?.get(&["retry-tasks"], &query).await?;
            if format.json {
                output::document(&answer.text)?;
            } else {
                show_page(&answer.read()?)?;
            }
        }
        Command::Cancel { task_id, format, remote } => {
            let path = ["retry-tasks", task_id.as_str()];
            let answer = remote.client()?.send(Method::DELETE, &path, &[], Body::None).await?;
            if format.json {
                output::document(&answer.text)?;
            } else {
                let task: TaskDocument = answer.read()?;
                output::line(format_args!("{} {}", task.task_id, output::status(task.status)))?;
                if task.cancel_requested && !task.status.has_ended() {
                    output::note("an attempt is under way; should it fail, it is the last one");
                }
            }
        }
        Command::Attempts { task_id, page, format, remote } => {
            let query: Vec<_> = page.pairs().collect();
            let path = ["retry-tasks", task_id.as_str(), "attempts"];
            let answer = remote.client()?.get(&path, &query).await?;
            if format.json {
                output::document(&answer.text)?;
            } else {
                let page: Page<AttemptDocument> = answer.read()?;
                output::line(attempts_table(&page.items))?;
                tell_more(page.next_cursor.as_deref());
            }
        }
    }
    Ok(Ended::Fine)
}

/// A page of tasks, and how to get the next.
pub(crate) fn show_page(page: &Page<TaskDocument>) -> anyhow::Result<()> {
    output::line(tasks_table(&page.items, times::now()))?;
    tell_more(page.next_cursor.as_deref());
    Ok(())
}

pub(crate) fn tell_more(cursor: Option<&str>) {
    if let Some(cursor) = cursor {
        output::hint(format_args!("there are more: --cursor {cursor}"));
    }
}

fn tasks_table(tasks: &[TaskDocument], now: Timestamp) -> String {
    let heading = ["task", "status", "attempts", "created", "next or end", "why", "target"];
    let rows = tasks.iter().map(|task| {
        vec![
            task.task_id.clone(),
            task.status.to_string(),
            format!("{}/{}", task.attempt_number, task.max_attempts),
            times::relative(Timestamp::from_millis(task.created_at), now),
            next_or_end(task)
                .map(|at| times::relative(Timestamp::from_millis(at), now))
                .unwrap_or_default(),
            why(task),
            output::cut(&format!("{} {}", task.method, task.target_url), 60),
        ]
    });
    output::table(&heading, rows)
}

fn next_or_end(task: &TaskDocument) -> Option<u64> {
    task.ended_at.or(task.next_attempt_at)
}

/// What it waits for, or why it ended.
fn why(task: &TaskDocument) -> String {
    let waiting = task.waiting_reason.map(|reason| reason.to_string());
    let ended = task.ended_because.clone();
    let last = match task.status {
        Status::Succeeded => task.last_status.map(|status| status.to_string()),
        _ => None,
    };
    waiting.or(ended).or(last).unwrap_or_default()
}

/// Everything about a task, a line each.
pub(crate) fn sheet(task: &TaskDocument, now: Timestamp) -> String {
    let at = |millis: u64| times::both(Timestamp::from_millis(millis), now);
    let attempts = format!("{} of {}", task.attempt_number, task.max_attempts);
    let last = task.last_error.clone().or(task.last_status.map(|status| status.to_string()));
    let facts = [
        ("task", Some(task.task_id.clone())),
        ("status", Some(output::status(task.status))),
        ("waits for", task.waiting_reason.map(|reason| reason.to_string())),
        ("ended because", task.ended_because.clone()),
        ("target", Some(format!("{} {}", task.method, task.target_url))),
        ("key", task.idempotency_key.clone()),
        ("correlation", task.correlation_id.clone()),
        ("policy", Some(format!("{} (version {})", task.policy_id, task.policy_version))),
        ("dependency", Some(format!("{} (lane {})", task.dependency, task.lane_id))),
        ("attempts", Some(attempts)),
        ("generation", (task.generation > 1).then(|| task.generation.to_string())),
        ("last", last),
        ("created", Some(at(task.created_at))),
        ("last attempt", task.last_attempt_at.map(at)),
        ("next attempt", task.next_attempt_at.filter(|_| !task.status.has_ended()).map(at)),
        ("deadline", task.deadline_at.filter(|_| !task.status.has_ended()).map(at)),
        ("ended", task.ended_at.map(at)),
        ("cancel", task.cancel_requested.then(|| "requested".to_owned())),
        ("body", Some(format!("{} bytes", task.body_bytes))),
    ];
    let headers = task.headers.iter().flat_map(|(name, values)| {
        let values = match values {
            HeaderText::One(value) => std::slice::from_ref(value),
            HeaderText::Many(values) => values,
        };
        values.iter().map(move |value| ("header", Some(format!("{name}: {value}"))))
    });
    output::facts(facts.into_iter().chain(headers))
}

/// Attempts, a row each.
pub(crate) fn attempts_table(attempts: &[AttemptDocument]) -> String {
    let heading = ["attempt", "started", "took", "came back", "then"];
    let rows = attempts.iter().map(|attempt| {
        let number = match attempt.generation {
            0 | 1 => attempt.attempt_number.to_string(),
            generation => format!("{} (generation {generation})", attempt.attempt_number),
        };
        vec![
            number,
            times::absolute(Timestamp::from_millis(attempt.started_at)),
            times::short(Duration::from_micros(attempt.duration_us)),
            came_back(attempt),
            then(attempt),
        ]
    });
    output::table(&heading, rows)
}

fn came_back(attempt: &AttemptDocument) -> String {
    match (&attempt.error, attempt.response_status) {
        (Some(error), Some(status)) if *error != format!("http_{status}") => {
            format!("{status} {error}")
        }
        (_, Some(status)) => status.to_string(),
        (Some(error), None) => error.clone(),
        (None, None) => "nothing".to_owned(),
    }
}

fn then(attempt: &AttemptDocument) -> String {
    let because = attempt.because.as_deref().unwrap_or_default();
    match attempt.decision {
        Decided::Done => "done".to_owned(),
        Decided::GiveUp => format!("gave up: {because}"),
        Decided::Retry => {
            let wait = attempt.backoff_ms.map(Duration::from_millis).map(times::short);
            format!("again in {} ({because})", wait.unwrap_or_default())
        }
    }
}
