//! A study for terminals: a table, and a line of small bars for each policy.

use std::fmt::Write as _;

use relent_sim::{Study, Verdict, duration, spark, thousands};

use crate::output;

const SPARK_CHARS: usize = 60;

pub(super) fn of(study: &Study) -> String {
    let rows = study.rows();
    let mut text = format!("{}: {}\n\n", study.scenario.name, study.headline());
    let names = rows.first().map(|row| row.cells.as_slice()).unwrap_or_default();
    let mut heading = vec!["policy", "verdict"];
    heading.extend(names.iter().map(|(name, _)| *name));
    let table = output::table(
        &heading,
        rows.iter().map(|row| {
            let mut cells = vec![row.policy.clone(), verdict(row.verdict).to_owned()];
            cells.extend(row.cells.iter().map(|(_, value)| value.clone()));
            cells
        }),
    );
    text.push_str(&table);
    text.push_str("\n\n");
    text.push_str(&sparks(study));
    text.trim_end().to_owned()
}

fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::NothingToRecoverFrom => "–",
        verdict => verdict.name(),
    }
}

/// Calls and successes over time, all on one scale.
fn sparks(study: &Study) -> String {
    let width = study
        .results
        .iter()
        .find_map(|result| result.runs.first())
        .map_or(1.0, |run| run.bucket_nanos as f64 / 1e9);
    let series: Vec<(Vec<f64>, Vec<f64>)> = study
        .results
        .iter()
        .map(|result| {
            let calls = result.series(|bucket| bucket.sent().into());
            (calls, result.series(|bucket| bucket.succeeded.into()))
        })
        .collect();
    let most = series.iter().flat_map(|(calls, _)| calls).copied().fold(0.0, f64::max);
    let longest = series.iter().map(|(calls, _)| calls.len()).max().unwrap_or(0);
    let mut text = format!(
        "calls and successes over {}, 0 to {} a second\n",
        duration(longest as f64 * width),
        thousands(most / width),
    );
    // Padded to one length, so that the same column is the same time everywhere.
    let padded = |mut values: Vec<f64>| {
        values.resize(longest, 0.0);
        spark(&values, most, SPARK_CHARS)
    };
    let name_width = study.results.iter().map(|it| it.policy.id().len()).max().unwrap_or(0);
    for (result, (calls, good)) in study.results.iter().zip(series) {
        let id = result.policy.id();
        let _ = writeln!(text, "{id:<name_width$}  calls ▕{}▏", padded(calls));
        let _ = writeln!(text, "{:<name_width$}  good  ▕{}▏", "", padded(good));
    }
    text
}
