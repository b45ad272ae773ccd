//! Claims what is due, lane by lane, and starts its attempts.
//!
//! One thread of its own. It sleeps until the next alarm of its [`Lines`] or until it is told of
//! something: a task that became due earlier (the store tells), a place that became free (an attempt
//! tells), a lane that people changed. It never polls. A thread and not a task of the runtime,
//! because a runtime's timers are a millisecond wide, and lateness is what this service is measured
//! by.
//!
//! A round: take lines in turn; ask a *copy* of each lane how many attempts it would let through;
//! claim so many from the store in one batch, which counts them durably; start them. Asking before
//! claiming means that a held lane burns no attempt; asking on a copy means that a lane whose line
//! turns out shorter than hoped has counted nothing that is not sent. If the breaker opens between
//! the two, what was claimed goes out all the same, as if it had been sent a moment earlier.
//!
//! A claim takes its time. So lines are served a little before their first task is due, and what is
//! claimed ahead waits for its time among the [`departures`]. What was due before goes out at once.
//! Not so on a store that is shared: its clock is elsewhere, and known here only within a round trip,
//! so that what leaves by it could leave early. There the store itself says what is due.
//!
//! First attempts and retries each have places of their own in the whole service, too, so that
//! neither can take all of them. REQ-S3, REQ-S5, REQ-K2, REQ-L6.

mod departures;
mod inbox;
mod lines;
mod places;
mod starting;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use relent_policy::{Lane as Gates, Refusal, Timestamp, Turn};
use relent_store::{Claims, LaneId, Want};
use tokio::runtime::Handle;

use crate::attempt;
use crate::lanes::{Lane, Trial};
use crate::seldom::Seldom;
use crate::service::Service;
use departures::{Departure, Departures};
pub(crate) use inbox::Inbox;
use inbox::Told;
pub(crate) use lines::LineKey;
use lines::Lines;
pub(crate) use places::Places;
use places::place;
pub(crate) use starting::Starting;

/// Tasks of one line in one round, at most: the unit of fairness. A lane has no more attempts than
/// this that were claimed and have not begun.
pub(crate) const QUANTUM: u32 = 64;
/// Tasks of one round.
const ROUND_MAX: u32 = 512;
/// How long before its first task is due a line is served: longer than most claims take.
const SERVE_AHEAD: Duration = Duration::from_millis(5);
/// How far ahead is claimed then: what is due soon after the first comes with it.
const CLAIM_AHEAD: Duration = Duration::from_millis(10);
/// How long a round that the store refused waits.
const STORE_PAUSE: Duration = Duration::from_millis(200);

/// So many tasks of a line that its lane would let through.
struct Planned {
    key: LineKey,
    lane: Arc<Lane>,
    count: u32,
    /// What the lane said when it was asked for more.
    refusal: Option<Refusal>,
    /// How the lane stood then.
    seen: u64,
}

/// Claims and starts until it is told to stop, and what it has claimed has left.
pub(crate) fn run(service: &Arc<Service>, runtime: &Handle) {
    let departures = Departures::default();
    let depart = || {
        loop {
            let leaving = departures.next(|| service.store.now());
            if leaving.is_empty() {
                return;
            }
            for departure in leaving {
                spawn(service, runtime, departure);
            }
        }
    };
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("relent-departures".to_owned());
        thread.spawn_scoped(scope, depart).expect("the system has threads to give");
        let _closes = Closes(&departures);
        let (lead, ahead) = match service.store.is_shared() {
            true => (Duration::ZERO, Duration::ZERO),
            false => (SERVE_AHEAD, CLAIM_AHEAD),
        };
        let mut scheduler = Scheduler {
            service,
            runtime,
            departures: &departures,
            ahead,
            lines: Lines::served_ahead(lead),
            trials: HashMap::new(),
            short_of_places: Vec::new(),
            crowded_out: Vec::new(),
        };
        scheduler.run();
    });
}

/// However the scheduler ends, its departures do too.
struct Closes<'d>(&'d Departures);

impl Drop for Closes<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

fn spawn(service: &Arc<Service>, runtime: &Handle, departure: Departure) {
    let Departure { lane, task, pass } = departure;
    runtime.spawn(attempt::run(Arc::clone(service), lane, task, pass));
}

