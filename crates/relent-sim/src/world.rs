//! One run: the event loop, and the five steps of every attempt on a virtual clock. REQ-X1.
//!
//! Whether and when to try again is asked of the engine that decides in production
//! ([`relent_policy::decide`], [`relent_policy::Lane`]); nothing of it is repeated here. What is
//! simulated is the rest of the world: callers, messages, servers and their trouble.
//!
//! An operation is what a caller wants done; an attempt is one call for it. Operations live in
//! slots that are used again; a serial number, new for each attempt, tells an answer that comes too
//! late from the one that is waited for.

use std::time::Duration;

use relent_policy::{
    Breaker, Budget, BudgetRules, Decision, Failure, FailureKind, Fault, GiveUpReason, History,
    Hop as HopRole, Lane, Outcome, Pass, Policy, Refusal, Repeatable, Reservation, Timestamp, Turn,
    Ungated, decide,
};

use crate::agenda::{Agenda, Event, Timer, Timers, What};
use crate::arrivals::Arrivals;
use crate::chance::{Source, Spread, Stream, threshold};
use crate::measure::Measure;
use crate::scenario::{Lanes, Load, SECOND, Scenario, WhenRefused};
use crate::server::{Call, Condition, ServerState, changes, index, status};

mod callers;
mod calls;
mod held;

use held::Line;

/// Everything in one run.
#[derive(Debug)]
pub(crate) struct World<'s> {
    scenario: &'s Scenario,
    now: u64,
    agenda: Agenda,
    arrivals: Arrivals<'s>,
    /// How many operations each client of a closed loop has begun.
    rounds: Vec<u32>,
    clients_stream: Stream,
    hops: Vec<Hop<'s>>,
    pub(crate) servers: Vec<ServerState>,
    pub(crate) measure: Measure,
}

/// All that calls one server.
#[derive(Debug)]
struct Hop<'s> {
    policy: &'s Policy,
    attempt_timeout: u64,
    lanes: Vec<Lane>,
    lines: Vec<Line>,
    ops: Vec<Op>,
    free: Vec<u32>,
    serial: u32,
    timers: Timers,
    latency: Spread,
    lost_below: u64,
    there: Stream,
    back: Stream,
    loss: Stream,
    service: Stream,
    errors: Stream,
    jitter: Stream,
}

/// An operation under way.
#[derive(Debug)]
pub(crate) struct Op {
    history: History,
    held: Held,
    /// Its number: what its draws depend on.
    task: u64,
    /// The client, or the worker of the server before that waits for it.
    parent: u32,
    /// The attempt under way; 0 between attempts.
    serial: u32,
}

/// What an operation holds of its lane.
#[derive(Debug)]
enum Held {
    Nothing,
    Pass(Pass),
    Reservation(Reservation),
}

impl<'s> World<'s> {
    pub(crate) fn new(scenario: &'s Scenario, policy: &'s Policy, seed: u64) -> World<'s> {
        let trouble_over = scenario.trouble().map_or(0, |(_, to)| to);
        let hops = scenario.servers.len();
        let until = scenario.clients.until.unwrap_or(u64::MAX).min(scenario.horizon);
        let bucket = bucket_width(scenario);
        let mut world = World {
            scenario,
            now: 0,
            agenda: Agenda::with_capacity(1_024),
            arrivals: Arrivals::new(&scenario.clients.load, seed, until),
            rounds: Vec::new(),
            clients_stream: Stream::new(seed, 0, Source::Clients),
            hops: (0..).take(hops).map(|hop| Hop::new(scenario, policy, seed, hop)).collect(),
            servers: scenario.servers.iter().map(ServerState::new).collect(),
            measure: Measure::new(bucket, scenario.warm_up, trouble_over, hops),
        };
        for (at, server) in changes(&scenario.faults) {
            let hop = u8::try_from(server).unwrap_or(u8::MAX);
            world.agenda.plan(Event::new(at, What::Condition, hop, 0));
        }
        world.plan_clients(seed);
        world
    }

    fn plan_clients(&mut self, seed: u64) {
        let Load::Closed { operations, start_over, .. } = &self.scenario.clients.load else {
            return;
        };
        let count = self.scenario.clients.count;
        if *operations != Some(1) {
            self.rounds = vec![0; index(count)];
        }
        if *start_over == 0 {
            self.hops[0].reserve(index(count));
            self.agenda.plan(Event::new(0, What::Begin, 0, EVERYBODY));
            return;
        }
        let (stream, spread) =
            (Stream::new(seed, 0, Source::Start), Spread::Uniform { from: 0, to: *start_over });
        for client in 0..count {
            let at = spread.draw(stream.roll(client.into(), 1));
            self.agenda.plan(Event::new(at, What::Begin, 0, client));
        }
    }

    /// Runs to the horizon, or until nothing is left to happen.
    pub(crate) fn run(&mut self) {
        while let Some(next) = self.next() {
            if next.at >= self.scenario.horizon {
                break;
            }
            self.now = next.at;
            self.measure.events += 1;
            match next.source {
                From::Agenda => {
                    if let Some(event) = self.agenda.pop() {
                        self.happen(event);
                    }
                }
                From::Timers(hop) => {
                    if let Some(timer) = self.hops[hop].timers.pop() {
                        self.answered(hop, timer.op, timer.serial, status::TIMED_OUT);
                    }
                }
                From::Arrivals => {
                    let task = self.arrivals.take(self.now);
                    let count = self.scenario.clients.count;
                    let client = match count {
                        1 => 0,
                        _ => {
                            let roll = self.clients_stream.roll(task, 1);
                            let client = relent_policy::roll::up_to(u64::from(count) - 1, roll);
                            u32::try_from(client).unwrap_or(0)
                        }
                    };
                    self.begin(client, task);
                }
            }
        }
        let end = if self.now < self.scenario.horizon && self.next().is_none() {
            self.now
        } else {
            self.scenario.horizon
        };
        self.now = end;
        self.measure.close(end);
    }

    #[inline]
    fn next(&mut self) -> Option<Next> {
        let mut next = self.agenda.next_at().map(|at| Next { at, source: From::Agenda });
        if let Some(at) = self.arrivals.next_at()
            && next.as_ref().is_none_or(|next| at < next.at)
        {
            next = Some(Next { at, source: From::Arrivals });
        }
        for (number, hop) in self.hops.iter_mut().enumerate() {
            let Hop { timers, ops, .. } = hop;
            let is_live = |timer: &Timer| ops[index(timer.op)].serial == timer.serial;
            if let Some(at) = timers.next_at(is_live)
                && next.as_ref().is_none_or(|next| at < next.at)
            {
                next = Some(Next { at, source: From::Timers(number) });
            }
        }
        next
    }

    fn happen(&mut self, event: Event) {
        let Event { what, op, serial, status, .. } = event;
        let hop = usize::from(event.hop);
        match what {
            What::Begin if op == EVERYBODY => {
                for client in 0..self.scenario.clients.count {
                    self.next_round(client);
                }
            }
            What::Begin => self.next_round(op),
            What::Due => self.attempt(hop, op),
            What::Arrive => self.arrive(hop, Call { op, serial }),
            What::Write => self.write(hop, Call { op, serial }, status),
            What::Served => self.served(hop, op, serial),
            What::Answer | What::Timeout => self.answered(hop, op, serial, status),
            What::Condition => {
                let condition = Condition::at(&self.scenario.faults, hop, self.now);
                self.servers[hop].condition = condition;
                self.work_on(hop);
            }
            What::Wake => self.wake(hop, op),
        }
    }

    pub(crate) fn ended_at(&self) -> u64 {
        self.now
    }
}

