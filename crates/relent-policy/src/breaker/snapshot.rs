//! A breaker on its way through a store.

use super::{Breaker, BreakerRules, Exhausted, Leave, Phase, SLOTS};
use crate::snapshot::{UnknownVersion, Version};
use crate::time::nanos;
use crate::window::{RollingWindow, Slot};

/// What is kept of a breaker across a restart: everything but its rules, which are the policy's.
///
/// ```
/// use relent_policy::{Breaker, BreakerRules};
///
/// let breaker = Breaker::new(BreakerRules::default());
/// let stored = serde_json::to_string(&breaker.snapshot())?;
/// let restored = Breaker::restore(BreakerRules::default(), serde_json::from_str(&stored)?)?;
/// assert_eq!(restored.snapshot(), breaker.snapshot());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BreakerSnapshot {
    version: Version,
    state: Phase,
    trips: u8,
    slots: [Slot; SLOTS],
    running_ends_at: u64,
    slot_width: u64,
    exhausted: Option<Exhausted>,
}

impl Breaker {
    /// The state worth keeping.
    pub fn snapshot(&self) -> BreakerSnapshot {
        let (slots, running_ends_at, slot_width) = self.window.to_parts();
        BreakerSnapshot {
            version: Version::CURRENT,
            state: self.phase,
            trips: self.trips,
            slots,
            running_ends_at,
            slot_width,
            exhausted: self.exhausted,
        }
    }

    /// The breaker that goes on where the snapshot was taken, under today's rules. A probe that
    /// was under way counts as lost when its time is over.
    ///
    /// # Errors
    ///
    /// When the snapshot was written by a later version.
    pub fn restore(
        rules: BreakerRules,
        snapshot: BreakerSnapshot,
    ) -> Result<Breaker, UnknownVersion> {
        snapshot.version.check()?;
        let BreakerSnapshot { slots, running_ends_at, slot_width, .. } = snapshot;
        let phase = match snapshot.state {
            Phase::Ramping { since, credit } => Phase::Ramping { since, credit: credit.min(999) },
            phase => phase,
        };
        Ok(Breaker {
            rules,
            phase,
            trips: snapshot.trips,
            window: RollingWindow::from_parts(
                nanos(rules.window),
                slots,
                running_ends_at,
                slot_width,
            ),
            exhausted: snapshot.exhausted,
            leave: Leave::NotNeeded,
        })
    }
}
