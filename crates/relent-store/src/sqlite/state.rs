//! What the writer remembers: all of it can be read from the file again.
//!
//! Operations change it as they go, before the commit, so that the next one in the same transaction
//! sees what the one before did. If the transaction fails, all of it is thrown away and read again;
//! nothing has to be undone by hand, and memory never knows more than the disk. REQ-S3, REQ-S4.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::mem;

use relent_policy::Timestamp;
use rusqlite::{CachedStatement, Connection};

use super::due::{DueIndex, LineId};
use super::keys::KeyIndex;
use super::load::{FarTasks, Rest};
use super::{claim, enqueue, record};
use crate::contract::Counts;
use crate::error::Error;
use crate::id::{LaneId, PolicyKey, TaskId, TenantId};
use crate::lane::LaneDue;

/// What the operations of a turn work with.
pub(super) struct Desk<'a> {
    pub(super) connection: &'a Connection,
    pub(super) state: &'a mut State,
    pub(super) now: Timestamp,
    /// The statements that are run for each of many tasks, kept at hand from one to the next.
    hot: [Option<CachedStatement<'a>>; HOT.len()],
}

/// One of the statements that are kept at hand.
#[derive(Clone, Copy)]
pub(super) enum Hot {
    InsertTask,
    InsertPayload,
    Due,
    Claim,
    InsertAttempt,
    End,
}

/// Their texts, in the same order.
const HOT: [&str; 6] = [
    enqueue::INSERT_TASK,
    enqueue::INSERT_PAYLOAD,
    claim::DUE,
    claim::CLAIM,
    record::INSERT_ATTEMPT,
    record::END,
];

impl<'a> Desk<'a> {
    pub(super) fn new(connection: &'a Connection, state: &'a mut State) -> Desk<'a> {
        Desk { connection, state, now: Timestamp::ZERO, hot: Default::default() }
    }

    pub(super) fn hot(&mut self, which: Hot) -> rusqlite::Result<&mut CachedStatement<'a>> {
        let slot = &mut self.hot[which as usize];
        Ok(match slot {
            Some(statement) => statement,
            None => slot.insert(self.connection.prepare_cached(HOT[which as usize])?),
        })
    }
}

pub(super) struct State {
    pub(super) due: DueIndex,
    pub(super) flights: Flights,
    /// Tasks that were taken out of their lines because their deadline has passed: deadline and id.
    pub(super) overdue: BTreeSet<(u64, u64)>,
    pub(super) keys: KeyIndex,
    pub(super) lanes: LaneIndex,
    /// How long the leases under each policy are, in nanoseconds.
    pub(super) leases: HashMap<u32, u64>,
    tallies: Vec<Tally>,
    last_id: Option<TaskId>,
    /// Whether it is known when far tasks are due.
    pub(super) knows_far: bool,
    pub(super) knows_keys: bool,
    /// Whether everything is loaded: the keys, and what is counted but not kept in memory.
    pub(super) is_whole: bool,
    /// The latest time that the file knows of.
    pub(super) saved_at: Timestamp,
    /// Lines in which something became due earlier than was known.
    news: BTreeMap<LineId, u64>,
}

impl State {
    pub(super) fn new(due: DueIndex, keys_max: usize, last_id: Option<TaskId>) -> State {
        State {
            due,
            flights: Flights::default(),
            overdue: BTreeSet::new(),
            keys: KeyIndex::new(keys_max),
            lanes: LaneIndex::default(),
            leases: HashMap::new(),
            tallies: Vec::new(),
            last_id,
            knows_far: false,
            knows_keys: false,
            is_whole: false,
            saved_at: Timestamp::ZERO,
            news: BTreeMap::new(),
        }
    }

    /// The next number: for a task, an attempt's row or a lease, all out of one sequence.
    pub(super) fn next_id(&mut self, now: Timestamp) -> TaskId {
        let id = TaskId::next(self.last_id, now);
        self.last_id = Some(id);
        id
    }

    pub(super) fn last_id(&self) -> Option<TaskId> {
        self.last_id
    }

    /// Numbers up to this one have been used.
    pub(super) fn skip_ids(&mut self, through: TaskId) {
        self.last_id = self.last_id.max(Some(through));
    }

    /// Puts a task in line. Returns its shelf.
    pub(super) fn wait(&mut self, line: LineId, id: u64, due_at: u64, deadline_at: u64) -> i64 {
        let known = self.due.earliest(line);
        let shelf = self.due.add(line, id, due_at, deadline_at);
        if known.is_none_or(|known| due_at < known) {
            self.announce(line, due_at);
        }
        *self.tally(line.lane).waiting(line) += 1;
        shelf
    }

    pub(super) fn announce(&mut self, line: LineId, due_at: u64) {
        let at = self.news.entry(line).or_insert(due_at);
        *at = due_at.min(*at);
    }

    pub(super) fn take_news(&mut self) -> Vec<LaneDue> {
        mem::take(&mut self.news).into_iter().map(|(line, at)| lane_due(line, at)).collect()
    }

    pub(super) fn tally(&mut self, lane: u32) -> &mut Tally {
        let lane = lane as usize;
        if lane >= self.tallies.len() {
            self.tallies.resize_with(lane + 1, Tally::default);
        }
        &mut self.tallies[lane]
    }

