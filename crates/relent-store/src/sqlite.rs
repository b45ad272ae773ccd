//! The embedded store: one directory, one SQLite file, one process.
//!
//! What is on disk is as little as can be: rows in the order in which they came, and one index by
//! shelf. What is due, who holds what and which key belongs to which task is known in memory, by the
//! one thread that writes, and can be read from the file again at any time. The hard parts have
//! essays at the top of their files: [`writer`] (group commit, failures), [`due`] (what is due when),
//! [`keys`] (which key belongs to which task), [`schema`] (files and durability).
//!
//! What it does not do: serve more than one process, or replicate. REQ-S3, REQ-S4, REQ-S7, REQ-D1.

mod change;
mod claim;
mod copying;
mod due;
mod enqueue;
mod examine;
mod keys;
mod lanes;
mod list;
mod load;
mod pace;
mod policies;
mod prune;
mod queue;
mod readers;
mod reads;
mod record;
mod reserve;
mod roles;
mod rows;
mod schema;
mod state;
mod sweep;
mod writer;

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use relent_policy::Timestamp;
use rusqlite::Connection;

use self::load::{Mark, Owners};
use self::queue::{End, Queue};
use self::readers::{ReadQueue, Readers};
use self::reserve::Reserve;
pub use self::schema::OpenError;
use self::schema::Place;
use self::writer::{Clock, Listener, Turns, Writer};
use crate::assurance::{Assurance, Finding};
use crate::clock::StoreClock;
use crate::contract::{DueListener, Store};
use crate::version::Migrated;

/// How an embedded store is opened.
///
/// # Default
///
/// - tables are made, and brought up to date
/// - the time of a [`StoreClock`] that shows no earlier time than the latest in the file
/// - due within 20 minutes: in memory
/// - 800,000 keys in memory, the older ones on disk
/// - 100,000 lanes
/// - 16,384 operations and 256 MiB waiting to be written, of which new tasks may be half
/// - 16 MiB of the file in memory
/// - no limit on the file's size but the disk's, of which 64 MiB are kept free
#[derive(Clone)]
pub struct SqliteOptions {
    /// Whether the tables are made and brought up to date; if not, they must be so already.
    pub migrate: bool,
    /// Another clock, for tests and simulations.
    pub clock: Option<Arc<dyn Fn() -> Timestamp + Send + Sync>>,
    /// How far ahead due tasks are kept in memory.
    pub horizon: Duration,
    /// How many keys are kept in memory.
    pub keys_in_memory_max: usize,
    /// How many lanes there may be.
    pub lanes_max: u32,
    /// How many operations may wait to be written.
    pub queue_max: usize,
    /// How many bytes may wait to be written.
    pub queue_bytes_max: usize,
    /// How much of the file the writer keeps in memory.
    pub cache_bytes: u64,
    /// How large the file may become; when it is nearly full, nothing new is taken.
    pub size_bytes_max: Option<u64>,
    /// How much of the disk new tasks leave free, so that those that are stored can come to their
    /// end; of a file with a largest size an eighth at most. With 0 nothing is kept.
    pub free_bytes_min: u64,
}

impl Default for SqliteOptions {
    fn default() -> SqliteOptions {
        SqliteOptions {
            migrate: true,
            clock: None,
            horizon: Duration::from_secs(20 * 60),
            keys_in_memory_max: 800_000,
            lanes_max: 100_000,
            queue_max: 16_384,
            queue_bytes_max: 256 << 20,
            cache_bytes: 16 << 20,
            size_bytes_max: None,
            free_bytes_min: 64 << 20,
        }
    }
}

impl fmt::Debug for SqliteOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteOptions")
            .field("migrate", &self.migrate)
            .field("clock", &self.clock.as_ref().map(|_| ".."))
            .field("horizon", &self.horizon)
            .field("keys_in_memory_max", &self.keys_in_memory_max)
            .field("lanes_max", &self.lanes_max)
            .field("queue_max", &self.queue_max)
            .field("queue_bytes_max", &self.queue_bytes_max)
            .field("cache_bytes", &self.cache_bytes)
            .field("size_bytes_max", &self.size_bytes_max)
            .field("free_bytes_min", &self.free_bytes_min)
            .finish()
    }
}

/// The embedded store. See the module's head.
///
/// Dropped without [`close`](crate::Upkeep::close), it still finishes what was handed over, and
/// blocks for that.
///
/// ```
/// use relent_store::{SqliteOptions, SqliteStore, Store};
///
/// # let directory = tempfile::tempdir()?;
/// # let directory = directory.path();
/// let store = SqliteStore::open(directory, SqliteOptions::default())?;
/// assert!(store.now() <= store.now());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct SqliteStore {
    queue: Arc<Queue>,
    reads: Arc<ReadQueue>,
    listener: Listener,
    clock: Clock,
    lanes_max: u32,
    writer: Option<JoinHandle<()>>,
}

