//! A study as a JSON document.

use serde::Serialize;

use crate::figures::Run;
use crate::measure::Bucket;
use crate::recovery::Recovery;
use crate::study::{Figure, PolicyResult, Study};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'s> {
    scenario: &'s str,
    about: &'s str,
    first_seed: u64,
    seeds: u64,
    capacity_per_second: Option<f64>,
    policies: Vec<OfPolicy<'s>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OfPolicy<'s> {
    policy_id: &'s str,
    verdict: &'static str,
    figures: Figures,
    given_up: std::collections::BTreeMap<&'static str, f64>,
    calls_by_hop: Vec<f64>,
    recovery_seconds: Vec<Option<f64>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    amplification_by_failure_ratio: Vec<(f64, f64)>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    recovers_at: Vec<RecoversAt>,
    series: Series,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RecoversAt {
    load_ratio: f64,
    trouble_seconds: f64,
    recovers: bool,
}

/// A mean and its standard error.
type Pair = (f64, f64);

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Figures {
    operations: Pair,
    calls: Pair,
    amplification: Pair,
    calls_per_second: Pair,
    peak_per_second: Pair,
    peak_per_tenth: Pair,
    peak_per_tenth_after: Pair,
    busiest10ms: Pair,
    collisions_per10ms: Pair,
    success_ratio: Pair,
    wasted_ratio: Pair,
    mean_wait_ms: Pair,
    refused: Pair,
    queue_max: Pair,
    last_end_seconds: Pair,
    recovery_seconds: Option<Pair>,
    p50_ms: Option<f64>,
    p99_ms: Option<f64>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Series {
    bucket_seconds: f64,
    calls: Vec<f64>,
    retries: Vec<f64>,
    succeeded: Vec<f64>,
    failed: Vec<f64>,
    queue: Vec<f64>,
}

pub(super) fn document(study: &Study) -> String {
    let document = Document {
        scenario: &study.scenario.name,
        about: &study.scenario.about,
        first_seed: study.plan.first_seed,
        seeds: study.plan.seeds,
        capacity_per_second: study.scenario.capacity(),
        policies: study.results.iter().map(of_policy).collect(),
    };
    let mut text = serde_json::to_string_pretty(&document)
        .expect("figures and names are always representable in JSON");
    text.push('\n');
    text
}

fn of_policy(result: &PolicyResult) -> OfPolicy<'_> {
    let runs = result.runs.len().max(1) as f64;
    let mut given_up = std::collections::BTreeMap::new();
    for (reason, count) in result.runs.iter().flat_map(|run| &run.given_up) {
        *given_up.entry(reason.name()).or_insert(0.0) += *count as f64 / runs;
    }
    let hops = result.runs.first().map_or(0, |run| run.sent.len());
    let seconds = |recovery| match recovery {
        Recovery::After(nanos) => Some(nanos as f64 / 1e9),
        Recovery::Nothing | Recovery::Never => None,
    };
    OfPolicy {
        policy_id: result.policy.id(),
        verdict: result.verdict.name(),
        figures: figures(result),
        given_up,
        calls_by_hop: (0..hops).map(|hop| result.figure(|run| run.sent[hop] as f64).mean).collect(),
        recovery_seconds: result.runs.iter().map(|run| seconds(run.recovery)).collect(),
        amplification_by_failure_ratio: result
            .amplification
            .iter()
            .map(|point| (point.ratio, rounded(point.amplification)))
            .collect(),
        recovers_at: result
            .phases
            .iter()
            .map(|phase| RecoversAt {
                load_ratio: phase.load,
                trouble_seconds: phase.seconds,
                recovers: phase.recovers,
            })
            .collect(),
        series: series(result),
    }
}

fn figures(result: &PolicyResult) -> Figures {
    let pair = |of: fn(&Run) -> f64| written(result.figure(of));
    let millis = |share| result.completion_seconds(share).map(|seconds| rounded(seconds * 1e3));
    Figures {
        operations: pair(|run| run.operations as f64),
        calls: pair(|run| run.sent[0] as f64),
        amplification: pair(|run| run.amplification),
        calls_per_second: pair(|run| run.load_per_second),
        peak_per_second: pair(|run| run.peak_per_second as f64),
        peak_per_tenth: pair(|run| run.peak_per_tenth as f64),
        peak_per_tenth_after: pair(|run| run.peak_per_tenth_after as f64),
        busiest10ms: pair(|run| run.busiest_10ms as f64),
        collisions_per10ms: pair(|run| run.collisions),
        success_ratio: pair(|run| run.success_ratio),
        wasted_ratio: pair(|run| run.wasted_ratio),
        mean_wait_ms: pair(|run| run.mean_wait / 1e6),
        refused: pair(|run| run.refused as f64),
        queue_max: pair(|run| run.queue_max as f64),
        last_end_seconds: pair(|run| run.last_end_at as f64 / 1e9),
        recovery_seconds: result.recovery_seconds().map(written),
        p50_ms: millis(0.5),
        p99_ms: millis(0.99),
    }
}

fn written(figure: Figure) -> Pair {
    (rounded(figure.mean), rounded(figure.error))
}

fn rounded(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}

fn series(result: &PolicyResult) -> Series {
    let width = result.runs.first().map_or(1.0, |run| run.bucket_nanos as f64 / 1e9);
    let per_second = |of: fn(&Bucket) -> f64| {
        result.series(of).into_iter().map(|value| rounded(value / width)).collect()
    };
    Series {
        bucket_seconds: width,
        calls: per_second(|bucket| bucket.sent().into()),
        retries: per_second(|bucket| bucket.retries().into()),
        succeeded: per_second(|bucket| bucket.succeeded.into()),
        failed: per_second(|bucket| bucket.failed.into()),
        queue: result.series(|bucket| bucket.queue.into()).into_iter().map(rounded).collect(),
    }
}
