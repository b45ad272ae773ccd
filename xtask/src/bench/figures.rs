//! Figures of several runs: the median, the range, and the aim beside them.

use std::fmt::Write as _;

use serde_json::{Value, json};

/// What a figure should be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Aim {
    None,
    AtLeast(f64),
    AtMost(f64),
}

#[derive(Debug)]
struct Row {
    scenario: &'static str,
    what: String,
    unit: &'static str,
    aim: Aim,
    values: Vec<f64>,
}

/// Every figure, in the order they were first measured.
#[derive(Debug, Default)]
pub(super) struct Figures {
    rows: Vec<Row>,
}

impl Figures {
    /// Notes what a run measured.
    pub(super) fn add(
        &mut self,
        scenario: &'static str,
        what: impl Into<String>,
        value: f64,
        unit: &'static str,
        aim: Aim,
    ) {
        let what = what.into();
        eprintln!("  {what}: {} {unit}", shown(value));
        let known = self.rows.iter_mut().find(|row| row.scenario == scenario && row.what == what);
        match known {
            Some(row) => row.values.push(value),
            None => self.rows.push(Row { scenario, what, unit, aim, values: vec![value] }),
        }
    }

    /// For people.
    pub(super) fn table(&self) -> String {
        let head = ["", "", "median", "lowest", "highest", "unit", "aim"].map(str::to_owned);
        let mut lines = vec![head];
        for row in &self.rows {
            let Spread { median, lowest, highest } = Spread::of(&row.values);
            let aim = match row.aim {
                Aim::None => String::new(),
                Aim::AtLeast(aim) => format!(">= {}{}", shown(aim), missed(median < aim)),
                Aim::AtMost(aim) => format!("<= {}{}", shown(aim), missed(median > aim)),
            };
            let spread = [median, lowest, highest].map(shown);
            let [median, lowest, highest] = spread;
            let (scenario, what) = (row.scenario.to_owned(), row.what.clone());
            lines.push([scenario, what, median, lowest, highest, row.unit.to_owned(), aim]);
        }
        let widths: [usize; 7] = std::array::from_fn(|column| {
            lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0)
        });
        let mut text = String::new();
        for line in &lines {
            let mut shown = String::new();
            for (column, (cell, width)) in line.iter().zip(widths).enumerate() {
                let _ = match column {
                    2..=4 => write!(shown, "{cell:>width$}  "),
                    _ => write!(shown, "{cell:<width$}  "),
                };
            }
            let _ = writeln!(text, "{}", shown.trim_end());
        }
        text
    }

    /// For machines.
    pub(super) fn json(&self) -> String {
        let rows = self.rows.iter().map(|row| {
            let Spread { median, lowest, highest } = Spread::of(&row.values);
            let (at_least, at_most) = match row.aim {
                Aim::None => (Value::Null, Value::Null),
                Aim::AtLeast(aim) => (json!(aim), Value::Null),
                Aim::AtMost(aim) => (Value::Null, json!(aim)),
            };
            json!({
                "scenario": row.scenario, "what": row.what, "unit": row.unit,
                "median": median, "lowest": lowest, "highest": highest,
                "runs": row.values, "aimAtLeast": at_least, "aimAtMost": at_most,
            })
        });
        format!("{:#}\n", Value::Array(rows.collect()))
    }
}

pub(super) fn missed(missed: bool) -> &'static str {
    if missed { " MISSED" } else { "" }
}

pub(super) struct Spread {
    pub(super) median: f64,
    pub(super) lowest: f64,
    pub(super) highest: f64,
}

impl Spread {
    pub(super) fn of(values: &[f64]) -> Spread {
        let mut sorted = values.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let at = |index: usize| sorted.get(index).copied().unwrap_or(f64::NAN);
        let middle = sorted.len() / 2;
        let median = match sorted.len() % 2 {
            0 => f64::midpoint(at(middle.saturating_sub(1)), at(middle)),
            _ => at(middle),
        };
        Spread { median, lowest: at(0), highest: at(sorted.len().saturating_sub(1)) }
    }
}

/// Three digits of small numbers, and whole large ones.
pub(super) fn shown(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        ..1.0 => format!("{value:.3}"),
        ..10.0 => format!("{value:.2}"),
        ..100.0 => format!("{value:.1}"),
        _ => grouped(&format!("{value:.0}")),
    }
}

fn grouped(digits: &str) -> String {
    let mut text = String::new();
    for (index, digit) in digits.char_indices() {
        let left = digits.len() - index;
        if left.is_multiple_of(3) && text.ends_with(|last: char| last.is_ascii_digit()) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The value that this share of the sorted values does not exceed.
pub(super) fn quantile(sorted: &[f64], share: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "an index into a list is small and not negative"
    )]
    let index = (last as f64 * share).round() as usize;
    sorted.get(index).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shown_as_people_write_them() {
        let rows = [(0.0, "0"), (0.1234, "0.123"), (1.234, "1.23"), (43.21, "43.2")];
        for (value, expected) in rows {
            assert_eq!(shown(value), expected);
        }
        assert_eq!([123.4, 1_234.5, 1_234_567.0].map(shown), ["123", "1,234", "1,234,567"]);
        assert_eq!(shown(-1_234.0), "-1,234");
    }

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(shown(Spread::of(&[3.0, 1.0, 2.0]).median), "2.00");
        assert_eq!(shown(Spread::of(&[4.0, 1.0, 2.0, 3.0]).median), "2.50");
    }

    #[test]
    fn a_missed_aim_is_marked() {
        let mut figures = Figures::default();
        figures.add("enqueue", "acks", 10.0, "/s", Aim::AtLeast(20.0));
        figures.add("enqueue", "p99", 10.0, "ms", Aim::AtMost(20.0));
        let table = figures.table();
        assert_eq!(table.matches("MISSED").count(), 1, "{table}");
        assert!(figures.json().contains("\"aimAtMost\": 20.0"));
    }

    #[test]
    fn quantiles_of_a_hundred() {
        let sorted: Vec<f64> = (0..=100).map(f64::from).collect();
        let quantiles = [0.5, 0.99, 1.0].map(|share| shown(quantile(&sorted, share)));
        assert_eq!(quantiles, ["50.0", "99.0", "100"]);
    }
}
