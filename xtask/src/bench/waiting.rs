//! Many tasks that wait: what they cost in memory and on disk, and how soon a service that has them
//! delivers after a restart.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::Bench;
use super::figures::{Aim, Figures};
use super::intake::{Posted, Posting, count};
use super::lateness::wall_millis;
use super::requests::{Due, Request, Task};
use super::service::{DataDirectory, Service};
use super::sink::Sink;

const BATCH: u64 = 1_000;
/// Their dues are spread over a day that begins in an hour.
const FROM_MILLIS: u64 = 3_600_000;
const SPREAD_MILLIS: u64 = 86_400_000;
/// Beyond every number that a scenario uses for something else.
const NUMBERS_FROM: u64 = 1_000_000_000;

/// Loads tasks that are due on the next day, in batches.
pub(super) async fn load(service: SocketAddr, tasks: u64) -> Result<Posted> {
    let from = wall_millis() + FROM_MILLIS;
    // 1,000,003 is prime, so neighbours are far apart in time and the day is used evenly.
    let due_at = move |number: u64| from + number * 1_000_003 % SPREAD_MILLIS;
    let tasks = tasks.next_multiple_of(BATCH);
    let task = Task { target: SocketAddr::from(([127, 0, 0, 1], 9)), due: Due::At, headers: true };
    let request = Request::batch(task, 1_000);
    let posting = Posting { request, connections: 4, first: NUMBERS_FROM, tasks };
    posting.run(service, due_at).await
}

pub(super) async fn waiting(bench: &Bench<'_>, figures: &mut Figures) -> Result<()> {
    const NAME: &str = "waiting";
    let data = DataDirectory::new(bench)?;
    let service = Service::start(bench, &data)?;
    let before = service.memory()?;
    let tasks = count(bench.options.waiting);
    let posted = load(service.address, bench.options.waiting).await?;
    let after = service.memory()?;
    figures.add(NAME, "load", tasks / posted.took.as_secs_f64(), "tasks/s", Aim::None);
    figures.add(NAME, "RSS when idle", before.resident / 1e6, "MB", Aim::None);
    figures.add(NAME, "RSS", after.resident / 1e6, "MB", Aim::AtMost(150.0));
    figures.add(NAME, "PSS", after.proportional / 1e6, "MB", Aim::None);
    figures.add(NAME, "anonymous", after.anonymous / 1e6, "MB", Aim::None);
    figures.add(NAME, "disk", count(data.bytes()?) / tasks, "bytes/task", Aim::AtMost(1_200.0));
    let cpu_before = service.cpu_seconds()?;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let idle = (service.cpu_seconds()? - cpu_before) / 5.0;
    figures.add(NAME, "CPU with nothing due", idle * 100.0, "% of a core", Aim::None);
    service.stop().await?;
    let rest = count(data.bytes()?) / tasks;
    figures.add(NAME, "disk, stopped", rest, "bytes/task", Aim::AtMost(1_200.0));
    Ok(())
}

/// How a service ends before its restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Stopped,
    Killed,
}

/// From the start of the process to its first delivery and to its first acknowledgement, after an
/// orderly stop and after a kill.
pub(super) async fn restart(bench: &Bench<'_>, figures: &mut Figures) -> Result<()> {
    const NAME: &str = "restart";
    let data = DataDirectory::new(bench)?;
    let sink = Sink::start(2)?;
    let mut service = Service::start(bench, &data)?;
    load(service.address, bench.options.waiting).await?;
    for (number, end) in [(0, End::Stopped), (1, End::Killed)] {
        // Due while the service is down.
        let due_at = wall_millis() + 2_500;
        let task = Task { target: sink.address, due: Due::At, headers: false };
        post_one(service.address, task, number, due_at).await?;
        let asked_at = Instant::now();
        match end {
            End::Stopped => {
                service.stop().await?;
                let took = asked_at.elapsed().as_secs_f64();
                figures.add(NAME, "orderly stop", took, "s", Aim::None);
            }
            End::Killed => drop(service),
        }
        let left = due_at.saturating_sub(wall_millis());
        tokio::time::sleep(Duration::from_millis(left + 1)).await;
        service = Service::start(bench, &data)?;
        sink.wait_for(number + 1, Duration::from_secs(60)).await?;
        let first = service.spawned_at.elapsed().as_secs_f64();
        let ready = (service.ready_at - service.spawned_at).as_secs_f64();
        let how = if end == End::Stopped { "after a stop" } else { "after kill -9" };
        figures.add(NAME, format!("first delivery {how}"), first, "s", Aim::AtMost(1.0));
        figures.add(NAME, format!("listening {how}"), ready, "s", Aim::None);
        // Its key has to be compared with every other one.
        let far = Task { target: sink.address, due: Due::AfterMillis(FROM_MILLIS), headers: false };
        post_one(service.address, far, NUMBERS_FROM - 1 - number, 0).await?;
        let acked = service.spawned_at.elapsed().as_secs_f64();
        figures.add(NAME, format!("first task taken {how}"), acked, "s", Aim::None);
        let memory = service.memory()?.resident / 1e6;
        figures.add(NAME, format!("RSS {how}"), memory, "MB", Aim::AtMost(150.0));
    }
    Ok(())
}

async fn post_one(service: SocketAddr, task: Task, number: u64, due_at: u64) -> Result<()> {
    let request = Request::one(task);
    let posting = Posting { request, connections: 1, first: number, tasks: 1 };
    posting.run(service, move |_| due_at).await?;
    Ok(())
}
