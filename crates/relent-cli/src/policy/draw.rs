//! A preview as a picture for terminals: a histogram of each wait, and a time line of the attempts.

use std::fmt::Write as _;
use std::time::Duration;

use relent_policy::Policy;

use super::preview::{Preceded, Preview, Spread};
use crate::output;
use crate::times;

const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const LINE_CHARS: usize = 72;

pub(super) fn picture(policy: &Policy, preview: &Preview) -> String {
    let spec = policy.spec();
    let mut picture = format!(
        "policy `{}`: {} attempts within {}, {} backoff, {} jitter\n\
         10,000 tasks that always get 503, seed {}\n\n{}",
        spec.policy_id,
        spec.max_attempts,
        times::short(spec.total_budget),
        spec.backoff.name(),
        spec.jitter.name(),
        preview.seed,
        waits(preview),
    );
    if preview.attempts.is_empty() {
        return picture;
    }
    let _ = write!(picture, "\n\n{}\n", time_line(preview));
    for (reason, count) in &preview.ended_because {
        let share = *count as f64 * 100.0 / preview.tasks as f64;
        let _ = write!(picture, "\n{share:.0} % give up: {reason}");
    }
    let Spread { min, median, max, .. } = preview.total_ms;
    let _ = write!(
        picture,
        "\nafter {} to {}, half of them by {}",
        shown(min),
        shown(max),
        shown(median)
    );
    picture
}

/// Each wait: numbers, and how often it is how long.
fn waits(preview: &Preview) -> String {
    let heading = ["attempt", "wait min", "p5", "median", "p95", "max", "from 0 to max", "tasks"];
    let rows = preview.attempts.iter().map(|attempt| {
        let Spread { min, p5, median, p95, max } = attempt.wait_ms;
        let share = attempt.tasks as f64 * 100.0 / preview.tasks as f64;
        let numbers = [min, p5, median, p95, max].into_iter().map(shown);
        let shape = [histogram(attempt), format!("{share:.0} %")];
        [attempt.attempt.to_string()].into_iter().chain(numbers).chain(shape).collect()
    });
    output::table(&heading, rows)
}

fn shown(millis: f64) -> String {
    times::short(Duration::from_secs_f64(millis / 1e3))
}

fn histogram(attempt: &Preceded) -> String {
    let most = attempt.histogram.iter().max().copied().unwrap_or(0).max(1);
    let bar = |count: &u64| {
        let height = (count * 8).div_ceil(most);
        BARS[usize::try_from(height).unwrap_or(8).min(8)]
    };
    let bars: String = attempt.histogram.iter().map(bar).collect();
    format!("▕{bars}▏")
}

/// When each attempt is made, on one logarithmic axis: `─` from the first task to the last, `━` nine
/// tenths of them, `┃` the median.
fn time_line(preview: &Preview) -> String {
    let shortest = preview.attempts.iter().map(|it| it.elapsed_ms.p5).fold(f64::MAX, f64::min);
    let longest = preview.attempts.iter().map(|it| it.elapsed_ms.max).fold(0.0, f64::max);
    let axis = Axis::over(shortest, longest);
    let mut text = format!("ATTEMPT  SINCE THE TASK WAS CREATED\n{:9}{}", "", axis.ticks());
    for attempt in &preview.attempts {
        let Spread { min, p5, median, p95, max } = attempt.elapsed_ms;
        let mut line = vec![' '; LINE_CHARS];
        line[axis.at(min)..=axis.at(max)].fill('─');
        line[axis.at(p5)..=axis.at(p95)].fill('━');
        line[axis.at(median)] = '┃';
        let line: String = line.into_iter().collect();
        let _ = write!(text, "\n{:<9}{}", attempt.attempt, line.trim_end());
    }
    text
}

/// Where an axis may begin, end and be marked, in milliseconds.
const TICKS: [(f64, &str); 12] = [
    (0.1, "0.1 ms"),
    (1.0, "1 ms"),
    (10.0, "10 ms"),
    (100.0, "100 ms"),
    (1e3, "1 s"),
    (1e4, "10 s"),
    (6e4, "1 min"),
    (6e5, "10 min"),
    (3.6e6, "1 h"),
    (2.16e7, "6 h"),
    (8.64e7, "1 d"),
    (6.048e8, "7 d"),
];

struct Axis {
    ticks: &'static [(f64, &'static str)],
}

impl Axis {
    fn over(shortest: f64, longest: f64) -> Axis {
        let first = TICKS.iter().rposition(|(at, _)| *at <= shortest).unwrap_or(0);
        let last = TICKS.iter().position(|(at, _)| *at >= longest).unwrap_or(TICKS.len() - 1);
        let first = first.min(TICKS.len() - 2);
        Axis { ticks: &TICKS[first..=last.max(first + 1)] }
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is between 0 and the line's length"
    )]
    fn at(&self, millis: f64) -> usize {
        let (from, to) = (self.ticks[0].0.ln(), self.ticks[self.ticks.len() - 1].0.ln());
        let place = (millis.max(TICKS[0].0).ln() - from) / (to - from);
        (place.clamp(0.0, 1.0) * (LINE_CHARS - 1) as f64).round() as usize
    }

    /// A name at each tick, the last one within the line.
    fn ticks(&self) -> String {
        let mut text = String::new();
        for (tick, name) in self.ticks {
            let at = self.at(*tick).min(LINE_CHARS - name.len());
            let used = text.chars().count();
            if used == 0 || at > used {
                text.push_str(&" ".repeat(at - used));
                text.push_str(name);
            }
        }
        text
    }
}
