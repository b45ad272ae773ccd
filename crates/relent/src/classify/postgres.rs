//! tokio-postgres.
