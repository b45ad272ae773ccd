//! What is waiting to be written.
//!
//! Bounded in number and in bytes: who comes when it is full is refused at once, instead of waiting
//! for ever longer. New tasks may fill half of it. The other half is for what ends work that is
//! already promised, so that a flood of new tasks cannot keep results from being written down.
//!
//! Claims go first: what is claimed is due now, and a thousand attempts that time out together would
//! otherwise keep everybody else's claims behind their results. There is one claimer, which waits for
//! its answer before it asks again, so nothing starves. REQ-S3, REQ-S4, REQ-P4.

use std::collections::VecDeque;
use std::mem;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::load::Rest;
use super::state::Desk;
use crate::contract::Answer;
use crate::error::Error;

/// Something for the writer to do.
pub(super) trait Job: Send {
    fn size(&self) -> Size;

    /// Does it, within the transaction. What it found out is kept until the commit. An error undoes
    /// the whole transaction; what the operation refuses is no error.
    fn run(&mut self, desk: &mut Desk<'_>) -> Result<(), rusqlite::Error>;

    /// Answers, after the commit or when there will be none.
    fn answer(self: Box<Self>, committed: Result<(), Error>);
}

/// How much a job is, and what it cannot do without.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Size {
    pub(super) rows: usize,
    pub(super) bytes: usize,
    pub(super) kind: Kind,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Kind {
    /// Brings new tasks.
    New,
    /// Brings new tasks, which have to be compared with the keys there are.
    NewWithKeys,
    /// Looks something up that is only known when everything is loaded.
    Whole,
    #[default]
    Ordinary,
    /// Takes what is due.
    Claim,
    /// Asks whether writing is possible again.
    Check,
}

impl Kind {
    fn is_new(self) -> bool {
        matches!(self, Kind::New | Kind::NewWithKeys)
    }

    /// Whether it is no use when the disk is nearly full.
    pub(super) fn needs_room(self) -> bool {
        self.is_new() || self == Kind::Check
    }
}

/// What an operation could not do: either it is refused and changed nothing, or SQLite failed.
pub(super) enum Failure {
    Refused(Error),
    Sqlite(rusqlite::Error),
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Failure {
        Failure::Sqlite(error)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Refused(error)
    }
}

struct Operation<F, T> {
    size: Size,
    run: Option<F>,
    found: Option<Result<T, Error>>,
    asker: oneshot::Sender<Result<T, Error>>,
}

impl<F, T> Job for Operation<F, T>
where
    F: FnOnce(&mut Desk<'_>) -> Result<T, Failure> + Send,
    T: Send,
{
    fn size(&self) -> Size {
        self.size
    }

    fn run(&mut self, desk: &mut Desk<'_>) -> Result<(), rusqlite::Error> {
        let Some(run) = self.run.take() else { return Ok(()) };
        match run(desk) {
            Ok(found) => self.found = Some(Ok(found)),
            Err(Failure::Refused(error)) => self.found = Some(Err(error)),
            Err(Failure::Sqlite(error)) => return Err(error),
        }
        Ok(())
    }

    fn answer(self: Box<Self>, committed: Result<(), Error>) {
        let found = self.found.unwrap_or_else(|| Err(stopped()));
        // Who asked may have gone; the operation is done all the same.
        let _ = self.asker.send(committed.and(found));
    }
}

pub(super) fn stopped() -> Error {
    Error::Unavailable("it has stopped".to_owned())
}

fn closed() -> Error {
    Error::Unavailable("it is closed".to_owned())
}

/// The queue between everybody and the one writer.
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    ready: Condvar,
    jobs_max: usize,
    bytes_max: usize,
}

#[derive(Default)]
struct Waiting {
    claims: VecDeque<Box<dyn Job>>,
    jobs: VecDeque<Box<dyn Job>>,
    /// Handed over and not yet answered.
    unanswered: Size,
    unanswered_jobs: usize,
    loaded: Vec<Result<Rest, rusqlite::Error>>,
    end: Option<End>,
    /// Whether the writer waits to be woken. Waking costs a system call, and under load it is awake.
    is_idle: bool,
}

impl Waiting {
    fn next_job(&mut self) -> Option<Box<dyn Job>> {
        self.claims.pop_front().or_else(|| self.jobs.pop_front())
    }

    fn has_no_jobs(&self) -> bool {
        self.claims.is_empty() && self.jobs.is_empty()
    }
}

/// When and how the writer is to end.
pub(super) struct End {
    pub(super) by: Instant,
    pub(super) asker: Option<oneshot::Sender<Result<(), Error>>>,
}

/// What the writer found in the queue.
#[derive(Default)]
pub(super) struct Taken {
    pub(super) jobs: Vec<Box<dyn Job>>,
    pub(super) loaded: Vec<Result<Rest, rusqlite::Error>>,
    /// Nothing more will come.
    pub(super) is_last: bool,
}

/// What nobody will do any more.
pub(super) struct Abandoned {
    pub(super) jobs: Vec<Box<dyn Job>>,
    /// Who waits for the end.
    pub(super) asker: Option<oneshot::Sender<Result<(), Error>>>,
}

impl Queue {
    pub(super) fn new(jobs_max: usize, bytes_max: usize) -> Queue {
        Queue { waiting: Mutex::default(), ready: Condvar::new(), jobs_max, bytes_max }
    }

