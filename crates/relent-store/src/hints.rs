//! What nodes of a shared store tell each other, and what is done in case nobody tells.
//!
//! A node that made something due tells the others, so that they need not look. It is a hint and
//! nothing else: it is sent after the commit, and lost if nobody listens. What gathers during one round
//! trip is told with the next, the earliest time of each line once. What is due later than the others'
//! next look is not told at all.
//!
//! Behind it every node looks by itself: now and then while it hears, more often while it does not
//! (the connection is lost, or there is a pooler), and most often while it finds something. The looks
//! of nodes that started together drift apart, as chance has a part in each wait.
//! REQ-S4, REQ-S5, REQ-S7.

use std::collections::HashMap;
use std::fmt;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use relent_policy::{Timestamp, Turn};
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::contract::DueListener;
use crate::id::LaneId;
use crate::lane::LaneDue;

/// At most so often: the others need not be told of each task by itself.
const TELL_EVERY: Duration = Duration::from_millis(5);
/// Of one message. PostgreSQL takes less than 8,000 bytes.
const TEXT_MAX: usize = 7_500;

const LOOK_WHILE_HEARING: Duration = Duration::from_secs(3);
const LOOK_OFTEN: Duration = Duration::from_millis(100);
const LOOK_SELDOM: Duration = Duration::from_secs(1);
const LISTEN_AGAIN: Duration = Duration::from_secs(2);
const CLOCK_EVERY: Duration = Duration::from_secs(10);

/// A node among others, on some kind of store.
pub(crate) trait Neighbour: Send + Sync + 'static {
    /// Why something could not be done.
    type Failure: fmt::Debug + Send;

    /// Which of all nodes.
    fn number(&self) -> u32;

    fn hints(&self) -> &Hints;

    fn now(&self) -> Timestamp;

    /// Tells who listens within this node.
    fn tell_here(&self, dues: &[LaneDue]) {
        self.hints().tell_here(dues);
    }

    /// Tells who listens within this node, and later the other nodes.
    fn tell(&self, dues: &[LaneDue]) {
        self.tell_here(dues);
        if self.hints().tells_others {
            self.hints().add(dues);
        }
    }

    /// Says this to every node.
    fn say(&self, texts: Vec<String>) -> impl Future<Output = Result<(), Self::Failure>> + Send;

    /// Listens until the connection is lost: [`begin_to_hear`] once it does, then [`hear`] each text.
    fn listen(&self) -> impl Future<Output = Result<(), Self::Failure>> + Send;

    /// The lines with something due until this time.
    fn due_until(
        &self,
        soon: Timestamp,
    ) -> impl Future<Output = Result<Vec<LaneDue>, Self::Failure>> + Send;

    /// Looks how the store's clock and this one's differ.
    fn look_at_clock(&self) -> impl Future<Output = Result<(), Self::Failure>> + Send;
}

/// What the other nodes are still to be told, and who listens here.
pub(crate) struct Hints {
    pub(crate) tells_others: bool,
    listener: Mutex<Option<Arc<dyn DueListener>>>,
    lines: Mutex<HashMap<(LaneId, bool), Timestamp>>,
    ready: Notify,
    hears: AtomicBool,
}

impl Hints {
    pub(crate) fn new(tells_others: bool) -> Hints {
        Hints {
            tells_others,
            listener: Mutex::default(),
            lines: Mutex::default(),
            ready: Notify::new(),
            hears: AtomicBool::new(false),
        }
    }

    /// Who is told from now on.
    pub(crate) fn set_listener(&self, listener: Arc<dyn DueListener>) {
        *self.listener.lock().unwrap_or_else(PoisonError::into_inner) = Some(listener);
    }

    /// Tells who listens here, under no lock.
    pub(crate) fn tell_here(&self, dues: &[LaneDue]) {
        let listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(listener) = listener
            && !dues.is_empty()
        {
            listener.due(dues);
        }
    }

