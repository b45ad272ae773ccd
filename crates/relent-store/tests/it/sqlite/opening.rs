//! The directory, the lock and the file. REQ-S7.

use std::fs;
use std::time::Duration;

use relent_policy::Timestamp;
use relent_store::{
    Migrated, OpenError, Severity, SqliteOptions, SqliteStore, Store, Survives, Upkeep,
};
use rusqlite::Connection;

use super::Place;

#[tokio::test]
async fn a_store_is_open_once() {
    let mut place = Place::new().await;
    let second = SqliteStore::open(place.path(), SqliteOptions::default()).unwrap_err();
    assert!(matches!(&second, OpenError::InUse { directory } if directory == place.path()));
    assert!(second.to_string().contains(&place.path().display().to_string()));
    place.store = None;
    SqliteStore::open(place.path(), SqliteOptions::default()).unwrap();
}

#[tokio::test]
async fn a_closed_store_can_be_opened_before_it_is_dropped() {
    let place = Place::new().await;
    place.store().close(Duration::from_secs(10)).await.unwrap();
    SqliteStore::open(place.path(), SqliteOptions::default()).unwrap();
}

#[tokio::test]
async fn a_closed_store_is_one_file() {
    let place = Place::new().await;
    place.add(place.task()).await;
    place.store().close(Duration::from_secs(10)).await.unwrap();
    let mut names: Vec<_> =
        fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["relent.db", "relent.lock"]);
}

#[test]
fn a_file_of_a_later_version_is_refused_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    drop(SqliteStore::open(directory.path(), SqliteOptions::default()).unwrap());
    let file = directory.path().join("relent.db");
    Connection::open(&file).unwrap().pragma_update(None, "user_version", 99).unwrap();
    for _ in 0..2 {
        let refused = SqliteStore::open(directory.path(), SqliteOptions::default()).unwrap_err();
        assert!(matches!(refused, OpenError::Newer { found: 99, known: 2, .. }), "{refused}");
    }
}

#[test]
fn tables_are_left_alone_without_leave() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    let options = SqliteOptions { migrate: false, ..SqliteOptions::default() };
    let refused = SqliteStore::open(place, options.clone()).unwrap_err();
    assert!(matches!(refused, OpenError::Behind { found: 0, .. }), "{refused}");
    let made = SqliteStore::migrate(place, &options).unwrap();
    assert_eq!((made.from, made.to >= 1), (None, true));
    let again = SqliteStore::migrate(place, &options).unwrap();
    assert_eq!(again, Migrated { from: Some(made.to), to: made.to });
    let store = SqliteStore::open(place, options.clone()).unwrap();
    assert!(matches!(SqliteStore::migrate(place, &options), Err(OpenError::InUse { .. })));
    drop(store);
}

#[test]
fn what_is_found_before_it_is_opened() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("not/there/yet");
    let options = SqliteOptions::default();
    let examine = || {
        let assurance = SqliteStore::examine(&place, &options).unwrap();
        let found = |name| assurance.findings.iter().find(|finding| finding.name == name);
        let version = found("schema version").map(|finding| finding.severity);
        assert!(found("free space").is_some());
        (found("file").is_some(), version, assurance.survives.our_crash)
    };
    assert_eq!(examine(), (true, None, Survives::Yes));
    assert!(!place.exists(), "looking made something");
    let store = SqliteStore::open(&place, SqliteOptions::default()).unwrap();
    assert_eq!(examine(), (false, Some(Severity::Good), Survives::Yes));
    drop(store);
    let version = |number: i64| {
        let connection = Connection::open(place.join("relent.db")).unwrap();
        connection.pragma_update(None, "user_version", number).unwrap();
    };
    version(1);
    assert_eq!(examine(), (false, Some(Severity::Caution), Survives::Yes));
    version(99);
    assert_eq!(examine(), (false, Some(Severity::Danger), Survives::Yes));
}

#[test]
fn a_database_of_somebody_else_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("relent.db");
    Connection::open(&file).unwrap().execute_batch("CREATE TABLE theirs (a)").unwrap();
    let refused = SqliteStore::open(directory.path(), SqliteOptions::default()).unwrap_err();
    assert!(matches!(refused, OpenError::NotOurs { .. }), "{refused}");
}

#[test]
fn what_is_no_database_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("relent.db"), "not a database, and long enough to see it")
        .unwrap();
    let refused = SqliteStore::open(directory.path(), SqliteOptions::default()).unwrap_err();
    assert!(matches!(refused, OpenError::Sqlite { .. }), "{refused}");
}

#[cfg(unix)]
#[test]
fn a_new_directory_and_its_file_are_their_owners() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let own = directory.path().join("a/b");
    drop(SqliteStore::open(&own, SqliteOptions::default()).unwrap());
    let mode = |path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(own.clone()), 0o700);
    assert_eq!(mode(own.join("relent.db")), 0o600);
}

#[test]
fn a_store_that_has_seen_tomorrow_does_not_go_back() {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(directory.path(), SqliteOptions::default()).unwrap();
    let tomorrow = store.now() + Duration::from_secs(86_400);
    drop(store);
    let file = Connection::open(directory.path().join("relent.db")).unwrap();
    let nanos = i64::try_from(tomorrow.as_nanos()).unwrap();
    file.execute("INSERT OR REPLACE INTO meta VALUES ('latest_at', ?1)", [nanos]).unwrap();
    drop(file);
    let store = SqliteStore::open(directory.path(), SqliteOptions::default()).unwrap();
    assert!(store.now() >= tomorrow);
    assert!(store.now() < tomorrow + Duration::from_secs(3_600));
    assert!(tomorrow > Timestamp::ZERO);
}

#[test]
fn options_and_store_can_be_printed() {
    let directory = tempfile::tempdir().unwrap();
    let options = SqliteOptions::default();
    assert!(format!("{options:?}").contains("keys_in_memory_max: 800000"));
    let store = SqliteStore::open(directory.path(), options).unwrap();
    assert_eq!(format!("{store:?}"), "SqliteStore { .. }");
}
