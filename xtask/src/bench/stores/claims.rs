//! How long claims take, as the nodes' metrics say.

use std::net::SocketAddr;

use anyhow::{Context as _, Result};

use crate::bench::http::Connection;

/// Counts by upper limit: `(seconds, how many took at most so long)`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ClaimTimes(Vec<(f64, f64)>);

impl ClaimTimes {
    /// Of all nodes together.
    pub(super) async fn read(nodes: &[SocketAddr]) -> Result<ClaimTimes> {
        let mut all: Option<ClaimTimes> = None;
        for node in nodes {
            let page = Connection::open(*node).await?.get("/metrics").await?;
            let times = ClaimTimes::parse(&page);
            all = Some(match all {
                Some(all) => all.with(&times, 1.0),
                None => times,
            });
        }
        all.filter(|times| !times.0.is_empty())
            .context("the metrics do not say how long claims take")
    }

    fn parse(page: &str) -> ClaimTimes {
        let buckets = page.lines().filter_map(|line| {
            let rest = line.strip_prefix("retry_claim_duration_seconds_bucket{le=\"")?;
            let (limit, number) = rest.split_once("\"} ")?;
            Some((limit.parse().unwrap_or(f64::INFINITY), number.parse().ok()?))
        });
        ClaimTimes(buckets.collect())
    }

    fn with(&self, other: &ClaimTimes, times: f64) -> ClaimTimes {
        let both = self.0.iter().zip(&other.0);
        ClaimTimes(both.map(|((limit, one), (_, other))| (*limit, one + other * times)).collect())
    }

    /// What came after another reading.
    pub(super) fn since(&self, before: &ClaimTimes) -> ClaimTimes {
        self.with(before, -1.0)
    }

    pub(super) fn count(&self) -> f64 {
        self.0.last().map_or(0.0, |(_, count)| *count)
    }

    /// So many took at most this long, in milliseconds; evenly spread between two limits.
    pub(super) fn quantile(&self, share: f64) -> f64 {
        let wanted = self.count() * share;
        let (mut from, mut below) = (0.0, 0.0);
        for (limit, count) in &self.0 {
            if *count >= wanted && *count > below {
                let to = if limit.is_finite() { *limit } else { from };
                return (from + (to - from) * (wanted - below) / (count - below)) * 1e3;
            }
            (from, below) = (*limit, *count);
        }
        f64::NAN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "\
retry_claim_duration_seconds_sum 0.5
retry_claim_duration_seconds_bucket{le=\"0.001\"} 10
retry_claim_duration_seconds_bucket{le=\"0.002\"} 90
retry_claim_duration_seconds_bucket{le=\"+Inf\"} 100
";

    #[test]
    fn quantiles_are_between_the_limits() {
        let times = ClaimTimes::parse(PAGE);
        assert!((times.count() - 100.0).abs() < 1e-9);
        assert!((times.quantile(0.5) - 1.5).abs() < 1e-9);
        assert!((times.quantile(0.99) - 2.0).abs() < 1e-9, "as far as the limits say");
    }

    #[test]
    fn a_difference_is_what_came_later() {
        let times = ClaimTimes::parse(PAGE);
        assert!(times.since(&times).count().abs() < 1e-9);
        assert!(times.since(&times).quantile(0.5).is_nan());
    }
}
