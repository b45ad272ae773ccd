//! The guarantees, held against what the producer, the service and the target each know.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tokio::task::JoinSet;

use super::{Journal, MAX_ATTEMPTS};
use crate::rig::{Client, Seen, millis};

const READERS: usize = 4;
/// How far two clocks and a rounding may disagree, in milliseconds.
const LEEWAY_MS: f64 = 2.0;
/// A task and its attempts, as the service tells them.
#[derive(Debug)]
pub(crate) struct Told {
    task: Value,
    attempts: Vec<Value>,
    is_dead_letter: bool,
}

/// What a run came to.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    pub(crate) acked: usize,
    lost: usize,
    stored_without_ack: usize,
    requests: usize,
    pub(crate) abandoned: Vec<Abandoned>,
    pub(crate) duplicates: usize,
    /// 2xx that came when the attempt had timed out.
    pub(crate) too_late: usize,
    /// Writes of owners that were too late, which whoever knows adds.
    pub(crate) stale: f64,
    succeeded: usize,
    exhausted: usize,
    cancelled: usize,
}

/// An attempt that was lost, in milliseconds since the epoch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Abandoned {
    pub(crate) claimed_at: f64,
    pub(crate) taken_over_at: f64,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Figures { acked, lost, stored_without_ack, requests, abandoned, duplicates, .. } = self;
        let Figures { succeeded, exhausted, cancelled, .. } = self;
        write!(f, "{acked} acked, {lost} lost, {stored_without_ack} stored without ack; ")?;
        write!(f, "{succeeded} succeeded, {exhausted} exhausted, {cancelled} cancelled; ")?;
        let abandoned = abandoned.len();
        write!(f, "{requests} requests, {abandoned} attempts abandoned, ")?;
        write!(f, "{duplicates} duplicate 2xx ({} of them after a timeout), ", self.too_late)?;
        write!(f, "{} stale writes", self.stale)
    }
}

/// Everything that the service knows, by key, asked of these nodes.
pub(crate) async fn tasks(nodes: &[SocketAddr]) -> HashMap<String, Told> {
    let client = Client::patient(nodes[0]);
    let tasks = client.all("/retry-tasks").await;
    let dead = client.all("/dead-letters").await;
    let dead: HashSet<String> = dead.iter().map(|task| text(task, "taskId")).collect();
    let mut readers = JoinSet::new();
    let chunks = tasks.chunks(tasks.len().div_ceil(READERS).max(1));
    for (chunk, node) in chunks.zip(nodes.iter().cycle()) {
        let (client, chunk) = (Client::patient(*node), chunk.to_vec());
        readers.spawn(async move {
            let mut read = Vec::with_capacity(chunk.len());
            for task in chunk {
                let attempts = client.attempts(&text(&task, "taskId")).await;
                read.push((task, attempts));
            }
            read
        });
    }
    let mut told = HashMap::new();
    for (task, attempts) in readers.join_all().await.into_iter().flatten() {
        let is_dead_letter = dead.contains(&text(&task, "taskId"));
        let key = text(&task, "idempotencyKey");
        let before = told.insert(key.clone(), Told { task, attempts, is_dead_letter });
        assert!(before.is_none(), "G9: {key} has two tasks");
    }
    assert_eq!(dead.len(), told.values().filter(|told| told.is_dead_letter).count());
    told
}

/// Holds everything together; fails with the guarantee that is broken.
pub(crate) fn check(journal: &Journal, tasks: &HashMap<String, Told>, seen: &[Seen]) -> Figures {
    let mut by_key: HashMap<&str, Vec<&Seen>> = HashMap::new();
    for seen in seen {
        by_key.entry(&seen.key).or_default().push(seen);
    }
    let lost: Vec<_> = journal.acked.keys().filter(|key| !tasks.contains_key(*key)).collect();
    assert!(lost.is_empty(), "G1: acknowledged and lost: {lost:?}");
    for (key, id) in &journal.acked {
        assert_eq!(text(&tasks[key].task, "taskId"), *id, "G9: {key}");
    }
    let refused = journal.refused.iter().find(|key| tasks.contains_key(*key));
    assert_eq!(refused, None, "refused and stored all the same");
    let mut figures = Figures {
        acked: journal.acked.len(),
        stored_without_ack: tasks.len() - journal.acked.len(),
        requests: seen.len(),
        ..Figures::default()
    };
    for key in by_key.keys() {
        assert!(tasks.contains_key(*key), "a request for {key}, which does not exist");
    }
    for (key, told) in tasks {
        let seen = by_key.remove(key.as_str()).unwrap_or_default();
        let fails =
            |what: &str| panic!("{what}: {key}\n{:#}\n{:#?}\n{seen:#?}", told.task, told.attempts);
        if let Some(broken) = broken(told, &seen) {
            fails(broken);
        }
        if let Some((at, under_way)) = journal.cancelled.get(key)
            && seen.iter().any(|it| it.arrived > *at && it.attempt.map(u64::from) != *under_way)
        {
            fails("G10: a request after an acknowledged cancel");
        }
        match told.task["status"].as_str() {
            Some("SUCCEEDED") => figures.succeeded += 1,
            Some("EXHAUSTED") => figures.exhausted += 1,
            Some("CANCELLED") => figures.cancelled += 1,
            _ => fails("G2: not ended"),
        }
        let lost = told.attempts.iter().filter(|row| is_abandoned(row));
        figures.abandoned.extend(lost.map(Abandoned::of));
        figures.too_late +=
            seen.iter().filter(|seen| is_success(seen) && is_too_late(told, seen)).count();
        figures.duplicates += seen.iter().filter(|seen| is_success(seen)).count().saturating_sub(1);
    }
    figures
}

