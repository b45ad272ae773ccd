//! The stores under test, on a clock that only the test moves.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use relent_policy::Timestamp;
use relent_store::{
    Copying, MemoryStore, PostgresOptions, PostgresStore, RedisOptions, RedisStore, SqliteOptions,
    SqliteStore, Store,
};
use tempfile::TempDir;

use crate::postgres::Schema;
use crate::redis::Prefix;

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

    pub(crate) fn reading(&self) -> Arc<dyn Fn() -> Timestamp + Send + Sync> {
        let clock = self.clone();
        Arc::new(move || clock.now())
    }
}

/// One of the stores under test.
pub(crate) enum Backend {
    Memory(Arc<MemoryStore>),
    Sqlite {
        store: Option<Arc<SqliteStore>>,
        directory: TempDir,
        options: SqliteOptions,
    },
    /// The store goes before its schema.
    Postgres {
        store: Option<Arc<PostgresStore>>,
        schema: Schema,
        options: PostgresOptions,
    },
    /// The store goes before its keys.
    Redis {
        store: Option<Arc<RedisStore>>,
        prefix: Prefix,
        options: RedisOptions,
    },
}

impl Backend {
    pub(crate) fn memory(clock: &Clock) -> Backend {
        Backend::Memory(Arc::new(MemoryStore::with_clock(clock.reading())))
    }

    pub(crate) fn sqlite(clock: &Clock) -> Backend {
        Backend::open(SqliteOptions { clock: Some(clock.reading()), ..SqliteOptions::default() })
    }

    /// An embedded store that has to leave on disk what others have in memory.
    pub(crate) fn sqlite_with_little_memory(clock: &Clock) -> Backend {
        Backend::open(SqliteOptions {
            clock: Some(clock.reading()),
            horizon: Duration::ZERO,
            keys_in_memory_max: 2,
            ..SqliteOptions::default()
        })
    }

    /// A node of a cluster, with a schema of its own.
    pub(crate) fn postgres(clock: &Clock) -> Backend {
        Backend::on_postgres(clock, Schema::new())
    }

    /// The same, that shares its connections with whoever else is behind the pooler.
    pub(crate) fn postgres_pooled(clock: &Clock) -> Backend {
        Backend::on_postgres(clock, Schema::pooled())
    }

    fn on_postgres(clock: &Clock, schema: Schema) -> Backend {
        let options = PostgresOptions { clock: Some(clock.reading()), ..schema.options() };
        let store = Some(Arc::new(schema.connect(options.clone())));
        Backend::Postgres { store, schema, options }
    }

    /// A node on one Redis, with keys of its own.
    pub(crate) fn redis(clock: &Clock) -> Backend {
        Backend::on_redis(clock, Prefix::new())
    }

    /// A node on a Redis Cluster, whose shards are on several servers.
    pub(crate) fn redis_cluster(clock: &Clock) -> Backend {
        Backend::on_redis(clock, Prefix::in_cluster())
    }

    fn on_redis(clock: &Clock, prefix: Prefix) -> Backend {
        let options = RedisOptions { clock: Some(clock.reading()), ..prefix.options() };
        let store = Some(Arc::new(prefix.connect(options.clone())));
        Backend::Redis { store, prefix, options }
    }

    fn open(options: SqliteOptions) -> Backend {
        let directory = scratch();
        let store = SqliteStore::open(directory.path(), options.clone()).unwrap();
        Backend::Sqlite { store: Some(Arc::new(store)), directory, options }
    }

    /// An empty one of the same kind.
    pub(crate) fn another(&self, clock: &Clock) -> Backend {
        match self {
            Backend::Memory(_) => Backend::memory(clock),
            Backend::Sqlite { options, .. } => Backend::open(options.clone()),
            Backend::Postgres { schema, .. } => Backend::on_postgres(clock, schema.another()),
            Backend::Redis { prefix, .. } => Backend::on_redis(clock, prefix.another()),
        }
    }

    pub(crate) fn copying(&self) -> Arc<dyn Copying> {
        match self {
            Backend::Memory(store) => store.clone(),
            Backend::Sqlite { store, .. } => store.clone().unwrap(),
            Backend::Postgres { store, .. } => store.clone().unwrap(),
            Backend::Redis { store, .. } => store.clone().unwrap(),
        }
    }

    pub(crate) fn store(&self) -> Arc<dyn Store> {
        match self {
            Backend::Memory(store) => store.clone(),
            Backend::Sqlite { store, .. } => store.clone().unwrap(),
            Backend::Postgres { store, .. } => store.clone().unwrap(),
            Backend::Redis { store, .. } => store.clone().unwrap(),
        }
    }

    /// Ends the store and opens it again, as a service that is started again does.
    pub(crate) async fn reopen(&mut self) {
        self.store().close(Duration::from_secs(10)).await.unwrap();
        match self {
            Backend::Memory(store) => store.restart(),
            Backend::Sqlite { store, directory, options } => {
                let last = Arc::try_unwrap(store.take().unwrap());
                drop(last.expect("nobody else has the store"));
                let opened = SqliteStore::open(directory.path(), options.clone()).unwrap();
                *store = Some(Arc::new(opened));
            }
            Backend::Postgres { store, schema, options } => {
                let last = Arc::try_unwrap(store.take().unwrap());
                drop(last.expect("nobody else has the store"));
                *store = Some(Arc::new(schema.connect(options.clone())));
            }
            Backend::Redis { store, prefix, options } => {
                let last = Arc::try_unwrap(store.take().unwrap());
                drop(last.expect("nobody else has the store"));
                *store = Some(Arc::new(prefix.connect(options.clone())));
            }
        }
    }
}

/// A directory in memory where the system has such a place: these tests ask what a store says, and
/// not what a disk keeps, and do so tens of thousands of times.
fn scratch() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}
