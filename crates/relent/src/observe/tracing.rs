//! Attempts as tracing events.
