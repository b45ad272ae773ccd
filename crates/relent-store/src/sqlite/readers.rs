//! Readers beside the writer: each with its own connection, which cannot write. In WAL mode they
//! see the last commit and hold up nobody. REQ-S2.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::queue::{Failure, stopped};
use super::schema::Place;
use crate::contract::Answer;
use crate::error::Error;

const THREADS: usize = 2;
const WAITING_MAX: usize = 4_096;

type Look = Box<dyn FnOnce(&Connection) + Send>;

/// What is waiting to be read.
#[derive(Default)]
pub(super) struct ReadQueue {
    waiting: Mutex<Waiting>,
    ready: Condvar,
}

#[derive(Default)]
struct Waiting {
    looks: VecDeque<Look>,
    is_closed: bool,
}

impl ReadQueue {
    /// Hands a look over, at once; the answer is waited for.
    pub(super) fn ask<'a, T: Send + 'static>(
        &self,
        look: impl FnOnce(&Connection) -> Result<T, Failure> + Send + 'static,
    ) -> Answer<'a, T> {
        let (asker, answer) = oneshot::channel();
        let look = move |connection: &Connection| {
            let seen = look(connection).map_err(|failure| match failure {
                Failure::Refused(error) => error,
                Failure::Sqlite(error) => Error::Unavailable(error.to_string()),
            });
            // Who asked may have gone.
            let _ = asker.send(seen);
        };
        match self.push(Box::new(look)) {
            Ok(()) => Box::pin(async { answer.await.unwrap_or_else(|_| Err(stopped())) }),
            Err(refused) => Box::pin(std::future::ready(Err(refused))),
        }
    }

    fn push(&self, look: Look) -> Result<(), Error> {
        let mut waiting = self.lock();
        if waiting.is_closed {
            return Err(Error::Unavailable("it is closed".to_owned()));
        }
        if waiting.looks.len() >= WAITING_MAX {
            return Err(Error::Overloaded);
        }
        waiting.looks.push_back(look);
        drop(waiting);
        self.ready.notify_one();
        Ok(())
    }

    /// The next look; `None` once it is closed and nothing waits.
    fn next(&self) -> Option<Look> {
        let idle = |waiting: &mut Waiting| waiting.looks.is_empty() && !waiting.is_closed;
        let waiting = self.ready.wait_while(self.lock(), idle);
        waiting.unwrap_or_else(PoisonError::into_inner).looks.pop_front()
    }

    fn close(&self) {
        self.lock().is_closed = true;
        self.ready.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The threads that read.
pub(super) struct Readers {
    queue: Arc<ReadQueue>,
    threads: Vec<JoinHandle<()>>,
}

impl Readers {
    pub(super) fn start(queue: &Arc<ReadQueue>, place: &Place) -> rusqlite::Result<Readers> {
        let mut readers = Readers { queue: Arc::clone(queue), threads: Vec::new() };
        for number in 0..THREADS {
            let connection = place.reader()?;
            let queue = Arc::clone(queue);
            let run = move || {
                while let Some(look) = queue.next() {
                    // Who asked is told by the loss of the channel; the next one is served.
                    if catch_unwind(AssertUnwindSafe(|| look(&connection))).is_err() {
                        tracing::error!("a look into the store has panicked");
                    }
                }
            };
            let name = format!("relent-read-{number}");
            let thread = thread::Builder::new().name(name).spawn(run);
            readers.threads.push(thread.expect("the system has threads to give"));
        }
        Ok(readers)
    }

    /// Lets them finish what waits, and waits for that.
    pub(super) fn stop(&mut self) {
        self.queue.close();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a reader has panicked");
            }
        }
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.stop();
    }
}
