//! Two counters over a rolling window: what budgets and breakers look back on.
//!
//! The window is a ring of slots with running totals. Counting is a comparison and two additions;
//! moving on clears the slots that have passed, at most the ring once, however long nothing
//! happened. (A ring that is caught up slot by slot spends 40 ms on a week of silence.)
//!
//! The window seen is between `N - 1` and `N` slots long: the running slot plus the `N - 1` before
//! it. A clock that steps back counts into the running slot; nothing is released early.

use crate::time::Timestamp;

/// A ring of `N` slots, each with a count of `all` and of `some` (of them, or beside them).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RollingWindow<const N: usize> {
    slots: [Slot; N],
    all: u64,
    some: u64,
    /// Where in the ring the running slot is.
    running: usize,
    /// When the running slot ends, in nanoseconds; a multiple of `width`.
    ends_at: u64,
    width: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct Slot {
    pub(crate) all: u32,
    pub(crate) some: u32,
}

/// Names the slot in which something was counted, so that it can be taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotMark(u64);

impl<const N: usize> RollingWindow<N> {
    pub(crate) fn new(window_nanos: u64) -> Self {
        let width = (window_nanos / N as u64).max(1);
        RollingWindow {
            slots: [Slot::default(); N],
            all: 0,
            some: 0,
            running: 0,
            ends_at: width,
            width,
        }
    }

    #[inline]
    pub(crate) fn count_all(&mut self, now: Timestamp) {
        self.move_on(now);
        let slot = &mut self.slots[self.running];
        slot.all = slot.all.saturating_add(1);
        self.all = self.all.saturating_add(1);
    }

    /// Counts so many in the running slot, wherever the time is.
    pub(crate) fn count_all_here(&mut self, times: u32) {
        let slot = &mut self.slots[self.running];
        slot.all = slot.all.saturating_add(times);
        self.all = self.all.saturating_add(times.into());
    }

    /// When the running slot ends, in nanoseconds.
    #[inline]
    pub(crate) fn ends_at(&self) -> u64 {
        self.ends_at
    }

    #[inline]
    pub(crate) fn count_some(&mut self, now: Timestamp) -> SlotMark {
        self.move_on(now);
        let slot = &mut self.slots[self.running];
        slot.some = slot.some.saturating_add(1);
        self.some = self.some.saturating_add(1);
        SlotMark(self.ends_at)
    }

    /// Takes back one `some`, unless its slot has left the window.
    pub(crate) fn uncount_some(&mut self, mark: SlotMark, now: Timestamp) {
        self.move_on(now);
        let age = usize::try_from(self.ends_at.saturating_sub(mark.0) / self.width).unwrap_or(N);
        if age >= N {
            return;
        }
        let slot = &mut self.slots[(self.running + N - age) % N];
        if slot.some > 0 {
            slot.some -= 1;
            self.some = self.some.saturating_sub(1);
        }
    }

    /// The totals of `all` and `some` over the window that ends now.
    #[inline]
    pub(crate) fn totals(&mut self, now: Timestamp) -> (u64, u64) {
        self.move_on(now);
        (self.all, self.some)
    }

    pub(crate) fn clear(&mut self) {
        self.slots = [Slot::default(); N];
        (self.all, self.some) = (0, 0);
    }

    #[inline]
    fn move_on(&mut self, now: Timestamp) {
        if now.as_nanos() >= self.ends_at {
            self.move_on_to(now.as_nanos());
        }
    }

    #[cold]
    fn move_on_to(&mut self, now: u64) {
        let steps = (now - self.ends_at) / self.width + 1;
        match usize::try_from(steps) {
            Ok(steps) if steps < N => (0..steps).for_each(|_| self.step()),
            _ => self.clear(),
        }
        self.ends_at = self.ends_at.saturating_add(steps.saturating_mul(self.width));
    }

    fn step(&mut self) {
        self.running = (self.running + 1) % N;
        let slot = core::mem::take(&mut self.slots[self.running]);
        self.all = self.all.saturating_sub(u64::from(slot.all));
        self.some = self.some.saturating_sub(u64::from(slot.some));
    }

