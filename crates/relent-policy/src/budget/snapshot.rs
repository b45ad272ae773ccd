//! A budget on its way through a store: versioned, small, and believed only as far as it is sane.

use super::{Budget, BudgetRules, ONE_RETRY, SLOTS};
use crate::snapshot::{UnknownVersion, Version};
use crate::time::nanos;
use crate::window::{RollingWindow, Slot};

/// What is kept of a budget across a restart: everything but its rules, which are the policy's.
///
/// ```
/// use relent_policy::{Budget, BudgetRules, Timestamp};
///
/// let mut budget = Budget::new(BudgetRules::default());
/// budget.count_first_attempt(Timestamp::from_secs(1));
/// let stored = serde_json::to_string(&budget.snapshot())?;
/// let restored = Budget::restore(BudgetRules::default(), serde_json::from_str(&stored)?)?;
/// assert_eq!(restored.snapshot(), budget.snapshot());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BudgetSnapshot {
    version: Version,
    slots: [Slot; SLOTS],
    running_ends_at: u64,
    slot_width: u64,
    saved: u64,
    floor_whole_at: u64,
    failures_in_a_row: u8,
}

impl Budget {
    /// The state worth keeping.
    pub fn snapshot(&self) -> BudgetSnapshot {
        let (slots, running_ends_at, slot_width) = self.state.window.to_parts();
        BudgetSnapshot {
            version: Version::CURRENT,
            slots,
            running_ends_at,
            slot_width,
            saved: self.state.saved,
            floor_whole_at: self.state.floor_whole_at,
            failures_in_a_row: self.state.failures_in_a_row,
        }
    }

    /// The budget that goes on where the snapshot was taken, under today's rules: what was saved
    /// beyond a smaller burst is gone, and a window of another length starts empty.
    ///
    /// # Errors
    ///
    /// When the snapshot was written by a later version.
    pub fn restore(rules: BudgetRules, snapshot: BudgetSnapshot) -> Result<Budget, UnknownVersion> {
        snapshot.version.check()?;
        let BudgetSnapshot { slots, running_ends_at, slot_width, .. } = snapshot;
        let mut budget = Budget::new(rules);
        budget.state.window =
            RollingWindow::from_parts(nanos(rules.window), slots, running_ends_at, slot_width);
        budget.state.saved = snapshot.saved.min(u64::from(rules.burst) * ONE_RETRY);
        budget.state.floor_whole_at = snapshot.floor_whole_at;
        budget.state.failures_in_a_row = snapshot.failures_in_a_row;
        Ok(budget)
    }
}
