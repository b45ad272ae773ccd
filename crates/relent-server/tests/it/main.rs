//! The service as its users and their targets meet it.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod egress;
