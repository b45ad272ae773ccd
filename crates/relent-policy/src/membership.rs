//! When a node of a cluster may work: from when on it has been heard of, and until when it has heard.
//!
//! Nodes that share a store count each other by beats, and each holds itself to its
//! [part](crate::Share). That is right as long as all count the same, and a node may be late to
//! hear of another. So a node that joins works only when the others have had the time to make room,
//! and one that has heard nothing for a while (its process was stopped, its network is gone) does
//! nothing until it has: the others may have shared its part among themselves. REQ-G4.
//!
//! Times are those of one monotonic clock, the node's own.

use core::time::Duration;

use crate::share::Share;
use crate::time::Timestamp;

/// One node's place among those that work.
///
/// ```
/// use core::time::Duration;
/// use relent_policy::{Heard, Membership, Share, Timestamp};
///
/// let mut member = Membership::default();
/// let now = Timestamp::from_secs(1);
/// assert!(!member.may_work(now));
/// assert_eq!(member.hear(Share::new(1, 2), now, now), Heard::Joined);
/// assert!(!member.may_work(now), "the other makes room first");
/// let later = now + Membership::JOINS_AFTER;
/// assert_eq!(member.hear(Share::new(1, 2), later, later), Heard::Same);
/// assert!(member.may_work(later));
/// assert!(!member.may_work(later + Membership::SILENT_AFTER));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Membership {
    last: Option<Last>,
    works_from: Timestamp,
}

/// The last answer to a beat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Last {
    asked_at: Timestamp,
    share: Share,
}

/// What a beat has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// The node was not one of them, or may have been forgotten.
    Joined,
    /// It has another part.
    Changed,
    /// Nothing.
    Same,
}

impl Membership {
    /// How often a node beats.
    pub const BEAT_EVERY: Duration = Duration::from_millis(250);
    /// How long a node that finds others waits: two beats of each of them.
    pub const JOINS_AFTER: Duration = Duration::from_millis(500);
    /// A node that has not heard for so long does nothing. Less than the time after which others forget
    /// it, which is counted from when its beat arrived.
    pub const SILENT_AFTER: Duration = Duration::from_millis(1_500);

    /// Learns its part from a beat that was sent at `asked_at`.
    pub fn hear(&mut self, share: Share, asked_at: Timestamp, now: Timestamp) -> Heard {
        let before = self.last.filter(|last| !last.is_old(now));
        self.last = Some(Last { asked_at, share });
        let Some(before) = before else {
            self.works_from = now + Membership::JOINS_AFTER;
            if share.is_whole() {
                self.works_from = now;
            }
            return Heard::Joined;
        };
        if share.is_whole() {
            // Whoever it made room for is gone.
            self.works_from = self.works_from.min(now);
        }
        if before.share == share { Heard::Same } else { Heard::Changed }
    }

    /// Whether it may start something now.
    #[inline]
    pub fn may_work(&self, now: Timestamp) -> bool {
        now >= self.works_from && self.last.is_some_and(|last| !last.is_old(now))
    }

    /// Its part, as it last heard.
    ///
    /// ```
    /// use relent_policy::{Membership, Share, Timestamp};
    ///
    /// let mut member = Membership::default();
    /// assert_eq!(member.share(), None);
    /// member.hear(Share::WHOLE, Timestamp::ZERO, Timestamp::ZERO);
    /// assert_eq!(member.share(), Some(Share::WHOLE));
    /// ```
    pub fn share(&self) -> Option<Share> {
        self.last.map(|last| last.share)
    }
}

impl Last {
    fn is_old(self, now: Timestamp) -> bool {
        now.saturating_since(self.asked_at) >= Membership::SILENT_AFTER
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAIR: Share = Share::new(0, 2);

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    #[test]
    fn a_node_that_is_alone_works_at_once() {
        let mut member = Membership::default();
        assert_eq!(member.hear(Share::WHOLE, at(100), at(110)), Heard::Joined);
        assert!(member.may_work(at(110)));
    }

    #[test]
    fn a_node_that_was_silent_for_too_long_joins_again() {
        let mut member = Membership::default();
        member.hear(Share::WHOLE, at(100), at(110));
        assert_eq!(member.hear(PAIR, at(350), at(360)), Heard::Changed);
        assert!(member.may_work(at(1_849)));
        assert!(!member.may_work(at(1_850)), "it counts from when it asked");
        assert_eq!(member.hear(PAIR, at(5_000), at(5_010)), Heard::Joined);
        assert!(!member.may_work(at(5_509)) && member.may_work(at(5_510)));
    }

    #[test]
    fn an_answer_that_took_too_long_is_worth_nothing() {
        let mut member = Membership::default();
        member.hear(PAIR, at(0), at(1_600));
        assert!(!member.may_work(at(2_100)));
        assert_eq!(member.hear(PAIR, at(2_000), at(2_010)), Heard::Joined);
    }

    #[test]
    fn a_node_that_is_left_alone_waits_for_nobody() {
        let mut member = Membership::default();
        member.hear(PAIR, at(0), at(10));
        assert_eq!(member.hear(Share::WHOLE, at(250), at(260)), Heard::Changed);
        assert!(member.may_work(at(260)));
    }
}
