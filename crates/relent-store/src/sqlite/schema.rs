//! The directory, the lock, the file: opening them, and bringing an older file up to date.
//!
//! One process at a time: the lock file is locked for as long as the store is open, by the
//! operating system, which also unlocks it when the process dies. SQLite's own locks would let two
//! processes take turns, and each would believe in its own memory.
//!
//! `synchronous=FULL`: in WAL mode each commit is then flushed before it is answered. With NORMAL a
//! power cut loses acknowledged tasks (measured: in 18 of 20 cuts). No memory mapping: an I/O error
//! is then an error, not a signal. Checkpoints are the writer's, between two commits; nobody else
//! ever makes one. REQ-S4, REQ-S7.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::version::Migrated;

const LOCK_FILE: &str = "relent.lock";
const DATA_FILE: &str = "relent.db";
/// "relt"
const APPLICATION_ID: i64 = 0x7265_6c74;
/// Each brings a file from the version before to its own: the first makes version 1.
const MIGRATIONS: &[&str] = &[
    include_str!("../../migrations/sqlite/0001_first.sql"),
    include_str!("../../migrations/sqlite/0002_breakers.sql"),
];
/// Measured against 4,096 with bodies of 512 bytes: a tenth smaller on disk and a tenth less work,
/// also where tasks are claimed in another order than they came in.
const PAGE_BYTES: u32 = 8_192;
const READER_CACHE_KIB: u64 = 2_048;
const STATEMENTS_MAX: usize = 64;
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Why a store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has it open.
    #[error("`{}` is in use by another process", directory.display())]
    InUse {
        /// Where it is.
        directory: PathBuf,
    },
    /// A later version of relent has written it.
    #[error("`{}` has version {found}, expected {known} or earlier", file.display())]
    Newer {
        /// Which file.
        file: PathBuf,
        /// The version it has.
        found: i64,
        /// The latest version that is understood.
        known: i64,
    },
    /// It is an earlier version's, or not there, and is not to be touched.
    #[error("`{}` has version {found}, expected {known}", file.display())]
    Behind {
        /// Which file.
        file: PathBuf,
        /// The version it has; 0 if there is nothing.
        found: i64,
        /// The version that is needed.
        known: i64,
    },
    /// It is a database, and not relent's.
    #[error("`{}` is not a database of relent", file.display())]
    NotOurs {
        /// Which file.
        file: PathBuf,
    },
    /// The directory or the lock cannot be used.
    #[error("cannot use `{}`", path.display())]
    Io {
        /// What was being used.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The database cannot be read or brought up to date.
    #[error("cannot open `{}`", file.display())]
    Sqlite {
        /// Which file.
        file: PathBuf,
        /// What SQLite said.
        source: rusqlite::Error,
    },
}

/// The files of a store.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) file: PathBuf,
    pub(super) size_max: Option<u64>,
    pub(super) cache_kib: u64,
}

/// Makes the directory if it is not there, and locks it.
pub(super) fn lock(directory: &Path) -> Result<File, OpenError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| OpenError::Io { path, source }
    };
    if !directory.is_dir() {
        make_private(directory).map_err(failed(directory))?;
    }
    let path = directory.join(LOCK_FILE);
    let file = File::options().create(true).append(true).open(&path).map_err(failed(&path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(OpenError::InUse { directory: directory.to_owned() }),
        Err(TryLockError::Error(source)) => Err(OpenError::Io { path, source }),
    }
}

/// Requests are stored as they were given, with their secrets: they are nobody else's to read.
fn make_private(directory: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)
}

/// The version that is made.
pub(super) fn known() -> i64 {
    i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX)
}

impl Place {
    pub(super) fn new(directory: &Path, size_max: Option<u64>, cache_kib: u64) -> Place {
        Place { file: directory.join(DATA_FILE), size_max, cache_kib }
    }

