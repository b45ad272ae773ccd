//! What is asked of a database and joins no [`queue`](crate::queue): looks, and changes that are rare.
//!
//! An operation begins at once and runs to its end, also when nobody waits for it any more: no
//! transaction is left open by a future that was dropped. There are at most so many; who comes then is
//! refused. REQ-S4, REQ-P4.

use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use crate::contract::Answer;
use crate::error::Error;
use crate::queue::{closed, stopped};

const OPERATIONS_MAX: u32 = 4_096;

/// See the module's head.
pub(crate) struct Operations {
    places: Arc<Semaphore>,
    closed: AtomicBool,
}

impl Default for Operations {
    fn default() -> Operations {
        let places = Arc::new(Semaphore::new(OPERATIONS_MAX as usize));
        Operations { places, closed: AtomicBool::new(false) }
    }
}

impl Operations {
    /// Starts one.
    pub(crate) fn start<T, E, F>(
        &self,
        runtime: &Handle,
        operation: impl FnOnce() -> F,
    ) -> Answer<'static, T>
    where
        T: Send + 'static,
        Error: From<E>,
        F: Future<Output = Result<T, E>> + Send + 'static,
    {
        if self.closed.load(Ordering::SeqCst) {
            return Box::pin(ready(Err(closed())));
        }
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            return Box::pin(ready(Err(Error::Overloaded)));
        };
        let operation = operation();
        let running = runtime.spawn(async move {
            let answer = operation.await.map_err(Error::from);
            drop(place);
            answer
        });
        Box::pin(async { running.await.unwrap_or_else(|_| Err(stopped())) })
    }

    /// Nothing new is begun.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }

    /// Waits until all that were begun have ended.
    pub(crate) async fn all_ended(&self) {
        drop(self.places.acquire_many(OPERATIONS_MAX).await);
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn they_are_so_many_at_most() {
        let operations = Operations::default();
        let gate = Arc::new(Semaphore::new(0));
        let wait = async |gate: Arc<Semaphore>| {
            drop(gate.acquire().await);
            Ok::<_, Error>(())
        };
        let start = || operations.start(&Handle::current(), || wait(Arc::clone(&gate)));
        let all: Vec<_> = (0..OPERATIONS_MAX).map(|_| start()).collect();
        assert_eq!(start().await, Err(Error::Overloaded));
        gate.add_permits(1);
        for answer in all {
            assert_eq!(answer.await, Ok(()));
        }
        assert_eq!(start().await, Ok(()));
    }

    #[tokio::test]
    async fn one_runs_to_its_end_whoever_waits() {
        let operations = Operations::default();
        let (go, told) = oneshot::channel::<()>();
        let (ended, has_ended) = oneshot::channel::<()>();
        drop(operations.start(&Handle::current(), async || {
            told.await.unwrap();
            ended.send(()).unwrap();
            Ok::<_, Error>(())
        }));
        operations.close();
        let refused = operations.start(&Handle::current(), async || Ok::<_, Error>(()));
        assert_eq!(refused.await, Err(closed()));
        go.send(()).unwrap();
        operations.all_ended().await;
        assert_eq!(has_ended.await, Ok(()));
    }
}
