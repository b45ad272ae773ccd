//! Killed at any moment, the store has everything that it said it has. REQ-S4.
//!
//! The child is this test binary, running one test of it: it stores, claims and records, and says
//! after each answer what was answered. The parent kills it after some of these lines, opens the
//! store and looks.

use std::collections::{HashMap, HashSet};
use std::env;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use relent_policy::{IdempotencyKey, Repeatable, Turn};
use relent_store::{
    Enqueued, FirstAttempt, LaneId, Lanes, NewTask, Policies, PolicyKey, SqliteOptions,
    SqliteStore, State, Store, TaskId, Tasks, TenantId, Upkeep, Want,
};

use crate::world::{policy, request, success};

const CHILD: &str = "RELENT_TEST_CRASH";
const ROUNDS: usize = 5;
const BATCH: usize = 5;

#[test]
fn whatever_was_acknowledged_survives_a_kill() {
    let directory = tempfile::tempdir().unwrap();
    let (mut stored, mut ended) = (HashMap::new(), HashSet::new());
    for round in 0..ROUNDS {
        let lines_max = fastrand::usize(1..3_000);
        run_and_kill(directory.path(), round, lines_max, &mut stored, &mut ended);
        look(directory.path(), &stored, &ended);
    }
    assert!(!stored.is_empty());
}

fn run_and_kill(
    directory: &Path,
    round: usize,
    lines_max: usize,
    stored: &mut HashMap<TaskId, String>,
    ended: &mut HashSet<TaskId>,
) {
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", "sqlite::crashing::what_the_child_does", "--nocapture"])
        .env(CHILD, format!("{round}:{}", directory.display()))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut seen = 0;
    for line in lines {
        let line = line.unwrap();
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["stored", id, key] => {
                stored.insert(id.parse().unwrap(), key.to_owned());
            }
            ["ended", id] => {
                ended.insert(id.parse().unwrap());
            }
            // A last line that is cut off, and those of the test harness.
            _ => continue,
        }
        seen += 1;
        if seen == lines_max {
            // What the child has written until it dies is read on.
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    assert!(seen >= lines_max, "the child ended by itself after {seen} lines");
}

fn look(directory: &Path, stored: &HashMap<TaskId, String>, ended: &HashSet<TaskId>) {
    let store = SqliteStore::open(directory, SqliteOptions::default()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let tenant = TenantId::default_tenant();
    runtime.block_on(async {
        for (id, key) in stored {
            let task = store.task(&tenant, *id).await.unwrap();
            let task = task.unwrap_or_else(|| panic!("{id} was acknowledged and is lost"));
            assert_eq!(task.key.as_ref().map(IdempotencyKey::as_str), Some(key.as_str()));
            assert_eq!(task.request, request());
            let by_key = store.task_by_key(&tenant, task.key.as_ref().unwrap()).await.unwrap();
            assert_eq!(by_key, Some(*id));
            let attempts = store.attempts(&tenant, *id).await.unwrap().unwrap();
            let recorded = u32::try_from(attempts.len()).unwrap();
            match task.state {
                State::Succeeded => assert_eq!((task.attempts, recorded), (1, 1)),
                State::InFlight => assert_eq!((task.attempts, recorded), (1, 0)),
                State::Pending => assert_eq!((task.attempts, recorded), (0, 0)),
                other => panic!("nobody made it {other:?}"),
            }
            assert!(!ended.contains(id) || task.state == State::Succeeded, "{task:?}");
        }
        for swept in store.sweep(10_000).await.unwrap() {
            assert!(!ended.contains(&swept.lease.task));
        }
        store.close(Duration::from_secs(10)).await.unwrap();
    });
    drop(store);
    let file = rusqlite::Connection::open(directory.join("relent.db")).unwrap();
    let verdict: String = file.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(verdict, "ok");
}

/// Does nothing unless it is the child.
#[test]
fn what_the_child_does() {
    let Ok(place) = env::var(CHILD) else { return };
    let (round, directory) = place.split_once(':').unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(work(round, PathBuf::from(directory)));
}

async fn work(round: &str, directory: PathBuf) {
    let store = SqliteStore::open(&directory, SqliteOptions::default()).unwrap();
    let tenant = TenantId::default_tenant();
    let policy = store.put_policy(&tenant, policy("p", "{}")).await.unwrap().key;
    let lane = store.open_lane(&tenant, "api.example.com", policy).await.unwrap().id;
    for turn in 0..100_000_usize {
        let tasks: Vec<NewTask> =
            (0..BATCH).map(|n| task(lane, policy, &format!("{round}-{turn}-{n}"))).collect();
        let keys: Vec<_> = tasks.iter().filter_map(|task| task.key.clone()).collect();
        let answers = store.enqueue(&tenant, tasks).await.unwrap();
        let mut said = Vec::new();
        for (answer, key) in answers.iter().zip(keys) {
            let Enqueued::Created(id) = answer else { panic!("{answer:?}") };
            writeln!(said, "stored {id} {key}").unwrap();
        }
        let claims = store.claim(vec![Want::due(lane, Turn::First, 3)]).await.unwrap();
        let records: Vec<_> =
            claims.claimed.iter().map(|claimed| success(claimed, store.now())).collect();
        let done: Vec<_> = records.iter().map(|record| record.lease.task).collect();
        std::io::stdout().write_all(&said).unwrap();
        store.record(records).await.unwrap();
        let said: String = done.iter().map(|id| format!("ended {id}\n")).collect();
        std::io::stdout().write_all(said.as_bytes()).unwrap();
    }
}

fn task(lane: LaneId, policy: PolicyKey, key: &str) -> NewTask {
    NewTask {
        lane,
        policy,
        key: Some(IdempotencyKey::try_new(key).unwrap()),
        fingerprint: [7; 16],
        first: FirstAttempt::Now,
        lifetime: Duration::from_secs(86_400),
        repeatable: Repeatable::ByKey,
        request: request(),
    }
}
