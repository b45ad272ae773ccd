//! The figures of one policy, in the words of a table.

use super::words::{duration, percent, thousands};
use crate::chance::whole;
use crate::recovery::Recovery;
use crate::study::{Figure, PolicyResult};
use crate::verdict::Verdict;

/// The figures of one policy as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The policy's id.
    pub policy: String,
    /// Whether it lets its dependency recover.
    pub verdict: Verdict,
    /// Names and values, in the order of a table.
    pub cells: Vec<(&'static str, String)>,
}

impl Row {
    pub(super) fn of(result: &PolicyResult) -> Row {
        let with_error = |figure: Figure, digits: usize| match figure.error {
            error if error * 10_f64.powi(i32::try_from(digits).unwrap_or(0)) < 0.5 => {
                format!("{:.digits$}", figure.mean)
            }
            error => format!("{:.digits$} ±{error:.digits$}", figure.mean),
        };
        let completion = |share| result.completion_seconds(share).map_or("–".to_owned(), duration);
        let mean = |of: fn(&crate::figures::Run) -> f64| result.figure(of).mean;
        let cells = vec![
            ("calls/op", with_error(result.figure(|run| run.amplification), 2)),
            ("calls/s", thousands(mean(|run| run.load_per_second))),
            ("peak/s", thousands(mean(|run| run.peak_per_second as f64))),
            ("most in 10 ms", thousands(mean(|run| run.busiest_10ms as f64))),
            ("success", percent(mean(|run| run.success_ratio))),
            ("recovery", recovery(result)),
            ("wasted", percent(mean(|run| run.wasted_ratio))),
            ("p50", completion(0.5)),
            ("p99", completion(0.99)),
            ("last ends", duration(mean(|run| run.last_end_at as f64 / 1e9))),
        ];
        Row { policy: result.policy.id().to_owned(), verdict: result.verdict, cells }
    }
}

fn recovery(result: &PolicyResult) -> String {
    if result.runs.iter().all(|run| run.recovery == Recovery::Nothing) {
        return "–".to_owned();
    }
    match result.recovery_seconds() {
        None => "never".to_owned(),
        Some(Figure { mean, error }) if error < 0.5 => format!("{mean:.0} s"),
        Some(Figure { mean, error }) => format!("{mean:.0} ±{error:.0} s"),
    }
}

/// A line of small bars, the highest for `most`, at most so many characters.
///
/// ```
/// assert_eq!(relent_sim::spark(&[0.0, 5.0, 10.0], 10.0, 80), " ▄█");
/// ```
pub fn spark(values: &[f64], most: f64, chars_max: usize) -> String {
    const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let each = values.len().div_ceil(chars_max.max(1)).max(1);
    let bar = |values: &[f64]| {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let height = if most > 0.0 { (mean / most * 8.0).ceil() } else { 0.0 };
        BARS[usize::try_from(whole(height)).unwrap_or(8).min(8)]
    };
    values.chunks(each).map(bar).collect()
}
