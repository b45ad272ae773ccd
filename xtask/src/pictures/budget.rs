//! A total outage under three budgets: what reaches the dependency, second by second. REQ-G1.

use relent_policy::{Budget, BudgetRules, Health, Timestamp};
use relent_sim::draw::{
    Anchor, BLUE, GREEN, LABEL, Plot, SHADE, SMALL, Scale, Stroke, Svg, VERMILION, key, ticks,
};

use super::thousands;

const FIRST_PER_SECOND: u64 = 1_000;
const RETRIES_WANTED: u32 = 3;
/// Healthy traffic before the picture begins, so that the window is full.
const WARM_UP: u64 = 60;
const OUTAGE: std::ops::Range<u64> = 10..40;
const SECONDS: u64 = 50;

pub(super) fn picture() -> String {
    let window_alone = BudgetRules { burst: 1_000_000, floor_retries: 0, ..BudgetRules::default() };
    let cases = [
        ("no budget", None, Stroke { colour: VERMILION, width: 2.5, dashes: "3 4" }),
        ("window alone", Some(window_alone), Stroke { colour: GREEN, width: 2.5, dashes: "12 5" }),
        (
            "window and bucket (default)",
            Some(BudgetRules::default()),
            Stroke { colour: BLUE, width: 3.0, dashes: "" },
        ),
    ];
    let mut svg = Svg::new(
        800,
        460,
        "A total outage: 1,000 first attempts a second, each retried up to 3 times",
        "Requests per second over 50 seconds, with everything failing from second 10 to second 40. \
         Without a budget 4,000 a second for the whole outage. With the window alone the same 4,000 \
         for two seconds and hardly a retry after that. With window and bucket about 1,200 a second \
         throughout.",
    );
    let plot = Plot {
        left: 84.0,
        top: 104.0,
        width: 690.0,
        height: 296.0,
        x: Scale { from: 0.0, to: 50.0 },
        y: Scale { from: 0.0, to: 4_400.0 },
    };
    plot.band(&mut svg, 10.0, 40.0, SHADE);
    let y_ticks = (0..=4_000_u32).step_by(1_000).map(|n| (f64::from(n), thousands(n.into())));
    plot.axes(&mut svg, &ticks((0..=50).step_by(10), " s"), &y_ticks.collect::<Vec<_>>());
    plot.name_x(&mut svg, "time");
    plot.name_y(&mut svg, "requests per second");
    let label = (plot.x(25.0), plot.top + 16.0);
    svg.text(label, Anchor::Middle, SMALL, "outage: every call fails");

    for ((name, rules, stroke), x) in cases.into_iter().zip([20.0, 226.0, 442.0]) {
        let per_second = requests(rules);
        plot.line(&mut svg, &steps(&per_second), stroke);
        key(&mut svg, (x, 58.0), stroke, name);
        let worst = per_second.iter().max().copied().unwrap_or(0);
        let last = per_second.get(39).copied().unwrap_or(0);
        let numbers = format!("worst {}, last {}", thousands(worst), thousands(last));
        svg.text((x + 42.0, 76.0), Anchor::Start, LABEL, &numbers);
    }
    svg.finish()
}

/// Requests that go out in each second of the picture.
fn requests(rules: Option<BudgetRules>) -> Vec<u64> {
    let mut budget = rules.map(Budget::new);
    let sent_in = |second: u64| {
        let out = second >= WARM_UP && OUTAGE.contains(&(second - WARM_UP));
        let health = if out { Health::Failing } else { Health::Alive };
        let mut sent = 0;
        for n in 0..FIRST_PER_SECOND {
            let now = Timestamp::from_nanos(second * 1_000_000_000 + n * 1_000_000);
            if let Some(budget) = &mut budget {
                budget.count_first_attempt(now);
                budget.note(health);
            }
            sent += 1;
            let wanted = if out { RETRIES_WANTED } else { 0 };
            for _ in 0..wanted {
                let Some(budget) = &mut budget else {
                    sent += 1;
                    continue;
                };
                if let Ok(_spent) = budget.try_retry(now) {
                    budget.note(health);
                    sent += 1;
                }
            }
        }
        sent
    };
    let all: Vec<u64> = (0..WARM_UP + SECONDS).map(sent_in).collect();
    all.into_iter().skip(usize::try_from(WARM_UP).unwrap_or(0)).collect()
}

/// One level for each second.
fn steps(per_second: &[u64]) -> Vec<(f64, f64)> {
    let level = |(second, count): (u32, &u64)| {
        let (from, count) = (f64::from(second), *count as f64);
        [(from, count), (from + 1.0, count)]
    };
    (0_u32..).zip(per_second).flat_map(level).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_simulation_shows_what_the_page_says() {
        assert_eq!(requests(None)[20], 4_000);
        let ours = requests(Some(BudgetRules::default()));
        assert!(ours[10..40].iter().all(|sent| (1_190..=1_220).contains(sent)), "{ours:?}");
        assert!(ours[..10].iter().chain(&ours[40..]).all(|sent| *sent == 1_000), "{ours:?}");
    }
}
