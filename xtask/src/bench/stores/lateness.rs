//! How long after its due time a task arrives: 5,000 tasks over 10 s.

use std::time::Duration;

use anyhow::{Result, bail};

use super::Stage;
use super::board::{Board, Page};
use super::server::StoreKind;
use super::team::{Entry, Team, Who};
use crate::bench::figures::{Aim, quantile};
use crate::bench::intake::count;
use crate::bench::lateness::{EVERY_MILLIS, TASKS, wall_millis};
use crate::bench::sink::Sink;

/// Everything is stored before the first one is due, also by a peer's process that has to start.
const AHEAD_MILLIS: u64 = 15_000;

pub(super) async fn lateness(stage: &Stage, store: StoreKind, board: &mut Board) -> Result<()> {
    for entry in stage.entries(store, &stage.options.nodes) {
        let sink = Sink::start(TASKS)?;
        let team = stage.team(entry, sink.address)?;
        let mut page = board.page(format!("lateness on {store}"), entry.to_string());
        window(&team, entry, &sink, &mut page).await?;
    }
    Ok(())
}

pub(super) async fn window(
    team: &Team<'_>,
    entry: Entry,
    sink: &Sink,
    page: &mut Page<'_>,
) -> Result<()> {
    let begins_at = wall_millis() + AHEAD_MILLIS;
    let before = team.cpu()?;
    team.schedule(sink.address, (0, TASKS), (begins_at, EVERY_MILLIS)).await?;
    if wall_millis() >= begins_at {
        bail!("the tasks were not stored before the first was due");
    }
    sink.wait_for(TASKS, Duration::from_secs(90)).await?;
    let after = team.cpu()?;
    let (mut late_millis, mut early) = (Vec::new(), 0);
    for number in 0..TASKS {
        let due = (begins_at + number * EVERY_MILLIS) * 1_000_000;
        let arrived = sink.arrived_at(number).unwrap_or(u64::MAX);
        early += u64::from(arrived < due);
        let late = Duration::from_nanos(arrived.saturating_sub(due));
        late_millis.push(late.as_secs_f64() * 1e3);
    }
    late_millis.sort_unstable_by(f64::total_cmp);
    let aim = if entry.who == Who::Relent { Aim::AtMost(10.0) } else { Aim::None };
    page.add("p50", quantile(&late_millis, 0.5), "ms");
    page.aim("p99", quantile(&late_millis, 0.99), "ms", aim);
    page.add("latest", quantile(&late_millis, 1.0), "ms");
    page.aim("early", count(early), "tasks", Aim::AtMost(0.0));
    let used = (after.store - before.store) + (after.nodes - before.nodes);
    page.add("CPU of store and nodes", used * 1e3 / count(TASKS), "ms/task");
    Ok(())
}
