//! Attempts of a lane that are claimed and have not begun.
//!
//! Claiming a task is cheaper than opening a connection for it. A lane with very much due would put
//! all that it may have in flight into the runtime's queue at once, and whoever is due next in
//! another lane would stand behind a thousand connections to be opened. So a lane has only so many
//! attempts that have not begun, and is asked again when half of them have. REQ-K2.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// See the module's head.
#[derive(Debug, Default)]
pub(crate) struct Starting {
    count: AtomicU32,
    is_awaited: AtomicBool,
}

impl Starting {
    /// How many more may be claimed, of at most so many; 0 while too few have begun. Then
    /// [`begun`](Starting::begun) says when to ask again.
    pub(crate) fn room(&self, max: u32) -> u32 {
        let room = match self.room_now(max) {
            0 => {
                self.is_awaited.store(true, Ordering::SeqCst);
                // Who has begun in between has found nobody waiting.
                self.room_now(max)
            }
            room => room,
        };
        if room > 0 {
            self.is_awaited.store(false, Ordering::SeqCst);
        }
        room
    }

    fn room_now(&self, max: u32) -> u32 {
        let count = self.count.load(Ordering::SeqCst);
        if count <= max / 2 { max - count } else { 0 }
    }

    /// One was claimed.
    pub(crate) fn claimed(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
    }

    /// One has begun; `true` if somebody waits and there is room again.
    pub(crate) fn begun(&self, max: u32) -> bool {
        let left = self.count.fetch_sub(1, Ordering::SeqCst).saturating_sub(1);
        left <= max / 2 && self.is_awaited.swap(false, Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_found_no_room_is_told_once_when_half_have_begun() {
        let starting = Starting::default();
        assert_eq!(starting.room(4), 4);
        for _ in 0..4 {
            starting.claimed();
        }
        assert_eq!(starting.room(4), 0);
        let told: Vec<bool> = (0..4).map(|_| starting.begun(4)).collect();
        assert_eq!(told, [false, true, false, false]);
        assert_eq!(starting.room(4), 4);
    }

    #[test]
    fn nobody_is_told_who_does_not_wait() {
        let starting = Starting::default();
        starting.claimed();
        assert_eq!(starting.room(4), 3);
        assert!(!starting.begun(4));
    }
}
