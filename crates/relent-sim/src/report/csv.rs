//! The series as CSV.

use std::fmt::Write as _;

use crate::measure::Bucket;
use crate::study::Study;

const HEADING: &str = "policy,seconds,operations,calls,retries,succeeded,failed,queue\n";

pub(super) fn lines(study: &Study) -> String {
    let mut text = HEADING.to_owned();
    for result in &study.results {
        let width = result.runs.first().map_or(1.0, |run| run.bucket_nanos as f64 / 1e9);
        let per_second = |of: fn(&Bucket) -> f64| {
            let series = result.series(of);
            series.into_iter().map(|value| value / width).collect::<Vec<f64>>()
        };
        let columns = [
            per_second(|bucket| bucket.operations.into()),
            per_second(|bucket| bucket.sent().into()),
            per_second(|bucket| bucket.retries().into()),
            per_second(|bucket| bucket.succeeded.into()),
            per_second(|bucket| bucket.failed.into()),
            result.series(|bucket| bucket.queue.into()),
        ];
        for index in 0..columns[0].len() {
            let _ = write!(text, "{},{}", result.policy.id(), index as f64 * width);
            for column in &columns {
                let _ = write!(text, ",{:.2}", column[index]);
            }
            text.push('\n');
        }
    }
    text
}
