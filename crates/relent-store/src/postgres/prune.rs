//! Deleting what is older than it need be.
//!
//! **Tasks** are deleted by when they ended, a chunk at a time, whoever prunes; rows that another
//! node is deleting are skipped.
//!
//! **Attempts** are kept by day, and a day that is over its time is dropped whole, which costs
//! nothing and leaves nothing to vacuum. Two things follow. Rows are kept up to a day longer than they
//! need be, unless that is less than a day: then they are deleted one by one. And the rows of a
//! deleted task stay, where nobody sees them, until their day is dropped, if that comes at most a day
//! after the task. What belongs to no day (a node's clock was far off, or nobody was there to make
//! the days) is deleted one by one.
//!
//! Making and dropping a day need a lock that waits for whoever reads the log, and lets others wait
//! meanwhile. So they wait for it for a moment only; the next time is soon enough. REQ-S2, REQ-D3.

use std::sync::Arc;
use std::time::Duration;

use relent_policy::Timestamp;
use tokio::time::sleep;
use tokio_postgres::types::Type;

use super::failure::Failure;
use super::link::Link;
use super::node::Node;
use super::rows::{CANCELLED, EXHAUSTED, SUCCEEDED, column, from_duration, from_time};
use crate::error::Error;
use crate::hints::jittered;
use crate::task::Retention;

const PRUNE_TASKS: &str = "
WITH gone AS (
    DELETE FROM relent.tasks t USING (
        SELECT d.id FROM relent.tasks d
        WHERE d.state = $1 AND d.ended_at IS NOT NULL AND d.ended_at < $2
        ORDER BY d.state, d.ended_at LIMIT $3 FOR UPDATE SKIP LOCKED) old
    WHERE t.id = old.id RETURNING t.id
),
payloads AS (DELETE FROM relent.payloads y USING gone WHERE y.id = gone.id),
attempts AS (DELETE FROM relent.attempts a USING gone WHERE $4 AND a.task = gone.id)
SELECT count(*) FROM gone";

const PRUNE_ATTEMPTS: &str = "
WITH gone AS (
    DELETE FROM relent.attempts a USING (
        SELECT d.tableoid AS part, d.ctid AS place FROM relent.attempts d
        WHERE d.started_at < $1 LIMIT $2 FOR UPDATE SKIP LOCKED) old
    WHERE a.tableoid = old.part AND a.ctid = old.place RETURNING 1
)
SELECT count(*) FROM gone";

const PRUNE_OTHER: &str = "
WITH gone AS (
    DELETE FROM relent.attempts_other a USING (
        SELECT d.ctid AS place FROM relent.attempts_other d
        WHERE d.started_at < $1 LIMIT $2 FOR UPDATE SKIP LOCKED) old
    WHERE a.ctid = old.place RETURNING 1
)
SELECT count(*) FROM gone";

const DAYS: &str = "SELECT c.relname::text FROM pg_catalog.pg_inherits i
JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid
WHERE i.inhparent = 'relent.attempts'::regclass";

const DAY_NANOS: i64 = 86_400_000_000_000;
const DAY: Duration = Duration::from_secs(86_400);
const DAY_PREFIX: &str = "attempts_d";
/// Today and so many more are there.
const DAYS_AHEAD: i64 = 2;
const MAKE_DAYS_EVERY: Duration = Duration::from_secs(3_600);

