//! What is due when: in memory for the near horizon, on disk by the coarse time beyond it.
//!
//! An index on due times on disk is written at random places, and costs more than all the rest of a
//! task's life (measured: 8 times the bytes written). So there is none. Each lane has two lines,
//! first attempts and retries, and each line is a heap of 24 bytes a task: when it is due, which it
//! is, and how long after that its deadline comes.
//!
//! Memory must not grow with everything that waits, only with what waits for a short time. Time is
//! cut into buckets of ten minutes. A task that is due in a bucket that is not loaded yet stays on
//! its *shelf* on disk: the one index there is, `tasks.shelf`, keeps the tasks of a bucket together,
//! and new ones go to few places in it. The writer loads a bucket when it comes within the horizon;
//! the rows stay on their shelf, and a restart looks at all shelves up to the horizon. What ended
//! lies on a shelf by its state and the hour in which it ended: that serves dead letters and
//! retention. A claim does not touch the shelf.
//!
//! The heaps are deleted from lazily. A task that is called off leaves its entry behind; the line
//! counts such entries, and as long as there are any, the head of the line is compared with its row
//! before it is believed. A task whose deadline passes is taken out of its line, by a claim that
//! meets it or by a sweep that looks through the whole line. A look costs time in proportion to the
//! line, so it happens only when some deadline in it has passed, and not more often than a
//! thousandth of the time would pay for.
//!
//! What else was considered: timer wheels (not ordered within a slot, so "in order of due time"
//! would need a sort there), an ordered map (three times the memory), a limit on the heap's size
//! with the rest on disk by due time (the random writes again, just when there is most to do).
//!
//! Pure: no disk, no clock. REQ-S3, REQ-S5.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap};

use relent_policy::Turn;

const BUCKET_NANOS: u64 = 600_000_000_000;
const HOUR_NANOS: u64 = 3_600_000_000_000;
const NANOS_PER_MILLI: u64 = 1_000_000;
const KIND_SHIFT: u32 = 40;
const FAR: i64 = 1 << KIND_SHIFT;
/// What a look at one entry costs, times a thousand.
const LOOK_NANOS_PER_ENTRY: u64 = 10_000;
/// A line of this length may be looked through at any time.
const FREE_LOOK_MAX: u64 = 1_024;

/// A line of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct LineId {
    pub(super) lane: u32,
    retry: bool,
}

impl LineId {
    pub(super) fn new(lane: u32, turn: Turn) -> LineId {
        LineId { lane, retry: turn == Turn::Retry }
    }

    /// The line in which a task with this many attempts behind it waits.
    pub(super) fn of_waiting(lane: u32, attempts: u32) -> LineId {
        LineId { lane, retry: attempts > 0 }
    }

    pub(super) fn turn(self) -> Turn {
        if self.retry { Turn::Retry } else { Turn::First }
    }

    pub(super) fn is_retry(self) -> bool {
        self.retry
    }
}

/// A waiting task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) due_at: u64,
    pub(super) id: u64,
    /// From when it is due to its deadline, in milliseconds rounded up; saturates after 49 days.
    left_ms: u32,
}

impl Entry {
    pub(super) fn new(id: u64, due_at: u64, deadline_at: u64) -> Entry {
        let left = deadline_at.saturating_sub(due_at).div_ceil(NANOS_PER_MILLI);
        Entry { due_at, id, left_ms: u32::try_from(left).unwrap_or(u32::MAX) }
    }

    pub(super) fn deadline_at(&self) -> u64 {
        match self.left_ms {
            u32::MAX => u64::MAX,
            left => self.due_at.saturating_add(u64::from(left) * NANOS_PER_MILLI),
        }
    }
}

