//! The one writer: everything that changes the file passes through this thread, in turns.
//!
//! **Group commit.** A durable commit costs a flush of the disk, some tenths of a millisecond to
//! many milliseconds, however much is in it. So a turn takes everything that queued up during the
//! turn before, up to a bound, and commits it at once; who comes alone waits for one flush, and
//! thousands who come together share one. There is no timer: a delay to collect more would only add
//! to the wait of a caller who is alone, and under load the flush itself is the delay. The bound is
//! the flush too: a turn works for about twice as long as a flush takes, so that nobody waits much
//! longer for other people's rows than for the disk, and a slow disk still gets large groups.
//!
//! **Answers after the commit.** Operations keep what they found out until the commit has returned;
//! then all are answered, and after that the listener is told what became due. An operation that
//! refuses (a conflict, an unknown lane) has changed nothing and spoils nothing for the others.
//!
//! **When the disk fails.** Any error of SQLite undoes the whole turn, and all of it is answered as
//! unavailable. The connection is opened again and memory is read again from the file, as it may
//! know things that were undone. For a second after that nothing is tried, so that a full disk is
//! not hammered; [`check`](crate::Upkeep::check) tries at once. Operations are not divided by
//! savepoints: they check before they write, and what then still fails is the disk, which fails for
//! everybody.
//!
//! **Chores** take their share in the turns: loading the next bucket of due tasks, moving older keys
//! to disk, and the checkpoint, after the answers. REQ-S3, REQ-S4, REQ-S5.

use std::fs::File;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use relent_policy::Timestamp;
use rusqlite::{Connection, params};

use super::due::DueIndex;
use super::load::{self, Mark, Owners};
use super::pace::Pace;
use super::queue::{Abandoned, Job, Kind, Queue, Size, stopped};
use super::readers::Readers;
use super::reserve::Reserve;
use super::rows::from_time;
use super::schema::Place;
use super::state::{Desk, State};
use crate::contract::DueListener;
use crate::error::Error;

const JOBS_MAX: usize = 512;
/// How many tasks of a bucket one turn loads, unless they may be due already.
const LOAD_MAX: usize = 4_096;
/// A checkpoint keeps the next turn waiting: some milliseconds for each megabyte. When nothing
/// waits, it is made early and is short; under load it is put off, as pages that are written again
/// and again are then moved once.
const CHECKPOINT_PAGES: u64 = 2_000;
const CHECKPOINT_PAGES_WHEN_IDLE: u64 = 250;
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(1);
const PATIENCE_MAX: Duration = Duration::from_secs(60);
/// How far behind the latest time in the file may be.
const SAVE_TIME_EVERY: Duration = Duration::from_secs(10);

const BEGIN: &str = "BEGIN IMMEDIATE";
const COMMIT: &str = "COMMIT";
const SAVE_TIME: &str = "INSERT OR REPLACE INTO meta (name, value) VALUES (?1, ?2)";

pub(super) type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;
pub(super) type Listener = Arc<Mutex<Option<Arc<dyn DueListener>>>>;

pub(super) struct Writer {
    pub(super) place: Place,
    pub(super) limits: (u64, usize),
    pub(super) clock: Clock,
    pub(super) queue: Arc<Queue>,
    pub(super) listener: Listener,
    pub(super) wal_pages: Arc<AtomicU64>,
    pub(super) connection: Connection,
    pub(super) state: State,
    pub(super) readers: Readers,
    /// Given back last of all.
    pub(super) lock: File,
    pub(super) reserve: Reserve,
    pub(super) turns: Turns,
}

/// What the writer has in mind from one turn to the next.
#[derive(Default)]
pub(super) struct Turns {
    /// Jobs that wait until what they need is loaded.
    held: Vec<Box<dyn Job>>,
    /// A bucket that is being loaded, and the last task of it that was.
    loading: Option<(u64, i64)>,
    failure: Option<Broken>,
    /// The last checkpoint left this many pages, as somebody was still reading them.
    unfinished_pages: u64,
    pace: Pace,
}

/// Why nothing is written at present.
struct Broken {
    because: Error,
    since: Instant,
    /// Memory could not be read again.
    has_no_state: bool,
}

impl Writer {
    pub(super) fn run(mut self) {
        loop {
            let taken = self.queue.take(JOBS_MAX, self.turns.pace.rows_max(), self.patience());
            for rest in taken.loaded {
                self.complete(rest);
            }
            let jobs = self.hold_back(taken.jobs);
            self.turn(jobs);
            self.checkpoint();
            let is_late = self.queue.ends_by().is_some_and(|by| Instant::now() >= by);
            if taken.is_last || is_late {
                break;
            }
        }
        self.finish();
    }