    /// Hands an operation over, at once; the answer is waited for.
    pub(super) fn ask<'a, T: Send + 'static>(
        &self,
        size: Size,
        run: impl FnOnce(&mut Desk<'_>) -> Result<T, Failure> + Send + 'static,
    ) -> Answer<'a, T> {
        let (asker, answer) = oneshot::channel();
        let job = Operation { size, run: Some(run), found: None, asker };
        match self.push(Box::new(job), size) {
            Ok(()) => Box::pin(async { answer.await.unwrap_or_else(|_| Err(stopped())) }),
            Err(refused) => Box::pin(std::future::ready(Err(refused))),
        }
    }

    fn push(&self, job: Box<dyn Job>, size: Size) -> Result<(), Error> {
        let mut waiting = self.lock();
        if waiting.end.is_some() {
            return Err(closed());
        }
        let share = if size.kind.is_new() { 2 } else { 1 };
        let is_full = waiting.unanswered_jobs >= self.jobs_max / share
            || waiting.unanswered.bytes >= self.bytes_max / share;
        if is_full {
            return Err(Error::Overloaded);
        }
        waiting.unanswered_jobs += 1;
        waiting.unanswered.bytes += size.bytes;
        match size.kind {
            Kind::Claim => waiting.claims.push_back(job),
            _ => waiting.jobs.push_back(job),
        }
        let is_idle = mem::take(&mut waiting.is_idle);
        drop(waiting);
        if is_idle {
            self.ready.notify_one();
        }
        Ok(())
    }

    /// Hands over what was loaded beside the writer.
    pub(super) fn loaded(&self, rest: Result<Rest, rusqlite::Error>) {
        self.lock().loaded.push(rest);
        self.ready.notify_one();
    }

    /// Takes some of what waits, and waits for it for some time at most.
    pub(super) fn take(&self, jobs_max: usize, rows_max: usize, within: Duration) -> Taken {
        let idle = |waiting: &mut Waiting| {
            waiting.has_no_jobs() && waiting.loaded.is_empty() && waiting.end.is_none()
        };
        let mut waiting = self.lock();
        waiting.is_idle = true;
        let (mut waiting, _) = self
            .ready
            .wait_timeout_while(waiting, within, idle)
            .unwrap_or_else(PoisonError::into_inner);
        waiting.is_idle = false;
        let mut taken = Taken { loaded: mem::take(&mut waiting.loaded), ..Taken::default() };
        let mut rows = 0;
        while taken.jobs.len() < jobs_max && rows < rows_max {
            let Some(job) = waiting.next_job() else { break };
            rows += job.size().rows;
            taken.jobs.push(job);
        }
        taken.is_last = waiting.end.is_some() && waiting.has_no_jobs();
        taken
    }

    /// Makes room again for what is about to be answered.
    pub(super) fn answered(&self, jobs: usize, bytes: usize) {
        let mut waiting = self.lock();
        waiting.unanswered_jobs -= jobs;
        waiting.unanswered.bytes -= bytes;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lock().has_no_jobs()
    }

    /// Nothing more is taken. `false` if that had been said before.
    pub(super) fn close(&self, end: End) -> bool {
        let mut waiting = self.lock();
        let is_first = waiting.end.is_none();
        if is_first {
            waiting.end = Some(end);
        }
        drop(waiting);
        self.ready.notify_one();
        is_first
    }

    /// Until when what waits may still be done, once the end was asked for.
    pub(super) fn ends_by(&self) -> Option<Instant> {
        self.lock().end.as_ref().map(|end| end.by)
    }

    /// What is left when the writer ends, whatever the reason: nobody waits for an answer for ever.
    pub(super) fn abandon(&self) -> Abandoned {
        let mut waiting = self.lock();
        let asker = waiting.end.as_mut().and_then(|end| end.asker.take());
        waiting.end.get_or_insert(End { by: Instant::now(), asker: None });
        Abandoned { jobs: std::iter::from_fn(|| waiting.next_job()).collect(), asker }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_go_first_and_the_others_in_their_order() {
        let queue = Queue::new(10, 10);
        let sizes = [(1, Kind::New), (2, Kind::Ordinary), (3, Kind::Claim), (4, Kind::Ordinary)];
        for (rows, kind) in sizes {
            drop(queue.ask(Size { rows, bytes: 0, kind }, |_| Ok(())));
        }
        let taken = queue.take(3, 100, Duration::ZERO);
        assert_eq!(taken.jobs.iter().map(|job| job.size().rows).collect::<Vec<_>>(), [3, 1, 2]);
        let taken = queue.take(3, 100, Duration::ZERO);
        assert_eq!(taken.jobs.len(), 1);
    }
}
