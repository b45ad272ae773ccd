//! What the embedded store can guarantee where it is: file system, space, file. REQ-S4, REQ-S7.

use std::io;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

use super::SqliteOptions;
use super::reserve::free_bytes;
use super::schema::{self, OpenError, Place};
use crate::assurance::{Assurance, Finding, Survival, Survives};

/// Less is soon used up by a backlog.
const SPACE_ENOUGH: u64 = 1 << 30;
/// More would not say more.
const PROBLEMS_MAX: u32 = 5;

/// Looks at a directory, and at what is in it.
pub(super) fn examine(directory: &Path, options: &SqliteOptions) -> Result<Assurance, OpenError> {
    let place = Place::new(directory, options.size_bytes_max, options.cache_bytes / 1_024);
    let mut findings = file(&place)?;
    findings.push(Finding::good(
        "synchronous",
        "FULL",
        "each commit is on the disk before it is answered; relent opens the file so itself",
    ));
    let nearest = nearest(directory);
    let failed = |source: io::Error| OpenError::Io { path: nearest.clone(), source };
    let kind = kind_of_file_system(&nearest).map_err(failed)?;
    findings.extend(file_system(kind));
    findings.push(space(&nearest, options.free_bytes_min).map_err(failed)?);
    let power_loss = match kind {
        Kind::Memory(_) => Survives::No("it is a disk in memory".to_owned()),
        _ => Survives::Yes,
    };
    let failover = Survives::No("there is one copy, on this machine; back it up".to_owned());
    let survives =
        Survival { our_crash: Survives::Yes, store_crash: Survives::Yes, power_loss, failover };
    Ok(Assurance { store: "sqlite", findings, survives })
}

/// What is known of the file, if it is there.
fn file(place: &Place) -> Result<Vec<Finding>, OpenError> {
    if !place.file.exists() {
        let meaning = "it is made when the store is first opened";
        return Ok(vec![Finding::good("file", "not there yet", meaning)]);
    }
    let failed = |source| OpenError::Sqlite { file: place.file.clone(), source };
    let reader = place.reader().map_err(failed)?;
    let version = reader.query_row("PRAGMA user_version", [], |row| row.get::<_, i64>(0));
    let version = version.map_err(failed)?;
    let journal = reader.query_row("PRAGMA journal_mode", [], |row| row.get::<_, String>(0));
    let known = schema::known();
    let version = match version.cmp(&known) {
        std::cmp::Ordering::Equal => {
            Finding::good("schema version", version.to_string(), "as this version needs it")
        }
        std::cmp::Ordering::Less => Finding::caution(
            "schema version",
            format!("{version}, needed: {known}"),
            "an earlier version of relent has written it",
            "run `relent migrate`, or let `relent serve` do it",
        ),
        std::cmp::Ordering::Greater => Finding::danger(
            "schema version",
            format!("{version}, known: {known}"),
            "a later version of relent has written it, and this one cannot use it",
            "run that version",
        ),
    };
    let meaning = "commits are appended; readers do not keep the writer waiting";
    Ok(vec![version, Finding::good("journal_mode", journal.map_err(failed)?, meaning)])
}

/// Reads the whole file, and says whether its pages hang together.
pub(super) fn verify(place: &Place) -> rusqlite::Result<Finding> {
    const NAME: &str = "quick_check";
    if !place.file.exists() {
        return Ok(Finding::good(NAME, "nothing", "there is no file yet"));
    }
    let problems = || -> rusqlite::Result<Vec<String>> {
        let reader = place.reader()?;
        let mut check = reader.prepare(&format!("PRAGMA quick_check({PROBLEMS_MAX})"))?;
        check.query_map([], |row| row.get(0))?.collect()
    };
    let problems = match problems() {
        Ok(problems) if problems == ["ok"] => {
            return Ok(Finding::good(NAME, "ok", "every page was read, and they hang together"));
        }
        Ok(problems) => problems.join("; "),
        Err(error) if is_damage(&error) => error.to_string(),
        Err(error) => return Err(error),
    };
    Ok(Finding::danger(
        NAME,
        problems,
        "the file is damaged: tasks may be lost, or delivered again",
        "stop relent, and go on with a backup of the directory or with another disk",
    ))
}