/// Stands for all clients in an event.
const EVERYBODY: u32 = u32::MAX;

struct Next {
    at: u64,
    source: From,
}

enum From {
    Agenda,
    Timers(usize),
    Arrivals,
}

impl<'s> Hop<'s> {
    fn new(scenario: &Scenario, policy: &'s Policy, seed: u64, hop: u8) -> Hop<'s> {
        let lanes = match (hop, scenario.clients.lanes) {
            (0, Lanes::PerClient) => index(scenario.clients.count),
            _ => 1,
        };
        let stream = |source| Stream::new(seed, hop, source);
        let timeout = policy.spec().attempt_timeout.as_nanos();
        Hop {
            policy,
            attempt_timeout: u64::try_from(timeout).unwrap_or(u64::MAX),
            lanes: vec![lane(policy, hop, scenario.clients.when_refused); lanes],
            lines: (0..lanes).map(|_| Line::default()).collect(),
            ops: Vec::new(),
            free: Vec::new(),
            serial: 0,
            timers: Timers::default(),
            latency: scenario.network.latency,
            lost_below: threshold(scenario.network.loss),
            there: stream(Source::There),
            back: stream(Source::Back),
            loss: stream(Source::Loss),
            service: stream(Source::Service),
            errors: stream(Source::Errors),
            jitter: stream(Source::Jitter),
        }
    }

    /// Room for so many operations at once, and no more.
    fn reserve(&mut self, ops: usize) {
        self.ops.reserve_exact(ops);
        self.timers = Timers::with_capacity(ops);
    }

    fn put(&mut self, op: Op) -> u32 {
        if let Some(slot) = self.free.pop() {
            self.ops[index(slot)] = op;
            return slot;
        }
        self.ops.push(op);
        u32::try_from(self.ops.len() - 1).unwrap_or(u32::MAX)
    }

    #[inline]
    fn lane_of(&self, op: u32) -> usize {
        if self.lanes.len() == 1 { 0 } else { index(self.ops[index(op)].parent) }
    }
}

/// A lane as the library has it, or as the service does: there it is for a whole company, and its
/// floor is ten retries a second instead of ten in thirty, unless the policy asks for another.
fn lane(policy: &Policy, hop: u8, when_refused: WhenRefused) -> Lane {
    let lane = Lane::new(policy);
    if hop > 0 || when_refused == WhenRefused::GiveUp {
        return lane;
    }
    let (spec, usual) = (policy.spec(), BudgetRules::default());
    let budget = spec.budget.map(|mut rules| {
        if (rules.floor_retries, rules.floor_window) == (usual.floor_retries, usual.floor_window) {
            rules.floor_window = Duration::from_secs(1);
        }
        Budget::new(rules)
    });
    lane.with_state(budget, spec.breaker.map(Breaker::new))
}

/// One second, or as much longer as it takes for a series of a few hundred. A run that ends by itself
/// starts with a tenth of a second; the series widens while it runs.
fn bucket_width(scenario: &Scenario) -> u64 {
    const STEPS: [u64; 10] = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600];
    if matches!(scenario.clients.load, Load::Closed { operations: Some(_), .. }) {
        return SECOND / 10;
    }
    let fits = |step: &&u64| scenario.horizon / (**step * SECOND) <= 400;
    STEPS.iter().find(fits).copied().unwrap_or(3_600) * SECOND
}
