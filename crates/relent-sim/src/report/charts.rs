//! One policy's pictures: load over time, and which attempts were made when.

use crate::draw::{
    Anchor, BLUE, FAINT, GREEN, GRID, LABEL, Plot, SHADE, SMALL, Scale, Stroke, Svg, Tick,
    VERMILION, key,
};
use crate::measure::ATTEMPT_ROWS;
use crate::report::words::{duration, thousands};
use crate::scenario::Scenario;
use crate::study::PolicyResult;

const WIDTH: u32 = 600;
const LEFT: f64 = 70.0;
const INNER: f64 = 510.0;

/// The heights and the length that all policies' pictures share, so that they can be compared.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    /// The most calls in a second.
    pub(super) calls_max: f64,
    /// How long the series are, in seconds.
    pub(super) seconds: f64,
}

impl Frame {
    pub(super) fn over(scenario: &Scenario, results: &[PolicyResult]) -> Frame {
        let mut frame = Frame { calls_max: scenario.capacity().unwrap_or(0.0) * 1.1, seconds: 1.0 };
        for result in results {
            let width = bucket_seconds(result);
            let series = result.series(|bucket| bucket.sent().into());
            frame.seconds = frame.seconds.max(series.len() as f64 * width);
            let most = series.into_iter().fold(0.0, f64::max) / width;
            frame.calls_max = frame.calls_max.max(most * 1.05);
        }
        frame.calls_max = frame.calls_max.max(1.0);
        frame
    }
}

fn bucket_seconds(result: &PolicyResult) -> f64 {
    result.runs.first().map_or(1.0, |run| run.bucket_nanos as f64 / 1e9)
}

const CALLS: Stroke = Stroke { colour: BLUE, width: 1.8, dashes: "" };
const RETRIES: Stroke = Stroke { colour: VERMILION, width: 1.5, dashes: "5 3" };
const GOODPUT: Stroke = Stroke { colour: GREEN, width: 2.2, dashes: "" };
const CAPACITY: Stroke = Stroke { colour: FAINT, width: 1.2, dashes: "2 4" };

/// Calls, retries and successes a second, with the trouble shaded and the capacity as a line.
pub(super) fn load(
    scenario: &Scenario,
    result: &PolicyResult,
    frame: Frame,
    number: usize,
) -> String {
    let id = result.policy.id();
    let description = format!(
        "Calls, retries and successful operations a second over {}; the trouble is shaded.",
        duration(frame.seconds)
    );
    let title = format!("{id}: calls and goodput");
    let mut svg = Svg::new(WIDTH, 330, &title, &description).among(&format!("load{number}"));
    let plot = Plot {
        left: LEFT,
        top: 50.0,
        width: INNER,
        height: 200.0,
        x: Scale { from: 0.0, to: frame.seconds },
        y: Scale { from: 0.0, to: frame.calls_max },
    };
    shade(&mut svg, &plot, scenario, frame);
    plot.axes(&mut svg, &time_ticks(frame.seconds), &count_ticks(frame.calls_max));
    plot.name_x(&mut svg, "time");
    if let Some(capacity) = scenario.capacity().filter(|it| *it <= frame.calls_max) {
        plot.line(&mut svg, &[(0.0, capacity), (frame.seconds, capacity)], CAPACITY);
        let at = (plot.left + plot.width - 4.0, plot.y(capacity) - 5.0);
        svg.text(at, Anchor::End, SMALL, "capacity");
    }
    let width = bucket_seconds(result);
    let lines = [
        (result.series(|bucket| bucket.sent().into()), CALLS),
        (result.series(|bucket| bucket.retries().into()), RETRIES),
        (result.series(|bucket| bucket.succeeded.into()), GOODPUT),
    ];
    for (series, stroke) in lines {
        let point = |(index, value): (usize, &f64)| ((index as f64 + 0.5) * width, value / width);
        // The last bucket may be cut short.
        let whole = &series[..series.len().saturating_sub(1)];
        let points: Vec<(f64, f64)> = whole.iter().enumerate().map(point).collect();
        plot.line(&mut svg, &points, stroke);
    }
    let names = [(CALLS, "calls/s"), (RETRIES, "retries/s"), (GOODPUT, "succeeded/s")];
    for (index, (stroke, name)) in names.into_iter().enumerate() {
        key(&mut svg, (LEFT + index as f64 * 170.0, 316.0), stroke, name);
    }
    svg.finish()
}

