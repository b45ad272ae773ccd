//! How long after its due time a task arrives: 5,000 tasks over 10 s, with and without others that
//! wait. Those were loaded a moment ago, as they never are in a day of the service: what the system
//! still has to write of them is written before the measurement.

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use super::Bench;
use super::figures::{Aim, Figures, quantile};
use super::intake::Posting;
use super::requests::{Due, Request, Task};
use super::service::{DataDirectory, Service};
use super::sink::{Sink, wall_nanos};
use super::waiting;

/// Everything is stored before the first one is due.
const AHEAD_MILLIS: u64 = 2_000;
/// Tasks of a window.
pub(super) const TASKS: u64 = 5_000;

pub(super) async fn lateness(bench: &Bench<'_>, figures: &mut Figures) -> Result<()> {
    const NAME: &str = "lateness";
    for waiting in [0, bench.options.waiting] {
        let data = DataDirectory::new(bench)?;
        let service = Service::start(bench, &data)?;
        if waiting > 0 {
            waiting::load(service.address, waiting).await?;
            settle()?;
        }
        let begins_at = wall_millis() + AHEAD_MILLIS;
        let timetable = Timetable { begins_at, tasks: TASKS, turn: 0, turns: 1 };
        let window = Window::measure(service.address, timetable).await?;
        let among = format!("{waiting} others");
        figures.add(NAME, format!("p50, {among}"), window.at(0.5), "ms", Aim::AtMost(1.0));
        figures.add(NAME, format!("p90, {among}"), window.at(0.9), "ms", Aim::None);
        figures.add(NAME, format!("p99, {among}"), window.at(0.99), "ms", Aim::AtMost(5.0));
        figures.add(NAME, format!("latest, {among}"), window.at(1.0), "ms", Aim::None);
        let early = super::intake::count(window.early);
        figures.add(NAME, format!("early, {among}"), early, "tasks", Aim::AtMost(0.0));
    }
    Ok(())
}

/// Waits until the disk has everything that was written so far.
pub(super) fn settle() -> Result<()> {
    if !Command::new("sync").status().context("sync")?.success() {
        bail!("sync failed");
    }
    Ok(())
}

/// Milliseconds since the epoch.
pub(super) fn wall_millis() -> u64 {
    wall_nanos() / 1_000_000
}

pub(super) const EVERY_MILLIS: u64 = 2;

/// When the tasks of a window are due: one every [`EVERY_MILLIS`]. Services that are compared take
/// turns, task by task, so that a slow moment of the machine falls on all of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timetable {
    pub(super) begins_at: u64,
    /// How many tasks each service has.
    pub(super) tasks: u64,
    /// Which of the services this is, from 0.
    pub(super) turn: u64,
    pub(super) turns: u64,
}

impl Timetable {
    pub(super) fn due_at(self, number: u64) -> u64 {
        self.begins_at + (number * self.turns + self.turn) * EVERY_MILLIS
    }
}

/// How late the tasks of a window were.
#[derive(Debug)]
pub(super) struct Window {
    /// In order of lateness.
    late_millis: Vec<f64>,
    early: u64,
}

impl Window {
    /// Posts the tasks of a window to a service, and waits until they have arrived at a sink of
    /// their own.
    pub(super) async fn measure(service: SocketAddr, timetable: Timetable) -> Result<Window> {
        let tasks = timetable.tasks;
        let due_at = move |number| timetable.due_at(number);
        let sink = Sink::start(tasks)?;
        let task = Task { target: sink.address, due: Due::At, headers: false };
        let request = Request::batch(task, 100);
        Posting { request, connections: 1, first: 0, tasks }.run(service, due_at).await?;
        if wall_millis() >= due_at(0) {
            bail!("the tasks were not stored before the first was due");
        }
        let left = due_at(tasks).saturating_sub(wall_millis());
        sink.wait_for(tasks, Duration::from_millis(left) + Duration::from_secs(60)).await?;

        let (mut late_millis, mut early) = (Vec::new(), 0);
        for number in 0..tasks {
            let due = due_at(number) * 1_000_000;
            let arrived = sink.arrived_at(number).unwrap_or(u64::MAX);
            early += u64::from(arrived < due);
            let late = Duration::from_nanos(arrived.saturating_sub(due));
            late_millis.push(late.as_secs_f64() * 1e3);
        }
        late_millis.sort_unstable_by(f64::total_cmp);
        Ok(Window { late_millis, early })
    }

    /// So many of them were this late at most, in milliseconds.
    pub(super) fn at(&self, share: f64) -> f64 {
        quantile(&self.late_millis, share)
    }
}
