//! Stable, vulnerable or metastable. REQ-X1.
//!
//! The words are those of the literature on metastable failures. *Metastable*: the trouble is over
//! and goodput stays down, because the trouble's effects feed themselves. *Vulnerable*: it recovers
//! from this trouble, but not from one three times as long, watched three times as long after it (so
//! that a recovery which merely takes longer in proportion does not count). *Stable*: from both.

use std::fmt;

use crate::recovery::Recovery;

/// Whether a policy lets its dependency recover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It recovers, from longer trouble too.
    Stable,
    /// It recovers from this trouble and not from longer.
    Vulnerable,
    /// It does not recover.
    Metastable,
    /// There was no trouble, or nothing before or after it to compare.
    NothingToRecoverFrom,
}

impl Verdict {
    /// Its name in documents.
    ///
    /// ```
    /// assert_eq!(relent_sim::Verdict::Vulnerable.name(), "vulnerable");
    /// ```
    pub const fn name(self) -> &'static str {
        match self {
            Verdict::Stable => "stable",
            Verdict::Vulnerable => "vulnerable",
            Verdict::Metastable => "metastable",
            Verdict::NothingToRecoverFrom => "none",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

pub(crate) fn verdict(now: &[Recovery], longer: &[Recovery]) -> Verdict {
    let fails = |recoveries: &[Recovery]| {
        let never = recoveries.iter().filter(|recovery| **recovery == Recovery::Never).count();
        never * 2 >= recoveries.len() && never > 0
    };
    if now.iter().all(|recovery| *recovery == Recovery::Nothing) {
        Verdict::NothingToRecoverFrom
    } else if fails(now) {
        Verdict::Metastable
    } else if fails(longer) {
        Verdict::Vulnerable
    } else {
        Verdict::Stable
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_seeds_decide() {
        let (back, never) = (Recovery::After(1), Recovery::Never);
        assert_eq!(verdict(&[back; 3], &[back; 3]), Verdict::Stable);
        assert_eq!(verdict(&[back, back, never], &[never; 3]), Verdict::Vulnerable);
        assert_eq!(verdict(&[back, never, never], &[back; 3]), Verdict::Metastable);
        let nothing = [Recovery::Nothing; 2];
        assert_eq!(verdict(&nothing, &nothing), Verdict::NothingToRecoverFrom);
    }
}
