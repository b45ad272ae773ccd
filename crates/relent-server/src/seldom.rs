//! Saying the same thing seldom: what goes wrong a thousand times a second is told once.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const EVERY: Duration = Duration::from_secs(1);

/// One kind of message.
#[derive(Debug)]
pub(crate) struct Seldom(Mutex<(Option<Instant>, u64)>);

impl Seldom {
    pub(crate) const fn new() -> Seldom {
        Seldom(Mutex::new((None, 0)))
    }

    /// Whether to tell it now, and if so, how often it was not told since the last time.
    pub(crate) fn tell(&self) -> Option<u64> {
        self.tell_at(Instant::now())
    }

    fn tell_at(&self, now: Instant) -> Option<u64> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.0.is_some_and(|told| now.saturating_duration_since(told) < EVERY) {
            state.1 += 1;
            return None;
        }
        let untold = state.1;
        *state = (Some(now), 0);
        Some(untold)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_told_is_counted() {
        let (seldom, start) = (Seldom::new(), Instant::now());
        assert_eq!(seldom.tell_at(start), Some(0));
        assert_eq!(seldom.tell_at(start), None);
        assert_eq!(seldom.tell_at(start + EVERY / 2), None);
        assert_eq!(seldom.tell_at(start + EVERY), Some(2));
    }
}
