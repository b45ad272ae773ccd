//! Beside a million tasks that wait: how long a claim takes in the store, and the whole way.

use anyhow::Result;

use super::Stage;
use super::board::Board;
use super::claims::ClaimTimes;
use super::delivery::deliver;
use super::server::StoreKind;
use super::team::{Entry, Who};
use crate::bench::intake::count;
use crate::bench::sink::Sink;
use crate::bench::waiting::load;

pub(super) async fn waiting(stage: &Stage, store: StoreKind, board: &mut Board) -> Result<()> {
    let (tasks, waiting) = (stage.options.tasks, stage.options.waiting);
    for waiting in [0, waiting] {
        let entry = Entry { who: Who::Relent, store, nodes: 1 };
        let sink = Sink::start(tasks + super::delivery::WARM_UP)?;
        let team = stage.team(entry, sink.address)?;
        let scenario = format!("{waiting} waiting on {store}");
        let mut page = board.page(scenario, entry.to_string());
        let addresses = team.addresses();
        if waiting > 0 {
            let before = team.cpu()?;
            let loaded = load(addresses[0], waiting).await?;
            let after = team.cpu()?;
            page.add("load, 1,000 a batch", count(waiting) / loaded.took.as_secs_f64(), "tasks/s");
            let used = (after.store - before.store) + (after.nodes - before.nodes);
            page.add("CPU of store and node to load", used * 1e3 / count(waiting), "ms/task");
        }
        let before = ClaimTimes::read(&addresses).await?;
        deliver(&team, entry, &sink, tasks, &mut page).await?;
        let claims = ClaimTimes::read(&addresses).await?.since(&before);
        page.add("claim p50", claims.quantile(0.5), "ms");
        page.add("claim p99", claims.quantile(0.99), "ms");
        page.add("tasks a claim", count(tasks) / claims.count(), "tasks");
    }
    Ok(())
}
