//! What nodes tell each other, and what is done in case nobody tells.
//!
//! A node that made something due tells the others by NOTIFY, so that they need not look. It is a
//! hint and nothing else: it is sent after the commit, on another connection, and not within the
//! transaction, because PostgreSQL lets only one transaction that notifies commit at a time, in the
//! whole server. What gathers during one round trip is told with the next, the earliest time of each
//! line once. What is due later than the others' next look is not told at all.
//!
//! Behind it every node looks by itself: now and then while it hears, more often while it does not
//! (the connection is lost, or there is a pooler: it tells, and would listen on a connection that is
//! somebody else's a moment later), and most often while it finds something. The looks of nodes that
//! started together drift apart, as chance has a part in each wait.
//! REQ-S4, REQ-S5, REQ-S7.

use std::collections::HashMap;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use relent_policy::{Timestamp, Turn};
use tokio::sync::{Notify, mpsc};
use tokio::time::{sleep, timeout};
use tokio_postgres::types::Type;

use super::failure::Failure;
use super::link::{self, GRACE, jittered};
use super::node::Node;
use super::place::Role;
use super::rows::{from_line, from_time, to_line, to_time};
use crate::id::LaneId;
use crate::lane::LaneDue;

const NOTIFY: &str = "SELECT pg_notify($1, text) FROM unnest($2) AS text";
/// At most so often: the others need not be told of each task by itself.
const NOTIFY_EVERY: Duration = Duration::from_millis(5);
/// PostgreSQL takes less than 8,000 bytes.
const TEXT_MAX: usize = 7_500;

const LOOK_WHILE_HEARING: Duration = Duration::from_secs(3);
const LOOK_OFTEN: Duration = Duration::from_millis(100);
const LOOK_SELDOM: Duration = Duration::from_secs(1);
const LISTEN_AGAIN: Duration = Duration::from_secs(2);
const CLOCK_EVERY: Duration = Duration::from_secs(10);
/// Who only listens would not notice that nobody is there any more.
const ASK_EVERY: Duration = Duration::from_secs(5);

/// What the other nodes are still to be told.
#[derive(Default)]
pub(super) struct Hints {
    lines: Mutex<HashMap<(LaneId, bool), Timestamp>>,
    ready: Notify,
    hears: AtomicBool,
}

impl Hints {
    pub(super) fn add(&self, dues: &[LaneDue]) {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        for due in dues {
            let at = lines.entry((due.lane, due.turn == Turn::Retry)).or_insert(due.at);
            *at = due.at.min(*at);
        }
        drop(lines);
        self.ready.notify_one();
    }

    fn take(&self, not_after: Timestamp) -> Vec<LaneDue> {
        let lines = mem::take(&mut *self.lines.lock().unwrap_or_else(PoisonError::into_inner));
        let soon = lines.into_iter().filter(|(_, at)| *at <= not_after);
        soon.map(|((lane, retry), at)| LaneDue {
            lane,
            turn: if retry { Turn::Retry } else { Turn::First },
            at,
        })
        .collect()
    }
}

/// Tells the other nodes.
pub(super) async fn tell_others(node: Arc<Node>) {
    loop {
        node.hints.ready.notified().await;
        let dues = node.hints.take(node.clock.now() + LOOK_WHILE_HEARING * 2);
        let texts = write(node.number, &dues);
        if !texts.is_empty() {
            let channel = node.place.channel();
            let values = [(&channel as _, Type::TEXT), (&texts as _, Type::TEXT_ARRAY)];
            if let Err(failure) = node.link().await.query(NOTIFY, &values).await {
                tracing::debug!(?failure, "other nodes were not told; they will look");
            }
        }
        sleep(NOTIFY_EVERY).await;
    }
}

/// Hears the other nodes, and listens again when the connection is lost.
pub(super) async fn hear_others(node: Arc<Node>) {
    loop {
        if let Err(failure) = hear(&node).await {
            tracing::warn!(?failure, "cannot listen to other nodes; looking instead");
        }
        node.hints.hears.store(false, Ordering::SeqCst);
        sleep(jittered(LISTEN_AGAIN)).await;
    }
}

