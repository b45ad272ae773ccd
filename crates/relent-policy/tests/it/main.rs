//! The engine from outside: golden vectors, properties of the decision, the arithmetic that the
//! standard argues with, and what a decision costs.

mod allocations;
mod arithmetic;
mod decision;
mod snapshots;
mod vectors;
