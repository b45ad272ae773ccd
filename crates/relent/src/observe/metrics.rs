//! Attempts as metrics.
