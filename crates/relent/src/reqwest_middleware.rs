//! A reqwest middleware.
