//! A server: workers, a queue, and the trouble it is in. REQ-X1.
//!
//! It works on calls, not for callers: one whose caller has given up is served all the same, unless
//! it looks for that (`drop_expired`). That wasted work is what keeps an overloaded server down
//! after the trouble that overloaded it has gone.

use std::collections::VecDeque;

use crate::chance::{threshold, whole};
use crate::scenario::{self, FaultKind, Order, Outage, Pick, SECOND};

/// An attempt at a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) op: u32,
    pub(crate) serial: u32,
}

/// What a server is like at the moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Condition {
    pub(crate) outage: Option<Outage>,
    /// The share of its workers that works.
    capacity: f64,
    pub(crate) errors: Option<Errors>,
    /// Whether anything takes longer than usual.
    is_slow: bool,
    factor: f64,
    extra: u64,
    limit: Option<Limit>,
}

/// Which calls fail, with what status.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Errors {
    pub(crate) below: u64,
    pub(crate) pick: Pick,
    pub(crate) status: u16,
}

/// A rate limit: calls evenly spaced, with some leeway.
#[derive(Clone, Copy, Debug)]
struct Limit {
    step: u64,
    leeway: u64,
}

const HEALTHY: Condition = Condition {
    outage: None,
    capacity: 1.0,
    errors: None,
    is_slow: false,
    factor: 1.0,
    extra: 0,
    limit: None,
};

/// A server at work.
#[derive(Debug)]
pub(crate) struct ServerState {
    pub(crate) spec: scenario::Server,
    pub(crate) condition: Condition,
    /// The calls being worked on, by worker.
    busy: Vec<Option<Call>>,
    idle: Vec<u32>,
    working: u32,
    queue: VecDeque<Call>,
    /// Up to when waiting has been added up.
    waited_until: u64,
    /// When the next call would be due at the limited rate.
    paced_until: u64,
    /// The version of the row that versioned writes compete for.
    pub(crate) version: u16,
    pub(crate) tally: Tally,
}

/// What a server has done.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Tally {
    /// Calls a worker took.
    pub(crate) served: u64,
    /// How many of them had waited, and how long all of them had.
    pub(crate) waited: u64,
    pub(crate) wait_nanos: u128,
    /// Time of workers, and the part of it for callers who had gone.
    pub(crate) busy_nanos: u128,
    pub(crate) wasted_nanos: u128,
    /// Calls turned away at the door.
    pub(crate) refused: u64,
    /// Calls skipped because their caller had gone.
    pub(crate) expired: u64,
    pub(crate) queue_max: usize,
}

/// What happens to a call at the door.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Door {
    /// It goes in.
    Enters,
    /// It is answered at once.
    Answered(u16),
    /// It vanishes.
    Lost,
}

impl ServerState {
    pub(crate) fn new(spec: &scenario::Server) -> ServerState {
        ServerState {
            spec: spec.clone(),
            condition: HEALTHY,
            busy: Vec::new(),
            idle: Vec::new(),
            working: 0,
            queue: VecDeque::new(),
            waited_until: 0,
            paced_until: 0,
            version: 0,
            tally: Tally::default(),
        }
    }

    /// Whether a call gets in, if it is not one that fails anyway.
    pub(crate) fn door(&mut self, now: u64) -> Door {
        match self.condition.outage {
            Some(Outage::Refuse) => return self.refuse(status::REFUSED),
            Some(Outage::Drop) => return Door::Lost,
            Some(Outage::Hang) | None => {}
        }
        if let Some(limit) = self.condition.limit {
            let due = self.paced_until.max(now);
            if due - now > limit.leeway {
                return self.refuse(429);
            }
            self.paced_until = due.saturating_add(limit.step);
        }
        let full = self.spec.queue_max.is_some_and(|max| {
            self.queue.len() >= usize::try_from(max).unwrap_or(usize::MAX) && !self.has_free()
        });
        if full {
            return self.refuse(503);
        }
        Door::Enters
    }

    pub(crate) fn refuse(&mut self, status: u16) -> Door {
        self.tally.refused += 1;
        Door::Answered(status)
    }

    pub(crate) fn enqueue(&mut self, call: Call, now: u64) {
        self.add_up_waiting(now);
        self.tally.waited += 1;
        self.queue.push_back(call);
        self.tally.queue_max = self.tally.queue_max.max(self.queue.len());
    }

    pub(crate) fn has_free(&self) -> bool {
        if self.condition.outage == Some(Outage::Hang) {
            return false;
        }
        match self.spec.workers {
            None => true,
            Some(workers) => f64::from(self.working) < f64::from(workers) * self.condition.capacity,
        }
    }

    /// Whether an arriving call can go straight to a worker.
    pub(crate) fn is_free(&self) -> bool {
        self.queue.is_empty() && self.has_free()
    }

