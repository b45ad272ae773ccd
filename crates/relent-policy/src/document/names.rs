//! The words a policy document chooses from, and the word that a mistyped one was meant to be.

pub(super) const BACKOFFS: [&str; 4] = ["EXPONENTIAL", "LINEAR", "FIXED", "SCHEDULE"];
pub(super) const JITTERS: [&str; 6] =
    ["FULL", "DECORRELATED", "EQUAL", "ADDITIVE", "PROPORTIONAL", "NONE"];

/// The name that a mistyped one was probably meant to be.
pub(super) fn closest<'n>(typed: &str, names: &[&'n str]) -> Option<&'n str> {
    let near = names.iter().map(|name| (distance(typed, name), *name));
    near.filter(|(distance, name)| *distance <= 1 + name.len() / 5).min().map(|(_, name)| name)
}

/// How many letters must be added, dropped or changed, not counting their case.
fn distance(left: &str, right: &str) -> usize {
    use alloc::vec::Vec;
    if left.len() > 64 {
        return usize::MAX;
    }
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.bytes().enumerate() {
        let mut diagonal = core::mem::replace(&mut row[0], i + 1);
        for (j, b) in right.bytes().enumerate() {
            let changed = diagonal + usize::from(!a.eq_ignore_ascii_case(&b));
            diagonal = row[j + 1];
            row[j + 1] = changed.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_misses_are_recognised_and_strangers_are_not() {
        let names = ["maxAttempts", "maxDelayMs", "multiplier"];
        assert_eq!(closest("maxAttemps", &names), Some("maxAttempts"));
        assert_eq!(closest("maxattempts", &names), Some("maxAttempts"));
        assert_eq!(closest("max_delay_ms", &names), Some("maxDelayMs"));
        assert_eq!(closest("colour", &names), None);
        assert_eq!(closest(&"m".repeat(1_000), &names), None);
    }
}
