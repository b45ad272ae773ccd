//! The servers' side: the door, the queue, the workers, and what they call in turn.

use super::callers::byte;
use super::*;
use crate::scenario::{FailureCost, Pick};
use crate::server::Door;

impl World<'_> {
    /// A call reaches a server.
    pub(super) fn arrive(&mut self, number: usize, call: Call) {
        if number == 0 {
            self.measure.reached(self.now);
        }
        let door = match self.fails(number, call) {
            Some(status) if self.servers[number].spec.failure == FailureCost::Fast => {
                self.servers[number].refuse(status)
            }
            _ => self.servers[number].door(self.now),
        };
        match door {
            Door::Lost => {}
            Door::Answered(status) => self.answer(number, call, status),
            Door::Enters if self.servers[number].spec.versioned => self.read(number, call),
            Door::Enters if self.servers[number].is_free() => self.work(number, call),
            Door::Enters => {
                self.servers[number].enqueue(call, self.now);
                self.measure.queue(self.now, self.servers[number].queue_len());
                // Skipped calls may have left a worker idle.
                self.work_on(number);
            }
        }
    }

    /// The status of a call that fails whatever the server does.
    fn fails(&self, number: usize, call: Call) -> Option<u16> {
        let errors = self.servers[number].condition.errors?;
        let hop = &self.hops[number];
        let op = &hop.ops[index(call.op)];
        if op.serial != call.serial {
            return None;
        }
        let roll = match errors.pick {
            Pick::Attempts => hop.errors.roll(op.task, op.history.attempts()),
            Pick::Operations => hop.errors.roll(op.task, 0),
            Pick::Clients => hop.errors.roll(op.parent.into(), u32::MAX),
        };
        (roll < errors.below).then_some(errors.status)
    }

    /// The first half of a versioned call: the caller gets the version, and writes.
    fn read(&mut self, number: usize, call: Call) {
        let version = self.servers[number].version;
        let hop = &self.hops[number];
        let op = &hop.ops[index(call.op)];
        let (task, attempt) = (op.task, op.history.attempts());
        // The draws of the second round trip.
        let later = attempt + (1 << 16);
        let back = hop.latency.draw(hop.back.roll(task, later));
        let there = hop.latency.draw(hop.there.roll(task, later));
        let at = self.now.saturating_add(back).saturating_add(there);
        let event = Event::new(at, What::Write, byte(number), call.op);
        self.agenda.plan(event.of_attempt(call.serial).with_status(version));
    }

    /// The second half: it holds if nobody wrote in between.
    pub(super) fn write(&mut self, number: usize, call: Call, read: u16) {
        let server = &mut self.servers[number];
        let code = if server.version == read {
            server.version = server.version.wrapping_add(1);
            status::OK
        } else {
            status::CONFLICT
        };
        server.tally.served += 1;
        self.answer(number, call, code);
    }

    /// Gives waiting calls to free workers.
    pub(super) fn work_on(&mut self, number: usize) {
        loop {
            let ops = &self.hops[number].ops;
            let is_gone = |call: Call| ops[index(call.op)].serial != call.serial;
            let Some(call) = self.servers[number].next_call(self.now, is_gone) else { return };
            self.work(number, call);
        }
    }

    fn work(&mut self, number: usize, call: Call) {
        let hop = &self.hops[number];
        let op = &hop.ops[index(call.op)];
        // The slot may serve another operation by now; the serial number is this attempt's own.
        let live = op.serial == call.serial;
        let (task, attempt) =
            if live { (op.task, op.history.attempts()) } else { (call.serial.into(), u32::MAX) };
        let roll = hop.service.roll(task, attempt);
        let (worker, nanos) = self.servers[number].work(call, roll);
        self.servers[number].tally.busy_nanos += u128::from(nanos);
        let event = Event::new(self.now.saturating_add(nanos), What::Served, byte(number), worker);
        let micros = u32::try_from(nanos / 1_000).unwrap_or(u32::MAX);
        self.agenda.plan(event.of_attempt(micros));
    }

    /// A worker is done with its own part, after so many microseconds.
    pub(super) fn served(&mut self, number: usize, worker: u32, micros: u32) {
        let Some(call) = self.servers[number].call_of(worker) else { return };
        let live = self.hops[number].ops[index(call.op)].serial == call.serial;
        if !live {
            self.servers[number].tally.wasted_nanos += u128::from(micros) * 1_000;
        }
        let failed = if live { self.fails(number, call) } else { None };
        let next = number + 1;
        if failed.is_some() || next >= self.hops.len() {
            return self.relieve(number, worker, failed.unwrap_or(status::OK));
        }
        // It holds on to the worker while it calls the next server, whether or not its own caller
        // still waits.
        let op = &self.hops[number].ops[index(call.op)];
        let attempt = if live { op.history.attempts() } else { u32::MAX };
        let task = relent_policy::roll::for_attempt(next as u64, op.task, attempt);
        let role =
            if self.servers[number].spec.told { HopRole::RetriedAbove } else { HopRole::Retries };
        let history =
            History::start(Timestamp::from_nanos(self.now), Repeatable::ByKey).with_hop(role);
        let op = Op { history, held: Held::Nothing, task, parent: worker, serial: 0 };
        let slot = self.hops[next].put(op);
        self.attempt(next, slot);
    }

    /// Frees a worker with an answer, and gives it the next call.
    pub(super) fn relieve(&mut self, number: usize, worker: u32, status: u16) {
        if let Some(call) = self.servers[number].rest(worker) {
            self.answer(number, call, status);
        }
        self.work_on(number);
    }

    /// Sends an answer back, if anybody waits for it.
    fn answer(&mut self, number: usize, call: Call, status: u16) {
        let hop = &self.hops[number];
        let op = &hop.ops[index(call.op)];
        if op.serial != call.serial {
            return;
        }
        let attempt = op.history.attempts();
        if hop.lost_below > 0 && hop.loss.roll(op.task, attempt * 2 + 1) < hop.lost_below {
            return;
        }
        if hop.latency.is_zero() {
            return self.answered(number, call.op, call.serial, status);
        }
        let at = self.now.saturating_add(hop.latency.draw(hop.back.roll(op.task, attempt)));
        let event = Event::new(at, What::Answer, byte(number), call.op).of_attempt(call.serial);
        self.agenda.plan(event.with_status(status));
    }
}
