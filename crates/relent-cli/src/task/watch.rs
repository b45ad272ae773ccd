//! `relent task watch`: a task followed to its end, each attempt a line.
//!
//! By asking again, with jitter, and not by the stream of all events: that would send a watcher of
//! one task everything that happens to every other.

use std::time::Duration;

use anyhow::Context as _;
use relent_api::{AttemptDocument, Decided, Page, Status, TaskDocument, WaitingReason};
use relent_policy::Timestamp;

use super::{came_back, then};
use crate::Ended;
use crate::client::Client;
use crate::output::{self, Format};
use crate::patience::{Patience, Work};
use crate::times;

const ASK_AGAIN_MIN: Duration = Duration::from_millis(100);
const ASK_AGAIN_MAX: Duration = Duration::from_secs(2);

pub(super) async fn run(client: &Client, task_id: &str, format: Format) -> anyhow::Result<Ended> {
    let mut seen = None;
    let mut waiting = None;
    let mut patience = Patience::new(Work::Reading);
    loop {
        // The task first: whatever it says has happened is in the rows that are read after it.
        let read = async {
            let answer = client.get(&["retry-tasks", task_id], &[]).await?;
            anyhow::Ok((answer, attempts_after(client, task_id, seen).await?))
        };
        let (answer, attempts) = match read.await {
            Ok(read) => read,
            Err(error) => {
                patience.wait(error).await?;
                continue;
            }
        };
        patience = Patience::new(Work::Reading);
        let task: TaskDocument = answer.read()?;
        for (raw, attempt) in attempts {
            seen = Some((attempt.generation, attempt.attempt_number));
            match format.json {
                true => output::document(&raw)?,
                false => output::line(attempt_line(&attempt, task.max_attempts))?,
            }
        }
        if task.status.has_ended() {
            match format.json {
                true => output::document(&answer.text)?,
                false => output::line(last_line(&task))?,
            }
            return Ok(if task.status == Status::Exhausted { Ended::Found } else { Ended::Fine });
        }
        tell_wait(&task, &mut waiting);
        tokio::time::sleep(ask_again_in(&task, times::now())).await;
    }
}

/// The attempts that were not shown yet, each with the document as it came.
async fn attempts_after(
    client: &Client,
    task_id: &str,
    seen: Option<(u32, u32)>,
) -> anyhow::Result<Vec<(String, AttemptDocument)>> {
    let (mut attempts, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let query: Vec<_> = cursor.into_iter().map(|cursor| ("cursor", cursor)).collect();
        let answer = client.get(&["retry-tasks", task_id, "attempts"], &query).await?;
        let page: Page<Box<serde_json::value::RawValue>> = answer.read()?;
        for raw in page.items {
            let attempt: AttemptDocument =
                serde_json::from_str(raw.get()).context("the server's answer is not an attempt")?;
            if Some((attempt.generation, attempt.attempt_number)) > seen {
                attempts.push((raw.get().to_owned(), attempt));
            }
        }
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Ok(attempts);
        }
    }
}

fn attempt_line(attempt: &AttemptDocument, max_attempts: u32) -> String {
    let mark = match attempt.decision {
        Decided::Done => output::good("✓"),
        Decided::Retry => output::care("↻"),
        Decided::GiveUp => output::bad("✗"),
    };
    format!(
        "{mark} {}  attempt {}/{max_attempts}  {} in {}  {}",
        times::absolute(Timestamp::from_millis(attempt.started_at)),
        attempt.attempt_number,
        came_back(attempt),
        times::short(Duration::from_micros(attempt.duration_us)),
        then(attempt),
    )
}

fn last_line(task: &TaskDocument) -> String {
    let because = task.ended_because.as_ref().map(|because| format!(" ({because})"));
    let took = task.ended_at.map(|ended_at| {
        let took = Duration::from_millis(ended_at.saturating_sub(task.created_at));
        format!(" after {}", times::short(took))
    });
    format!(
        "{} {}{}{}",
        task.task_id,
        output::status(task.status),
        took.unwrap_or_default(),
        because.unwrap_or_default()
    )
}

/// Says what a task waits for whenever that changes, unless it is due this moment.
fn tell_wait(task: &TaskDocument, told: &mut Option<(WaitingReason, Option<u64>)>) {
    let Some(reason) = task.waiting_reason else { return };
    let ahead =
        task.next_attempt_at.map(|at| Timestamp::from_millis(at).saturating_since(times::now()));
    let ahead = ahead.filter(|ahead| *ahead > ASK_AGAIN_MIN);
    let is_own = matches!(
        reason,
        WaitingReason::Scheduled | WaitingReason::Backoff | WaitingReason::RetryAfter
    );
    let waits = (reason, ahead.and(task.next_attempt_at));
    if *told == Some(waits) || (is_own && ahead.is_none()) {
        return;
    }
    let until = ahead.map(|ahead| format!(", next attempt in {}", times::short(ahead)));
    output::note(format_args!("  waits: {reason}{}", until.unwrap_or_default()));
    *told = Some(waits);
}

/// Shortly after the next attempt is due, and now and then in between, for it may be cancelled.
fn ask_again_in(task: &TaskDocument, now: Timestamp) -> Duration {
    let due = task.next_attempt_at.map(Timestamp::from_millis);
    let until_due = due.map_or(Duration::ZERO, |due| due.saturating_since(now));
    let pause = until_due.clamp(ASK_AGAIN_MIN, ASK_AGAIN_MAX);
    pause.mul_f64(1.0 + fastrand::f64() / 2.0)
}