fn is_damage(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    matches!(code, Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}

/// The directory itself, or what it will be made in.
fn nearest(directory: &Path) -> PathBuf {
    let found = directory.ancestors().find(|path| path.is_dir());
    found.map_or_else(|| PathBuf::from("."), Path::to_owned)
}

fn space(directory: &Path, least: u64) -> io::Result<Finding> {
    let free = free_bytes(directory)?;
    let text = format!("{:.1} GiB", gib(free));
    let meaning =
        format!("below {:.2} GiB nothing new is taken, and what is stored goes on", gib(least));
    let way_out = "make room, or keep less: [retention]";
    Ok(if free >= SPACE_ENOUGH.max(least) {
        Finding::good("free space", text, meaning)
    } else {
        Finding::caution("free space", text, meaning, way_out)
    })
}

#[expect(clippy::cast_precision_loss, reason = "for people, to one digit")]
fn gib(bytes: u64) -> f64 {
    bytes as f64 / (1_u64 << 30) as f64
}

/// What matters about a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Disk(&'static str),
    /// Somebody else's disk: locks and flushes are what the network makes of them.
    Network(&'static str),
    /// Anything at all behind it.
    Unclear(&'static str),
    Layered(&'static str),
    Memory(&'static str),
    Unknown,
}

fn file_system(kind: Kind) -> Option<Finding> {
    const NAME: &str = "file system";
    Some(match kind {
        Kind::Disk(name) => Finding::good(NAME, name, "on this machine"),
        Kind::Network(name) => Finding::danger(
            NAME,
            name,
            "a network file system: locks and flushes cannot be relied upon, and two servers may \
             destroy each other's data",
            "use a local disk, or `--store postgres://…`",
        ),
        Kind::Unclear(name) => Finding::caution(
            NAME,
            name,
            "whatever is behind it decides whether a flush is one",
            "make sure that it is a local disk and not a network's",
        ),
        Kind::Layered(name) => Finding::caution(
            NAME,
            name,
            "usually a container's own layer, which is deleted with the container",
            "mount a volume, and put the data there",
        ),
        Kind::Memory(name) => Finding::caution(
            NAME,
            name,
            "a disk in memory: everything is gone when the machine stops",
            "use a disk, unless this is a trial",
        ),
        Kind::Unknown => return None,
    })
}

#[cfg(target_os = "linux")]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the numbers have 32 bits, whatever type they come in"
)]
fn kind_of_file_system(directory: &Path) -> io::Result<Kind> {
    Ok(known_kind(rustix::fs::statfs(directory)?.f_type as u32))
}

#[cfg(not(target_os = "linux"))]
fn kind_of_file_system(_: &Path) -> io::Result<Kind> {
    Ok(Kind::Unknown)
}

/// The numbers of statfs(2).
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "the numbers are Linux's"))]
fn known_kind(number: u32) -> Kind {
    match number {
        0xef53 => Kind::Disk("ext4"),
        0x5846_5342 => Kind::Disk("xfs"),
        0x9123_683e => Kind::Disk("btrfs"),
        0x2fc1_2fc1 => Kind::Disk("zfs"),
        0xf2f5_2010 => Kind::Disk("f2fs"),
        0xca45_1a4e => Kind::Disk("bcachefs"),
        0x6969 => Kind::Network("nfs"),
        0x517b | 0xff53_4d42 | 0xfe53_4d42 => Kind::Network("smb"),
        0x0102_1997 => Kind::Network("9p"),
        0x00c3_6400 => Kind::Network("ceph"),
        0x0bd0_0bd0 => Kind::Network("lustre"),
        0x5346_414f | 0x6b41_4653 => Kind::Network("afs"),
        0x7375_7245 => Kind::Network("coda"),
        0x4750_4653 => Kind::Network("gpfs"),
        0x1983_0326 => Kind::Network("beegfs"),
        0x6573_5546 => Kind::Unclear("fuse"),
        0x794c_7630 => Kind::Layered("overlayfs"),
        0x0102_1994 => Kind::Memory("tmpfs"),
        0x8584_58f6 => Kind::Memory("ramfs"),
        _ => Kind::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assurance::Severity;

    #[test]
    fn a_network_file_system_is_a_danger() {
        let severity = |number| file_system(known_kind(number)).unwrap().severity;
        for number in [0x6969, 0xff53_4d42, 0x0102_1997, 0x00c3_6400] {
            assert_eq!(severity(number), Severity::Danger);
        }
        assert_eq!(severity(0xef53), Severity::Good);
        assert_eq!(severity(0x0102_1994), Severity::Caution);
        assert_eq!(file_system(known_kind(1)), None);
    }
}
