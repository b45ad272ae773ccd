//! What every store promises, on every backend.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod backend;
mod contract;
mod model;
mod nodes;
mod postgres;
mod redis;
mod sqlite;
mod world;