impl Ord for Entry {
    /// The earliest is the greatest, as a heap gives out the greatest.
    fn cmp(&self, other: &Entry) -> Ordering {
        (other.due_at, other.id).cmp(&(self.due_at, self.id))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Entry) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[derive(Default)]
struct Line {
    near: BinaryHeap<Entry>,
    /// By bucket. Those that were loaded are left in until somebody looks.
    far: BTreeMap<u64, Far>,
    /// Entries in `near` that belong to no waiting task any more.
    stale: u32,
    /// No deadline in `near` is before this.
    first_deadline_at: u64,
    look_again_at: u64,
}

/// The tasks of one line in one bucket that is not loaded. Below zero while what was on disk at the
/// start has not been counted yet.
#[derive(Default)]
struct Far {
    count: i64,
    earliest: u64,
}

/// All lines.
pub(super) struct DueIndex {
    lanes: Vec<[Line; 2]>,
    /// The last bucket that is in memory.
    through: u64,
    horizon: u64,
}

impl DueIndex {
    /// An empty index. A bucket more than the horizon needs is near at once: tasks that were claimed
    /// shortly before a crash are then near again, also if the clock was a little behind.
    pub(super) fn new(horizon: u64, now: u64) -> DueIndex {
        DueIndex { lanes: Vec::new(), through: bucket(now.saturating_add(horizon)) + 1, horizon }
    }

    /// The last shelf whose tasks belong into memory.
    pub(super) fn near_shelf_max(&self) -> i64 {
        far_shelf(self.through)
    }

    /// Whether a task on this shelf is in memory if it waits.
    pub(super) fn is_near_shelf(&self, shelf: i64) -> bool {
        shelf <= self.near_shelf_max()
    }

    /// Takes in a waiting task. Returns the shelf it belongs on.
    pub(super) fn add(&mut self, line: LineId, id: u64, due_at: u64, deadline_at: u64) -> i64 {
        let due_bucket = bucket(due_at);
        if due_bucket <= self.through {
            self.add_near(line, Entry::new(id, due_at, deadline_at));
            0
        } else {
            self.add_far(line, due_bucket, 1, due_at);
            far_shelf(due_bucket)
        }
    }

    pub(super) fn add_near(&mut self, line: LineId, entry: Entry) {
        let line = self.line_mut(line);
        if line.near.is_empty() {
            line.first_deadline_at = u64::MAX;
        }
        line.first_deadline_at = line.first_deadline_at.min(entry.deadline_at());
        line.near.push(entry);
    }

    /// Counts tasks that wait in a bucket which is not loaded.
    pub(super) fn add_far(&mut self, line: LineId, bucket: u64, count: i64, earliest: u64) {
        if bucket <= self.through {
            return;
        }
        let line = self.line_mut(line);
        let far = line.far.entry(bucket).or_insert(Far { count: 0, earliest });
        far.count += count;
        far.earliest = far.earliest.min(earliest);
        if far.count == 0 {
            line.far.remove(&bucket);
        }
    }

    /// Forgets a waiting task that is not taken from the head of its line.
    pub(super) fn forget(&mut self, line: LineId, shelf: i64, due_at: u64) {
        if self.is_near_shelf(shelf) {
            self.line_mut(line).stale += 1;
        } else {
            self.add_far(line, bucket(due_at), -1, due_at);
        }
    }

    /// The head of a line.
    pub(super) fn head(&self, line: LineId) -> Option<Entry> {
        self.line(line)?.near.peek().copied()
    }

    pub(super) fn pop(&mut self, line: LineId) -> Option<Entry> {
        let line = self.line_mut(line);
        let entry = line.near.pop();
        if line.near.capacity() > 4_096 && line.near.len() < line.near.capacity() / 4 {
            line.near.shrink_to(line.near.len() * 2);
        }
        entry
    }

    /// Removes the head of a line, which belongs to no waiting task any more.
    pub(super) fn pop_stale(&mut self, line: LineId) {
        self.pop(line);
        let line = self.line_mut(line);
        line.stale = line.stale.saturating_sub(1);
    }

    /// Whether the head of the line may belong to no waiting task any more.
    pub(super) fn is_doubtful(&self, line: LineId) -> bool {
        self.line(line).is_some_and(|line| line.stale > 0)
    }

    /// When the earliest task of a line is due, as far as memory knows.
    pub(super) fn earliest(&self, line: LineId) -> Option<u64> {
        let line = self.line(line)?;
        let far = line.far.range(self.through + 1..).find(|(_, far)| far.count > 0);
        let far = far.map(|(_, far)| far.earliest);
        let near = line.near.peek().map(|entry| entry.due_at);
        near.into_iter().chain(far).min()
    }

