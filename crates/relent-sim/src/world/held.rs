//! Operations that wait for their lane instead of giving up, as in the durable service.
//!
//! First attempts and retries have a line each, so that an exhausted budget holds no first attempt.

use std::collections::VecDeque;

use super::*;

/// The operations that one lane holds.
#[derive(Debug, Default)]
pub(super) struct Line {
    first: VecDeque<u32>,
    retries: VecDeque<u32>,
    /// When the lane is asked again.
    wakes_at: Option<u64>,
    /// Whether it is moving on: a call that is answered at once must not start it again.
    is_moving: bool,
}

/// How soon a lane is asked again that does not say when.
const ASK_AGAIN: u64 = SECOND / 10;

impl World<'_> {
    pub(super) fn hold(&mut self, slot: u32, refusal: Refusal) {
        let hop = &mut self.hops[0];
        let lane = hop.lane_of(slot);
        let line = &mut hop.lines[lane];
        match hop.ops[index(slot)].history.attempts() {
            0 => line.first.push_back(slot),
            _ => line.retries.push_back(slot),
        }
        self.wake_after(lane, refusal);
    }

    fn wake_after(&mut self, lane: usize, refusal: Refusal) {
        let at = match refusal {
            Refusal::BreakerOpen { until } | Refusal::RateLimited { until } => {
                until.as_nanos().max(self.now + 1)
            }
            Refusal::Budget | Refusal::Concurrency => self.now + ASK_AGAIN,
        };
        let line = &mut self.hops[0].lines[lane];
        if line.wakes_at.is_none_or(|wakes_at| at < wakes_at) {
            line.wakes_at = Some(at);
            let lane = u32::try_from(lane).unwrap_or(u32::MAX);
            self.agenda.plan(Event::new(at, What::Wake, 0, lane));
        }
    }

    pub(super) fn wake(&mut self, hop: usize, lane: u32) {
        let line = &mut self.hops[hop].lines[index(lane)];
        // An earlier wake may have replaced this one.
        if line.wakes_at.is_some_and(|at| at <= self.now) {
            line.wakes_at = None;
            self.move_on(index(lane));
        }
    }

    /// Sends held operations until the lane refuses one of each kind.
    pub(super) fn move_on(&mut self, lane: usize) {
        if std::mem::replace(&mut self.hops[0].lines[lane].is_moving, true) {
            return;
        }
        for retries in [false, true] {
            loop {
                let Line { first, retries: after, .. } = &mut self.hops[0].lines[lane];
                let line = if retries { after } else { first };
                let Some(slot) = line.front().copied() else { break };
                let hop = &self.hops[0];
                let history = &hop.ops[index(slot)].history;
                let late = hop.policy.deadline_of(history).as_nanos() <= self.now;
                let admitted = if late { Ok(()) } else { self.admit(0, slot) };
                if let Err(refusal) = admitted {
                    self.wake_after(lane, refusal);
                    break;
                }
                let Line { first, retries: after, .. } = &mut self.hops[0].lines[lane];
                if retries {
                    after.pop_front()
                } else {
                    first.pop_front()
                };
                match late {
                    true => self.end(0, slot, Err(GiveUpReason::DeadlineWouldPass)),
                    false => self.send(0, slot),
                }
            }
        }
        self.hops[0].lines[lane].is_moving = false;
    }
}
