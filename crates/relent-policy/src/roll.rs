//! Chance as an argument: where rolls come from and how one roll becomes a delay.
//!
//! The engine holds no random generator, so none can be cloned, shared or seeded alike by
//! accident: a well-known middleware clones its generator into every session and gives a whole
//! process one and the same "random" delay. Here each decision takes one `u64`, and the attempt
//! log keeps it, so that a past decision can be replayed from its row. REQ-B5.

/// The roll for one attempt of one task: the same everywhere for the same seed.
///
/// For a fixed seed and attempt this is a bijection of `task`, so two tasks can never share a
/// roll; that is a property of the construction, not of luck.
///
/// ```
/// use relent_policy::roll;
///
/// assert_eq!(roll::for_attempt(42, 7, 1), roll::for_attempt(42, 7, 1));
/// assert_ne!(roll::for_attempt(42, 7, 1), roll::for_attempt(42, 8, 1));
/// ```
pub const fn for_attempt(seed: u64, task: u64, attempt: u32) -> u64 {
    let stream = mix(seed ^ mix(attempt as u64));
    mix(task ^ stream)
}

/// SplitMix64: a bijective scramble of 64 bits. Other languages need exactly this function to
/// reproduce the engine's second draw (the spread on top of `Retry-After`).
///
/// ```
/// assert_eq!(relent_policy::roll::mix(0), 0xe220_a839_7b1d_cdaf);
/// ```
pub const fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A whole number from 0 to `max`, both included, in proportion to the roll.
///
/// `floor(roll * (max + 1) / 2^64)`: a widening multiplication instead of a remainder, so there
/// is no bias towards small delays and no float that would lose the last digits.
///
/// ```
/// use relent_policy::roll;
///
/// assert_eq!(roll::up_to(1_000, 0), 0);
/// assert_eq!(roll::up_to(1_000, u64::MAX), 1_000);
/// assert_eq!(roll::up_to(1_000, u64::MAX / 2), 500);
/// ```
pub const fn up_to(max: u64, roll: u64) -> u64 {
    // roll * max + roll = roll * (max + 1), and cannot overflow 128 bits.
    ((roll as u128 * max as u128 + roll as u128) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;

    #[test]
    fn tasks_never_share_a_roll() {
        let rolls: BTreeSet<u64> = (0..100_000).map(|task| for_attempt(1, task, 3)).collect();
        assert_eq!(rolls.len(), 100_000);
    }

    #[test]
    fn attempts_of_one_task_draw_independently() {
        let rolls: BTreeSet<u64> = (1..1_000).map(|attempt| for_attempt(1, 9, attempt)).collect();
        assert_eq!(rolls.len(), 999);
    }

    #[test]
    fn the_whole_range_is_reachable_and_never_exceeded() {
        assert_eq!(up_to(u64::MAX, u64::MAX), u64::MAX);
        assert_eq!(up_to(0, u64::MAX), 0);
        let seen: BTreeSet<u64> = (0..10_000).map(|n| up_to(9, mix(n))).collect();
        assert_eq!(seen.len(), 10);
    }
}
