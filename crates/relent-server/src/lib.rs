//! Claims, sends, records, tells: the durable retry service.
//!
//! The straight line of a task: `http` checks it and hands it to the store; the `scheduler`
//! claims it when it is due and its lane lets it through; `attempt` sends it through [`egress`],
//! lets the engine decide, and records; `events` and `metrics` tell. [`Server`] starts and stops
//! all of it.

mod attempt;
mod cluster;
pub mod config;
pub mod egress;
mod events;
mod http;
mod lanes;
mod lookup;
mod metrics;
mod policies;
mod preview;
mod scheduler;
mod seldom;
mod server;
mod service;
mod under_way;
mod upkeep;

pub use server::{Roles, Server, ServerOptions, StartError};
