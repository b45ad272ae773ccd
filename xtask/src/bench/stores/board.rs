//! Figures of everybody who was measured, side by side.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::bench::figures::{Aim, Spread, missed, shown};

#[derive(Debug)]
struct Cell {
    scenario: String,
    who: String,
    what: &'static str,
    unit: &'static str,
    aim: Aim,
    values: Vec<f64>,
}

/// Every figure, in the order they were first measured.
#[derive(Debug, Default)]
pub(super) struct Board {
    notes: Vec<(String, String)>,
    cells: Vec<Cell>,
}

/// Whose figures in which scenario are noted.
#[derive(Debug)]
pub(super) struct Page<'b> {
    board: &'b mut Board,
    scenario: String,
    who: String,
}

impl Board {
    /// Notes under which circumstances it was measured.
    pub(super) fn note(&mut self, name: &str, value: impl Into<String>) {
        let value = value.into();
        eprintln!("{name}: {value}");
        self.notes.push((name.to_owned(), value));
    }

    pub(super) fn page(&mut self, scenario: String, who: String) -> Page<'_> {
        eprintln!("  {who}");
        Page { board: self, scenario, who }
    }

    /// For people: a table for each scenario, a line for everybody in it.
    pub(super) fn tables(&self) -> String {
        let mut text = String::new();
        for (name, value) in &self.notes {
            let _ = writeln!(text, "{name}: {value}");
        }
        for scenario in firsts(self.cells.iter().map(|cell| &cell.scenario)) {
            let cells: Vec<&Cell> =
                self.cells.iter().filter(|cell| cell.scenario == *scenario).collect();
            let _ = writeln!(text, "\n{scenario}: median (lowest to highest)");
            for what in firsts(cells.iter().map(|cell| &cell.what)) {
                let rows: Vec<&&Cell> = cells.iter().filter(|cell| cell.what == *what).collect();
                let unit = rows.first().map_or("", |cell| cell.unit);
                let _ = writeln!(text, "  {what}, {unit}");
                for cell in rows {
                    let _ = writeln!(text, "    {:<28}{}", cell.who, cell.shown());
                }
            }
        }
        text
    }

    /// For machines.
    pub(super) fn json(&self) -> String {
        let rows = self.cells.iter().map(|cell| {
            let Spread { median, lowest, highest } = Spread::of(&cell.values);
            let (at_least, at_most) = match cell.aim {
                Aim::None => (Value::Null, Value::Null),
                Aim::AtLeast(aim) => (json!(aim), Value::Null),
                Aim::AtMost(aim) => (Value::Null, json!(aim)),
            };
            json!({
                "scenario": cell.scenario, "who": cell.who, "what": cell.what, "unit": cell.unit,
                "median": median, "lowest": lowest, "highest": highest,
                "runs": cell.values, "aimAtLeast": at_least, "aimAtMost": at_most,
            })
        });
        let notes = self.notes.iter().map(|(name, value)| (name.clone(), json!(value)));
        let notes = Value::Object(notes.collect());
        let rows = Value::Array(rows.collect());
        format!("{:#}\n", json!({"notes": notes, "figures": rows}))
    }
}

impl Cell {
    fn shown(&self) -> String {
        let Spread { median, lowest, highest } = Spread::of(&self.values);
        let aim = match self.aim {
            Aim::None => String::new(),
            Aim::AtLeast(aim) => format!("  aim >= {}{}", shown(aim), missed(median < aim)),
            Aim::AtMost(aim) => format!("  aim <= {}{}", shown(aim), missed(median > aim)),
        };
        format!("{:>10}  ({} to {}){aim}", shown(median), shown(lowest), shown(highest))
    }
}

impl Page<'_> {
    /// Notes what a run measured.
    pub(super) fn add(&mut self, what: &'static str, value: f64, unit: &'static str) {
        self.aim(what, value, unit, Aim::None);
    }

    /// The same, with what it should be.
    pub(super) fn aim(&mut self, what: &'static str, value: f64, unit: &'static str, aim: Aim) {
        eprintln!("    {what}: {} {unit}", shown(value));
        let (scenario, who) = (&self.scenario, &self.who);
        let is_this =
            |cell: &&mut Cell| cell.scenario == *scenario && cell.who == *who && cell.what == what;
        match self.board.cells.iter_mut().find(is_this) {
            Some(cell) => cell.values.push(value),
            None => {
                let (scenario, who) = (scenario.clone(), who.clone());
                let values = vec![value];
                self.board.cells.push(Cell { scenario, who, what, unit, aim, values });
            }
        }
    }
}

/// Each value once, in the order of their first appearance.
fn firsts<'a, T: PartialEq + 'a>(values: impl Iterator<Item = &'a T>) -> Vec<&'a T> {
    let mut firsts: Vec<&T> = Vec::new();
    for value in values {
        if !firsts.contains(&value) {
            firsts.push(value);
        }
    }
    firsts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_measured_stands_side_by_side() {
        let mut board = Board::default();
        for (who, rate) in [("relent", 9.0), ("other", 1.0), ("relent", 3.0)] {
            let mut page = board.page("enqueue".to_owned(), who.to_owned());
            page.aim("acks", rate, "/s", Aim::AtLeast(2.0));
        }
        let table = board.tables();
        let lines: Vec<&str> = table.lines().map(str::trim).collect();
        assert_eq!(lines[1..3], ["enqueue: median (lowest to highest)", "acks, /s"]);
        assert!(lines[3].starts_with("relent") && lines[3].contains("6.00  (3.00 to 9.00)"));
        assert!(lines[4].starts_with("other") && lines[4].ends_with("MISSED"));
    }
}