    /// The next call to work on, if a worker is free and a call waits.
    pub(crate) fn next_call(&mut self, now: u64, is_gone: impl Fn(Call) -> bool) -> Option<Call> {
        if !self.has_free() {
            return None;
        }
        self.add_up_waiting(now);
        loop {
            let call = match self.spec.order {
                Order::Fifo => self.queue.pop_front(),
                Order::Lifo => self.queue.pop_back(),
            }?;
            if self.spec.drop_expired && is_gone(call) {
                self.tally.expired += 1;
                continue;
            }
            return Some(call);
        }
    }

    /// Waiting is the area under the queue's length, so no call has to remember when it came.
    fn add_up_waiting(&mut self, now: u64) {
        let since = now - self.waited_until;
        self.tally.wait_nanos += u128::from(since) * self.queue.len() as u128;
        self.waited_until = now;
    }

    /// Puts a call on a worker: which one, and how long it takes.
    pub(crate) fn work(&mut self, call: Call, roll: u64) -> (u32, u64) {
        self.working += 1;
        self.tally.served += 1;
        let worker = self.idle.pop().unwrap_or_else(|| {
            self.busy.push(None);
            u32::try_from(self.busy.len() - 1).unwrap_or(u32::MAX)
        });
        self.busy[index(worker)] = Some(call);
        let drawn = self.spec.service.draw(roll);
        let Condition { is_slow: true, factor, extra, capacity, .. } = self.condition else {
            return (worker, drawn);
        };
        // A server without a limit on its workers browns out by getting slower.
        let factor =
            if self.spec.workers.is_none() { factor / capacity.max(0.001) } else { factor };
        (worker, whole(drawn as f64 * factor).saturating_add(extra))
    }

    pub(crate) fn call_of(&self, worker: u32) -> Option<Call> {
        self.busy.get(index(worker)).copied().flatten()
    }

    /// Frees a worker.
    pub(crate) fn rest(&mut self, worker: u32) -> Option<Call> {
        let call = self.busy.get_mut(index(worker)).and_then(Option::take)?;
        self.idle.push(worker);
        self.working -= 1;
        Some(call)
    }

    pub(crate) fn queue_len(&self) -> usize {
        self.queue.len()
    }
}

/// What an answer says, in 16 bits: an HTTP status, or one of these.
pub(crate) mod status {
    pub(crate) const TIMED_OUT: u16 = 0;
    pub(crate) const REFUSED: u16 = 1;
    pub(crate) const CONFLICT: u16 = 2;
    pub(crate) const OK: u16 = 200;
}

impl Condition {
    /// What the faults make of a server at this time.
    pub(crate) fn at(faults: &[scenario::Fault], server: usize, now: u64) -> Condition {
        let mut condition = HEALTHY;
        for fault in faults.iter().filter(|fault| fault.server == server) {
            let severity = severity(fault, now);
            if severity > 0.0 {
                condition.suffer(fault.kind, severity);
            }
        }
        condition
    }

    fn suffer(&mut self, kind: FaultKind, severity: f64) {
        match kind {
            FaultKind::Outage(outage) => self.outage = Some(outage),
            FaultKind::BrownOut { capacity } => {
                self.capacity *= 1.0 - (1.0 - capacity) * severity;
                self.is_slow = true;
            }
            FaultKind::Errors { ratio, pick, status } => {
                self.errors = Some(Errors { below: threshold(ratio * severity), pick, status });
            }
            FaultKind::Latency { factor, extra } => {
                self.is_slow = true;
                self.factor *= 1.0 + (factor - 1.0) * severity;
                self.extra += whole(extra as f64 * severity);
            }
            FaultKind::RateLimit { per_second, burst } => {
                let step = whole(SECOND as f64 / per_second.max(1e-6));
                let leeway = step.saturating_mul(u64::from(burst.max(1) - 1));
                self.limit = Some(Limit { step, leeway });
            }
        }
    }
}

/// How far a fault has set in: 0 not at all, 1 fully.
fn severity(fault: &scenario::Fault, now: u64) -> f64 {
    if now < fault.from {
        return 0.0;
    }
    let share = |part: u64| if fault.ramp == 0 { 1.0 } else { part as f64 / fault.ramp as f64 };
    if now < fault.to {
        return share(now - fault.from).min(1.0);
    }
    let left = fault.to.saturating_add(fault.ramp).saturating_sub(now);
    if left == 0 { 0.0 } else { share(left).min(1.0) }
}

/// When conditions change: at the ends of faults, and step by step along their ramps.
pub(crate) fn changes(faults: &[scenario::Fault]) -> Vec<(u64, usize)> {
    const STEPS: u64 = 50;
    let mut changes = Vec::new();
    for fault in faults {
        let steps = if fault.ramp == 0 { 0 } else { STEPS };
        for step in 0..=steps {
            let into = fault.ramp / STEPS * step;
            changes.push((fault.from + into, fault.server));
            changes.push((fault.to + into, fault.server));
        }
        changes.push((fault.to + fault.ramp, fault.server));
    }
    changes.sort_unstable();
    changes.dedup();
    changes
}

/// An index that came from this simulation.
#[inline]
pub(crate) fn index(number: u32) -> usize {
    number as usize
}
