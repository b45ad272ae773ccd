//! Which version a store's tables have.

/// What bringing a store's tables up to date has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Migrated {
    /// The version before; `None` if there was nothing.
    pub from: Option<i64>,
    /// The version now.
    pub to: i64,
}