async fn hear(node: &Node) -> Result<(), Failure> {
    let (ears, mut heard) = mpsc::unbounded_channel();
    let client = link::open(&node.place, Role::Listen, Some(ears)).await?;
    let ask = async |sql: &str| {
        let answer = timeout(node.place.limit(Role::Listen) + GRACE, client.batch_execute(sql));
        let answer = answer.await.map_err(|_| Failure::Lost("it did not answer".to_owned()))?;
        answer.map_err(Failure::Refused)
    };
    ask(&format!("LISTEN {}", node.place.channel())).await?;
    node.hints.hears.store(true, Ordering::SeqCst);
    // What was told while nobody listened.
    look(node).await?;
    loop {
        match timeout(ASK_EVERY, heard.recv()).await {
            Ok(None) => return Ok(()),
            Err(_) => ask("").await?,
            Ok(Some(text)) => {
                let (teller, dues) = read(&text);
                if teller != Some(node.number) {
                    node.tell_here(&dues);
                }
            }
        }
    }
}

/// Looks for what nobody told, and at the database's clock.
pub(super) async fn keep_looking(node: Arc<Node>) {
    let mut wait = LOOK_OFTEN;
    let mut until_clock = CLOCK_EVERY;
    let mut seen = Vec::new();
    loop {
        let hears = node.hints.hears.load(Ordering::SeqCst);
        let next = if hears { LOOK_WHILE_HEARING } else { wait };
        let pause = next / 2 + jittered(next / 2);
        sleep(pause).await;
        match look(&node).await {
            Ok(found) => {
                wait = if found == seen { (wait * 2).min(LOOK_SELDOM) } else { LOOK_OFTEN };
                seen = found;
            }
            Err(failure) => {
                tracing::debug!(?failure, "cannot look for what is due");
                wait = LOOK_SELDOM;
            }
        }
        until_clock = until_clock.saturating_sub(pause);
        if until_clock.is_zero() {
            until_clock = CLOCK_EVERY;
            if let Err(failure) = node.clock.measure(&mut *node.link().await).await {
                tracing::debug!(?failure, "cannot look at the database's clock");
            }
        }
    }
}

/// Tells who listens here what is due before the next look.
async fn look(node: &Node) -> Result<Vec<LaneDue>, Failure> {
    let mut lines = node.lines().await?;
    let soon = node.clock.now() + LOOK_WHILE_HEARING * 2;
    lines.retain(|line| line.at <= soon);
    node.tell_here(&lines);
    Ok(lines)
}

/// Hints as texts: the teller's number, then line and time of each.
fn write(teller: i32, dues: &[LaneDue]) -> Vec<String> {
    let mut texts: Vec<String> = Vec::new();
    for due in dues {
        let hint = format!(" {}@{}", from_line(due.lane, due.turn), from_time(due.at));
        match texts.last_mut().filter(|text| text.len() + hint.len() <= TEXT_MAX) {
            Some(text) => text.push_str(&hint),
            None => texts.push(format!("{teller}{hint}")),
        }
    }
    texts
}

/// What makes no sense is left out: hints are only hints.
fn read(text: &str) -> (Option<i32>, Vec<LaneDue>) {
    let mut parts = text.split(' ');
    let teller = parts.next().and_then(|number| number.parse().ok());
    let due = |part: &str| {
        let (line, at) = part.split_once('@')?;
        let (lane, turn) = to_line(line.parse().ok()?).ok()?;
        Some(LaneDue { lane, turn, at: to_time(at.parse().ok()?) })
    };
    (teller, parts.filter_map(due).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_are_read_as_they_were_written() {
        let due = |lane| LaneDue {
            lane: LaneId::from_u32(lane),
            turn: if lane % 2 == 0 { Turn::First } else { Turn::Retry },
            at: Timestamp::from_nanos(1_800_000_000_000_000_000 + u64::from(lane)),
        };
        let dues: Vec<LaneDue> = (0..1_000).map(due).collect();
        let texts = write(7, &dues);
        assert!(texts.len() > 1 && texts.iter().all(|text| text.len() < 8_000));
        let read: Vec<_> = texts.iter().map(|text| read(text)).collect();
        assert!(read.iter().all(|(teller, _)| *teller == Some(7)));
        assert_eq!(read.into_iter().flat_map(|(_, dues)| dues).collect::<Vec<_>>(), dues);
    }

    #[test]
    fn nonsense_is_no_hint() {
        assert_eq!(read(""), (None, Vec::new()));
        assert_eq!(read("x 1@2@3 y @ -1@1 1@"), (None, Vec::new()));
    }
}