    /// Every line there is.
    pub(super) fn lines(&self) -> impl Iterator<Item = LineId> + use<> {
        let lanes = u32::try_from(self.lanes.len()).unwrap_or(u32::MAX);
        (0..lanes).flat_map(|lane| [false, true].map(|retry| LineId { lane, retry }))
    }

    /// Takes out all whose deadline has passed, of the lines that are worth a look by now.
    pub(super) fn take_overdue(&mut self, now: u64) -> Vec<Entry> {
        let mut overdue = Vec::new();
        for line in self.lanes.iter_mut().flatten() {
            if line.near.is_empty() || line.first_deadline_at > now || line.look_again_at > now {
                continue;
            }
            let mut first = u64::MAX;
            line.near.retain(|entry| {
                let deadline_at = entry.deadline_at();
                if deadline_at <= now {
                    overdue.push(*entry);
                } else {
                    first = first.min(deadline_at);
                }
                deadline_at > now
            });
            line.first_deadline_at = first;
            let len = u64::try_from(line.near.len()).unwrap_or(u64::MAX);
            if len > FREE_LOOK_MAX {
                line.look_again_at = now.saturating_add(len.saturating_mul(LOOK_NANOS_PER_ENTRY));
            }
        }
        overdue
    }

    /// The next bucket, if it is time to load it.
    pub(super) fn bucket_to_load(&self, now: u64) -> Option<u64> {
        let next = self.through + 1;
        (bucket(now.saturating_add(self.horizon)) >= next).then_some(next)
    }

    /// Whether tasks of this bucket may be due already.
    pub(super) fn is_late(bucket: u64, now: u64) -> bool {
        bucket.saturating_mul(BUCKET_NANOS) <= now
    }

    /// From now on, new tasks of this bucket go into memory; those on disk are about to.
    pub(super) fn begin_load(&mut self, bucket: u64) {
        self.through = bucket;
    }

    /// In how many nanoseconds it is time to load the next bucket.
    pub(super) fn next_load_in(&self, now: u64) -> u64 {
        let starts_at = (self.through + 1).saturating_mul(BUCKET_NANOS);
        starts_at.saturating_sub(self.horizon).saturating_sub(now)
    }

    fn line(&self, line: LineId) -> Option<&Line> {
        self.lanes.get(line.lane as usize).map(|lines| &lines[usize::from(line.retry)])
    }

    fn line_mut(&mut self, line: LineId) -> &mut Line {
        let lane = line.lane as usize;
        if lane >= self.lanes.len() {
            self.lanes.resize_with(lane + 1, Default::default);
        }
        &mut self.lanes[lane][usize::from(line.retry)]
    }
}

pub(super) fn bucket(at: u64) -> u64 {
    at / BUCKET_NANOS
}

/// Where a task lies that is due in a bucket that is not loaded.
pub(super) fn far_shelf(bucket: u64) -> i64 {
    FAR + i64::try_from(bucket).unwrap_or(i64::MAX >> 1)
}

/// Which bucket a shelf belongs to; `None` for shelves of other kinds.
pub(super) fn shelf_bucket(shelf: i64) -> Option<u64> {
    (shelf >> KIND_SHIFT == 1).then(|| u64::try_from(shelf - FAR).unwrap_or_default())
}

/// Where a task lies that ended at a time, by the code of its state.
pub(super) fn ended_shelf(state: i64, ended_at: u64) -> i64 {
    (state << KIND_SHIFT) + i64::try_from(ended_at / HOUR_NANOS).unwrap_or_default()
}

/// All shelves of what ended in a state.
pub(super) fn ended_shelves(state: i64) -> (i64, i64) {
    (state << KIND_SHIFT, ((state + 1) << KIND_SHIFT) - 1)
}

/// All shelves of what has not ended.
pub(super) const LIVE_SHELVES: (i64, i64) = (0, (2 << KIND_SHIFT) - 1);

#[cfg(test)]
mod tests;
