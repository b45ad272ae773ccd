//! A policy against an outage: what retries do to a dependency, before production finds out. REQ-X1.
//!
//! A discrete-event simulation on a virtual clock of whole nanoseconds. It asks the engine itself
//! ([`relent_policy::decide`] and [`relent_policy::Lane`]) whether and when to try again, so what
//! is seen here is what a policy does in the library and in the service. Nothing reads a clock or a
//! random generator: every draw is a function of a seed, its source, the task and the attempt, and the
//! same seed gives the same report, byte for byte.
//!
//! ```
//! use relent_sim::{Plan, Scenario, Study, shipped};
//!
//! let text = shipped().iter().find(|it| it.name == "standard-1000rps").unwrap().text;
//! let mut scenario = Scenario::parse(text, &|_| Err("no files".into()))?;
//! scenario.horizon /= 3; // a shorter run will do here
//! scenario.warm_up /= 3;
//!
//! let plan = Plan { seeds: 1, first_seed: 1, sweeps: false, threads: 1 };
//! let study = Study::run(&scenario, &scenario.policies, plan, &|_done, _total| {});
//! let load = |n: usize| study.results[n].figure(|run| run.load_per_second).mean;
//! assert!(load(0) > 2_400.0); // three retries, half of all operations failing
//! assert!(load(1) < 1_210.0); // the same with a budget of 20 %
//! # Ok::<(), relent_sim::BadScenario>(())
//! ```
//!
//! Where to look:
//!
//! - [`Scenario`]: who calls whom, how fast, and what goes wrong; read from TOML, with all problems
//!   at once;
//! - [`simulate`] and [`Run`]: one policy, one seed, and what came of it;
//! - [`Study`]: policies side by side over many seeds, with a [`Verdict`] and reports;
//! - [`Expectations`]: what must hold, for continuous integration;
//! - [`draw`]: the pictures.

mod agenda;
mod arrivals;
mod chance;
pub mod draw;
mod expect;
mod figures;
mod measure;
mod recovery;
mod report;
mod scenario;
mod server;
mod study;
mod sweep;
mod verdict;
mod world;

pub use chance::Spread;
pub use expect::{Broken, Expectations};
pub use figures::{Run, simulate};
pub use measure::{ATTEMPT_ROWS, Bucket, Histogram};
pub use recovery::Recovery;
pub use report::{Row, duration, spark, thousands};
pub use scenario::{
    BadScenario, Clients, FailureCost, Fault, FaultKind, Lanes, Load, Network, Order, Outage, Pick,
    ReadFile, SECOND, Scenario, ScenarioProblem, Server, Shipped, WhenRefused, candidate,
    parse_trace, shipped,
};
pub use study::{Figure, Plan, PolicyResult, Study};
pub use sweep::{Phase, Point};
pub use verdict::Verdict;
