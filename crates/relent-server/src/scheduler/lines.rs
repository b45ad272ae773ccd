//! Which line is served next.
//!
//! A line is a lane's first attempts or its retries. Lines that have something due and are not held
//! stand in a ring and are served a few tasks at a time, so a lane with a million due tasks gets the
//! same turns as one with three. A line that waits, for a due time or for its lane's leave, stands
//! in a heap of alarms and costs nothing until its time. A held line is not polled and its tasks are
//! not rewritten: that is what keeps a dead dependency from costing the others anything.
//!
//! Pure: times come in as arguments. REQ-S3, REQ-K2, REQ-L6.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::time::Duration;

use relent_policy::{Timestamp, Turn};
use relent_store::LaneId;

/// One of the two lines of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct LineKey {
    pub(crate) lane: LaneId,
    pub(crate) is_retry: bool,
}

impl LineKey {
    pub(crate) fn new(lane: LaneId, turn: Turn) -> LineKey {
        LineKey { lane, is_retry: turn == Turn::Retry }
    }

    pub(crate) fn turn(self) -> Turn {
        if self.is_retry { Turn::Retry } else { Turn::First }
    }
}

/// All lines of a service.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    /// How long before its first task is due a line is served.
    lead: Duration,
    lines: HashMap<LineKey, Line>,
    ring: VecDeque<LineKey>,
    alarms: BinaryHeap<Reverse<(Timestamp, LineKey)>>,
    /// How often a line was served.
    turns: u64,
}

#[derive(Debug, Default)]
struct Line {
    /// When its earliest task is due; `None` if none waits.
    due_at: Option<Timestamp>,
    /// Until when its lane holds it; in the past if it does not.
    held_until: Timestamp,
    in_ring: bool,
    /// The earliest alarm that is set for it.
    alarm_at: Option<Timestamp>,
    /// The turn in which it was served last.
    served_in: u64,
}

impl Lines {
    /// No lines, which are served so long before their first task is due.
    pub(crate) fn served_ahead(lead: Duration) -> Lines {
        Lines { lead, ..Lines::default() }
    }

    /// Something of this line is due at this time, if not something else earlier.
    pub(crate) fn due(&mut self, key: LineKey, at: Timestamp, now: Timestamp) {
        let line = self.lines.entry(key).or_default();
        line.due_at = Some(line.due_at.map_or(at, |due_at| due_at.min(at)));
        self.place(key, now);
    }

    /// What a claim has left: when the next task of the line is due.
    pub(crate) fn served(&mut self, key: LineKey, next: Option<Timestamp>, now: Timestamp) {
        self.turns += 1;
        let line = self.lines.entry(key).or_default();
        (line.due_at, line.served_in) = (next, self.turns);
        self.place(key, now);
    }

    /// The lane holds the line until then. [`Timestamp::MAX`] means until it is let go.
    pub(crate) fn hold(&mut self, key: LineKey, until: Timestamp, now: Timestamp) {
        self.lines.entry(key).or_default().held_until = until;
        self.place(key, now);
    }

    /// The lane may have room again. Where there is room for one only, its two lines take turns:
    /// whoever was served last goes behind, or the longer line would take every place.
    pub(crate) fn let_go(&mut self, lane: LaneId, now: Timestamp) {
        let mut keys = [Turn::Retry, Turn::First].map(|turn| LineKey::new(lane, turn));
        keys.sort_by_key(|key| self.lines.get(key).map_or(0, |line| line.served_in));
        for key in keys {
            if let Some(line) = self.lines.get_mut(&key) {
                line.held_until = Timestamp::ZERO;
                self.place(key, now);
            }
        }
    }

    /// How many lines stand in the ring.
    pub(crate) fn ready(&mut self, now: Timestamp) -> u32 {
        self.ring_alarms(now);
        u32::try_from(self.ring.len()).unwrap_or(u32::MAX)
    }

    /// The next line to serve; it goes to the end of the ring when it is [served](Lines::served).
    pub(crate) fn take(&mut self, now: Timestamp) -> Option<LineKey> {
        self.ring_alarms(now);
        while let Some(key) = self.ring.pop_front() {
            let Some(line) = self.lines.get_mut(&key) else { continue };
            line.in_ring = false;
            if line.ready_at(self.lead).is_some_and(|at| at <= now) {
                return Some(key);
            }
            self.place(key, now);
        }
        None
    }

    /// Puts a line back that was taken and not served.
    pub(crate) fn put_back(&mut self, key: LineKey, now: Timestamp) {
        self.place(key, now);
    }

    /// When [`Lines::take`] can next have something, as far as is known.
    pub(crate) fn next_alarm(&self) -> Option<Timestamp> {
        if !self.ring.is_empty() {
            return Some(Timestamp::ZERO);
        }
        self.alarms.peek().map(|Reverse((at, _))| *at)
    }

    fn ring_alarms(&mut self, now: Timestamp) {
        while let Some(Reverse((at, key))) = self.alarms.peek().copied() {
            if at > now {
                return;
            }
            self.alarms.pop();
            if let Some(line) = self.lines.get_mut(&key)
                && line.alarm_at == Some(at)
            {
                line.alarm_at = None;
                self.place(key, now);
            }
        }
    }

