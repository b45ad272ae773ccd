//! The one binary as its users meet it: started, called, killed and started again.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod cli;
mod copying;
mod crash;
mod delivery;
mod doors;
mod faults;
mod load;
mod nodes;
mod on_postgres;
mod reaching;
mod rig;
mod schedule;
