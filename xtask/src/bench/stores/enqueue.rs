//! Storing alone: tasks one by one from 64 callers, each acknowledged when it is stored. Nobody
//! delivers meanwhile: the service's tasks are due in an hour, and a peer has no worker.

use anyhow::Result;

use super::Stage;
use super::board::Board;
use super::server::StoreKind;
use super::team::Who;
use crate::bench::figures::Aim;
use crate::bench::intake::{AN_HOUR, NOWHERE, count};
use crate::bench::requests::Task;

pub(super) async fn enqueue(stage: &Stage, store: StoreKind, board: &mut Board) -> Result<()> {
    for mut entry in stage.entries(store, &[1]) {
        if entry.who != Who::Relent {
            entry.nodes = 0;
        }
        let tasks = stage.options.tasks;
        let team = stage.team(entry, NOWHERE)?;
        let task = Task { target: NOWHERE, due: AN_HOUR, headers: false };
        // Tables, statements and connections are made by the first ones.
        team.add(task, 1_000_000_000, 500).await?;
        let before = team.cpu()?;
        let added = team.add(task, 0, tasks).await?;
        let after = team.cpu()?;
        let per_task = |seconds: f64| seconds * 1e3 / count(tasks);
        let aim = match (entry.who, store) {
            (Who::Relent, StoreKind::Postgres) => Aim::AtLeast(8_000.0),
            _ => Aim::None,
        };
        let mut page = board.page(format!("enqueue on {store}"), entry.to_string());
        page.aim("acks", count(tasks) / added.seconds, "/s", aim);
        page.add("ack p50", added.ack_p50, "ms");
        page.add("ack p99", added.ack_p99, "ms");
        let (store, nodes) = (after.store - before.store, after.nodes - before.nodes);
        page.add("CPU of all", per_task(store + nodes + added.cpu), "ms/task");
        page.add("CPU of the store", per_task(store), "ms/task");
    }
    Ok(())
}
