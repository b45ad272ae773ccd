//! How long each kind of backoff may wait, attempt by attempt. REQ-B1, REQ-B4.

use std::time::Duration;

use relent_policy::{Backoff, Policy, PolicySpec, Ratio};
use relent_sim::draw::{
    Anchor, BLUE, GREEN, INK, LABEL, PURPLE, Plot, SMALL, Scale, Stroke, Style, Svg, Tick,
    VERMILION, ticks,
};

const RETRIES: u32 = 7;

struct Curve {
    name: &'static str,
    stroke: Stroke,
    ceilings: Vec<Duration>,
    /// How far below its end the name stands, so that names keep apart.
    lower: f64,
}

pub(super) fn picture() -> String {
    let mut svg = Svg::new(
        800,
        470,
        "The longest wait after each attempt, before jitter",
        "Ceilings in seconds after attempts 1 to 7, on a logarithmic scale. Fixed stays at 1 second, \
         linear reaches 7 seconds, exponential doubles from 1 second to its cap of 30 seconds, the \
         webhook schedule grows to 4 hours and the Standard Webhooks schedule to 10 hours.",
    );
    let plot = Plot {
        left: 92.0,
        top: 64.0,
        width: 512.0,
        height: 350.0,
        x: Scale { from: 0.8, to: 7.0 },
        y: Scale { from: 0.0, to: log2(Duration::from_secs(65_536)) },
    };
    plot.axes(&mut svg, &ticks(1..=RETRIES, ""), &time_ticks());
    plot.name_x(&mut svg, "after attempt");
    plot.name_y(&mut svg, "wait at most (logarithmic)");
    for curve in curves() {
        draw(&mut svg, &plot, &curve);
    }
    svg.finish()
}

fn curves() -> Vec<Curve> {
    let second = Duration::from_secs(1);
    let doubling =
        Backoff::Exponential { initial: second, multiplier: Ratio::from_thousandths(2_000) };
    let cap = Policy::sync_api().spec().max_delay;
    let uncapped = Duration::from_secs(86_400);
    let up_to = |retries, backoff: &Backoff, cap| -> Vec<Duration> {
        (1..=retries).map(|attempt| backoff.ceiling(attempt, cap)).collect()
    };
    let solid = |colour| Stroke { colour, width: 2.5, dashes: "" };
    let (webhook, standard) = (PolicySpec::webhook(), PolicySpec::standard_webhooks());
    vec![
        Curve {
            name: "standard-webhooks",
            stroke: Stroke { dashes: "2 5", ..solid(PURPLE) },
            ceilings: up_to(standard.max_attempts - 1, &standard.backoff, uncapped),
            lower: -26.0,
        },
        Curve {
            name: "webhook schedule",
            stroke: Stroke { dashes: "10 4 2 4", ..solid(VERMILION) },
            ceilings: up_to(RETRIES, &webhook.backoff, uncapped),
            lower: 0.0,
        },
        Curve {
            name: "exponential, cap 30 s",
            stroke: solid(BLUE),
            ceilings: up_to(RETRIES, &doubling, cap),
            lower: 0.0,
        },
        Curve {
            name: "linear",
            stroke: Stroke { dashes: "10 5", ..solid(GREEN) },
            ceilings: up_to(RETRIES, &Backoff::Linear { initial: second }, cap),
            lower: 0.0,
        },
        Curve {
            name: "fixed",
            stroke: Stroke { dashes: "4 4", ..solid(INK) },
            ceilings: up_to(RETRIES, &Backoff::Fixed { delay: second }, cap),
            lower: -6.0,
        },
    ]
}

fn draw(svg: &mut Svg, plot: &Plot, curve: &Curve) {
    let points: Vec<(f64, f64)> =
        (1_u32..).zip(&curve.ceilings).map(|(n, wait)| (f64::from(n), log2(*wait))).collect();
    plot.line(svg, &points, curve.stroke);
    for point in &points {
        svg.dot(plot.at(*point), curve.stroke.colour);
    }
    if let (Some(end), Some(wait)) = (points.last(), curve.ceilings.last()) {
        let note = format!("{} after attempt {}", words(*wait), points.len());
        let (x, y) = plot.at(*end);
        let y = y + curve.lower;
        let colour = curve.stroke.colour;
        svg.text((x + 12.0, y), Anchor::Start, Style { weight: 600, colour, ..LABEL }, curve.name);
        svg.text((x + 12.0, y + 15.0), Anchor::Start, SMALL, &note);
    }
}

fn time_ticks() -> Vec<Tick> {
    [1, 10, 60, 600, 3_600, 36_000]
        .map(Duration::from_secs)
        .map(|wait| (log2(wait), words(wait)))
        .into()
}

fn words(wait: Duration) -> String {
    match wait.as_secs() {
        secs @ 0..60 => format!("{secs} s"),
        secs @ 60..3_600 => format!("{} min", secs / 60),
        secs => format!("{} h", secs / 3_600),
    }
}

/// The logarithm of the seconds to base 2, in steps of 1/1024, by squaring: the same everywhere,
/// which the logarithm of a maths library need not be.
fn log2(wait: Duration) -> f64 {
    const ONE: u128 = 1 << 32;
    let mut value = u128::from(wait.as_secs().max(1)) * ONE;
    let mut log = 0.0;
    while value >= 2 * ONE {
        value /= 2;
        log += 1.0;
    }
    for bit in 1..=10 {
        value = value * value / ONE;
        if value >= 2 * ONE {
            value /= 2;
            log += 1.0 / f64::from(1_u32 << bit);
        }
    }
    log
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_logarithm_is_close_to_the_real_one() {
        for secs in [1, 2, 3, 7, 30, 3_600, 36_000, 65_536] {
            let ours = log2(Duration::from_secs(secs));
            let real = f64::from(u32::try_from(secs).unwrap()).log2();
            assert!((ours - real).abs() < 0.001, "{secs}: {ours} for {real}");
        }
    }
}
