//! What is simulated: who calls whom, how fast, over what, and what goes wrong. REQ-X1.
//!
//! A scenario is read from TOML ([`Scenario::parse`]), or is one of those that come with the crate
//! ([`shipped`]). All times are nanoseconds on the virtual clock, which starts at 0.

use relent_policy::Policy;

use crate::chance::Spread;
use crate::expect::Expectations;

mod fields;
mod parts;
mod problem;
mod read;
mod shipped;
mod tree;

pub use parts::parse_trace;
pub use problem::{BadScenario, ScenarioProblem};
pub use read::{ReadFile, candidate};
pub use shipped::{Shipped, shipped};

/// One second on the virtual clock.
pub const SECOND: u64 = 1_000_000_000;

/// A scenario that has been checked.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Its name in reports.
    pub name: String,
    /// What it shows, in a sentence or two.
    pub about: String,
    /// When the simulation ends at the latest.
    pub horizon: u64,
    /// Until when nothing is counted into averages.
    pub warm_up: u64,
    /// Who calls.
    pub clients: Clients,
    /// What is between callers and servers.
    pub network: Network,
    /// Who is called: the clients call the first, each calls the next.
    pub servers: Vec<Server>,
    /// What goes wrong.
    pub faults: Vec<Fault>,
    /// What must be true of the results.
    pub expectations: Expectations,
    /// The policies to compare, where the command line names none.
    pub policies: Vec<Policy>,
}

/// Who calls.
#[derive(Clone, Debug)]
pub struct Clients {
    /// How calls come about.
    pub load: Load,
    /// How many clients share them.
    pub count: u32,
    /// Whether they share one budget and breaker.
    pub lanes: Lanes,
    /// How long each caller waits for its operation in all.
    pub deadline: Option<u64>,
    /// What becomes of an attempt that budget or breaker refuse.
    pub when_refused: WhenRefused,
    /// From when on no further operation begins.
    pub until: Option<u64>,
}

/// How calls come about.
#[derive(Clone, Debug, PartialEq)]
pub enum Load {
    /// Open loop: operations begin whether or not earlier ones have ended, at random.
    Poisson {
        /// Operations a second, of all clients together.
        per_second: f64,
    },
    /// Open loop, evenly spaced.
    Constant {
        /// Operations a second, of all clients together.
        per_second: f64,
    },
    /// Open loop, at recorded times.
    Trace {
        /// When each operation begins, in order.
        at: Vec<u64>,
    },
    /// Closed loop: each client begins its next operation when the one before has ended.
    Closed {
        /// How long a client waits between two operations.
        think: Spread,
        /// How many operations each client makes; no limit if `None`.
        operations: Option<u32>,
        /// Over how long the clients start; 0 is all at once.
        start_over: u64,
    },
}

impl Load {
    /// Operations a second that begin whatever the servers do.
    pub fn per_second(&self) -> Option<f64> {
        match self {
            Load::Poisson { per_second } | Load::Constant { per_second } => Some(*per_second),
            Load::Trace { at } => {
                let span = at.last()?.saturating_sub(*at.first()?);
                (span > 0).then(|| (at.len() - 1) as f64 * SECOND as f64 / span as f64)
            }
            Load::Closed { .. } => None,
        }
    }
}

/// Whose budget and breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lanes {
    /// One for all clients, as in one process or in the service.
    Shared,
    /// One for each client, as in a fleet.
    PerClient,
}

/// What becomes of an attempt that budget or breaker refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenRefused {
    /// The operation fails at once, as in the library.
    GiveUp,
    /// It waits for its turn, as in the service.
    Hold,
}

/// What is between callers and servers, on every hop of the chain.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Network {
    /// How long one direction takes.
    pub latency: Spread,
    /// Which share of messages is lost.
    pub loss: f64,
}

/// One server, or a pool of them behind one queue.
#[derive(Clone, Debug, PartialEq)]
pub struct Server {
    /// Its name in reports.
    pub name: String,
    /// How many calls it works on at once; no limit if `None`.
    pub workers: Option<u32>,
    /// How long a call takes one worker.
    pub service: Spread,
    /// In which order it takes waiting calls.
    pub order: Order,
    /// How many calls may wait; no limit if `None`.
    pub queue_max: Option<u32>,
    /// Whether it skips calls whose caller has gone.
    pub drop_expired: bool,
    /// How long a failing call takes.
    pub failure: FailureCost,
    /// What it answers to `429` and `503` beside the status.
    pub retry_after: Option<u64>,
    /// Whether each call is a read and a write that fails if another write came between.
    pub versioned: bool,
    /// Whether it knows that its callers retry, and so does not retry what it calls itself.
    pub told: bool,
}

impl Server {
    /// Calls a second that it can serve, if there is a limit.
    pub fn capacity(&self) -> Option<f64> {
        let mean = self.service.mean();
        self.workers.filter(|_| mean > 0.0).map(|workers| f64::from(workers) * 1e9 / mean)
    }
}

/// In which order waiting calls are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The one that came first.
    Fifo,
    /// The one that came last.
    Lifo,
}

/// How long a failing call takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureCost {
    /// It is refused at the door.
    Fast,
    /// It takes a worker as long as a good one.
    Slow,
}

/// Something that goes wrong for a while.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// Which server.
    pub server: usize,
    /// When it begins.
    pub from: u64,
    /// When it is over.
    pub to: u64,
    /// How long it takes to set in fully, and to ease off again.
    pub ramp: u64,
    /// What it is.
    pub kind: FaultKind,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FaultKind {
    /// Nothing is served.
    Outage(Outage),
    /// Less is served.
    BrownOut {
        /// The share of its workers that is left.
        capacity: f64,
    },
    /// Some calls fail.
    Errors {
        /// Which share.
        ratio: f64,
        /// Which ones.
        pick: Pick,
        /// What they are answered.
        status: u16,
    },
    /// Everything takes longer.
    Latency {
        /// So many times as long.
        factor: f64,
        /// And so much more.
        extra: u64,
    },
    /// Calls above a rate are answered `429`.
    RateLimit {
        /// Calls a second that pass.
        per_second: f64,
        /// How many may come at once.
        burst: u32,
    },
}

impl FaultKind {
    /// Its name in scenarios.
    pub fn name(self) -> &'static str {
        match self {
            FaultKind::Outage(_) => "outage",
            FaultKind::BrownOut { .. } => "brown-out",
            FaultKind::Errors { .. } => "errors",
            FaultKind::Latency { .. } => "latency",
            FaultKind::RateLimit { .. } => "rate-limit",
        }
    }
}

/// How an outage looks from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outage {
    /// Calls are taken and not worked on.
    Hang,
    /// Connections are refused.
    Refuse,
    /// Calls vanish.
    Drop,
}

/// Which calls fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pick {
    /// Each attempt anew.
    Attempts,
    /// All attempts of some operations.
    Operations,
    /// All operations of some clients.
    Clients,
}

impl Scenario {
    /// When the first fault begins and when the last one is over.
    pub fn trouble(&self) -> Option<(u64, u64)> {
        let from = self.faults.iter().map(|fault| fault.from).min()?;
        let to = self.faults.iter().map(|fault| fault.to.saturating_add(fault.ramp)).max()?;
        Some((from, to.min(self.horizon)))
    }

    /// Calls a second that the weakest server of the chain can serve.
    pub fn capacity(&self) -> Option<f64> {
        self.servers.iter().filter_map(Server::capacity).min_by(f64::total_cmp)
    }
}
