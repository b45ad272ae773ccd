//! A transaction that somebody else holds open for two minutes, beside a steady load.
//!
//! It keeps vacuum from taking away what is dead: every task leaves several dead versions of its row
//! and dead entries in the indexes that claims read, and a queue that reads all of them each time
//! becomes slower with every minute. A claim should take at most five times as long as before.
//! PostgreSQL only, as Redis has no such thing.

use std::io::Write as _;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use super::Stage;
use super::board::{Board, Page};
use super::claims::ClaimTimes;
use super::postgres::Postgres;
use super::server::{Server, StoreKind};
use super::team::{Entry, Team, Who};
use crate::bench::figures::{Aim, quantile};
use crate::bench::http::Connection;
use crate::bench::requests::{Due, Request, Task};
use crate::bench::sink::{Sink, wall_nanos};

/// Tasks a second.
const RATE: u64 = 500;
const CONNECTIONS: usize = 64;
const BEFORE: Duration = Duration::from_secs(20);
const AFTER: Duration = Duration::from_secs(20);

pub(super) async fn long_transaction(
    stage: &Stage,
    store: StoreKind,
    board: &mut Board,
) -> Result<()> {
    if store == StoreKind::Redis {
        return Ok(());
    }
    let hold = Duration::from_secs(stage.options.hold_seconds);
    let seconds = (BEFORE + hold + AFTER).as_secs() + 60;
    let entry = Entry { who: Who::Relent, store, nodes: 1 };
    let sink = Arc::new(Sink::start(RATE * seconds)?);
    let team = stage.team(entry, sink.address)?;
    let Server::Postgres(server) = &team.server else { bail!("expected PostgreSQL") };
    let load = Load::start(&team, &sink);
    // Statements are prepared and statistics are there.
    tokio::time::sleep(Duration::from_secs(5)).await;

    let scenario = format!("a transaction of {} s on {store}", hold.as_secs());
    let before = watch(&team, server, &sink, &load, BEFORE).await?;
    before.note(&mut board.page(scenario.clone(), "before".to_owned()));
    let transaction = LongTransaction::begin(server)?;
    let last = hold.min(Duration::from_secs(20));
    let first = watch(&team, server, &sink, &load, hold - last).await?;
    let during = watch(&team, server, &sink, &load, last).await?;
    transaction.end()?;
    first.note(&mut board.page(scenario.clone(), "while it is open".to_owned()));
    let mut page = board.page(scenario.clone(), "the last 20 s of it".to_owned());
    during.note(&mut page);
    for (name, quantile) in [("claim p50, times before", 0.5), ("claim p99, times before", 0.99)] {
        let ratio = during.claims.quantile(quantile) / before.claims.quantile(quantile);
        page.aim(name, ratio, "times", Aim::AtMost(5.0));
    }
    let after = watch(&team, server, &sink, &load, AFTER).await?;
    after.note(&mut board.page(scenario, "after".to_owned()));
    load.end().await
}

/// What was seen for a while.
struct Seen {
    claims: ClaimTimes,
    /// From posted to arrived, sorted, in milliseconds.
    arrivals: Vec<f64>,
    dead: f64,
    live: f64,
}

async fn watch(
    team: &Team<'_>,
    server: &Postgres,
    sink: &Sink,
    load: &Load,
    time: Duration,
) -> Result<Seen> {
    let nodes = team.addresses();
    let (before, first) = (ClaimTimes::read(&nodes).await?, load.posted());
    tokio::time::sleep(time).await;
    let (claims, end) = (ClaimTimes::read(&nodes).await?.since(&before), load.posted());
    load.is_well()?;
    let arrivals = (first..end).filter_map(|number| {
        let late = sink.arrived_at(number)?.saturating_sub(load.posted_at(number));
        Some(Duration::from_nanos(late).as_secs_f64() * 1e3)
    });
    let mut arrivals: Vec<f64> = arrivals.collect();
    arrivals.sort_unstable_by(f64::total_cmp);
    let rows = |which: &str| {
        let sql = format!(
            "SELECT {which} FROM pg_stat_user_tables WHERE schemaname = 'relent' AND relname = 'tasks'"
        );
        server.number(&sql)
    };
    Ok(Seen { claims, arrivals, dead: rows("n_dead_tup")?, live: rows("n_live_tup")? })
}

impl Seen {
    fn note(&self, page: &mut Page<'_>) {
        page.add("claim p50", self.claims.quantile(0.5), "ms");
        page.add("claim p99", self.claims.quantile(0.99), "ms");
        page.add("posted to arrived, p50", quantile(&self.arrivals, 0.5), "ms");
        page.add("posted to arrived, p99", quantile(&self.arrivals, 0.99), "ms");
        page.add("dead rows in the end", self.dead, "rows");
        page.add("live rows in the end", self.live, "rows");
    }
}

/// A client that holds a snapshot.
struct LongTransaction(Child);

impl LongTransaction {
    fn begin(server: &Postgres) -> Result<LongTransaction> {
        let mut client = server.client();
        let mut child = client.stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;
        let input = child.stdin.as_mut().context("no input")?;
        input.write_all(
            b"BEGIN ISOLATION LEVEL REPEATABLE READ;\nSELECT txid_current(), count(*) FROM relent.policies;\n",
        )?;
        let open = "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction'";
        super::process::wait_until("the transaction", || {
            server.query(open).is_ok_and(|n| n == "1")
        })?;
        Ok(LongTransaction(child))
    }

    fn end(mut self) -> Result<()> {
        let mut input = self.0.stdin.take().context("no input")?;
        input.write_all(b"COMMIT;\n")?;
        drop(input);
        if !self.0.wait()?.success() {
            bail!("the transaction was ended by somebody else");
        }
        Ok(())
    }
}

impl Drop for LongTransaction {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Tasks at a steady rate, until it is ended.
struct Load {
    next: Arc<AtomicU64>,
    begun_at: u64,
    stop: Arc<AtomicBool>,
    posting: tokio::task::JoinSet<Result<()>>,
}

impl Load {
    fn start(team: &Team<'_>, sink: &Sink) -> Load {
        let (next, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let begun_at = wall_nanos();
        let task = Task { target: sink.address, due: Due::Now, headers: false };
        let mut posting = tokio::task::JoinSet::new();
        for address in team.addresses().into_iter().cycle().take(CONNECTIONS) {
            let (next, stop, mut request) =
                (Arc::clone(&next), Arc::clone(&stop), Request::one(task));
            posting.spawn(async move {
                let mut connection = Connection::open(address).await?;
                while !stop.load(Ordering::Relaxed) {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let at = begun_at + number * 1_000_000_000 / RATE;
                    let wait = Duration::from_nanos(at.saturating_sub(wall_nanos()));
                    tokio::time::sleep(wait).await;
                    connection.call(request.numbered(number, |_| 0)).await?;
                }
                Ok(())
            });
        }
        Load { next, begun_at, stop, posting }
    }

    fn posted(&self) -> u64 {
        self.next.load(Ordering::Relaxed).saturating_sub(CONNECTIONS as u64)
    }

    /// When it was to be posted: what waits in here counts.
    fn posted_at(&self, number: u64) -> u64 {
        self.begun_at + number * 1_000_000_000 / RATE
    }

    fn is_well(&self) -> Result<()> {
        if self.posting.len() < CONNECTIONS {
            bail!("a connection has ended");
        }
        Ok(())
    }

    async fn end(mut self) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        while let Some(ended) = self.posting.join_next().await {
            ended??;
        }
        Ok(())
    }
}