impl SqliteStore {
    /// Opens the store in a directory, which is made if it is not there. Claims are possible when
    /// this returns; what has to be compared with the keys of a large store may wait a little.
    ///
    /// # Errors
    ///
    /// When another process has it open, when a later version of relent has written it, when an
    /// earlier one has and it is not to be touched, or when the system or SQLite refuses.
    pub fn open(directory: &Path, options: SqliteOptions) -> Result<SqliteStore, OpenError> {
        let lock = schema::lock(directory)?;
        let cache_kib = options.cache_bytes / 1_024;
        let place = Place::new(directory, options.size_bytes_max, cache_kib);
        let failed = |source| OpenError::Sqlite { file: place.file.clone(), source };
        let wal_pages = Arc::new(AtomicU64::new(0));
        let (connection, _) = place.open(&wal_pages, options.migrate)?;
        let clock = clock(options.clock, load::latest_at(&connection).map_err(failed)?);
        let limits = (rows::nanos(options.horizon), options.keys_in_memory_max);
        let state =
            load::first_part(&connection, limits, Owners::AreGone, clock()).map_err(failed)?;
        let snapshot = snapshot(&place).map_err(failed)?;
        let mark = Mark::of(&state);
        let queue = Arc::new(Queue::new(options.queue_max, options.queue_bytes_max));
        let reads = Arc::default();
        let readers = Readers::start(&reads, &place).map_err(failed)?;
        let listener = Listener::default();
        let writer = Writer {
            place: place.clone(),
            limits,
            clock: Arc::clone(&clock),
            queue: Arc::clone(&queue),
            listener: Arc::clone(&listener),
            wal_pages,
            connection,
            state,
            readers,
            lock,
            reserve: Reserve::new(directory, options.free_bytes_min, options.size_bytes_max),
            turns: Turns::default(),
        };
        start("relent-load", {
            let queue = Arc::clone(&queue);
            move || {
                queue.loaded(load::keys(&snapshot));
                queue.loaded(load::counts(&snapshot, mark));
            }
        });
        let ends = WriterEnds(Arc::clone(&queue));
        let writer = start("relent-write", move || {
            let _ends = ends;
            writer.run();
        });
        let lanes_max = options.lanes_max;
        Ok(SqliteStore { queue, reads, listener, clock, lanes_max, writer: Some(writer) })
    }

    /// Makes the tables, or brings them up to date, and does nothing else.
    ///
    /// # Errors
    ///
    /// As [`open`](SqliteStore::open).
    pub fn migrate(directory: &Path, options: &SqliteOptions) -> Result<Migrated, OpenError> {
        let _lock = schema::lock(directory)?;
        let cache_kib = options.cache_bytes / 1_024;
        let place = Place::new(directory, options.size_bytes_max, cache_kib);
        let (_, migrated) = place.open(&Arc::default(), true)?;
        Ok(migrated)
    }

    /// Looks at what a store in this directory can guarantee, without opening it.
    ///
    /// # Errors
    ///
    /// When the directory or the file cannot be read.
    pub fn examine(directory: &Path, options: &SqliteOptions) -> Result<Assurance, OpenError> {
        examine::examine(directory, options)
    }

    /// Reads the whole file of a store in this directory, also while it is in use, and says whether it
    /// is damaged.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn verify(directory: &Path, options: &SqliteOptions) -> Result<Finding, OpenError> {
        let place = Place::new(directory, options.size_bytes_max, options.cache_bytes / 1_024);
        let failed = |source| OpenError::Sqlite { file: place.file.clone(), source };
        examine::verify(&place).map_err(failed)
    }
}

/// A look at the file as it is now, for as long as the connection lives.
fn snapshot(place: &Place) -> rusqlite::Result<Connection> {
    let connection = place.reader()?;
    connection.execute_batch("BEGIN; SELECT count(*) FROM meta;")?;
    Ok(connection)
}

fn start(name: &str, run: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    let thread = thread::Builder::new().name(name.to_owned()).spawn(run);
    thread.expect("the system has threads to give")
}

/// The clock of a store, which never goes back.
fn clock(own: Option<Clock>, not_before: Timestamp) -> Clock {
    let clock = own.unwrap_or_else(|| {
        let clock = StoreClock::start(not_before);
        Arc::new(move || clock.now())
    });
    let latest = AtomicU64::new(0);
    Arc::new(move || {
        let shown = clock().as_nanos();
        Timestamp::from_nanos(latest.fetch_max(shown, Ordering::SeqCst).max(shown))
    })
}

/// However the writer ends, nobody waits for it after that.
struct WriterEnds(Arc<Queue>);

impl Drop for WriterEnds {
    fn drop(&mut self) {
        drop(self.0.abandon());
    }
}

impl Store for SqliteStore {
    fn now(&self) -> Timestamp {
        (self.clock)()
    }

    fn listen(&self, listener: Arc<dyn DueListener>) {
        *self.listener.lock().unwrap_or_else(PoisonError::into_inner) = Some(listener);
    }
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore").finish_non_exhaustive()
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        let by = Instant::now() + Duration::from_secs(60);
        self.queue.close(End { by, asker: None });
        // The last to let go may be a listener, on the writer's own thread.
        let writer = self.writer.take();
        let writer = writer.filter(|writer| writer.thread().id() != thread::current().id());
        if writer.is_some_and(|writer| writer.join().is_err()) {
            tracing::error!("the store's writer has panicked");
        }
    }
}
