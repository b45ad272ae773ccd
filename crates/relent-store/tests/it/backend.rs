//! The stores under test, on a clock that only the test moves.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use relent_policy::Timestamp;
use relent_store::{MemoryStore, Store};

/// Odd in every digit, so that a store which rounds is found out.
const START: u64 = 1_800_000_000_123_456_789;

/// Time as the test says.
#[derive(Clone)]
pub(crate) struct Clock(Arc<AtomicU64>);

impl Clock {
    pub(crate) fn new() -> Clock {
        Clock(Arc::new(AtomicU64::new(START)))
    }

    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.0.load(Ordering::SeqCst))
    }

    pub(crate) fn advance(&self, by: Duration) {
        let by = u64::try_from(by.as_nanos()).unwrap();
        self.0.fetch_add(by, Ordering::SeqCst);
    }

    fn reading(&self) -> Arc<dyn Fn() -> Timestamp + Send + Sync> {
        let clock = self.clone();
        Arc::new(move || clock.now())
    }
}

/// One of the stores under test.
pub(crate) enum Backend {
    Memory(Arc<MemoryStore>),
}

impl Backend {
    pub(crate) fn memory(clock: &Clock) -> Backend {
        Backend::Memory(Arc::new(MemoryStore::with_clock(clock.reading())))
    }

    pub(crate) fn store(&self) -> Arc<dyn Store> {
        match self {
            Backend::Memory(store) => store.clone(),
        }
    }

    /// Ends the store and opens it again, as a service that is started again does.
    pub(crate) async fn reopen(&mut self) {
        self.store().close(Duration::from_secs(10)).await.unwrap();
        match self {
            Backend::Memory(store) => store.restart(),
        }
    }
}
