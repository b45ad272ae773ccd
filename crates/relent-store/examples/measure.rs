//! How fast the embedded store is, how large and how soon it is there again:
//!
//!     cargo run --release -p relent-store --example measure [DIRECTORY] [WAITING]
//!
//! One caller hands over one batch after the other, so each batch is one durable commit. `WAITING`
//! says how many tasks wait in the second part, a million by default.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant, SystemTime};
use std::{env, fs};

use bytes::Bytes;
use relent_policy::{IdempotencyKey, Repeatable, Timestamp, Turn};
use relent_store::{
    AttemptRecord, Claimed, Ended, FirstAttempt, LaneId, Lanes, NewPolicy, NewTask, Phases,
    Policies, PolicyKey, Record, SqliteOptions, SqliteStore, StoredRequest, Tasks, TenantId, Then,
    Upkeep, Want,
};
use tokio::runtime::{Builder, Runtime};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

const BATCHES: [u32; 4] = [1, 10, 100, 1_000];
const MEASURE_FOR: Duration = Duration::from_secs(2);

struct Bench {
    runtime: Runtime,
    store: SqliteStore,
    tenant: TenantId,
    policy: PolicyKey,
    lane: LaneId,
    made: u64,
}

impl Bench {
    fn open(directory: &Path, made: u64) -> Outcome<Bench> {
        Bench::with(directory, made, SqliteOptions::default())
    }

    fn with(directory: &Path, made: u64, options: SqliteOptions) -> Outcome<Bench> {
        let runtime = Builder::new_current_thread().build()?;
        let store = SqliteStore::open(directory, options)?;
        let tenant = TenantId::default_tenant();
        let lease = Duration::from_secs(3_600);
        let policy = NewPolicy { policy_id: "p".into(), document: "{}".into(), lease };
        let policy = runtime.block_on(store.put_policy(&tenant, policy))?.key;
        let lane = runtime.block_on(store.open_lane(&tenant, "api.example.com", policy))?.id;
        Ok(Bench { runtime, store, tenant, policy, lane, made })
    }

    /// A task of the usual size: a body of 512 bytes, five headers, a key.
    fn task(&mut self) -> Outcome<NewTask> {
        self.made += 1;
        let key = format!("6f1c2b1e-0000-4000-8000-{:012x}", self.made);
        let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        Ok(NewTask {
            lane: self.lane,
            policy: self.policy,
            key: Some(IdempotencyKey::try_new(&key)?),
            fingerprint: [7; 16],
            first: FirstAttempt::Now,
            lifetime: Duration::from_secs(86_400),
            repeatable: Repeatable::ByKey,
            request: StoredRequest {
                method: "POST".into(),
                url: "https://api.example.com/v1/orders/notifications".into(),
                headers: vec![
                    header("content-type", "application/json"),
                    header("authorization", "Bearer 0123456789abcdef0123456789abcdef"),
                    header("x-request-id", "0123456789abcdef"),
                    header("user-agent", "orders/1.2.3"),
                    header("x-source", "orders"),
                ],
                body: Bytes::from(vec![b'x'; 512]),
                correlation_id: Some(format!("order-{}", self.made)),
            },
        })
    }

    fn tasks(&mut self, count: u32) -> Outcome<Vec<NewTask>> {
        (0..count).map(|_| self.task()).collect()
    }

    fn enqueue(&self, tasks: Vec<NewTask>) -> Outcome<()> {
        self.runtime.block_on(self.store.enqueue(&self.tenant, tasks))?;
        Ok(())
    }

    fn claim(&self, max: u32) -> Outcome<Vec<Claimed>> {
        let want = Want::due(self.lane, Turn::First, max);
        Ok(self.runtime.block_on(self.store.claim(vec![want]))?.claimed)
    }

    fn complete(&self, records: Vec<Record>) -> Outcome<()> {
        self.runtime.block_on(self.store.record(records))?;
        Ok(())
    }
}

/// What a step took, of the clock and of the processors.
#[derive(Clone, Copy, Default)]
struct Spent {
    time: Duration,
    processor: Duration,
}

impl Spent {
    fn add<T>(&mut self, step: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
        // Reading the threads' times takes as long as a small commit: it stays outside.
        let processor = processor_time()?;
        let start = Instant::now();
        let done = step()?;
        self.time += start.elapsed();
        self.processor += processor_time()?.saturating_sub(processor);
        Ok(done)
    }
}

/// Of all threads of this process.
fn processor_time() -> Outcome<Duration> {
    let mut nanos = 0;
    for thread in fs::read_dir("/proc/self/task")? {
        let times = fs::read_to_string(thread?.path().join("schedstat"))?;
        let on_processor = times.split_whitespace().next().ok_or("no schedstat")?;
        nanos += on_processor.parse::<u64>()?;
    }
    Ok(Duration::from_nanos(nanos))
}

