//! A dead dependency beside a healthy one: how late the healthy one's tasks are in a service that has
//! 200,000 due tasks of the dead one too, against a service that has none.
//!
//! Alone, the p99 of such a window varies by more than 10 % from one minute to the next, as the
//! machine does. So the services run side by side and their healthy tasks take turns: what stops the
//! machine for some milliseconds delays all of them. One more service is as alone as the first; how
//! far those two differ is what a difference must exceed to mean something. What one service takes
//! away from all of them this cannot show, so the processor time of each is there too.

use std::net::{SocketAddr, TcpListener};

use anyhow::Result;
use tokio::try_join;

use super::Bench;
use super::figures::{Aim, Figures};
use super::intake::Posting;
use super::lateness::{Timetable, Window, settle, wall_millis};
use super::requests::{Due, Request, Task};
use super::service::{DataDirectory, Service};

const DEAD_TASKS: u64 = 200_000;
/// Beyond the numbers of the healthy one's tasks.
const NUMBERS_FROM: u64 = 2_000_000_000;
/// Everything is stored before the first task is due.
const AHEAD_MILLIS: u64 = 40_000;
/// Of each service; four minutes of them.
const HEALTHY_TASKS: u64 = 30_000;

pub(super) async fn neighbour(bench: &Bench<'_>, figures: &mut Figures) -> Result<()> {
    let begins_at = wall_millis() + AHEAD_MILLIS;
    // Nobody listens where a listener was dropped, and one that accepts nothing is connected to.
    let closed = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let silent = listener.local_addr()?;

    let alone = Neighbour::start(bench, "alone", 0)?;
    let as_alone = Neighbour::start(bench, "as alone", 1)?;
    let beside_closed = Neighbour::start(bench, "beside a closed port", 2)?;
    let beside_silent = Neighbour::start(bench, "beside a silent one", 3)?;
    beside_closed.load(closed, begins_at).await?;
    beside_silent.load(silent, begins_at).await?;
    settle()?;
    let (alone, as_alone, beside_closed, beside_silent) = try_join!(
        alone.measure(begins_at),
        as_alone.measure(begins_at),
        beside_closed.measure(begins_at),
        beside_silent.measure(begins_at),
    )?;
    alone.report(figures, None);
    as_alone.report(figures, Some((&alone, Aim::None)));
    for beside in [beside_closed, beside_silent] {
        beside.report(figures, Some((&alone, Aim::AtMost(10.0))));
    }
    Ok(())
}

/// A service with its data.
struct Neighbour {
    name: &'static str,
    turn: u64,
    service: Service,
    _data: DataDirectory,
}

impl Neighbour {
    fn start(bench: &Bench<'_>, name: &'static str, turn: u64) -> Result<Neighbour> {
        let data = DataDirectory::named(bench, &name.replace(' ', "-"))?;
        let service = Service::start(bench, &data)?;
        Ok(Neighbour { name, turn, service, _data: data })
    }

    /// Hands it the tasks of a dead dependency.
    async fn load(&self, dependency: SocketAddr, due_at: u64) -> Result<()> {
        let task = Task { target: dependency, due: Due::At, headers: false };
        let request = Request::batch(task, 1_000);
        let posting = Posting { request, connections: 4, first: NUMBERS_FROM, tasks: DEAD_TASKS };
        posting.run(self.service.address, move |_| due_at).await?;
        Ok(())
    }

    async fn measure(self, begins_at: u64) -> Result<Measured> {
        let Neighbour { name, turn, service, .. } = &self;
        let timetable = Timetable { begins_at, tasks: HEALTHY_TASKS, turn: *turn, turns: 4 };
        let cpu_before = service.cpu_seconds()?;
        let window = Window::measure(service.address, timetable).await?;
        let cpu_seconds = service.cpu_seconds()? - cpu_before;
        Ok(Measured { name, p50: window.at(0.5), p99: window.at(0.99), cpu_seconds })
    }
}

struct Measured {
    name: &'static str,
    p50: f64,
    p99: f64,
    cpu_seconds: f64,
}

impl Measured {
    fn report(&self, figures: &mut Figures, against: Option<(&Measured, Aim)>) {
        const NAME: &str = "neighbour";
        let of = |measured: &Measured| {
            [
                ("p50", measured.p50, "ms"),
                ("p99", measured.p99, "ms"),
                ("CPU", measured.cpu_seconds, "s"),
            ]
        };
        for (what, value, unit) in of(self) {
            figures.add(NAME, format!("{what} {}", self.name), value, unit, Aim::None);
        }
        let Some((other, aim)) = against else { return };
        for ((what, value, _), (_, before, _)) in of(self).into_iter().zip(of(other)) {
            let aim = if what == "p99" { aim } else { Aim::None };
            let change = (value / before - 1.0) * 100.0;
            figures.add(NAME, format!("{what} {}, change", self.name), change, "%", aim);
        }
    }
}
