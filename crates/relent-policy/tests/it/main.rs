//! The engine from outside: golden vectors, properties of the decision, the arithmetic that the
//! standard argues with, and what a decision costs.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod allocations;
mod arithmetic;
mod decision;
mod sizes;
mod snapshots;
mod vectors;
