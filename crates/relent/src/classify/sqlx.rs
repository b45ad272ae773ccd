//! sqlx.