    /// Takes in what was loaded later than the rest. Between the two nothing was missing that claims
    /// and records need.
    pub(super) fn complete(&mut self, rest: Rest) {
        match rest {
            Rest::Keys { recent, flushed_through } => {
                self.keys.complete(recent, flushed_through);
                self.knows_keys = true;
            }
            Rest::Counts { far, dead_letters } => {
                self.add_far(far);
                for (lane, count) in dead_letters {
                    self.tally(lane).dead_letters += count;
                }
                self.is_whole = self.knows_keys;
            }
        }
    }

    pub(super) fn add_far(&mut self, tasks: Vec<FarTasks>) {
        for far in tasks {
            *self.tally(far.line.lane).waiting(far.line) += far.count;
            self.due.add_far(far.line, far.bucket, far.count, far.earliest);
            if let Some(earliest) = self.due.earliest(far.line) {
                self.announce(far.line, earliest);
            }
        }
    }

    pub(super) fn counts(&self) -> Vec<(LaneId, Counts)> {
        let lanes = (0..).zip(&self.tallies).map(|(lane, tally)| (LaneId::from_u32(lane), tally));
        let counts = lanes.map(|(lane, tally)| (lane, tally.counts()));
        counts.filter(|(_, counts)| *counts != Counts::default()).collect()
    }

    pub(super) fn expect_lane(&self, tenant: &TenantId, lane: LaneId) -> Result<(), Error> {
        match self.lanes.tenant(lane.as_u32()) {
            Some(owner) if owner == tenant => Ok(()),
            _ => Err(Error::Damaged(format!("{tenant} has no {lane}"))),
        }
    }

    pub(super) fn expect_policy(&self, policy: PolicyKey) -> Result<(), Error> {
        match self.leases.contains_key(&policy.as_u32()) {
            true => Ok(()),
            false => Err(Error::Damaged(format!("there is no {policy}"))),
        }
    }
}

pub(super) fn lane_due(line: LineId, at: u64) -> LaneDue {
    let lane = LaneId::from_u32(line.lane);
    LaneDue { lane, turn: line.turn(), at: Timestamp::from_nanos(at) }
}

/// How many tasks of a lane are where. Below zero only until everything is loaded.
#[derive(Default)]
pub(super) struct Tally {
    first: i64,
    retries: i64,
    pub(super) in_flight: i64,
    pub(super) dead_letters: i64,
}

impl Tally {
    pub(super) fn waiting(&mut self, line: LineId) -> &mut i64 {
        if line.is_retry() { &mut self.retries } else { &mut self.first }
    }

    fn counts(&self) -> Counts {
        let number = |count: i64| u64::try_from(count).unwrap_or_default();
        Counts {
            first: number(self.first),
            retries: number(self.retries),
            in_flight: number(self.in_flight),
            dead_letters: number(self.dead_letters),
        }
    }
}

/// Who holds which task, and until when.
#[derive(Default)]
pub(super) struct Flights {
    by_task: HashMap<u64, Flight>,
    by_end: BTreeSet<(u64, u64)>,
}

/// A task in flight: what a record about it needs to know.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    pub(super) token: u64,
    pub(super) until: u64,
    /// When the attempt was claimed; `None` if the task was taken over without one.
    pub(super) claimed_at: Option<u64>,
    pub(super) lane: u32,
    pub(super) attempts: u32,
    pub(super) last_attempt: i64,
    pub(super) shelf: i64,
    pub(super) deadline_at: u64,
    pub(super) cancel_requested: bool,
}

impl Flights {
    pub(super) fn insert(&mut self, task: u64, flight: Flight) {
        self.remove(task);
        self.by_end.insert((flight.until, task));
        self.by_task.insert(task, flight);
    }

    pub(super) fn get(&self, task: u64) -> Option<&Flight> {
        self.by_task.get(&task)
    }

    pub(super) fn get_mut(&mut self, task: u64) -> Option<&mut Flight> {
        self.by_task.get_mut(&task)
    }

    pub(super) fn remove(&mut self, task: u64) -> Option<Flight> {
        let flight = self.by_task.remove(&task)?;
        self.by_end.remove(&(flight.until, task));
        Some(flight)
    }

    /// Those whose lease is over, the first to end first.
    pub(super) fn expired(&self, now: u64) -> impl Iterator<Item = u64> {
        self.by_end.range(..=(now, u64::MAX)).map(|(_, task)| *task)
    }
}

/// Which lanes there are and whose they are.
#[derive(Default)]
pub(super) struct LaneIndex {
    tenants: Vec<Option<TenantId>>,
    by_name: HashMap<TenantId, HashMap<String, u32>>,
}

impl LaneIndex {
    pub(super) fn insert(&mut self, lane: u32, tenant: TenantId, dependency: String) {
        let index = lane as usize;
        if index >= self.tenants.len() {
            self.tenants.resize(index + 1, None);
        }
        self.tenants[index] = Some(tenant.clone());
        self.by_name.entry(tenant).or_default().insert(dependency, lane);
    }

    pub(super) fn tenant(&self, lane: u32) -> Option<&TenantId> {
        self.tenants.get(lane as usize)?.as_ref()
    }

    pub(super) fn find(&self, tenant: &TenantId, dependency: &str) -> Option<u32> {
        self.by_name.get(tenant)?.get(dependency).copied()
    }

    /// The number that the next lane gets.
    pub(super) fn next(&self) -> u32 {
        u32::try_from(self.tenants.len().max(1)).unwrap_or(u32::MAX)
    }
}
