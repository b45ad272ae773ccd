//! What a drill came to, and what the simulator says it should.

use std::time::Duration;

use relent_policy::Policy;
use relent_sim::{
    Clients, Expectations, FailureCost, Fault, FaultKind, Lanes, Load, Network, Order, Pick,
    Scenario, Server as SimServer, Spread, WhenRefused, simulate, thousands,
};
use serde::Serialize;

use super::target::Seen;
use crate::output;
use crate::times;

/// How a drill goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) rate: u32,
    pub(super) before: Duration,
    pub(super) down: Duration,
    pub(super) total: Duration,
}

impl Shape {
    /// How many tasks are handed over in all.
    pub(super) fn tasks(self) -> u64 {
        self.due(self.total)
    }

    /// How many of them by then.
    pub(super) fn due(self, since: Duration) -> u64 {
        let millis = u64::try_from(since.min(self.total).as_millis()).unwrap_or(u64::MAX);
        u64::from(self.rate).saturating_mul(millis) / 1_000
    }
}

/// What the target saw.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Figures {
    pub(super) tasks: u64,
    pub(super) succeeded: u64,
    calls: u64,
    amplification: f64,
    calls_while_down: u64,
    peak_per_second: u64,
    peak_per_second_after: u64,
    /// From the end of the outage until as much comes through in a second as is handed over.
    recovery_seconds: Option<u64>,
}

impl Figures {
    pub(super) fn of(seen: &[Seen], shape: Shape) -> Figures {
        let last = seen.iter().map(|(at, _)| at.as_secs()).max().unwrap_or(0);
        let mut seconds = vec![(0, 0); usize::try_from(last + 1).unwrap_or(1)];
        for (at, good) in seen {
            if let Some((calls, came_through)) =
                usize::try_from(at.as_secs()).ok().and_then(|second| seconds.get_mut(second))
            {
                *calls += 1;
                *came_through += u64::from(*good);
            }
        }
        Figures::over(&seconds, shape)
    }

    /// From calls and successes in each second.
    fn over(seconds: &[(u64, u64)], shape: Shape) -> Figures {
        let second = |at: Duration| usize::try_from(at.as_secs()).unwrap_or(usize::MAX);
        let (from, to) = (second(shape.before), second(shape.before + shape.down));
        let down = seconds.get(from..to.min(seconds.len())).unwrap_or_default();
        let after = seconds.get(to..).unwrap_or_default();
        let most =
            |seconds: &[(u64, u64)]| seconds.iter().map(|(calls, _)| *calls).max().unwrap_or(0);
        let calls = seconds.iter().map(|(calls, _)| calls).sum();
        let wanted = u64::from(shape.rate) * 95 / 100;
        let back = after.iter().position(|(_, came_through)| *came_through >= wanted);
        Figures {
            tasks: shape.tasks(),
            succeeded: seconds.iter().map(|(_, came_through)| came_through).sum(),
            calls,
            amplification: calls as f64 / shape.tasks().max(1) as f64,
            calls_while_down: down.iter().map(|(calls, _)| calls).sum(),
            peak_per_second: most(seconds),
            peak_per_second_after: most(after),
            recovery_seconds: back.map(|seconds| seconds as u64),
        }
    }
}

/// What the simulator says about the same drill.
pub(super) fn predicted(policy: &Policy, shape: Shape) -> Figures {
    let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    let kind = FaultKind::Errors { ratio: 1.0, pick: Pick::Attempts, status: 503 };
    let (from, to) = (nanos(shape.before), nanos(shape.before + shape.down));
    let scenario = Scenario {
        name: "drill".to_owned(),
        about: String::new(),
        horizon: nanos(shape.total + shape.down + Duration::from_secs(60)),
        warm_up: 0,
        clients: Clients {
            load: Load::Constant { per_second: shape.rate.into() },
            count: 1,
            lanes: Lanes::Shared,
            deadline: None,
            when_refused: WhenRefused::Hold,
            until: Some(nanos(shape.total)),
        },
        network: Network { latency: Spread::Constant(0), loss: 0.0 },
        servers: vec![SimServer {
            name: "target".to_owned(),
            workers: None,
            service: Spread::Constant(1_000_000),
            order: Order::Fifo,
            queue_max: None,
            drop_expired: false,
            failure: FailureCost::Fast,
            retry_after: None,
            versioned: false,
            told: false,
        }],
        faults: vec![Fault { server: 0, from, to, ramp: 0, kind }],
        expectations: Expectations::default(),
        policies: Vec::new(),
    };
    let run = simulate(&scenario, policy, 1);
    let seconds: Vec<(u64, u64)> = run
        .buckets
        .iter()
        .map(|bucket| (u64::from(bucket.sent()), u64::from(bucket.succeeded)))
        .collect();
    Figures::over(&seconds, shape)
}

pub(super) fn table(
    policy: &Policy,
    shape: Shape,
    measured: &Figures,
    predicted: &Figures,
) -> String {
    let heading = [
        "",
        "tasks",
        "succeeded",
        "calls",
        "calls/task",
        "while down",
        "peak/s",
        "peak/s after",
        "back after",
    ];
    let row = |name: &str, figures: &Figures| {
        let numbers = [figures.tasks, figures.succeeded, figures.calls];
        let mut cells = vec![name.to_owned()];
        cells.extend(numbers.map(|number| thousands(number as f64)));
        cells.push(format!("{:.2}", figures.amplification));
        let numbers =
            [figures.calls_while_down, figures.peak_per_second, figures.peak_per_second_after];
        cells.extend(numbers.map(|number| thousands(number as f64)));
        cells.push(figures.recovery_seconds.map_or("never".to_owned(), |it| format!("{it} s")));
        cells
    };
    let rows = [row("measured", measured), row("predicted", predicted)];
    format!(
        "policy `{}`: {} tasks/s, target down from {} to {}\n\n{}",
        policy.id(),
        shape.rate,
        times::short(shape.before),
        times::short(shape.before + shape.down),
        output::table(&heading, rows),
    )
}