impl Node {
    pub(super) async fn prune(&self, retention: Retention, max: u32) -> Result<u64, Failure> {
        let mut link = self.long_link().await;
        let now = match self.clock.given() {
            Some(now) => now,
            None => from_time(self.clock.now()),
        };
        let before = |kept: Duration| now.saturating_sub(from_duration(kept));
        let (max, mut done) = (i64::from(max), 0);
        let by_day = retention.attempts >= DAY;
        let with_attempts = !by_day || retention.attempts > retention.ended + DAY;
        for (state, kept) in [
            (SUCCEEDED, retention.ended),
            (CANCELLED, retention.ended),
            (EXHAUSTED, retention.dead_letters),
        ] {
            let (before, left) = (before(kept), max - done);
            let values = [
                (&state as _, Type::INT2),
                (&before as _, Type::INT8),
                (&left as _, Type::INT8),
                (&with_attempts as _, Type::BOOL),
            ];
            done += number(&mut link, PRUNE_TASKS, &values).await?;
        }
        let (before, left) = (before(retention.attempts), max - done);
        let values = [(&before as _, Type::INT8), (&left as _, Type::INT8)];
        if !by_day {
            done += number(&mut link, PRUNE_ATTEMPTS, &values).await?;
            return Ok(done.cast_unsigned());
        }
        done += number(&mut link, PRUNE_OTHER, &values).await?;
        if done == 0 && max > 0 {
            done = self.drop_a_day(&mut link, before).await?;
        }
        Ok(done.cast_unsigned())
    }

    /// Drops one day that ended before this time. Counts as one row.
    async fn drop_a_day(&self, link: &mut Link, before: i64) -> Result<i64, Failure> {
        let over = days(link).await?.into_iter().filter(|day| (day + 1) * DAY_NANOS <= before);
        let Some(day) = over.min() else { return Ok(0) };
        let drop = format!("DROP TABLE IF EXISTS relent.{DAY_PREFIX}{day}");
        self.change_days(link, &drop).await?;
        Ok(1)
    }

    /// Makes today and the next days, where they are missing.
    pub(super) async fn make_days(&self, now: Timestamp) -> Result<(), Failure> {
        let mut link = self.long_link().await;
        let (today, known) = (from_time(now) / DAY_NANOS, days(&mut link).await?);
        for day in (today..=today + DAYS_AHEAD).filter(|day| !known.contains(day)) {
            let (from, to) = (day * DAY_NANOS, (day + 1) * DAY_NANOS);
            let make = format!(
                "CREATE TABLE relent.{DAY_PREFIX}{day} (LIKE relent.attempts INCLUDING ALL); \
                 ALTER TABLE relent.attempts ATTACH PARTITION relent.{DAY_PREFIX}{day} \
                 FOR VALUES FROM ({from}) TO ({to})"
            );
            self.change_days(&mut link, &make).await?;
        }
        Ok(())
    }

    /// Another node may do the same at the same time: one of them fails, and that is no harm.
    async fn change_days(&self, link: &mut Link, sql: &str) -> Result<(), Failure> {
        link.begin().await?;
        let sql = self.place.sql(sql);
        let changed = link.run(&format!("SET LOCAL lock_timeout = '500ms'; {sql}; COMMIT")).await;
        if changed.is_ok() {
            link.is_settled();
        }
        link.settle().await;
        match changed {
            Err(Failure::Refused(error)) => {
                tracing::debug!(%error, "a day of the attempt log stays as it is for now");
                Ok(())
            }
            changed => changed,
        }
    }
}

/// Makes the days ahead, until the store is closed.
pub(super) async fn keep_making_days(node: Arc<Node>) {
    loop {
        sleep(MAKE_DAYS_EVERY / 2 + jittered(MAKE_DAYS_EVERY / 2)).await;
        if let Err(failure) = node.make_days(node.clock.now()).await {
            tracing::warn!(?failure, "cannot make the next days of the attempt log");
        }
    }
}

/// The days that there are.
async fn days(link: &mut Link) -> Result<Vec<i64>, Failure> {
    let rows = link.look(DAYS, &[]).await?;
    let names = rows.iter().map(|row| column::<&str>(row, 0));
    let names = names.collect::<Result<Vec<_>, Error>>()?;
    Ok(names.iter().filter_map(|name| name.strip_prefix(DAY_PREFIX)?.parse().ok()).collect())
}

async fn number(
    link: &mut Link,
    sql: &'static str,
    values: &[super::link::Value<'_>],
) -> Result<i64, Failure> {
    let rows = link.query(sql, values).await?;
    Ok(rows.first().map_or(Ok(0), |row| column(row, 0))?)
}
