//! All policies in one picture: how long operations took, amplification against failures, and what
//! each recovers from.

use crate::draw::{
    Anchor, BLUE, FAINT, GREEN, INK, LABEL, PURPLE, Plot, SMALL, Scale, Stroke, Svg, Tick,
    VERMILION, key,
};
use crate::report::charts::{THIN, count_ticks};
use crate::report::words::duration;
use crate::study::{PolicyResult, Study};

const WIDTH: u32 = 600;

/// A stroke for each policy: colour and dashes differ.
fn stroke(number: usize) -> Stroke {
    const COLOURS: [&str; 6] = [BLUE, VERMILION, GREEN, PURPLE, INK, "#b58900"];
    const DASHES: [&str; 3] = ["", "6 3", "2 3"];
    Stroke {
        colour: COLOURS[number % COLOURS.len()],
        width: 2.0,
        dashes: DASHES[(number / COLOURS.len() + number % 2) % DASHES.len()],
    }
}

fn keys(svg: &mut Svg, results: &[PolicyResult], top: f64) {
    for (number, result) in results.iter().enumerate() {
        let at = (60.0 + 270.0 * (number % 2) as f64, top + 20.0 * (number / 2) as f64);
        key(svg, at, stroke(number), result.policy.id());
    }
}

fn height(results: &[PolicyResult]) -> u32 {
    340 + 20 * u32::try_from(results.len().div_ceil(2)).unwrap_or(0)
}

fn plane(x: Scale, y: Scale) -> Plot {
    Plot { left: 70.0, top: 50.0, width: 500.0, height: 220.0, x, y }
}

/// The share of operations that had succeeded after each time, on a logarithmic axis.
pub(super) fn completions(study: &Study) -> Option<String> {
    let curves: Vec<Vec<(f64, f64)>> = study
        .results
        .iter()
        .map(|result| {
            let ended: u64 = result.runs.iter().map(|run| run.succeeded + run.failed).sum();
            let histogram = result.completions();
            let all = histogram.total() as f64 / ended.max(1) as f64;
            let points = histogram.distribution();
            points.into_iter().map(|(nanos, share)| (nanos.max(1e3).log10(), share * all)).collect()
        })
        .collect();
    let ends = curves.iter().flatten().map(|(at, _)| *at);
    let (from, to) = ends.fold((f64::MAX, f64::MIN), |(from, to), at| (from.min(at), to.max(at)));
    if from > to {
        return None;
    }
    let (from, to) = (from.floor(), to.ceil().max(from.floor() + 1.0));
    let mut svg = Svg::new(
        WIDTH,
        height(&study.results),
        "How long operations take",
        "For each policy the share of all ended operations that had succeeded after each time, \
         on a logarithmic axis of time.",
    )
    .among("completions");
    let plot = plane(Scale { from, to }, Scale { from: 0.0, to: 1.0 });
    let decades = std::iter::successors(Some(from), |at| Some(at + 1.0)).take_while(|at| *at <= to);
    let x_ticks: Vec<Tick> = decades.map(|at| (at, duration(10.0_f64.powf(at - 9.0)))).collect();
    let y_ticks: Vec<Tick> =
        [0.0, 0.25, 0.5, 0.75, 1.0].map(|at| (at, format!("{:.0} %", at * 100.0))).into();
    plot.axes(&mut svg, &x_ticks, &y_ticks);
    plot.name_x(&mut svg, "time since the operation began");
    for (number, curve) in curves.iter().enumerate() {
        let mut points = curve.clone();
        if let Some((_, last)) = curve.last() {
            points.push((to, *last));
        }
        plot.line(&mut svg, &points, stroke(number));
    }
    keys(&mut svg, &study.results, 330.0);
    Some(svg.finish())
}

