//! The whole way: added, stored, claimed, delivered, recorded, with nodes or workers running all the
//! while.

use std::time::Duration;

use anyhow::Result;

use super::Stage;
use super::board::{Board, Page};
use super::server::StoreKind;
use super::team::{Entry, Team, Who};
use crate::bench::figures::Aim;
use crate::bench::intake::count;
use crate::bench::requests::{Due, Task};
use crate::bench::sink::{Sink, wall_nanos};

/// Tables, statements and connections are made by the first ones.
pub(super) const WARM_UP: u64 = 500;

pub(super) async fn end_to_end(stage: &Stage, store: StoreKind, board: &mut Board) -> Result<()> {
    for entry in stage.entries(store, &stage.options.nodes) {
        let tasks = stage.options.tasks;
        let sink = Sink::start(tasks + WARM_UP)?;
        let team = stage.team(entry, sink.address)?;
        let mut page = board.page(format!("end-to-end on {store}"), entry.to_string());
        deliver(&team, entry, &sink, tasks, &mut page).await?;
    }
    Ok(())
}

/// Adds tasks as fast as they are taken, and waits for all of them.
pub(super) async fn deliver(
    team: &Team<'_>,
    entry: Entry,
    sink: &Sink,
    tasks: u64,
    page: &mut Page<'_>,
) -> Result<()> {
    let task = Task { target: sink.address, due: Due::Now, headers: false };
    team.add(task, tasks, WARM_UP).await?;
    sink.wait_for(WARM_UP, Duration::from_secs(60)).await?;
    team.recorded(WARM_UP).await?;

    let (before, started_at) = (team.cpu()?, wall_nanos());
    let added = team.add(task, 0, tasks).await?;
    sink.wait_for(tasks + WARM_UP, Duration::from_secs(240)).await?;
    let seconds = Duration::from_nanos(sink.last_at().saturating_sub(started_at)).as_secs_f64();
    team.recorded(tasks + WARM_UP).await?;
    let after = team.cpu()?;

    let per_task = |seconds: f64| seconds * 1e3 / count(tasks);
    let aim = match (entry.who, entry.store) {
        (Who::Relent, StoreKind::Postgres) => Aim::AtLeast(4_000.0),
        (Who::Relent, StoreKind::Redis) => Aim::AtLeast(7_500.0),
        _ => Aim::None,
    };
    page.aim("delivered", count(tasks) / seconds, "tasks/s", aim);
    page.add("acks meanwhile", count(tasks) / added.seconds, "/s");
    page.add("ack p99 meanwhile", added.ack_p99, "ms");
    let (store, nodes) = (after.store - before.store, after.nodes - before.nodes);
    page.add("CPU of all", per_task(store + nodes + added.cpu), "ms/task");
    page.add("CPU of the store", per_task(store), "ms/task");
    page.add("CPU of nodes or workers", per_task(nodes), "ms/task");
    page.add("CPU of whoever adds", per_task(added.cpu), "ms/task");
    page.aim("delivered twice", count(sink.repeated()), "tasks", Aim::AtMost(0.0));
    Ok(())
}
