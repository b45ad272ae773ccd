//! Storing alone: tasks that are due in an hour, one per call and in batches.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;

use super::Bench;
use super::figures::{Aim, Figures, quantile};
use super::http::Connection;
use super::requests::{Due, Request, Task};
use super::service::{DataDirectory, Service, own_cpu_seconds};

pub(super) const CONNECTIONS: u64 = 64;
pub(super) const AN_HOUR: Due = Due::AfterMillis(3_600_000);
/// Nobody listens there, and nothing is sent within the hour.
pub(super) const NOWHERE: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 9);

/// One task per call over 64 connections, each acknowledged when it is on disk.
pub(super) async fn enqueue(bench: &Bench<'_>, figures: &mut Figures) -> Result<()> {
    const NAME: &str = "enqueue";
    let data = DataDirectory::new(bench)?;
    let service = Service::start(bench, &data)?;
    let task = Task { target: NOWHERE, due: AN_HOUR, headers: false };
    let tasks = bench.options.tasks;
    let (served_before, own_before) = (service.cpu_seconds()?, own_cpu_seconds()?);
    let posting =
        Posting { request: Request::one(task), connections: CONNECTIONS, first: 0, tasks };
    let posted = posting.run(service.address, |_| 0).await?;
    let served = (service.cpu_seconds()? - served_before) * 1e3;
    let own = (own_cpu_seconds()? - own_before) * 1e3;

    let count = count(tasks);
    figures.add(NAME, "acks", count / posted.took.as_secs_f64(), "/s", Aim::AtLeast(25_000.0));
    figures.add(NAME, "ack p50", quantile(&posted.ack_millis, 0.5), "ms", Aim::None);
    figures.add(NAME, "ack p99", quantile(&posted.ack_millis, 0.99), "ms", Aim::None);
    figures.add(NAME, "CPU of the service", served / count, "ms/task", Aim::None);
    figures.add(NAME, "CPU of the generator", own / count, "ms/task", Aim::None);
    Ok(())
}

/// Batches of 100 and of 1,000, over 8 connections.
pub(super) async fn batch(bench: &Bench<'_>, figures: &mut Figures) -> Result<()> {
    const NAME: &str = "batch";
    for size in [100, 1_000] {
        let data = DataDirectory::new(bench)?;
        let service = Service::start(bench, &data)?;
        let task = Task { target: NOWHERE, due: AN_HOUR, headers: false };
        let tasks = (bench.options.tasks * 4).next_multiple_of(size as u64);
        let served_before = service.cpu_seconds()?;
        let posting =
            Posting { request: Request::batch(task, size), connections: 8, first: 0, tasks };
        let posted = posting.run(service.address, |_| 0).await?;
        let served = (service.cpu_seconds()? - served_before) * 1e3;
        let rate = count(tasks) / posted.took.as_secs_f64();
        figures.add(NAME, format!("tasks, {size} a batch"), rate, "/s", Aim::AtLeast(60_000.0));
        let cpu = served / count(tasks);
        figures.add(NAME, format!("CPU of the service, {size} a batch"), cpu, "ms/task", Aim::None);
    }
    Ok(())
}

/// Tasks that are to be posted.
#[derive(Debug)]
pub(super) struct Posting {
    pub(super) request: Request,
    pub(super) connections: u64,
    /// The number of the first task.
    pub(super) first: u64,
    pub(super) tasks: u64,
}

/// What came of posting.
#[derive(Debug)]
pub(super) struct Posted {
    pub(super) took: Duration,
    /// From a request to its answer, sorted.
    pub(super) ack_millis: Vec<f64>,
}

impl Posting {
    /// Posts everything: each connection the next request as soon as its last one is answered.
    pub(super) async fn run(
        self,
        address: SocketAddr,
        due_at: impl Fn(u64) -> u64 + Copy + Send + Sync + 'static,
    ) -> Result<Posted> {
        self.spread(&[address], due_at).await
    }

    /// The same, to several nodes in turn.
    pub(super) async fn spread(
        self,
        nodes: &[SocketAddr],
        due_at: impl Fn(u64) -> u64 + Copy + Send + Sync + 'static,
    ) -> Result<Posted> {
        let (first, end) = (self.first, self.first + self.tasks);
        let next = Arc::new(AtomicU64::new(first));
        let mut connections = Vec::new();
        for (_, node) in (0..self.connections).zip(nodes.iter().cycle()) {
            connections.push(Connection::open(*node).await?);
        }
        let started_at = Instant::now();
        let mut working = tokio::task::JoinSet::new();
        for mut connection in connections {
            let (mut request, next) = (self.request.clone(), Arc::clone(&next));
            working.spawn(async move {
                let mut acks = Vec::new();
                loop {
                    let number = next.fetch_add(request.tasks() as u64, Ordering::Relaxed);
                    if number >= end {
                        return anyhow::Ok(acks);
                    }
                    let bytes = request.numbered(number, due_at);
                    let sent_at = Instant::now();
                    connection.call(bytes).await?;
                    acks.push(sent_at.elapsed().as_secs_f64() * 1e3);
                }
            });
        }
        let mut ack_millis = Vec::new();
        while let Some(acks) = working.join_next().await {
            ack_millis.extend(acks??);
        }
        let took = started_at.elapsed();
        ack_millis.sort_unstable_by(f64::total_cmp);
        Ok(Posted { took, ack_millis })
    }
}

/// A count as a figure.
#[expect(clippy::cast_precision_loss, reason = "nobody posts 2^53 tasks")]
pub(super) fn count(tasks: u64) -> f64 {
    tasks as f64
}