fn shade(svg: &mut Svg, plot: &Plot, scenario: &Scenario, frame: Frame) {
    for fault in &scenario.faults {
        let from = (fault.from as f64 / 1e9).min(frame.seconds);
        let to = (fault.to.saturating_add(fault.ramp) as f64 / 1e9).min(frame.seconds);
        plot.band(svg, from, to, SHADE);
        svg.text((plot.x(from) + 4.0, plot.top + 12.0), Anchor::Start, SMALL, fault.kind.name());
    }
}

/// How many columns a heat map has at most.
const COLUMNS: usize = 90;

/// Time across, the number of the attempt upwards; the darker, the more calls.
pub(super) fn heat(
    scenario: &Scenario,
    result: &PolicyResult,
    frame: Frame,
    number: usize,
) -> String {
    let title = format!("{}: which attempts were made when", result.policy.id());
    let description = "Columns are time, rows the number of the attempt from 1 upwards; darker \
                       cells have more calls, on a logarithmic scale.";
    let mut svg = Svg::new(WIDTH, 260, &title, description).among(&format!("heat{number}"));
    let plot = Plot {
        left: LEFT,
        top: 46.0,
        width: INNER,
        height: 160.0,
        x: Scale { from: 0.0, to: frame.seconds },
        y: Scale { from: 0.5, to: ATTEMPT_ROWS as f64 + 0.5 },
    };
    shade(&mut svg, &plot, scenario, frame);
    let rows: Vec<Vec<f64>> =
        (0..ATTEMPT_ROWS).map(|row| result.series(|bucket| bucket.attempts[row].into())).collect();
    let width = bucket_seconds(result);
    let each = rows[0].len().div_ceil(COLUMNS).max(1);
    let merged: Vec<Vec<f64>> = rows
        .iter()
        .map(|row| row.chunks(each).map(|cells| cells.iter().sum::<f64>()).collect())
        .collect();
    let most = merged.iter().flatten().copied().fold(1.0, f64::max);
    for (row, cells) in merged.iter().enumerate() {
        for (column, count) in cells.iter().enumerate().filter(|(_, count)| **count > 0.0) {
            let depth = (1.0 + count).ln() / (1.0 + most).ln();
            let from = column as f64 * each as f64 * width;
            let to = (from + each as f64 * width).min(frame.seconds);
            let (left, top) = plot.at((from, row as f64 + 1.5));
            let height = plot.height / ATTEMPT_ROWS as f64 - 1.0;
            svg.rect((left, top), (plot.x(to) - left, height), &colour(depth));
        }
    }
    let names: Vec<Tick> = (1..=ATTEMPT_ROWS)
        .map(|row| {
            let more = if row == ATTEMPT_ROWS { "+" } else { "" };
            (row as f64, format!("{row}{more}"))
        })
        .collect();
    plot.axes(&mut svg, &time_ticks(frame.seconds), &[]);
    for (row, name) in names {
        svg.text((LEFT - 8.0, plot.y(row) + 4.0), Anchor::End, SMALL, &name);
    }
    svg.upward_text((LEFT - 40.0, plot.top + plot.height / 2.0), LABEL, "attempt");
    plot.name_x(&mut svg, "time");
    svg.finish()
}

/// From nearly white to dark blue.
fn colour(depth: f64) -> String {
    let mix = |light: f64, dark: f64| light + (dark - light) * depth.clamp(0.0, 1.0);
    format!("rgb({:.0},{:.0},{:.0})", mix(225.0, 0.0), mix(238.0, 60.0), mix(248.0, 110.0))
}

/// Four to eight ticks at whole steps.
pub(super) fn steps(to: f64) -> Vec<f64> {
    let raw = to / 6.0;
    let scale = 10.0_f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|n| n * scale).into_iter().find(|step| *step >= raw);
    let step = step.unwrap_or(scale * 10.0);
    std::iter::successors(Some(0.0), |at| Some(at + step)).take_while(|at| *at <= to).collect()
}

pub(super) fn count_ticks(to: f64) -> Vec<Tick> {
    let name = |at: f64| if to < 8.0 { format!("{at:.1}") } else { thousands(at) };
    steps(to).into_iter().map(|at| (at, name(at))).collect()
}

fn time_ticks(seconds: f64) -> Vec<Tick> {
    let (unit, name) = match seconds {
        s if s > 10_800.0 => (3_600.0, "h"),
        s if s > 900.0 => (60.0, "min"),
        s if s >= 5.0 => (1.0, "s"),
        _ => (0.001, "ms"),
    };
    steps(seconds / unit).into_iter().map(|at| (at * unit, format!("{at} {name}"))).collect()
}

/// The grid's stroke, for pictures that draw their own.
pub(super) const THIN: Stroke = Stroke { colour: GRID, width: 1.0, dashes: "" };
