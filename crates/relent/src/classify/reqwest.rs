//! reqwest.
