//! The places for attempts of the whole service: first attempts and retries each have some that the
//! other cannot take. REQ-S5, REQ-L6.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use relent_policy::Turn;

/// The places for attempts of the whole service.
#[derive(Debug)]
pub(crate) struct Places {
    max: [u32; 2],
    all_max: u32,
    taken: [AtomicU32; 2],
    /// Whether a line waits for one.
    is_short: AtomicBool,
}

impl Places {
    /// So many in all. Retries get at most half of them, first attempts at most four fifths.
    pub(crate) fn new(all_max: u32) -> Places {
        let all_max = all_max.max(2);
        Places {
            max: [all_max / 5 * 4, all_max / 2].map(|max| max.max(1)),
            all_max,
            taken: [const { AtomicU32::new(0) }; 2],
            is_short: AtomicBool::new(false),
        }
    }

    pub(super) fn free(&self, turn: Turn) -> u32 {
        let taken = |turn| self.taken[place(turn)].load(Ordering::SeqCst);
        let all = self.all_max.saturating_sub(taken(Turn::First) + taken(Turn::Retry));
        self.max[place(turn)].saturating_sub(taken(turn)).min(all)
    }

    pub(super) fn take(&self, turn: Turn) {
        self.taken[place(turn)].fetch_add(1, Ordering::SeqCst);
    }

    /// Gives a place back; `true` if a line waits for one.
    pub(crate) fn leave(&self, turn: Turn) -> bool {
        self.taken[place(turn)].fetch_sub(1, Ordering::SeqCst);
        self.is_short.load(Ordering::SeqCst)
    }

    /// Says whether a line waits for a place, from now on.
    pub(super) fn set_short(&self, is_short: bool) {
        self.is_short.store(is_short, Ordering::SeqCst);
    }

    /// How many are taken.
    pub(crate) fn taken(&self) -> u32 {
        self.taken.iter().map(|taken| taken.load(Ordering::Relaxed)).sum()
    }
}

pub(super) fn place(turn: Turn) -> usize {
    usize::from(turn == Turn::Retry)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_kind_takes_all_and_who_waits_is_told() {
        let places = Places::new(10);
        assert_eq!([Turn::First, Turn::Retry].map(|turn| places.free(turn)), [8, 5]);
        for _ in 0..8 {
            places.take(Turn::First);
        }
        assert_eq!([Turn::First, Turn::Retry].map(|turn| places.free(turn)), [0, 2]);
        assert!(!places.leave(Turn::First));
        places.set_short(true);
        assert!(places.leave(Turn::First));
        assert_eq!(places.free(Turn::First), 2);
    }
}
