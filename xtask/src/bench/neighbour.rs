//! A dead dependency beside a healthy one: how late the healthy one's tasks are with 200,000 tasks of
//! the other due at once, against the same without them. The p99 of ten seconds is that of the worst
//! tenth of a second, which is the machine's more often than ours; so it is taken of each second too.
//! What the system still has to write of the 200,000 is written before, as in
//! [`lateness`](super::lateness).

use std::net::{SocketAddr, TcpListener};

use anyhow::Result;

use super::Bench;
use super::figures::{Aim, Figures};
use super::intake::Posting;
use super::lateness::{Window, settle, wall_millis};
use super::requests::{Due, Request, Task};
use super::service::{DataDirectory, Service};

const DEAD_TASKS: u64 = 200_000;
const NUMBERS_FROM: u64 = 2_000_000_000;

/// In what way a dependency is dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dead {
    /// Nobody listens.
    Closed,
    /// Connections come about, and nothing is ever answered.
    Silent,
}

pub(super) async fn neighbour(bench: &Bench<'_>, figures: &mut Figures) -> Result<()> {
    const NAME: &str = "neighbour";
    for dead in [Dead::Closed, Dead::Silent] {
        let data = DataDirectory::new(bench)?;
        let service = Service::start(bench, &data)?;
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let target = listener.local_addr()?;
        // The kernel completes connections to a listener that accepts nothing.
        let _silent = (dead == Dead::Silent).then_some(listener);
        let without = Window::measure(service.address, 0, wall_millis() + 2_000).await?;
        let begins_at = wall_millis() + 20_000;
        load(service.address, target, begins_at).await?;
        settle()?;
        let with = Window::measure(service.address, 1, begins_at).await?;
        let kind = match dead {
            Dead::Closed => "closed port",
            Dead::Silent => "silent",
        };
        let seconds = |window: &Window| window.at_in_a_second(0.99);
        for (name, before, after, aim) in [
            ("p50", without.at(0.5), with.at(0.5), Aim::None),
            ("p99", without.at(0.99), with.at(0.99), Aim::None),
            ("p99 of a second", seconds(&without), seconds(&with), Aim::AtMost(10.0)),
        ] {
            figures.add(NAME, format!("{name}, alone ({kind})"), before, "ms", Aim::None);
            figures.add(NAME, format!("{name} beside 200,000 ({kind})"), after, "ms", Aim::None);
            let change = (after / before - 1.0) * 100.0;
            figures.add(NAME, format!("{name}, change ({kind})"), change, "%", aim);
        }
    }
    Ok(())
}

async fn load(service: SocketAddr, target: SocketAddr, begins_at: u64) -> Result<()> {
    let task = Task { target, due: Due::At, headers: false };
    let request = Request::batch(task, 1_000);
    let posting = Posting { request, connections: 4, first: NUMBERS_FROM, tasks: DEAD_TASKS };
    posting.run(service, move |_| begins_at).await?;
    Ok(())
}