    fn add(&self, dues: &[LaneDue]) {
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
pub(crate) async fn tell_others(node: Arc<impl Neighbour>) {
    loop {
        node.hints().ready.notified().await;
        let dues = node.hints().take(node.now() + LOOK_WHILE_HEARING * 2);
        let texts = write(node.number(), &dues);
        if !texts.is_empty()
            && let Err(failure) = node.say(texts).await
        {
            tracing::debug!(?failure, "other nodes were not told; they will look");
        }
        sleep(TELL_EVERY).await;
    }
}

/// Hears the other nodes, and listens again when the connection is lost.
pub(crate) async fn hear_others(node: Arc<impl Neighbour>) {
    loop {
        if let Err(failure) = node.listen().await {
            tracing::warn!(?failure, "cannot listen to other nodes; looking instead");
        }
        node.hints().hears.store(false, Ordering::SeqCst);
        sleep(jittered(LISTEN_AGAIN)).await;
    }
}

/// From now on it hears. Looks for what was told while nobody listened.
pub(crate) async fn begin_to_hear<N: Neighbour>(node: &N) -> Result<(), N::Failure> {
    node.hints().hears.store(true, Ordering::SeqCst);
    look(node).await.map(drop)
}

/// Hears what some node has said; its own words are no news.
pub(crate) fn hear(node: &impl Neighbour, text: &str) {
    let (teller, dues) = read(text);
    if teller != Some(node.number()) {
        node.tell_here(&dues);
    }
}

/// Looks for what nobody told, and at the store's clock.
pub(crate) async fn keep_looking(node: Arc<impl Neighbour>) {
    let mut wait = LOOK_OFTEN;
    let mut until_clock = CLOCK_EVERY;
    let mut seen = Vec::new();
    loop {
        let hears = node.hints().hears.load(Ordering::SeqCst);
        let next = if hears { LOOK_WHILE_HEARING } else { wait };
        let pause = next / 2 + jittered(next / 2);
        sleep(pause).await;
        match look(&*node).await {
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
            if let Err(failure) = node.look_at_clock().await {
                tracing::debug!(?failure, "cannot look at the store's clock");
            }
        }
    }
}

/// Tells who listens here what is due before the next look.
async fn look<N: Neighbour>(node: &N) -> Result<Vec<LaneDue>, N::Failure> {
    let lines = node.due_until(node.now() + LOOK_WHILE_HEARING * 2).await?;
    node.tell_here(&lines);
    Ok(lines)
}

/// A wait of which chance takes a part: anything from nothing to this.
pub(crate) fn jittered(wait: Duration) -> Duration {
    wait.mul_f64(fastrand::f64())
}

/// Hints as texts: the teller's number, then line and time of each.
fn write(teller: u32, dues: &[LaneDue]) -> Vec<String> {
    let mut texts: Vec<String> = Vec::new();
    for due in dues {
        let line = u64::from(due.lane.as_u32()) * 2 + u64::from(due.turn == Turn::Retry);
        let hint = format!(" {line}@{}", due.at.as_nanos());
        match texts.last_mut().filter(|text| text.len() + hint.len() <= TEXT_MAX) {
            Some(text) => text.push_str(&hint),
            None => texts.push(format!("{teller}{hint}")),
        }
    }
    texts
}

/// What makes no sense is left out: hints are only hints.
fn read(text: &str) -> (Option<u32>, Vec<LaneDue>) {
    let mut parts = text.split(' ');
    let teller = parts.next().and_then(|number| number.parse().ok());
    let due = |part: &str| {
        let (line, at) = part.split_once('@')?;
        let line: u64 = line.parse().ok()?;
        Some(LaneDue {
            lane: LaneId::from_u32(u32::try_from(line >> 1).ok()?),
            turn: if line & 1 == 0 { Turn::First } else { Turn::Retry },
            at: Timestamp::from_nanos(at.parse().ok()?),
        })
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