    /// The slots from the oldest to the running one, and when the running one ends.
    #[cfg(feature = "serde")]
    pub(crate) fn to_parts(self) -> ([Slot; N], u64, u64) {
        let mut slots = self.slots;
        slots.rotate_left((self.running + 1) % N);
        (slots, self.ends_at, self.width)
    }

    /// Puts back what [`to_parts`](Self::to_parts) gave. Totals are worked out anew, so that a
    /// damaged record cannot make them disagree with the slots; slots of another width are of no
    /// use and start empty.
    #[cfg(feature = "serde")]
    pub(crate) fn from_parts(
        window_nanos: u64,
        slots: [Slot; N],
        ends_at: u64,
        width: u64,
    ) -> Self {
        let mut window = Self::new(window_nanos);
        if window.width != width || !ends_at.is_multiple_of(width) || ends_at == 0 {
            return window;
        }
        window.slots = slots;
        window.running = N - 1;
        window.ends_at = ends_at;
        window.all = slots.iter().map(|slot| u64::from(slot.all)).sum();
        window.some = slots.iter().map(|slot| u64::from(slot.some)).sum();
        window
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    const SEC: u64 = 1_000_000_000;

    fn at(secs: u64) -> Timestamp {
        Timestamp::from_secs(secs)
    }

    #[test]
    fn counts_leave_the_window_with_their_slot() {
        let mut window = RollingWindow::<3>::new(3 * SEC);
        window.count_all(at(0));
        window.count_some(at(2));
        assert_eq!(window.totals(at(2)), (1, 1));
        assert_eq!(window.totals(at(3)), (0, 1));
        assert_eq!(window.totals(at(5)), (0, 0));
    }

    #[test]
    fn a_week_of_silence_is_one_step() {
        let mut window = RollingWindow::<30>::new(30 * SEC);
        window.count_all(at(1));
        assert_eq!(window.totals(at(7 * 86_400)), (0, 0));
        window.count_all(at(7 * 86_400));
        assert_eq!(window.totals(at(7 * 86_400 + 29)), (1, 0));
        assert_eq!(window.totals(at(7 * 86_400 + 30)), (0, 0));
    }

    #[test]
    fn a_clock_that_steps_back_releases_nothing() {
        let mut window = RollingWindow::<3>::new(3 * SEC);
        window.count_all(at(10));
        window.count_all(at(2));
        assert_eq!(window.totals(at(10)), (2, 0));
    }

    #[test]
    fn what_is_taken_back_is_taken_from_its_own_slot() {
        let mut window = RollingWindow::<3>::new(3 * SEC);
        let early = window.count_some(at(0));
        window.count_some(at(1));
        window.uncount_some(early, at(1));
        assert_eq!(window.totals(at(1)), (0, 1));
        assert_eq!(window.totals(at(3)), (0, 1));
        window.uncount_some(early, at(9));
        assert_eq!(window.totals(at(9)), (0, 0));
    }

    proptest! {
        #[test]
        fn totals_are_those_of_a_recount(mut times in prop::collection::vec((0..40_u64, any::<bool>()), 0..200)) {
            times.sort_unstable();
            let mut window = RollingWindow::<5>::new(5 * SEC);
            for (secs, some) in &times {
                if *some { window.count_some(at(*secs)); } else { window.count_all(at(*secs)); }
            }
            let last = times.last().map_or(0, |(secs, _)| *secs);
            let seen: Vec<_> = times.iter().filter(|(secs, _)| secs + 5 > last).collect();
            let some = seen.iter().filter(|(_, some)| *some).count() as u64;
            prop_assert_eq!(window.totals(at(last)), (seen.len() as u64 - some, some));
        }

        #[test]
        fn no_time_panics(times in prop::collection::vec(any::<u64>(), 0..50), window in any::<u64>()) {
            let mut ring = RollingWindow::<30>::new(window);
            for time in times {
                let mark = ring.count_some(Timestamp::from_nanos(time));
                ring.uncount_some(mark, Timestamp::from_nanos(time.wrapping_mul(3)));
            }
        }
    }
}