/// What enqueueing, claiming and completing took, and how many there were.
fn lives(bench: &mut Bench, batch: u32) -> Outcome<([Spent; 3], u32)> {
    let (mut spent, mut count) = ([Spent::default(); 3], 0_u32);
    while spent.iter().map(|spent| spent.time).sum::<Duration>() < MEASURE_FOR {
        let tasks = bench.tasks(batch)?;
        spent[0].add(|| bench.enqueue(tasks))?;
        let claimed = spent[1].add(|| bench.claim(batch))?;
        let records = claimed.iter().map(success).collect();
        spent[2].add(|| bench.complete(records))?;
        count += batch;
    }
    Ok((spent, count))
}

fn success(claimed: &Claimed) -> Record {
    let attempt = AttemptRecord {
        generation: claimed.generation,
        number: claimed.history.attempts(),
        started_at: claimed.due_at,
        took: Duration::from_micros(12_345),
        status: Some(200),
        failure: None,
        ended: Ended::Done,
        roll: 0x0123_4567_89ab_cdef,
        phases: Phases { first_byte: Some(Duration::from_micros(9_876)), ..Phases::default() },
        preview: None,
    };
    Record { lease: claimed.lease, attempt: Some(attempt), then: Then::Succeed }
}

fn print_speeds(bench: &mut Bench) -> Outcome<()> {
    println!(
        "batch         enqueue/s      claim/s     record/s        all/s   (processor time each)"
    );
    for batch in BATCHES {
        let (spent, count) = lives(bench, batch)?;
        let all = Spent {
            time: spent.iter().map(|spent| spent.time).sum(),
            processor: spent.iter().map(|spent| spent.processor).sum(),
        };
        let [enqueue, claim, record] = spent;
        let columns = [enqueue, claim, record, all];
        let speeds = columns.map(|spent| f64::from(count) / spent.time.as_secs_f64());
        let each = columns.map(|spent| spent.processor.as_secs_f64() * 1e6 / f64::from(count));
        print!("{batch:>10}");
        speeds.iter().for_each(|speed| print!(" {speed:>12.0}"));
        println!("   ({:.1} + {:.1} + {:.1} = {:.1} µs)", each[0], each[1], each[2], each[3]);
    }
    Ok(())
}

/// In the first process: fills the store, and says how large it is.
fn fill(directory: &Path, waiting: u32) -> Outcome<()> {
    let mut bench = Bench::open(directory, 1 << 40)?;
    let mut spent = Spent::default();
    for _ in 0..waiting / 1_000 {
        let tasks = bench.tasks(1_000)?;
        spent.add(|| bench.enqueue(tasks))?;
    }
    let speed = f64::from(waiting) / spent.time.as_secs_f64();
    let each = spent.processor.as_secs_f64() * 1e6 / f64::from(waiting);
    println!("loaded        {speed:.0} tasks/s ({each:.1} µs of processor time each)");
    println!("memory        {} MB anonymous, with {waiting} waiting", anonymous_mb()?);
    bench.runtime.block_on(bench.store.close(Duration::from_secs(60)))?;
    let bytes: u64 = fs::metadata(directory.join("relent.db"))?.len();
    println!("file          {} bytes a task", bytes / u64::from(waiting));
    Ok(())
}

/// In another process: opens it, claims, and goes on with the backlog.
fn restart(directory: &Path) -> Outcome<()> {
    let start = Instant::now();
    let runtime = Builder::new_current_thread().build()?;
    let store = SqliteStore::open(directory, SqliteOptions::default())?;
    let opened = start.elapsed();
    let lines = runtime.block_on(store.lines())?;
    let lane = lines.first().ok_or("nothing waits")?.lane;
    let want = Want::due(lane, Turn::First, 1);
    let claimed = runtime.block_on(store.claim(vec![want]))?.claimed.len();
    println!(
        "first claim   {:?} after the start ({opened:?} to open), {claimed} task",
        start.elapsed()
    );
    runtime.block_on(store.counts())?;
    println!("keys          {:?} after the start", start.elapsed());
    println!("memory        {} MB anonymous after the start", anonymous_mb()?);
    runtime.block_on(store.close(Duration::from_secs(60)))?;
    drop(store);
    let mut bench = Bench::open(directory, 1 << 41)?;
    println!("with this backlog:");
    print_speeds(&mut bench)?;
    println!("memory        {} MB anonymous at the end", anonymous_mb()?);
    Ok(())
}

