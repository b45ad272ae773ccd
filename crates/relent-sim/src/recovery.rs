//! Whether things were as before once the trouble was over, and when. REQ-X1.
//!
//! What counts is goodput: operations that succeed, a second. Before the trouble it has a level, the
//! baseline. Recovered is when it is back at 95 % of that, and stays.

use crate::measure::Bucket;
use crate::scenario::Scenario;

/// Whether things were as before once the trouble was over.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Recovery {
    /// There was no trouble, or nothing before or after it to compare.
    Nothing,
    /// As before, so many nanoseconds after the trouble was over.
    After(u64),
    /// Not within the time that was simulated.
    Never,
}

/// The level that goodput must be back at.
const BACK: f64 = 0.95;
/// What a single bucket may fall to without counting as a relapse.
const DIP: f64 = 0.9;
/// Over how many buckets the level is taken.
const SMOOTH: usize = 5;

pub(crate) fn recovery(scenario: &Scenario, buckets: &[Bucket], width: u64) -> Recovery {
    let Some((from, to)) = scenario.trouble() else { return Recovery::Nothing };
    let Some(baseline) = baseline(scenario, buckets, width, from) else { return Recovery::Nothing };
    let bucket_of = |at: u64| usize::try_from(at / width).unwrap_or(usize::MAX);
    // The last bucket may be cut short.
    let Some(after) = buckets.get(bucket_of(to)..buckets.len().saturating_sub(1)) else {
        return Recovery::Nothing;
    };
    if after.len() < SMOOTH {
        return Recovery::Nothing;
    }
    let goodput = |buckets: &[Bucket]| {
        let sum: f64 = buckets.iter().map(|bucket| f64::from(bucket.succeeded)).sum();
        sum / buckets.len() as f64
    };
    let back = (0..=after.len() - SMOOTH).find(|start| {
        goodput(&after[*start..=*start]) >= DIP * baseline
            && goodput(&after[*start..*start + SMOOTH]) >= BACK * baseline
            && goodput(&after[*start..]) >= DIP * baseline
    });
    match back {
        Some(start) => Recovery::After(start as u64 * width),
        None => Recovery::Never,
    }
}

/// Successes in a bucket before the trouble, or as many as operations begin where nothing was before.
fn baseline(scenario: &Scenario, buckets: &[Bucket], width: u64, from: u64) -> Option<f64> {
    let first = usize::try_from(scenario.warm_up.min(from).div_ceil(width)).ok()?;
    let last = usize::try_from(from / width).ok()?;
    let before = buckets.get(first..last).unwrap_or_default();
    if before.len() >= SMOOTH {
        let sum: f64 = before.iter().map(|bucket| f64::from(bucket.succeeded)).sum();
        return Some(sum / before.len() as f64).filter(|baseline| *baseline > 0.0);
    }
    let per_second = scenario.clients.load.per_second()?;
    Some(per_second * width as f64 / 1e9)
}
