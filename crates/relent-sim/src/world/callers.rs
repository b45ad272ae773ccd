//! The callers' side: admit, send, decide, wait.

use super::*;

impl World<'_> {
    /// A client of a closed loop begins its next operation.
    pub(super) fn next_round(&mut self, client: u32) {
        let count = u64::from(self.scenario.clients.count);
        let round = match self.rounds.get_mut(index(client)) {
            None => 0,
            Some(round) => {
                *round += 1;
                u64::from(*round - 1)
            }
        };
        self.begin(client, u64::from(client) + round * count);
    }

    /// A client begins an operation.
    pub(super) fn begin(&mut self, client: u32, task: u64) {
        self.measure.began(self.now);
        let now = Timestamp::from_nanos(self.now);
        let mut history = History::start(now, Repeatable::ByKey);
        if let Some(deadline) = self.scenario.clients.deadline {
            history = history.with_deadline(Timestamp::from_nanos(self.now + deadline));
        }
        let op = Op { history, held: Held::Nothing, task, parent: client, serial: 0 };
        let slot = self.hops[0].put(op);
        self.attempt(0, slot);
    }

    /// Step 1 and 2: asks to start the next attempt, and sends it.
    pub(super) fn attempt(&mut self, hop: usize, slot: u32) {
        match self.admit(hop, slot) {
            Ok(()) => self.send(hop, slot),
            Err(refusal) => self.refused(hop, slot, refusal),
        }
    }

    pub(super) fn admit(&mut self, hop: usize, slot: u32) -> Result<(), Refusal> {
        let now = Timestamp::from_nanos(self.now);
        let holds = hop == 0 && self.scenario.clients.when_refused == WhenRefused::Hold;
        let hop = &mut self.hops[hop];
        let lane_number = hop.lane_of(slot);
        let (op, lane) = (&mut hop.ops[index(slot)], &mut hop.lanes[lane_number]);
        let turn = Turn::of_attempt(op.history.attempts() + 1);
        if holds && turn == Turn::Retry {
            let roll = hop.jitter.roll(op.task, op.history.attempts());
            op.held = Held::Reservation(lane.reserve_retry(now, roll)?);
        }
        match lane.admit(turn, now) {
            Ok(pass) => {
                // The retry is being sent: what was counted for it is spent.
                op.held = Held::Pass(pass);
                op.history = op.history.begin_attempt();
                hop.serial = hop.serial.wrapping_add(1).max(1);
                op.serial = hop.serial;
                Ok(())
            }
            Err(refusal) => {
                if let Held::Reservation(counted) = std::mem::replace(&mut op.held, Held::Nothing) {
                    lane.release(counted, now);
                }
                Err(refusal)
            }
        }
    }

    pub(super) fn send(&mut self, number: usize, slot: u32) {
        let hop = &mut self.hops[number];
        let Op { history, serial, task, .. } = &hop.ops[index(slot)];
        let (serial, task, attempt) = (*serial, *task, history.attempts());
        self.measure.sent(number, attempt, self.now);

        let deadline = hop.policy.deadline_of(history).as_nanos();
        let at = self.now.saturating_add(hop.attempt_timeout).min(deadline);
        if !hop.timers.set(Timer { at, op: slot, serial }) {
            let timeout = Event::new(at, What::Timeout, byte(number), slot).of_attempt(serial);
            self.agenda.plan(timeout.with_status(status::TIMED_OUT));
        }

        if hop.lost_below > 0 && hop.loss.roll(task, attempt * 2) < hop.lost_below {
            return;
        }
        let call = Call { op: slot, serial };
        if hop.latency.is_zero() {
            return self.arrive(number, call);
        }
        let at = self.now.saturating_add(hop.latency.draw(hop.there.roll(task, attempt)));
        self.agenda.plan(Event::new(at, What::Arrive, byte(number), slot).of_attempt(serial));
    }

    /// An attempt that the lane holds back.
    fn refused(&mut self, hop: usize, slot: u32, refusal: Refusal) {
        let op = &self.hops[hop].ops[index(slot)];
        let deadline = self.hops[hop].policy.deadline_of(&op.history).as_nanos();
        if hop == 0 && self.scenario.clients.when_refused == WhenRefused::Hold {
            return self.hold(slot, refusal);
        }
        match refusal {
            // As in the library: a rate limit says when to come back, everything else is an answer.
            Refusal::RateLimited { until } if until.as_nanos() < deadline => {
                self.agenda.plan(Event::new(until.as_nanos(), What::Due, byte(hop), slot));
            }
            refusal => self.end(hop, slot, Err(refusal.into())),
        }
    }

    /// Steps 3 and 4: an answer, or the end of waiting for one.
    pub(super) fn answered(&mut self, number: usize, slot: u32, serial: u32, code: u16) {
        let holds = number == 0 && self.scenario.clients.when_refused == WhenRefused::Hold;
        let hop = &mut self.hops[number];
        if hop.ops[index(slot)].serial != serial {
            return;
        }
        let lane_number = hop.lane_of(slot);
        let (op, lane) = (&mut hop.ops[index(slot)], &mut hop.lanes[lane_number]);
        let now = Timestamp::from_nanos(self.now);
        let outcome = outcome(code, self.servers[number].spec.retry_after);
        let roll = hop.jitter.roll(op.task, op.history.attempts());
        op.serial = 0;
        if let Held::Pass(pass) = std::mem::replace(&mut op.held, Held::Nothing) {
            lane.finish(pass, &outcome, now, roll);
        }
        let decision = if holds {
            decide(hop.policy, &op.history, &outcome, &mut Ungated, now, roll)
        } else {
            let mut gates = lane.gates();
            let decision = decide(hop.policy, &op.history, &outcome, &mut gates, now, roll);
            if let Some(counted) = gates.into_reservation() {
                op.held = Held::Reservation(counted);
            }
            decision
        };
        match decision {
            Decision::Done => self.end(number, slot, Ok(())),
            Decision::GiveUp { because } => self.end(number, slot, Err(because)),
            Decision::RetryAt { at, charge, .. } => {
                op.history = op.history.charged(charge);
                self.agenda.plan(Event::new(at.as_nanos(), What::Due, byte(number), slot));
            }
        }
        if holds {
            self.move_on(lane_number);
        }
    }

    /// An operation ends: its client goes on, or the server that waited for it answers.
    pub(super) fn end(&mut self, number: usize, slot: u32, why: Result<(), GiveUpReason>) {
        let hop = &mut self.hops[number];
        let Op { history, parent, .. } = &hop.ops[index(slot)];
        let (since, parent) = (history.created_at().as_nanos(), *parent);
        hop.free.push(slot);
        if number > 0 {
            let code = if why.is_ok() { status::OK } else { 503 };
            return self.relieve(number - 1, parent, code);
        }
        self.measure.ended(why, since, self.now);
        let Load::Closed { think, operations, .. } = &self.scenario.clients.load else { return };
        let done = self.rounds.get(index(parent)).copied().unwrap_or(1);
        if operations.is_none_or(|operations| done < operations)
            && self.scenario.clients.until.is_none_or(|until| self.now < until)
        {
            let think = think.draw(self.clients_stream.roll(parent.into(), done));
            let at = self.now.saturating_add(think);
            self.agenda.plan(Event::new(at, What::Begin, 0, parent));
        }
    }
}

/// What an answer means to the engine.
fn outcome(code: u16, retry_after: Option<u64>) -> Outcome {
    let outcome = match code {
        status::OK => return Outcome::Success,
        status::TIMED_OUT => return Outcome::from(Fault::ResponseTimeout),
        status::REFUSED => return Outcome::from(Fault::ConnectRefused),
        status::CONFLICT => return Outcome::from(Fault::DbSerialization),
        code => Outcome::Failure(Failure::from(FailureKind::Http(code))),
    };
    match retry_after {
        Some(nanos) if matches!(code, 429 | 503) => {
            outcome.retry_after(Duration::from_nanos(nanos))
        }
        _ => outcome,
    }
}

/// A hop's number in an event; there are at most a few.
pub(super) fn byte(hop: usize) -> u8 {
    u8::try_from(hop).unwrap_or(u8::MAX)
}