/// Calls for each operation against the share of attempts that fail, and what the formula says for
/// the most attempts any of the policies makes.
pub(super) fn amplification(study: &Study) -> Option<String> {
    let results = &study.results;
    let drawn = results.iter().flat_map(|result| &result.amplification);
    let attempts = results.iter().map(|result| result.policy.max_attempts()).max()?;
    let most = drawn.map(|point| point.amplification).fold(0.0, f64::max);
    if most <= 0.0 {
        return None;
    }
    let mut svg = Svg::new(
        WIDTH,
        height(results) + 20,
        "Calls for each operation, against failures",
        "For each policy the calls an operation becomes when a share of attempts fails, each \
         independently; a dotted line is the formula 1 + p + p² + … without a budget.",
    )
    .among("amplification");
    let plot = plane(Scale { from: 0.0, to: 1.0 }, Scale { from: 0.0, to: most.max(1.5) * 1.05 });
    let x_ticks: Vec<Tick> =
        [0.0, 0.2, 0.4, 0.6, 0.8, 1.0].map(|at| (at, format!("{:.0} %", at * 100.0))).into();
    plot.axes(&mut svg, &x_ticks, &count_ticks(plot.y.to));
    plot.name_x(&mut svg, "attempts that fail");
    let formula = |ratio: f64| (0..attempts).map(|n| ratio.powi(n.cast_signed())).sum::<f64>();
    let curve: Vec<(f64, f64)> = (0..=100_u32)
        .map(|percent| f64::from(percent) / 100.0)
        .map(|ratio| (ratio, formula(ratio)))
        .filter(|(_, calls)| *calls <= plot.y.to)
        .collect();
    let analytic = Stroke { colour: FAINT, width: 1.5, dashes: "1 4" };
    plot.line(&mut svg, &curve, analytic);
    for (number, result) in results.iter().enumerate() {
        let points: Vec<(f64, f64)> =
            result.amplification.iter().map(|point| (point.ratio, point.amplification)).collect();
        plot.line(&mut svg, &points, stroke(number));
    }
    keys(&mut svg, results, 330.0);
    let below = 330.0 + 20.0 * results.len().div_ceil(2) as f64;
    let name = format!("1 + p + p² + …, {attempts} attempts");
    key(&mut svg, (60.0, below), analytic, &name);
    Some(svg.finish())
}

/// Load across, length of the trouble upwards: where a policy recovers.
pub(super) fn phases(result: &PolicyResult, number: usize) -> Option<String> {
    let distinct = |of: fn(&crate::sweep::Phase) -> f64| {
        let mut values: Vec<f64> = result.phases.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        values
    };
    let (loads, lengths) = (distinct(|phase| phase.load), distinct(|phase| phase.seconds));
    if loads.is_empty() {
        return None;
    }
    let title = format!("{}: what it recovers from", result.policy.id());
    let description = "Columns are loads as a share of the capacity, rows lengths of the trouble. \
                       A circle recovers, a cross does not.";
    let mut svg = Svg::new(WIDTH, 290, &title, description).among(&format!("phase{number}"));
    let (left, top, width, height) = (90.0, 54.0, 56.0, 34.0);
    for (row, seconds) in lengths.iter().rev().enumerate() {
        let y = top + row as f64 * height;
        svg.text((left - 10.0, y + 22.0), Anchor::End, SMALL, &duration(*seconds));
        for (column, load) in loads.iter().enumerate() {
            let x = left + column as f64 * width;
            let at = |phase: &&crate::sweep::Phase| {
                (phase.load - load).abs() < 1e-9 && (phase.seconds - seconds).abs() < 1e-9
            };
            let recovers = result.phases.iter().find(at).is_some_and(|phase| phase.recovers);
            let fill = if recovers { "#d9efe7" } else { "#f8dccb" };
            svg.rect((x, y), (width - 3.0, height - 3.0), fill);
            let (sign, colour) = if recovers { ("○", GREEN) } else { ("×", VERMILION) };
            let style = crate::draw::Style { size: 16, weight: 600, colour };
            svg.text((x + width / 2.0 - 1.0, y + 21.0), Anchor::Middle, style, sign);
        }
    }
    let bottom = top + lengths.len() as f64 * height;
    svg.path(&[(left, bottom), (left + loads.len() as f64 * width, bottom)], THIN);
    for (column, load) in loads.iter().enumerate() {
        let x = left + (column as f64 + 0.5) * width;
        svg.text((x, bottom + 18.0), Anchor::Middle, SMALL, &format!("{:.0} %", load * 100.0));
    }
    let middle = left + loads.len() as f64 * width / 2.0;
    svg.text((middle, bottom + 42.0), Anchor::Middle, LABEL, "load as a share of the capacity");
    svg.upward_text((28.0, (top + bottom) / 2.0), LABEL, "trouble lasts");
    Some(svg.finish())
}