    /// Opens the file for the writer, makes or brings it up to date, and sees to it that its name
    /// survives a power cut. Without leave to `migrate` it must be up to date already.
    pub(super) fn open(
        &self,
        wal_pages: &Arc<AtomicU64>,
        migrate: bool,
    ) -> Result<(Connection, Migrated), OpenError> {
        let failed = |source| OpenError::Sqlite { file: self.file.clone(), source };
        self.make_private().map_err(|source| OpenError::Io { path: self.file.clone(), source })?;
        let mut connection = self.writer(wal_pages).map_err(failed)?;
        let number = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0));
        let found = number("PRAGMA user_version").map_err(failed)?;
        let owner = number("PRAGMA application_id").map_err(failed)?;
        let tables = number("SELECT count(*) FROM sqlite_schema").map_err(failed)?;
        let is_new = found == 0 && tables == 0;
        if owner != APPLICATION_ID && !is_new {
            return Err(OpenError::NotOurs { file: self.file.clone() });
        }
        let known = known();
        if found > known {
            return Err(OpenError::Newer { file: self.file.clone(), found, known });
        }
        if found < known && !migrate {
            return Err(OpenError::Behind { file: self.file.clone(), found, known });
        }
        let done = usize::try_from(found).unwrap_or_default();
        bring_up_to_date(&mut connection, done, known).map_err(failed)?;
        if is_new {
            self.settle().map_err(|source| OpenError::Io { path: self.file.clone(), source })?;
        }
        Ok((connection, Migrated { from: (!is_new).then_some(found), to: known }))
    }

    /// A connection that may write. There is one.
    pub(super) fn writer(&self, wal_pages: &Arc<AtomicU64>) -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(&self.file, flags)?;
        // Counts only while the file is empty.
        connection.pragma_update(None, "page_size", PAGE_BYTES)?;
        connection.execute_batch(
            "PRAGMA journal_mode=WAL;
             PRAGMA synchronous=FULL;
             PRAGMA wal_autocheckpoint=0;
             PRAGMA journal_size_limit=67108864;",
        )?;
        prepare(&connection, self.cache_kib)?;
        if let Some(size_max) = self.size_max {
            let pages = i64::try_from(size_max / u64::from(PAGE_BYTES)).unwrap_or(i64::MAX).max(1);
            connection.pragma_update(None, "max_page_count", pages)?;
        }
        let wal_pages = Arc::clone(wal_pages);
        let note = move |_: &mut rusqlite::hooks::Wal, pages| {
            wal_pages.store(u64::try_from(pages).unwrap_or_default(), Ordering::Relaxed);
            Ok(())
        };
        connection.wal_hook(Some(note))?;
        Ok(connection)
    }

    /// A connection that cannot write.
    pub(super) fn reader(&self) -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&self.file, flags)?;
        prepare(&connection, READER_CACHE_KIB)?;
        Ok(connection)
    }

    /// SQLite gives the files beside this one the same rights.
    fn make_private(&self) -> io::Result<()> {
        let mut options = File::options();
        options.create(true).append(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        options.open(&self.file).map(drop)
    }

    /// Elsewhere than on Unix a directory cannot be opened, and need not be.
    fn settle(&self) -> io::Result<()> {
        if !cfg!(unix) {
            return Ok(());
        }
        for directory in self.file.ancestors().skip(1).take(2) {
            match directory.as_os_str().is_empty() {
                true => File::open(".")?.sync_all()?,
                false => File::open(directory)?.sync_all()?,
            }
        }
        Ok(())
    }
}

fn prepare(connection: &Connection, cache_kib: u64) -> rusqlite::Result<()> {
    connection.busy_timeout(BUSY_TIMEOUT)?;
    // A plan is made once: otherwise SQLite plans anew for each value that is bound, where it
    // believes that the value could matter, and a claim takes five times as long.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    let cache = i64::try_from(cache_kib).unwrap_or(i64::MAX);
    connection.pragma_update(None, "cache_size", -cache)?;
    connection.execute_batch(
        "PRAGMA mmap_size=0;
         PRAGMA foreign_keys=OFF;
         PRAGMA temp_store=MEMORY;
         PRAGMA trusted_schema=OFF;",
    )
}

/// All that is missing, or nothing.
fn bring_up_to_date(connection: &mut Connection, done: usize, known: i64) -> rusqlite::Result<()> {
    let missing = MIGRATIONS.get(done..).unwrap_or_default();
    if missing.is_empty() {
        return Ok(());
    }
    let transaction = connection.transaction()?;
    for migration in missing {
        transaction.execute_batch(migration)?;
    }
    transaction.pragma_update(None, "user_version", known)?;
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.commit()
}
