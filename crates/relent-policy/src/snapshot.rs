//! State that outlives a process carries the version of its shape. REQ-S3, REQ-G4.

use core::fmt;

/// The version of a stored shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub(crate) struct Version(u8);

/// The record was written by a later version of relent.
///
/// ```
/// use relent_policy::{Budget, BudgetRules};
///
/// let mut stored = serde_json::to_value(Budget::new(BudgetRules::default()).snapshot())?;
/// stored["version"] = 9.into();
/// let refused = Budget::restore(BudgetRules::default(), serde_json::from_value(stored)?);
/// assert_eq!(refused.unwrap_err().to_string(), "expected a record of version 1, got 9");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownVersion {
    got: u8,
}

impl Version {
    pub(crate) const CURRENT: Version = Version(1);

    pub(crate) fn check(self) -> Result<(), UnknownVersion> {
        if self == Version::CURRENT { Ok(()) } else { Err(UnknownVersion { got: self.0 }) }
    }
}

impl fmt::Display for UnknownVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected a record of version {}, got {}", Version::CURRENT.0, self.got)
    }
}

impl core::error::Error for UnknownVersion {}