    /// How long there is nothing to do unless something comes.
    fn patience(&self) -> Duration {
        if self.turns.loading.is_some() || self.state.keys.is_flushing() {
            return if self.turns.failure.is_some() { PAUSE_AFTER_FAILURE } else { Duration::ZERO };
        }
        let next_load = self.state.due.next_load_in((self.clock)().as_nanos());
        Duration::from_nanos(next_load).clamp(Duration::from_millis(1), PATIENCE_MAX)
    }

    /// Takes in what was loaded beside the writer, and lets those who waited for it go on.
    fn complete(&mut self, rest: Result<load::Rest, rusqlite::Error>) {
        match rest {
            // A failure in between has loaded everything already.
            _ if self.state.is_whole => {}
            Ok(rest) => self.state.complete(rest),
            Err(error) => self.fail(&error),
        }
        let held = mem::take(&mut self.turns.held);
        let mut ready = self.hold_back(held).into_iter();
        while ready.len() > 0 {
            let some = ready.by_ref().take(JOBS_MAX).collect();
            self.turn(some);
        }
    }

    /// Keeps back what cannot be done before what it needs is loaded. After a failure there is
    /// nothing to wait for: either everything is loaded, or it is refused.
    fn hold_back(&mut self, jobs: Vec<Box<dyn Job>>) -> Vec<Box<dyn Job>> {
        if self.state.is_whole || self.turns.failure.is_some() {
            return jobs;
        }
        let mut now = Vec::with_capacity(jobs.len());
        for job in jobs {
            match job.size().kind {
                Kind::NewWithKeys if !self.state.knows_keys => self.turns.held.push(job),
                Kind::Whole => self.turns.held.push(job),
                Kind::NewWithKeys | Kind::New | Kind::Ordinary | Kind::Claim | Kind::Check => {
                    now.push(job);
                }
            }
        }
        now
    }

    fn turn(&mut self, jobs: Vec<Box<dyn Job>>) {
        let mut jobs = self.turn_away(jobs);
        let done = match self.refusal(&jobs) {
            Some(refusal) => Err(refusal),
            None => self.write(&mut jobs).map_err(|error| {
                self.fail(&error);
                unavailable(&error)
            }),
        };
        self.answer(jobs, &done);
        self.tell();
    }

    /// Refuses new tasks for which there is no room, and whoever asks whether there would be.
    fn turn_away(&mut self, jobs: Vec<Box<dyn Job>>) -> Vec<Box<dyn Job>> {
        let mut others = Vec::with_capacity(jobs.len());
        for job in jobs {
            let Size { kind, bytes, .. } = job.size();
            match kind.needs_room().then(|| self.reserve.take(bytes, &self.connection)) {
                Some(Err(full)) => self.answer(vec![job], &Err(full)),
                Some(Ok(())) | None => others.push(job),
            }
        }
        others
    }

    fn answer(&self, jobs: Vec<Box<dyn Job>>, done: &Result<(), Error>) {
        let bytes = jobs.iter().map(|job| job.size().bytes).sum();
        // Room first: who is answered may come again at once.
        self.queue.answered(jobs.len(), bytes);
        for job in jobs {
            job.answer(done.clone());
        }
    }

    /// What everybody is answered who comes too soon after a failure.
    fn refusal(&mut self, jobs: &[Box<dyn Job>]) -> Option<Error> {
        let failure = self.turns.failure.as_ref()?;
        let is_asked = jobs.iter().any(|job| job.size().kind == Kind::Check);
        if failure.since.elapsed() < PAUSE_AFTER_FAILURE && !is_asked {
            return Some(failure.because.clone());
        }
        if failure.has_no_state
            && let Err(error) = self.recover()
        {
            return Some(self.broken(&error, true));
        }
        None
    }

    fn write(&mut self, jobs: &mut [Box<dyn Job>]) -> Result<(), rusqlite::Error> {
        self.load_buckets()?;
        if jobs.is_empty() && !self.state.keys.is_flushing() {
            return Ok(());
        }
        let (began_at, rows_before) = (Instant::now(), self.connection.total_changes());
        self.connection.prepare_cached(BEGIN)?.execute([])?;
        let mut desk = Desk::new(&self.connection, &mut self.state);
        let mut rows = 0;
        for job in jobs {
            rows += job.size().rows;
            desk.now = (self.clock)();
            job.run(&mut desk)?;
        }
        drop(desk);
        self.state.keys.flush_some(&self.connection, rows)?;
        let now = (self.clock)();
        if now.saturating_since(self.state.saved_at) >= SAVE_TIME_EVERY {
            let mut save = self.connection.prepare_cached(SAVE_TIME)?;
            save.execute(params![load::LATEST_AT, from_time(now)])?;
            self.state.saved_at = now;
        }
        let work = began_at.elapsed();
        self.connection.prepare_cached(COMMIT)?.execute([])?;
        let flush = began_at.elapsed().saturating_sub(work);
        let written = self.connection.total_changes().saturating_sub(rows_before);
        self.turns.pace.learn(written, work, flush);
        self.turns.failure = None;
        Ok(())
    }

