//! How far the database's clock is from this machine's.

use std::time::{SystemTime, UNIX_EPOCH};

use tokio::time::Instant;
use tokio_postgres::Client;

use crate::assurance::Finding;

const CLOCK: &str = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::int8";
/// The difference that somebody should know of, in milliseconds.
const SKEW_MAX_MS: i64 = 2_000;

/// How far the database's clock is ahead of this machine's, in milliseconds.
pub(super) async fn skew(client: &Client) -> Result<i64, tokio_postgres::Error> {
    let asked_at = Instant::now();
    let rows = client.query_typed(CLOCK, &[]).await?;
    let half = asked_at.elapsed() / 2;
    let here = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let here = i64::try_from(here.saturating_sub(half).as_millis()).unwrap_or(i64::MAX);
    let there: i64 = rows.first().map_or(Ok(here), |row| row.try_get(0))?;
    Ok(there.saturating_sub(here))
}

pub(super) fn finding(skew_ms: i64) -> Finding {
    let found = match skew_ms {
        0 => "none".to_owned(),
        ahead if ahead > 0 => format!("the database's is {ahead} ms ahead"),
        behind => format!("the database's is {} ms behind", behind.unsigned_abs()),
    };
    let meaning = "due times are read by the database's clock, on every node";
    match skew_ms.abs() <= SKEW_MAX_MS {
        true => Finding::good("clock difference", found, meaning),
        false => Finding::caution(
            "clock difference",
            found,
            meaning,
            "set both clocks by NTP: times that callers give are meant by their own clocks",
        ),
    }
}
