//! A thousand callers cut off at once, and how they return: with a fixed delay and with the standard
//! policy. Drawn from what the library's own test measured on a paused clock. REQ-B2, REQ-G1, REQ-K3.

use relent_sim::draw::{Anchor, BLUE, LABEL, Plot, SHADE, SMALL, Scale, Svg, VERMILION, ticks};

use super::thousands;

/// Written by `RELENT_BLESS=1 cargo test -p relent --test it outage`.
const MEASURED: &str = include_str!("../../../docs/pictures/herd.csv");
const SECONDS: u32 = 25;

/// Requests in one tenth of a second.
struct Tenth {
    at: f64,
    standard: u32,
    fixed: u32,
}

pub(super) fn picture() -> String {
    let tenths = measured();
    let mut svg = Svg::new(
        800,
        520,
        "1,000 callers, a dependency that is down for 8 seconds",
        "Requests in each tenth of a second. With a fixed delay of one second all 1,000 callers return \
         together once a second, nine times. With the standard policy there is no second wave: never \
         more than 25 requests in a tenth of a second, and everybody is through after 23 seconds.",
    );
    let panels = [
        ("fixed delay of 1 s, no budget, no breaker", VERMILION, 76.0),
        ("async-event: full jitter, budget, breaker", BLUE, 296.0),
    ];
    for (title, colour, top) in panels {
        let of = |tenth: &Tenth| if colour == BLUE { tenth.standard } else { tenth.fixed };
        let plot = Plot {
            left: 84.0,
            top,
            width: 690.0,
            height: 140.0,
            x: Scale { from: 0.0, to: f64::from(SECONDS) },
            y: Scale { from: 0.0, to: 1_100.0 },
        };
        plot.band(&mut svg, 0.0, 8.0, SHADE);
        let y_ticks = [0_u32, 500, 1_000].map(|n| (f64::from(n), thousands(n.into())));
        plot.axes(&mut svg, &ticks((0..=SECONDS).step_by(5), " s"), &y_ticks);
        for tenth in &tenths {
            let count = f64::from(of(tenth));
            plot.bar(&mut svg, (tenth.at, tenth.at + 0.1), count, colour);
        }
        let total: u32 = tenths.iter().map(of).sum();
        let worst = tenths.iter().skip(1).map(of).max().unwrap_or(0);
        let numbers = format!(
            "{title}: {} requests, {} in the worst tenth of a second after the first",
            thousands(total.into()),
            thousands(worst.into()),
        );
        svg.text((plot.left, top - 12.0), Anchor::Start, LABEL, &numbers);
        svg.text((plot.x(4.5), plot.y(720.0)), Anchor::Middle, SMALL, "down");
        if colour == BLUE {
            plot.name_x(&mut svg, "time");
        }
    }
    svg.finish()
}

fn measured() -> Vec<Tenth> {
    let row = |line: &str| {
        let mut fields = line.split(',').map(|field| field.parse::<u32>().unwrap_or(0));
        let mut next = || fields.next().unwrap_or(0);
        Tenth { at: f64::from(next()) / 10.0, standard: next(), fixed: next() }
    };
    MEASURED.lines().skip(1).map(row).filter(|tenth| tenth.at < f64::from(SECONDS)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_the_description() {
        let tenths = measured();
        assert_eq!(tenths.iter().filter(|tenth| tenth.fixed == 1_000).count(), 9);
        assert_eq!(tenths.iter().skip(1).map(|tenth| tenth.standard).max(), Some(25));
        assert!(tenths.iter().all(|tenth| tenth.standard == 0 || tenth.at < 23.0));
    }
}
