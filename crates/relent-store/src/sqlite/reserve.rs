//! Room that new tasks may not use up.
//!
//! A disk that is full is full for everybody: results, claims and cancellations could not be written
//! either, and each attempt to store one task more would undo everything that was to be written with
//! it. So new tasks are refused while there is still room for what is promised already to come to its
//! end. The same holds for a file that has a largest size; of that an eighth at most is kept.
//! Whoever else writes to the disk may use the rest up all the same. REQ-S4.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::Connection;

use crate::error::Error;

/// Others write to the disk too, and make room.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Less is no room at all.
const SPARE_MIN: u64 = 8 << 10;

/// See the module's head.
pub(super) struct Reserve {
    directory: PathBuf,
    free_min: u64,
    size_max: Option<u64>,
    looked_at: Option<Instant>,
    /// What was found then beside the reserve, less what has come since.
    spare: u64,
    is_short: bool,
}

impl Reserve {
    pub(super) fn new(directory: &Path, free_min: u64, size_max: Option<u64>) -> Reserve {
        let directory = directory.to_owned();
        Reserve { directory, free_min, size_max, looked_at: None, spare: 0, is_short: false }
    }

    /// Takes room for new tasks of so many bytes, if there is.
    pub(super) fn take(&mut self, bytes: usize, connection: &Connection) -> Result<(), Error> {
        if self.free_min == 0 {
            return Ok(());
        }
        let bytes = (bytes as u64).max(SPARE_MIN);
        let is_fresh = self.looked_at.is_some_and(|at| at.elapsed() < LOOK_EVERY);
        if !is_fresh || self.spare < bytes {
            self.look(bytes, connection)?;
        }
        self.spare -= bytes;
        Ok(())
    }

    fn look(&mut self, bytes: u64, connection: &Connection) -> Result<(), Error> {
        let (spare, shortage) = self.spare_bytes(connection).unwrap_or_else(|error| {
            tracing::warn!(error, "cannot see how much room there is; writing will tell");
            (bytes, String::new())
        });
        let is_short = spare < SPARE_MIN;
        match (self.is_short, is_short) {
            (false, true) => tracing::error!(shortage, "no room for new tasks; stored ones go on"),
            (true, false) => tracing::info!("there is room for new tasks again"),
            _ => {}
        }
        (self.looked_at, self.spare, self.is_short) = (Some(Instant::now()), spare, is_short);
        if spare < bytes { Err(Error::Full(shortage)) } else { Ok(()) }
    }

    /// How much there is beside the reserve, and what to say if that is not enough.
    fn spare_bytes(&self, connection: &Connection) -> Result<(u64, String), String> {
        let least = self.free_min;
        let free = free_bytes(&self.directory).map_err(|error| error.to_string())?;
        let on_disk = (
            free.saturating_sub(least),
            format!("{free} bytes are free on the disk, and {least} are kept for stored tasks"),
        );
        let Some(size_max) = self.size_max else { return Ok(on_disk) };
        let least = least.min(size_max / 8);
        let free = room_in_file(connection, size_max).map_err(|error| error.to_string())?;
        let in_file = (
            free.saturating_sub(least),
            format!(
                "{free} bytes of {size_max} are free in the file, and {least} are kept for stored tasks"
            ),
        );
        Ok(on_disk.min(in_file))
    }
}

/// What is left for users who are not the system's.
pub(super) fn free_bytes(directory: &Path) -> io::Result<u64> {
    let found = rustix::fs::statvfs(directory)?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

/// Pages of the file that are free, and pages by which it may still grow.
fn room_in_file(connection: &Connection, size_max: u64) -> rusqlite::Result<u64> {
    let number = |pragma| connection.query_row(pragma, [], |row| row.get::<_, i64>(0));
    let page = number("PRAGMA page_size")?.unsigned_abs().max(1);
    let used = number("PRAGMA page_count")? - number("PRAGMA freelist_count")?;
    Ok((size_max / page).saturating_sub(used.unsigned_abs()) * page)
}
