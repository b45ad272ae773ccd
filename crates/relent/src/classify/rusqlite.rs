//! rusqlite.
