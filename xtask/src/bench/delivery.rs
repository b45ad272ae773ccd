//! The whole way: posted, stored, claimed, delivered, recorded.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::Bench;
use super::figures::{Aim, Figures, quantile};
use super::http::Connection;
use super::intake::{CONNECTIONS, Posting, count};
use super::requests::{Due, Request, Task};
use super::service::{DataDirectory, Service, own_cpu_seconds};
use super::sink::{Sink, wall_nanos};

/// Tasks that are due at once, as fast as the service takes and delivers them.
pub(super) async fn end_to_end(bench: &Bench<'_>, figures: &mut Figures) -> Result<()> {
    const NAME: &str = "end-to-end";
    let tasks = bench.options.tasks;
    let data = DataDirectory::new(bench)?;
    let (sink, service) = (Sink::start(tasks)?, Service::start(bench, &data)?);
    let task = Task { target: sink.address, due: Due::Now, headers: false };
    let (served_before, own_before) = (service.cpu_seconds()?, own_cpu_seconds()?);
    let posted_at = wall_nanos();
    let posting =
        Posting { request: Request::one(task), connections: CONNECTIONS, first: 0, tasks };
    let posted = posting.run(service.address, |_| 0).await?;
    sink.wait_for(tasks, Duration::from_secs(120)).await?;
    let took = Duration::from_nanos(sink.last_at().saturating_sub(posted_at)).as_secs_f64();
    recorded(&service, tasks).await?;
    let served = (service.cpu_seconds()? - served_before) * 1e3;
    let own = (own_cpu_seconds()? - own_before) * 1e3;
    let memory = service.memory()?;

    let count = count(tasks);
    figures.add(NAME, "delivered", count / took, "tasks/s", Aim::AtLeast(10_000.0));
    figures.add(NAME, "acks meanwhile", count / posted.took.as_secs_f64(), "/s", Aim::None);
    figures.add(NAME, "ack p99", quantile(&posted.ack_millis, 0.99), "ms", Aim::None);
    figures.add(NAME, "CPU of all", (served + own) / count, "ms/task", Aim::AtMost(0.15));
    figures.add(NAME, "CPU of the service", served / count, "ms/task", Aim::None);
    figures.add(NAME, "CPU of generator and sink", own / count, "ms/task", Aim::None);
    figures.add(NAME, "delivered twice", self::count(sink.repeated()), "tasks", Aim::AtMost(0.0));
    figures.add(NAME, "RSS in the end", memory.resident / 1e6, "MB", Aim::None);
    Ok(())
}

/// Waits until every task is recorded as delivered.
async fn recorded(service: &Service, tasks: u64) -> Result<()> {
    let mut connection = Connection::open(service.address).await?;
    let asked_at = Instant::now();
    loop {
        let page = connection.get("/metrics").await?;
        let ended =
            page.lines().find_map(|line| line.strip_prefix("retry_task_age_seconds_count "));
        if ended.and_then(|ended| ended.parse().ok()) == Some(tasks) {
            return Ok(());
        }
        if asked_at.elapsed() > Duration::from_secs(10) {
            bail!("{ended:?} of {tasks} tasks are recorded");
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
