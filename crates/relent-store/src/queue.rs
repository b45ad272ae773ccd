//! What waits to be sent to a database: the largest win on PostgreSQL and Redis is here.
//!
//! A transaction costs a round trip and a flush of the disk, however much is in it, and a script of
//! Redis nearly the same. So nobody sends
//! a statement of their own: what comes during a round waits for the next one, which takes all of it,
//! up to a bound, in one statement. Who comes alone waits for nobody; thousands who come together
//! share one commit. Peers that send each task by itself take 600 to 2,500 of them a second where
//! batches of 500 take 35,000 and more.
//!
//! Bounded in number and in bytes: who comes when it is full is refused at once. New tasks, results
//! and claims have a queue each, and so none of them keeps out another. REQ-S4, REQ-P4.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, oneshot};

use crate::contract::Answer;
use crate::error::Error;

/// Something that waits, and how much it is.
pub(crate) struct Job<W, T> {
    pub(crate) work: W,
    pub(crate) rows: usize,
    pub(crate) bytes: usize,
    pub(crate) asker: oneshot::Sender<Result<T, Error>>,
}

impl<W, T> Job<W, T> {
    /// Answers. Who asked may have gone; it is done all the same.
    pub(crate) fn answer(self, answer: Result<T, Error>) {
        let _ = self.asker.send(answer);
    }
}

pub(crate) struct Queue<W, T> {
    waiting: Mutex<Waiting<W, T>>,
    ready: Notify,
    jobs_max: usize,
    bytes_max: usize,
}

struct Waiting<W, T> {
    jobs: VecDeque<Job<W, T>>,
    bytes: usize,
    closed: bool,
}

impl<W, T: Send + 'static> Queue<W, T> {
    pub(crate) fn new(jobs_max: usize, bytes_max: usize) -> Queue<W, T> {
        let waiting = Waiting { jobs: VecDeque::new(), bytes: 0, closed: false };
        Queue { waiting: Mutex::new(waiting), ready: Notify::new(), jobs_max, bytes_max }
    }

    /// Hands something over, at once; the answer is waited for.
    pub(crate) fn ask<'a>(&self, work: W, rows: usize, bytes: usize) -> Answer<'a, T> {
        let (asker, answer) = oneshot::channel();
        match self.push(Job { work, rows, bytes, asker }) {
            Ok(()) => Box::pin(async { answer.await.unwrap_or_else(|_| Err(stopped())) }),
            Err(refused) => Box::pin(std::future::ready(Err(refused))),
        }
    }

    fn push(&self, job: Job<W, T>) -> Result<(), Error> {
        let mut waiting = self.lock();
        if waiting.closed {
            return Err(closed());
        }
        if waiting.jobs.len() >= self.jobs_max || waiting.bytes >= self.bytes_max {
            return Err(Error::Overloaded);
        }
        waiting.bytes += job.bytes;
        waiting.jobs.push_back(job);
        drop(waiting);
        self.ready.notify_one();
        Ok(())
    }

    /// Takes what waits, as long as it fits; at least one, which is waited for. Empty when the queue
    /// is closed and has nothing left.
    pub(crate) async fn take(&self, rows_max: usize, bytes_max: usize) -> Vec<Job<W, T>> {
        loop {
            if let Some(jobs) = self.take_now(rows_max, bytes_max) {
                return jobs;
            }
            self.ready.notified().await;
        }
    }

    fn take_now(&self, rows_max: usize, bytes_max: usize) -> Option<Vec<Job<W, T>>> {
        let mut waiting = self.lock();
        let (mut rows, mut bytes) = (0, 0);
        let mut jobs = Vec::new();
        while let Some(next) = waiting.jobs.front() {
            let fits = rows + next.rows <= rows_max && bytes + next.bytes <= bytes_max;
            if !fits && !jobs.is_empty() {
                break;
            }
            (rows, bytes) = (rows + next.rows, bytes + next.bytes);
            jobs.extend(waiting.jobs.pop_front());
        }
        waiting.bytes -= bytes;
        (!jobs.is_empty() || waiting.closed).then_some(jobs)
    }

    /// Nothing more is taken; what waits is still done.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.ready.notify_one();
    }

    /// Nobody will do what waits: whoever asked is told.
    pub(crate) fn abandon(&self) {
        self.close();
        let mut waiting = self.lock();
        let left: Vec<Job<W, T>> = waiting.jobs.drain(..).collect();
        waiting.bytes = 0;
        drop(waiting);
        left.into_iter().for_each(|job| job.answer(Err(stopped())));
    }

    fn lock(&self) -> MutexGuard<'_, Waiting<W, T>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) fn stopped() -> Error {
    Error::Unavailable("it has stopped".to_owned())
}

pub(crate) fn closed() -> Error {
    Error::Unavailable("it is closed".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_waited_together_is_taken_together() {
        let queue = Queue::<u32, ()>::new(10, 1_000);
        let _answers: Vec<_> = (0..5).map(|n| queue.ask(n, 1, 10)).collect();
        let taken = queue.take(3, 1_000).await;
        assert_eq!(taken.iter().map(|job| job.work).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(queue.take(3, 10).await.len(), 1, "in bytes too");
    }

    #[tokio::test]
    async fn one_that_is_too_much_is_taken_alone() {
        let queue = Queue::<u32, ()>::new(10, 1_000);
        let _answers = [queue.ask(0, 100, 10), queue.ask(1, 1, 10)];
        assert_eq!(queue.take(3, 1_000).await.len(), 1);
    }

    #[tokio::test]
    async fn a_full_queue_refuses_and_a_closed_one_too() {
        let queue = Queue::<u32, ()>::new(1, 1_000);
        let _first = queue.ask(0, 1, 10);
        assert_eq!(queue.ask(1, 1, 10).await, Err(Error::Overloaded));
        queue.close();
        assert_eq!(queue.ask(1, 1, 10).await, Err(closed()));
        assert_eq!(queue.take(1, 1).await.len(), 1);
        assert!(queue.take(1, 1).await.is_empty());
    }

    #[tokio::test]
    async fn nobody_waits_for_what_was_abandoned() {
        let queue = Queue::<u32, ()>::new(10, 1_000);
        let answer = queue.ask(0, 1, 10);
        queue.abandon();
        assert_eq!(answer.await, Err(stopped()));
        assert_eq!(queue.ask(1, 1, 10).await, Err(closed()));
    }
}