struct Scheduler<'s> {
    service: &'s Arc<Service>,
    runtime: &'s Handle,
    departures: &'s Departures,
    /// How far ahead of its time something is claimed.
    ahead: Duration,
    lines: Lines,
    /// The copies that this round has asked; kept for their memory.
    trials: HashMap<LaneId, Option<Trial>>,
    /// Lines that wait for a place in the service as a whole.
    short_of_places: Vec<LineKey>,
    /// Lanes with a line that found no room beside what this round has planned.
    crowded_out: Vec<LaneId>,
}

impl Scheduler<'_> {
    fn run(&mut self) {
        loop {
            let told = self.service.inbox.wait(self.idle_for());
            if told.stop {
                return;
            }
            self.listen(&told);
            if self.service.cluster.may_work() {
                self.round();
                self.wait_for_places();
            }
        }
    }

    /// How long nothing can happen by itself.
    fn idle_for(&self) -> Duration {
        match self.lines.next_alarm() {
            Some(at) if self.service.cluster.may_work() => {
                at.saturating_since(self.service.store.now())
            }
            _ => Duration::from_secs(3_600),
        }
    }

    fn listen(&mut self, told: &Told) {
        let now = self.service.store.now();
        for due in &told.dues {
            self.lines.due(LineKey::new(due.lane, due.turn), due.at, now);
        }
        for lane in &told.freed {
            self.lines.let_go(*lane, now);
        }
        if !told.freed.is_empty() {
            self.put_back(now);
        }
    }

    /// From here on whoever leaves a place says so. Who has left before has not, so places that are
    /// free already are looked for once more.
    fn wait_for_places(&mut self) {
        if self.short_of_places.is_empty() {
            return;
        }
        let places = &self.service.places;
        places.set_short(true);
        if self.short_of_places.iter().any(|key| places.free(key.turn()) > 0) {
            self.put_back(self.service.store.now());
        }
    }

    fn put_back(&mut self, now: Timestamp) {
        self.service.places.set_short(false);
        for key in self.short_of_places.drain(..) {
            self.lines.put_back(key, now);
        }
    }

    fn round(&mut self) {
        let now = self.service.store.now();
        let planned = self.plan(now);
        if planned.is_empty() {
            return;
        }
        let wants = planned.iter().map(|planned| Want {
            lane: planned.key.lane,
            turn: planned.key.turn(),
            max: planned.count,
            ahead: self.ahead,
        });
        let asked_at = Instant::now();
        match self.runtime.block_on(self.service.store.claim(wants.collect())) {
            Ok(claims) => {
                self.service.metrics.claimed(asked_at.elapsed());
                self.start(planned, claims);
            }
            Err(error) => {
                static SELDOM: Seldom = Seldom::new();
                if let Some(untold) = SELDOM.tell() {
                    tracing::error!(%error, untold, "could not claim due tasks");
                }
                for planned in planned {
                    self.lines.hold(planned.key, now + STORE_PAUSE, now);
                }
            }
        }
    }

    fn plan(&mut self, now: Timestamp) -> Vec<Planned> {
        let (mut planned, mut ask_again) = (Vec::new(), Vec::new());
        self.trials.clear();
        let mut free = [Turn::First, Turn::Retry].map(|turn| self.service.places.free(turn));
        let mut count_all = 0;
        let quantum = quantum(self.lines.ready(now));
        self.crowded_out.clear();
        while count_all < ROUND_MAX {
            let Some(key) = self.lines.take(now) else { break };
            let turn = key.turn();
            let Some(lane) = self.service.lanes.get(key.lane) else {
                // Opened a moment ago, here or elsewhere: it is told again once it is in the book.
                self.lines.hold(key, Timestamp::MAX, now);
                self.runtime.spawn(meet(Arc::clone(self.service), key.lane));
                continue;
            };
            let room = free[place(turn)].min(quantum);
            if room == 0 {
                self.short_of_places.push(key);
                continue;
            }
            let room = room.min(lane.starting.room(QUANTUM));
            if room == 0 {
                self.lines.hold(key, Timestamp::MAX, now);
                continue;
            }
            let trial = self.trials.entry(key.lane).or_insert_with(|| lane.trial());
            let seen = trial.as_ref().map_or(0, |trial| trial.seen);
            let (count, refusal) = match trial {
                Some(trial) => let_through(&mut trial.gates, turn, room, now),
                None => (0, None),
            };
            if count == 0 {
                let held = lane.hold(turn, refusal, seen, now, fastrand::u64(..));
                if held.until <= now {
                    // Asked again in this round, the same copy would say the same.
                    ask_again.push(key);
                    continue;
                }
                self.lines.hold(key, held.until, now);
                if refusal == Some(Refusal::Concurrency) {
                    self.crowded_out.push(key.lane);
                }
                continue;
            }
            free[place(turn)] -= count;
            count_all += count;
            planned.push(Planned { key, lane, count, refusal, seen });
        }
        for key in ask_again {
            self.lines.put_back(key, now);
        }
        self.trials.shrink_to(ROUND_MAX as usize);
        planned
    }

    /// Starts what was claimed: the first task of each line before the second of any, as each may
    /// have a connection to be opened first.
    fn start(&mut self, planned: Vec<Planned>, claims: Claims) {
        let now = self.service.store.now();
        let is_alone = planned.len() == 1;
        let (mut behind, mut ahead) = (Vec::new(), Vec::new());
        let mut claimed = claims.claimed.into_iter().peekable();
        for (planned, next) in planned.into_iter().zip(claims.next) {
            let Planned { key, lane, count, refusal, seen } = planned;
            let turn = key.turn();
            let mut started = 0;
            while let Some(task) = claimed.next_if(|task| {
                task.lane == key.lane && Turn::of_attempt(task.history.attempts()) == turn
            }) {
                let pass = lane.start(turn, now, fastrand::u64(..));
                self.service.under_way.claimed(task.lease.task);
                self.service.places.take(turn);
                lane.starting.claimed();
                started += 1;
                let due_at = task.due_at;
                let departure = Departure { lane: Arc::clone(&lane), task, pass };
                // Where nothing is claimed ahead, it is due: the store said so, whatever this clock shows.
                if due_at > now && !self.ahead.is_zero() {
                    ahead.push((due_at, departure));
                } else if started == 1 || is_alone {
                    spawn(self.service, self.runtime, departure);
                } else {
                    behind.push(departure);
                }
            }
            self.lines.served(key, next, now);
            if started == count
                && let Some(refusal) = refusal
            {
                let held = lane.hold(turn, Some(refusal), seen, now, fastrand::u64(..));
                self.lines.hold(key, held.until, now);
            }
            if started < count {
                self.leave_room(key.lane, now);
            }
        }
        for departure in behind {
            spawn(self.service, self.runtime, departure);
        }
        if !ahead.is_empty() {
            self.departures.add(ahead);
        }
    }

    /// A line was shorter than planned: whoever found no room because of the plan asks again. Nobody
    /// else would tell them, as no attempt ends that was not begun.
    fn leave_room(&mut self, lane: LaneId, now: Timestamp) {
        if self.crowded_out.contains(&lane) {
            self.lines.let_go(lane, now);
        }
        self.put_back(now);
    }
}

