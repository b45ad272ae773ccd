//! What happens when: a heap of events, and lines of timers that need no heap. REQ-X1.
//!
//! Most events of a simulation with timeouts are timeouts that never fire. All timeouts of one
//! policy are equally long, so they come due in the order in which they are set: a line is enough,
//! and a line costs a tenth of a heap. Ties are broken by the order of planning, so that the same
//! seed gives the same run.

use std::collections::VecDeque;

/// What an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// All clients begin, or one of them begins its next operation.
    Begin,
    /// A retry is due.
    Due,
    /// A request reaches a server.
    Arrive,
    /// A versioned write reaches a server; the status is the version that was read.
    Write,
    /// A worker is done.
    Served,
    /// An answer reaches the caller.
    Answer,
    /// An attempt's time is up.
    Timeout,
    /// A server's condition changes.
    Condition,
    /// A held line may move on.
    Wake,
}

/// Something that happens at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) at: u64,
    /// The order of planning; wraps around, which only matters between events of one instant.
    order: u32,
    pub(crate) what: What,
    pub(crate) hop: u8,
    pub(crate) status: u16,
    pub(crate) op: u32,
    pub(crate) serial: u32,
}

impl Event {
    pub(crate) fn new(at: u64, what: What, hop: u8, op: u32) -> Event {
        Event { at, order: 0, what, hop, status: 0, op, serial: 0 }
    }

    pub(crate) fn of_attempt(self, serial: u32) -> Event {
        Event { serial, ..self }
    }

    pub(crate) fn with_status(self, status: u16) -> Event {
        Event { status, ..self }
    }

    #[inline]
    fn before(&self, other: &Event) -> bool {
        (self.at, self.order) < (other.at, other.order)
    }
}

/// Events in the order of their time: a heap in which each node has four children, because a wide
/// node's children share a cache line and the heap is half as deep.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    heap: Vec<Event>,
    planned: u32,
}

const CHILDREN: usize = 4;

impl Agenda {
    pub(crate) fn with_capacity(events: usize) -> Agenda {
        Agenda { heap: Vec::with_capacity(events), planned: 0 }
    }

    #[inline]
    pub(crate) fn plan(&mut self, event: Event) {
        self.planned = self.planned.wrapping_add(1);
        let event = Event { order: self.planned, ..event };
        let mut hole = self.heap.len();
        self.heap.push(event);
        while hole > 0 {
            let parent = (hole - 1) / CHILDREN;
            if !event.before(&self.heap[parent]) {
                break;
            }
            self.heap[hole] = self.heap[parent];
            hole = parent;
        }
        self.heap[hole] = event;
    }

    #[inline]
    pub(crate) fn next_at(&self) -> Option<u64> {
        self.heap.first().map(|event| event.at)
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Event> {
        let last = self.heap.pop()?;
        let Some(first) = self.heap.first().copied() else { return Some(last) };
        let (mut hole, len) = (0, self.heap.len());
        loop {
            let from = hole * CHILDREN + 1;
            if from >= len {
                break;
            }
            let mut least = from;
            for child in from + 1..(from + CHILDREN).min(len) {
                if self.heap[child].before(&self.heap[least]) {
                    least = child;
                }
            }
            if !self.heap[least].before(&last) {
                break;
            }
            self.heap[hole] = self.heap[least];
            hole = least;
        }
        self.heap[hole] = last;
        Some(first)
    }
}

/// An attempt's time limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timer {
    pub(crate) at: u64,
    pub(crate) op: u32,
    pub(crate) serial: u32,
}

/// Timers that are all equally long.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    line: VecDeque<Timer>,
}

impl Timers {
    pub(crate) fn with_capacity(timers: usize) -> Timers {
        Timers { line: VecDeque::with_capacity(timers) }
    }

    /// Adds one that ends last; `false` if it ends before another, and belongs on the agenda.
    #[inline]
    pub(crate) fn set(&mut self, timer: Timer) -> bool {
        let in_order = self.line.back().is_none_or(|last| last.at <= timer.at);
        if in_order {
            self.line.push_back(timer);
        }
        in_order
    }

    /// When the first one ends whose attempt is still under way.
    #[inline]
    pub(crate) fn next_at(&mut self, is_live: impl Fn(&Timer) -> bool) -> Option<u64> {
        while let Some(timer) = self.line.front() {
            if is_live(timer) {
                return Some(timer.at);
            }
            self.line.pop_front();
        }
        None
    }

    pub(crate) fn pop(&mut self) -> Option<Timer> {
        self.line.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn events_come_in_the_order_of_time_and_then_of_planning(
            times in proptest::collection::vec(0..50_u64, 0..300),
        ) {
            let mut agenda = Agenda::default();
            for (op, at) in (0..).zip(&times) {
                agenda.plan(Event::new(*at, What::Due, 0, op));
            }
            let mut expected: Vec<(u64, u32)> = times.iter().copied().zip(0..).collect();
            expected.sort_unstable();
            let popped: Vec<(u64, u32)> =
                std::iter::from_fn(|| agenda.pop()).map(|event| (event.at, event.op)).collect();
            prop_assert_eq!(popped, expected);
        }
    }

    #[test]
    fn an_event_fits_into_24_bytes_and_a_timer_into_16() {
        assert_eq!((size_of::<Event>(), size_of::<Timer>()), (24, 16));
    }

    #[test]
    fn timers_of_ended_attempts_are_skipped() {
        let mut timers = Timers::default();
        for (serial, at) in [(1, 10), (2, 20), (3, 30)] {
            assert!(timers.set(Timer { at, op: 0, serial }));
        }
        assert!(!timers.set(Timer { at: 5, op: 0, serial: 4 }));
        assert_eq!(timers.next_at(|timer| timer.serial == 3), Some(30));
        assert_eq!(timers.next_at(|_| false), None);
    }
}
