//! What a task costs the store in requests: statements and transactions on PostgreSQL, scripts and
//! commands on Redis. Counting statements costs time, so nothing else is measured meanwhile.

use std::time::Duration;

use anyhow::Result;

use super::Stage;
use super::board::Board;
use super::server::{Counting, StoreKind};
use crate::bench::intake::count as figure;
use crate::bench::requests::{Due, Task};
use crate::bench::sink::Sink;

const TASKS: u64 = 10_000;
const WARM_UP: u64 = 500;
/// PostgreSQL's sessions write their counts down after a second.
const SETTLED_AFTER: Duration = Duration::from_millis(1_500);

pub(super) async fn count(stage: &Stage, store: StoreKind, board: &mut Board) -> Result<()> {
    for entry in stage.entries(store, &[1]) {
        let sink = Sink::start(TASKS + WARM_UP)?;
        let team = stage.counted_team(entry, sink.address, Counting::Statements)?;
        let task = Task { target: sink.address, due: Due::Now, headers: false };
        team.add(task, TASKS, WARM_UP).await?;
        sink.wait_for(WARM_UP, Duration::from_secs(60)).await?;
        tokio::time::sleep(SETTLED_AFTER).await;
        let before = team.server.work()?;
        team.add(task, 0, TASKS).await?;
        sink.wait_for(TASKS + WARM_UP, Duration::from_secs(120)).await?;
        team.recorded(TASKS + WARM_UP).await?;
        tokio::time::sleep(SETTLED_AFTER).await;
        let after = team.server.work()?;
        let mut page = board.page(format!("statements on {store}"), entry.to_string());
        let (sent, done) = match store {
            StoreKind::Postgres => ("statements", "transactions"),
            StoreKind::Redis => ("scripts", "commands, also within scripts"),
        };
        page.add(sent, (after.sent - before.sent) / figure(TASKS), "/task");
        page.add(done, (after.done - before.done) / figure(TASKS), "/task");
    }
    Ok(())
}