    /// Puts a line where it belongs: into the ring, under an alarm, or nowhere.
    fn place(&mut self, key: LineKey, now: Timestamp) {
        let Some(line) = self.lines.get_mut(&key) else { return };
        let Some(at) = line.ready_at(self.lead) else {
            if line.due_at.is_none() && line.held_until <= now && !line.in_ring {
                self.lines.remove(&key);
            }
            return;
        };
        if at <= now {
            if !line.in_ring {
                line.in_ring = true;
                self.ring.push_back(key);
            }
        } else if at < Timestamp::MAX && line.alarm_at.is_none_or(|alarm_at| at < alarm_at) {
            line.alarm_at = Some(at);
            self.alarms.push(Reverse((at, key)));
        }
    }
}

impl Line {
    /// When it can be served; `None` if nothing waits. What holds it holds it to the end.
    fn ready_at(&self, lead: Duration) -> Option<Timestamp> {
        let due_at = self.due_at?;
        let ahead_of_it = Duration::from_nanos(due_at.as_nanos()).saturating_sub(lead);
        Some((Timestamp::ZERO + ahead_of_it).max(self.held_until))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: LineKey = LineKey { lane: LaneId::from_u32(1), is_retry: false };
    const B: LineKey = LineKey { lane: LaneId::from_u32(2), is_retry: false };

    fn at(secs: u64) -> Timestamp {
        Timestamp::from_secs(secs)
    }

    #[test]
    fn a_line_is_served_when_it_is_due_and_not_before() {
        let mut lines = Lines::default();
        lines.due(A, at(5), at(1));
        assert_eq!(lines.take(at(4)), None);
        assert_eq!(lines.next_alarm(), Some(at(5)));
        assert_eq!(lines.take(at(5)), Some(A));
        assert_eq!(lines.take(at(5)), None);
    }

    #[test]
    fn a_line_is_served_ahead_and_held_to_the_end() {
        let mut lines = Lines::served_ahead(Duration::from_secs(2));
        lines.due(A, at(5), at(1));
        assert_eq!(lines.next_alarm(), Some(at(3)));
        assert_eq!(lines.take(at(2)), None);
        assert_eq!(lines.take(at(3)), Some(A));
        lines.hold(A, at(9), at(3));
        assert_eq!((lines.take(at(8)), lines.next_alarm()), (None, Some(at(9))));
        assert_eq!(lines.take(at(9)), Some(A));
    }

    #[test]
    fn lines_take_turns() {
        let mut lines = Lines::default();
        lines.due(A, at(1), at(2));
        lines.due(B, at(1), at(2));
        let mut order = Vec::new();
        for _ in 0..4 {
            let key = lines.take(at(2)).unwrap();
            order.push(key);
            lines.served(key, Some(at(1)), at(2));
        }
        assert_eq!(order, [A, B, A, B]);
    }

    #[test]
    fn a_held_line_waits_for_its_time_and_no_longer() {
        let mut lines = Lines::default();
        lines.due(A, at(1), at(1));
        lines.hold(A, at(9), at(1));
        assert_eq!(lines.take(at(8)), None);
        assert_eq!(lines.next_alarm(), Some(at(9)));
        assert_eq!(lines.take(at(9)), Some(A));
    }

    #[test]
    fn a_line_held_for_ever_sets_no_alarm_and_comes_back_when_let_go() {
        let mut lines = Lines::default();
        lines.due(A, at(1), at(1));
        assert_eq!(lines.take(at(1)), Some(A));
        lines.hold(A, Timestamp::MAX, at(1));
        assert_eq!((lines.take(at(99)), lines.next_alarm()), (None, None));
        lines.let_go(A.lane, at(99));
        assert_eq!(lines.take(at(99)), Some(A));
    }

    #[test]
    fn the_lines_of_a_lane_with_room_for_one_take_turns() {
        let retries = LineKey { is_retry: true, ..A };
        let mut lines = Lines::default();
        lines.due(A, at(1), at(1));
        lines.due(retries, at(2), at(2));
        let mut order = Vec::new();
        for _ in 0..4 {
            lines.let_go(A.lane, at(2));
            let key = lines.take(at(2)).unwrap();
            order.push(key.is_retry);
            lines.served(key, Some(at(1)), at(2));
            for key in [A, retries] {
                lines.hold(key, Timestamp::MAX, at(2));
            }
            assert_eq!(lines.take(at(2)), None);
        }
        assert_eq!(order, [false, true, false, true]);
    }

    #[test]
    fn an_earlier_task_moves_the_alarm() {
        let mut lines = Lines::default();
        lines.due(A, at(9), at(1));
        lines.due(A, at(3), at(1));
        assert_eq!(lines.next_alarm(), Some(at(3)));
        assert_eq!(lines.take(at(3)), Some(A));
        lines.served(A, Some(at(9)), at(3));
        assert_eq!(lines.take(at(8)), None);
        assert_eq!(lines.take(at(9)), Some(A));
    }

    #[test]
    fn a_line_with_nothing_left_is_forgotten() {
        let mut lines = Lines::default();
        lines.due(A, at(1), at(1));
        lines.take(at(1));
        lines.served(A, None, at(1));
        assert!(lines.lines.is_empty());
        assert_eq!(lines.next_alarm(), None);
    }
}