/// What is broken about one task, if anything is.
fn broken(told: &Told, seen: &[&Seen]) -> Option<&'static str> {
    let Told { task, attempts, is_dead_letter } = told;
    let numbers: Vec<usize> = attempts.iter().map(|row| number(row, "attemptNumber")).collect();
    if numbers != (1..=number(task, "attemptNumber")).collect::<Vec<_>>() {
        return Some("G7: the log has gaps");
    }
    if seen.len() > MAX_ATTEMPTS || attempts.len() > MAX_ATTEMPTS {
        return Some("G3: more attempts than allowed");
    }
    let row_of = |seen: &Seen| seen.attempt.and_then(|nth| attempts.get(nth as usize - 1));
    let distinct: HashSet<_> = seen.iter().map(|seen| seen.attempt).collect();
    if distinct.len() < seen.len() || seen.iter().any(|seen| row_of(seen).is_none()) {
        return Some("G7: requests that are not in the log, each once");
    }
    if seen.iter().any(|it| {
        (it.body_hash, &it.method, &it.path) != (seen[0].body_hash, &seen[0].method, &seen[0].path)
    }) {
        return Some("G6: not the same bytes");
    }
    for seen in seen {
        let Some(row) = row_of(seen) else { continue };
        let said = row["responseStatus"].as_u64();
        if said.is_some() && said != seen.answered.map(u64::from) {
            return Some("the log tells of an answer that was not given");
        }
    }
    if is_early(attempts, seen) {
        return Some("G4: early");
    }
    if overlaps(attempts, seen) {
        return Some("G5: two at once");
    }
    let succeeded = task["status"] == "SUCCEEDED";
    if succeeded && !seen.iter().any(|seen| is_success(seen)) {
        return Some("succeeded without a 2xx");
    }
    if (task["status"] == "EXHAUSTED") != *is_dead_letter {
        return Some("G8: given up and not a dead letter, or the other way round");
    }
    None
}

/// Whether a request came before the log says, or before the target had asked.
fn is_early(attempts: &[Value], seen: &[&Seen]) -> bool {
    seen.iter().any(|next| {
        let Some(before) =
            next.attempt.and_then(|nth| attempts.get((nth as usize).wrapping_sub(2)))
        else {
            return false;
        };
        let due = before["nextAttemptAt"].as_f64();
        let too_soon = due.is_none_or(|due| millis(next.arrived_at) < due - LEEWAY_MS);
        let asked = seen.iter().find(|it| it.attempt.map(|nth| nth + 1) == next.attempt);
        let asked = asked.filter(|asked| asked.answered == Some(429) && !is_abandoned(before));
        let pushed = asked.and_then(|asked| asked.turned).is_some_and(|turned| {
            next.arrived.duration_since(turned) + Duration::from_millis(2) < Duration::from_secs(1)
        });
        too_soon || pushed
    })
}

/// Whether a request came before the one before it was over, and neither was of a lost attempt. What
/// a lost one's owner still does, if it lives, is nobody's to say.
fn overlaps(attempts: &[Value], seen: &[&Seen]) -> bool {
    let is_lost = |seen: &Seen| {
        seen.attempt.and_then(|nth| attempts.get(nth as usize - 1)).is_none_or(is_abandoned)
    };
    let owned: Vec<&Seen> = seen.iter().copied().filter(|seen| !is_lost(seen)).collect();
    owned.windows(2).any(|pair| {
        let row = pair[0].attempt.and_then(|nth| attempts.get(nth as usize - 1));
        match row.filter(|row| row["responseStatus"].is_null()) {
            // The target may notice late that it was hung up on.
            Some(row) => millis(pair[1].arrived_at) < ended_at(row),
            // And its thread may rest between an answer's last byte and the next line.
            None => pair[0].turned.is_none_or(|turned| pair[1].arrived < turned),
        }
    })
}

fn is_success(seen: &Seen) -> bool {
    seen.answered.is_some_and(|status| (200..300).contains(&status))
}

/// The target answered, and whoever asked had gone.
fn is_too_late(told: &Told, seen: &Seen) -> bool {
    let row = seen.attempt.and_then(|nth| told.attempts.get(nth as usize - 1));
    row.is_some_and(|row| row["responseStatus"].is_null() && !is_abandoned(row))
}

fn is_abandoned(row: &Value) -> bool {
    row["error"] == "abandoned"
}

/// When an attempt ended, in milliseconds since the epoch, rounded down.
fn ended_at(row: &Value) -> f64 {
    ["startedAt", "durationMs"].map(|name| row[name].as_f64().expect("a number")).iter().sum()
}

impl Abandoned {
    fn of(row: &Value) -> Abandoned {
        let claimed_at = row["startedAt"].as_f64().expect("a number");
        Abandoned { claimed_at, taken_over_at: ended_at(row) }
    }

    /// How long it took until somebody noticed.
    pub(crate) fn noticed_after(&self) -> f64 {
        self.taken_over_at - self.claimed_at
    }
}

fn text(document: &Value, name: &str) -> String {
    document[name].as_str().unwrap_or_else(|| panic!("no {name} in {document}")).to_owned()
}

fn number(document: &Value, name: &str) -> usize {
    document[name].as_u64().and_then(|number| number.try_into().ok()).unwrap_or(usize::MAX)
}
