//! hyper.
