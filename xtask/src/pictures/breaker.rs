//! A breaker from the first failure to full traffic: how many calls it lets through. REQ-K3.

use relent_policy::{Admission, Breaker, BreakerRules, BreakerState, Health, Timestamp, roll};
use relent_sim::draw::{
    Anchor, BLUE, FAINT, LABEL, Plot, SHADE, SMALL, Scale, Stroke, Svg, VERMILION, swatch, ticks,
};

/// Healthy traffic before the picture begins, so that the window is full.
const WARM_UP_MS: u64 = 20_000;
const FAILING_MS: std::ops::Range<u64> = 2_000..9_000;
const SHOWN_MS: u64 = 25_000;
const BAR_MS: u64 = 200;

/// What happened at 1,000 calls a second, on the picture's clock.
struct Life {
    /// Admitted calls per bar: those that succeeded and those that failed.
    bars: Vec<(u32, u32)>,
    opened_ms: u64,
    probed_ms: u64,
    ramped_ms: u64,
}

pub(super) fn picture() -> String {
    let life = live();
    let mut svg = Svg::new(
        800,
        450,
        "A breaker opens, probes and ramps up: admitted calls per 200 ms",
        "Bars of admitted calls at 1,000 calls a second. All 200 pass; from second 2 on they fail, and \
         about five seconds later the breaker opens and none pass. After the cool-down one probe \
         succeeds and the admitted share grows steadily from a tenth to all of it over ten seconds.",
    );
    let plot = Plot {
        left: 84.0,
        top: 112.0,
        width: 690.0,
        height: 280.0,
        x: Scale { from: 0.0, to: 25.0 },
        y: Scale { from: 0.0, to: 220.0 },
    };
    let (opened, probed) = (seconds(life.opened_ms), seconds(life.probed_ms));
    plot.band(&mut svg, opened, probed, SHADE);
    plot.axes(&mut svg, &ticks((0..=25).step_by(5), " s"), &ticks((0..=200).step_by(50), ""));
    plot.name_x(&mut svg, "time");
    plot.name_y(&mut svg, "calls per 200 ms");
    for (index, (succeeded, failed)) in (0_u32..).zip(&life.bars) {
        let from = f64::from(index) / 5.0;
        let both = f64::from(succeeded + failed);
        plot.bar(&mut svg, (from, from + 0.2), both, VERMILION);
        if *succeeded > 0 {
            plot.bar(&mut svg, (from, from + 0.2), f64::from(*succeeded), BLUE);
        }
    }
    swatch(&mut svg, (20.0, 60.0), BLUE, "admitted, succeeded");
    swatch(&mut svg, (190.0, 60.0), VERMILION, "admitted, failed");
    marks(&mut svg, &plot, &life);
    svg.finish()
}

fn marks(svg: &mut Svg, plot: &Plot, life: &Life) {
    let stroke = Stroke { colour: FAINT, width: 1.5, dashes: "4 3" };
    let top = plot.top - 8.0;
    let spans = [
        (FAILING_MS.start, "calls fail"),
        (life.opened_ms, "opens"),
        (life.probed_ms, "probe"),
        (life.ramped_ms, "ramp done"),
    ];
    for (at, what) in spans {
        let x = plot.x(seconds(at));
        svg.path(&[(x, top + 4.0), (x, plot.top + plot.height)], stroke);
        let text = format!("{what}: {:.1} s", seconds(at));
        svg.text((x, top), Anchor::Middle, LABEL, &text);
    }
    let middle = plot.x((seconds(life.opened_ms) + seconds(life.probed_ms)) / 2.0);
    svg.text((middle, plot.y(104.0)), Anchor::Middle, SMALL, "open:");
    svg.text((middle, plot.y(92.0)), Anchor::Middle, SMALL, "nothing passes");
}

fn live() -> Life {
    let mut breaker = Breaker::new(BreakerRules::default());
    let mut life = Life {
        bars: vec![(0, 0); usize::try_from(SHOWN_MS / BAR_MS).unwrap_or(0)],
        opened_ms: 0,
        probed_ms: 0,
        ramped_ms: 0,
    };
    for at in 0..WARM_UP_MS + SHOWN_MS {
        let now = Timestamp::from_millis(at);
        let shown = at.checked_sub(WARM_UP_MS);
        let fails = shown.is_some_and(|ms| FAILING_MS.contains(&ms));
        let Ok(admission) = breaker.admit(now) else { continue };
        let health = if fails { Health::Failing } else { Health::Alive };
        breaker.record(admission, health, now, roll::for_attempt(1, at, 1));
        let Some(shown) = shown else { continue };
        let bar = &mut life.bars[usize::try_from(shown / BAR_MS).unwrap_or(0)];
        match fails {
            false => bar.0 += 1,
            true => bar.1 += 1,
        }
        if breaker.state(now) == BreakerState::Open {
            life.opened_ms = shown;
        }
        if admission == Admission::Probe {
            life.probed_ms = shown;
            let ramp = BreakerRules::default().ramp.as_millis();
            life.ramped_ms = shown + u64::try_from(ramp).unwrap_or(0);
        }
    }
    life
}

fn seconds(millis: u64) -> f64 {
    millis as f64 / 1_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_life_has_an_open_period_and_a_ramp() {
        let Life { bars, opened_ms, probed_ms, ramped_ms } = live();
        let bar = |millis: u64| bars[usize::try_from(millis / BAR_MS).unwrap()].0;
        assert!(FAILING_MS.contains(&opened_ms) && probed_ms > FAILING_MS.end);
        assert!((3_750..=5_000).contains(&(probed_ms - opened_ms)), "one cool-down, no second one");
        assert_eq!(bar(opened_ms + BAR_MS), 0);
        assert!((15..=35).contains(&bar(probed_ms + BAR_MS)), "a tenth of 200, and growing");
        assert_eq!(bar(ramped_ms + BAR_MS), 200);
    }
}