/// Tasks that become due in another order than the one in which they came, as retries do.
fn scattered(directory: &Path, waiting: u32) -> Outcome<()> {
    let ahead = Arc::new(AtomicU64::new(0));
    let (start, clock) = (Instant::now(), Arc::clone(&ahead));
    let began_at = Timestamp::ZERO + SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    let now = move || began_at + start.elapsed() + Duration::from_secs(clock.load(SeqCst));
    let options = SqliteOptions { clock: Some(Arc::new(now)), ..SqliteOptions::default() };
    let mut bench = Bench::with(directory, 1 << 42, options)?;
    for _ in 0..waiting / 1_000 {
        let mut tasks = bench.tasks(1_000)?;
        for task in &mut tasks {
            task.first = FirstAttempt::After(Duration::from_millis(fastrand::u64(0..900_000)));
        }
        bench.enqueue(tasks)?;
    }
    ahead.store(1_000, SeqCst);
    println!("in scattered order, {waiting} waiting:");
    println!("batch           claim/s     record/s   (processor time each)");
    for batch in [10, 100] {
        let (mut claim, mut record, mut count) = (Spent::default(), Spent::default(), 0_u32);
        while claim.time + record.time < MEASURE_FOR {
            let claimed = claim.add(|| bench.claim(batch))?;
            let records: Vec<Record> = claimed.iter().map(success).collect();
            record.add(|| bench.complete(records))?;
            count += batch;
        }
        let speeds = [claim, record].map(|spent| f64::from(count) / spent.time.as_secs_f64());
        let each =
            [claim, record].map(|spent| spent.processor.as_secs_f64() * 1e6 / f64::from(count));
        print!("{batch:>10} {:>12.0} {:>12.0}", speeds[0], speeds[1]);
        println!("   ({:.1} + {:.1} µs)", each[0], each[1]);
    }
    Ok(())
}

/// Many callers with one task each at a time: they share commits.
fn callers(directory: &Path) -> Outcome<()> {
    println!("callers       enqueue/s   waited for an answer");
    for callers in [1_u32, 16, 64, 256] {
        let mut bench = Bench::open(directory, u64::from(callers) << 43)?;
        let tasks = bench.tasks(callers)?;
        let runtime = Builder::new_multi_thread().worker_threads(2).build()?;
        let store = Arc::new(bench.store);
        let until = Instant::now() + MEASURE_FOR;
        let waits = tasks.into_iter().map(|task| {
            let (store, tenant) = (Arc::clone(&store), bench.tenant.clone());
            runtime.spawn(async move {
                let mut waits = Vec::new();
                while Instant::now() < until {
                    let key = format!("{:032x}", fastrand::u128(..));
                    let key = IdempotencyKey::try_new(&key).ok();
                    let start = Instant::now();
                    store.enqueue(&tenant, vec![NewTask { key, ..task.clone() }]).await?;
                    waits.push(start.elapsed());
                }
                Ok::<_, relent_store::Error>(waits)
            })
        });
        let waits: Vec<_> = waits.collect();
        let mut all = Vec::new();
        for waits in waits {
            all.extend(bench.runtime.block_on(waits)??);
        }
        all.sort_unstable();
        let speed = all.len() as f64 / MEASURE_FOR.as_secs_f64();
        let at = |percent: usize| all[all.len() * percent / 100];
        println!("{callers:>10} {speed:>12.0}   p50 {:?}, p99 {:?}", at(50), at(99));
    }
    Ok(())
}

fn anonymous_mb() -> Outcome<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line.and_then(|line| line.split_whitespace().next()).ok_or("no RssAnon")?;
    Ok(kib.parse::<u64>()? / 1_024)
}

/// Runs one part in a process of its own, so that its memory is its own.
fn run_part(part: &str, directory: &Path, waiting: u32) -> Outcome<()> {
    let mut command = Command::new(env::current_exe()?);
    let status = command.arg(directory).arg(waiting.to_string()).arg(part).status()?;
    status.success().then_some(()).ok_or_else(|| format!("`{part}` failed").into())
}

fn main() -> Outcome<()> {
    let mut arguments = env::args().skip(1);
    let directory = arguments.next().map_or_else(|| env::temp_dir().join("relent"), PathBuf::from);
    let waiting: u32 = arguments.next().map_or(Ok(1_000_000), |number| number.parse())?;
    let [small, large, scatter] =
        ["small", "large", "scattered"].map(|name| directory.join(format!("measure-{name}")));
    match arguments.next().as_deref() {
        Some("speeds") => print_speeds(&mut Bench::open(&small, 0)?),
        Some("fill") => fill(&large, waiting),
        Some("callers") => callers(&small),
        Some("restart") => restart(&large),
        Some("scattered") => scattered(&scatter, waiting / 4),
        _ => {
            for used in [&small, &large, &scatter] {
                if used.exists() {
                    fs::remove_dir_all(used)?;
                }
            }
            for part in ["speeds", "callers", "fill", "restart", "scattered"] {
                run_part(part, &directory, waiting)?;
            }
            for used in [small, large, scatter] {
                fs::remove_dir_all(used)?;
            }
            Ok(())
        }
    }
}