/// Looks a lane up until the store has answered.
async fn meet(service: Arc<Service>, lane: LaneId) {
    loop {
        match service.lane_of_id(lane).await {
            // Also if somebody else had put it into the book before the line was held.
            Ok(Some(_)) => return service.inbox.freed(lane),
            Ok(None) => return tracing::error!(%lane, "a task's lane is unknown"),
            Err(error) => tracing::error!(%error, %lane, "could not look for a lane"),
        }
        if service.draining.load(Ordering::Relaxed) {
            return;
        }
        tokio::time::sleep(STORE_PAUSE).await;
    }
}

/// Tasks of one line in a round that so many lines share. Many lines are most likely short ones: each
/// has its first task served before any has its second.
fn quantum(lines: u32) -> u32 {
    (ROUND_MAX / lines.max(1)).clamp(1, QUANTUM)
}

/// How many of at most `room` attempts the gates would let through now, and what they then said.
fn let_through(gates: &mut Gates, turn: Turn, room: u32, now: Timestamp) -> (u32, Option<Refusal>) {
    for count in 0..room {
        let refused = match turn {
            Turn::First => gates.admit(turn, now).err(),
            Turn::Retry => match gates.reserve_retry(now, 0) {
                Err(refusal) => Some(refusal),
                Ok(_) => gates.admit(turn, now).err(),
            },
        };
        if refused.is_some() {
            return (count, refused);
        }
    }
    (room, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_lines_share_a_round_and_few_have_their_whole_quantum() {
        let shares = [0, 1, 8, 16, 512, 100_000].map(quantum);
        assert_eq!(shares, [QUANTUM, QUANTUM, QUANTUM, QUANTUM / 2, 1, 1]);
    }
}