    /// Brings what comes near into memory: a part of it, or all that may be due already.
    fn load_buckets(&mut self) -> Result<(), rusqlite::Error> {
        let now = (self.clock)().as_nanos();
        let mut left = LOAD_MAX;
        loop {
            let next = || self.state.due.bucket_to_load(now).map(|bucket| (bucket, i64::MIN));
            let Some((bucket, after)) = self.turns.loading.take().or_else(next) else {
                return Ok(());
            };
            self.state.due.begin_load(bucket);
            let max = if DueIndex::is_late(bucket, now) { usize::MAX } else { left };
            let part = load::bucket(&self.connection, &mut self.state, bucket, after, max)?;
            left = left.saturating_sub(part.count);
            if let Some(last) = part.last.filter(|_| part.count == max) {
                self.turns.loading = Some((bucket, last));
                return Ok(());
            }
            left = left.max(1);
        }
    }

    /// Undoes what was not committed, in the file and in memory.
    fn fail(&mut self, error: &rusqlite::Error) {
        tracing::error!(%error, "the store failed to write; it is read again");
        self.state.take_news();
        let has_no_state = match self.recover() {
            Ok(()) => false,
            Err(error) => {
                tracing::error!(%error, "the store cannot be read");
                true
            }
        };
        self.broken(error, has_no_state);
    }

    fn broken(&mut self, error: &rusqlite::Error, has_no_state: bool) -> Error {
        let because = unavailable(error);
        let since = Instant::now();
        self.turns.failure = Some(Broken { because: because.clone(), since, has_no_state });
        because
    }

    fn recover(&mut self) -> Result<(), rusqlite::Error> {
        if !self.connection.is_autocommit() {
            self.connection.execute_batch("ROLLBACK")?;
        }
        self.connection = self.place.writer(&self.wal_pages)?;
        self.turns.loading = None;
        let now = (self.clock)();
        let mut state = load::first_part(&self.connection, self.limits, Owners::AreHere, now)?;
        let mark = Mark::of(&state);
        state.complete(load::keys(&self.connection)?);
        state.complete(load::counts(&self.connection, mark)?);
        // What is due was said before, and saying it again does no harm.
        self.state = state;
        if let Some(failure) = &mut self.turns.failure {
            failure.has_no_state = false;
        }
        Ok(())
    }

    fn tell(&mut self) {
        let news = self.state.take_news();
        if news.is_empty() {
            return;
        }
        let listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(listener) = listener else { return };
        // The listener is somebody else's code. What it does wrong must not end the store.
        if catch_unwind(AssertUnwindSafe(|| listener.due(&news))).is_err() {
            tracing::error!("the listener of the store has panicked");
        }
    }

    /// Moves committed pages from the log into the file, when there are enough of them.
    fn checkpoint(&mut self) {
        let pages = self.wal_pages.load(Ordering::Relaxed);
        if pages < self.turns.unfinished_pages {
            self.turns.unfinished_pages = 0;
        }
        let new_pages = pages - self.turns.unfinished_pages;
        let is_due = new_pages >= CHECKPOINT_PAGES
            || (new_pages >= CHECKPOINT_PAGES_WHEN_IDLE && self.queue.is_empty());
        if !is_due {
            return;
        }
        let done = self.connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| {
            Ok((row.get::<_, i64>(1)?, row.get::<_, i64>(2)?))
        });
        match done {
            Ok((all, moved)) if all == moved => self.wal_pages.store(0, Ordering::Relaxed),
            Ok(_) => self.turns.unfinished_pages = pages,
            Err(error) => {
                tracing::warn!(%error, "a checkpoint failed; the log grows until one succeeds");
                self.turns.unfinished_pages = pages;
            }
        }
    }

    /// Ends: answers what is left, lets the readers end, leaves one file behind.
    fn finish(self) {
        let Writer { queue, connection, mut readers, lock, turns, .. } = self;
        let Abandoned { jobs, asker } = queue.abandon();
        for job in jobs.into_iter().chain(turns.held) {
            job.answer(Err(stopped()));
        }
        readers.stop();
        let truncate = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        let closed = connection.close().map_err(|(_, error)| error);
        drop(lock);
        let end = truncate.and(closed).map_err(|error| unavailable(&error));
        if let Err(error) = &end {
            tracing::error!(%error, "the store closed with an error; its log is read at the next start");
        }
        if let Some(asker) = asker {
            // Who asked may have gone.
            let _ = asker.send(end);
        }
    }
}

fn unavailable(error: &rusqlite::Error) -> Error {
    Error::Unavailable(error.to_string())
}
