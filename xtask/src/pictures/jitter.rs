//! What each kind of jitter draws, as histograms side by side. REQ-B2.

use std::time::Duration;

use anyhow::Result;
use relent_policy::{Backoff, Jitter, Policy, PolicySpec, Ratio, Rule, roll};
use relent_sim::draw::{
    Anchor, BLUE, INK, LABEL, Plot, SMALL, STRONG, Scale, Stroke, Svg, VERMILION, ticks,
};

const DRAWS: u64 = 100_000;
const ATTEMPT: u32 = 4;
const CAP_MS: u64 = 30_000;
/// Bars of half a second; the last one holds what is exactly the cap.
const BAR_MS: u64 = 500;
/// Higher bars are cut, and say how high they are.
const SHOWN_PERCENT: f64 = 25.0;

struct Kind {
    jitter: Jitter,
    name: &'static str,
    formula: &'static str,
}

const KINDS: [Kind; 6] = [
    Kind { jitter: Jitter::Full, name: "FULL", formula: "U(0, d)" },
    Kind {
        jitter: Jitter::Decorrelated,
        name: "DECORRELATED",
        formula: "min(cap, U(base, 3 prev))",
    },
    Kind { jitter: Jitter::Equal, name: "EQUAL", formula: "d/2 + U(0, d/2)" },
    Kind { jitter: Jitter::Additive, name: "ADDITIVE", formula: "min(cap, d + U(0, base))" },
    Kind {
        jitter: Jitter::Proportional { ratio: Ratio::from_thousandths(300) },
        name: "PROPORTIONAL",
        formula: "d + U(0, 0.3 d)",
    },
    Kind { jitter: Jitter::None, name: "NONE", formula: "d" },
];

pub(super) fn picture() -> Result<String> {
    let mut svg = Svg::new(
        800,
        596,
        "100,000 waits after attempt 4: base 1 s, cap 30 s, so d = 8 s",
        "Six histograms of waits, in bars of half a second. Full jitter is flat from 0 to 8 seconds; \
         decorrelated falls off from 1 second on and has a spike at the cap of 30 seconds; equal is \
         flat from 4 to 8, additive from 8 to 9, proportional from 8 to 10.4 seconds; without jitter \
         every wait is 8 seconds.",
    );
    let columns = [58.0, 316.0, 574.0];
    let places = [96.0, 348.0].into_iter().flat_map(|top| columns.map(|left| (left, top)));
    for (kind, place) in KINDS.iter().zip(places) {
        panel(&mut svg, kind, &draws(kind.jitter)?, place);
    }
    let note = "Across: the wait in seconds. Up: the share of waits in each half second; a bar with a \
                number is cut.";
    svg.text((20.0, 563.0), Anchor::Start, SMALL, note);
    let note = "Dashed: the mean. Busiest 100 ms: the share of callers that return in the worst tenth \
                of a second.";
    svg.text((20.0, 580.0), Anchor::Start, SMALL, note);
    Ok(svg.finish())
}

/// The waits of as many tasks after their fourth attempt, in milliseconds.
fn draws(jitter: Jitter) -> Result<Vec<u64>> {
    let policy = policy(jitter)?;
    let wait = |task| {
        let mut previous = Duration::ZERO;
        for attempt in 1..=ATTEMPT {
            previous = policy.delay(attempt, previous, roll::for_attempt(1, task, attempt));
        }
        u64::try_from(previous.as_millis()).unwrap_or(u64::MAX)
    };
    Ok((0..DRAWS).map(wait).collect())
}

fn policy(jitter: Jitter) -> Result<Policy> {
    let spec = PolicySpec {
        max_attempts: ATTEMPT + 1,
        backoff: Backoff::Exponential {
            initial: Duration::from_secs(1),
            multiplier: Ratio::from_thousandths(2_000),
        },
        max_delay: Duration::from_millis(CAP_MS),
        jitter,
        ..PolicySpec::sync_api()
    };
    super::build_waived(spec, Rule::R1)
}

fn panel(svg: &mut Svg, kind: &Kind, waits: &[u64], (left, top): (f64, f64)) {
    svg.text((left - 38.0, top - 32.0), Anchor::Start, STRONG, kind.name);
    svg.text((left - 38.0, top - 15.0), Anchor::Start, SMALL, kind.formula);
    let plot = Plot {
        left,
        top,
        width: 192.0,
        height: 140.0,
        x: Scale { from: 0.0, to: 31.0 },
        y: Scale { from: 0.0, to: SHOWN_PERCENT },
    };
    plot.axes(svg, &ticks((0..=30).step_by(10), ""), &ticks([10, 20], " %"));
    bars(svg, &plot, &histogram(waits));
    let mean: u64 = waits.iter().sum::<u64>() / DRAWS;
    let x = plot.x(mean as f64 / 1_000.0);
    let stroke = Stroke { colour: INK, width: 1.5, dashes: "4 3" };
    svg.path(&[(x, top), (x, top + plot.height)], stroke);
    let below = top + plot.height + 38.0;
    let facts = format!("mean {:.1} s · busiest 100 ms {}", mean as f64 / 1_000.0, busiest(waits));
    svg.text((left - 38.0, below), Anchor::Start, LABEL, &facts);
}

fn bars(svg: &mut Svg, plot: &Plot, counts: &[u64]) {
    let percents = counts.iter().map(|count| share(*count) * 100.0);
    let bars: Vec<(f64, f64)> = (0_u32..)
        .zip(percents)
        .map(|(index, percent)| (f64::from(index) / 2.0, percent))
        .filter(|(_, percent)| *percent > 0.0)
        .collect();
    let cut: Vec<&(f64, f64)> =
        bars.iter().filter(|(_, percent)| *percent > SHOWN_PERCENT).collect();
    for (from, percent) in &bars {
        let fill = if *percent > SHOWN_PERCENT { VERMILION } else { BLUE };
        plot.bar(svg, (*from, from + 0.5), percent.min(SHOWN_PERCENT), fill);
    }
    if let (Some((_, percent)), Some((last, _))) = (cut.first(), cut.last()) {
        let each = if cut.len() > 1 { " each" } else { "" };
        let (x, y) = plot.at((last + 0.5, SHOWN_PERCENT));
        svg.text((x + 6.0, y + 12.0), Anchor::Start, LABEL, &format!("{percent:.0} %{each}"));
    }
}

fn histogram(waits: &[u64]) -> Vec<u64> {
    counted(waits, BAR_MS)
}

/// The share of callers that return within the worst tenth of a second.
fn busiest(waits: &[u64]) -> String {
    let most = counted(waits, 100).into_iter().max().unwrap_or(0);
    format!("{:.1} %", share(most) * 100.0)
}

fn counted(waits: &[u64], width_ms: u64) -> Vec<u64> {
    let mut counts = vec![0; usize::try_from(CAP_MS / width_ms).unwrap_or(0) + 1];
    for wait in waits {
        counts[usize::try_from(wait / width_ms).unwrap_or(0)] += 1;
    }
    counts
}

fn share(count: u64) -> f64 {
    count as f64 / DRAWS as f64
}
