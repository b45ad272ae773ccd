//! One table of a scenario, read key by key. What is not asked for is reported.

use super::problem::ScenarioProblem;
use super::tree::{Entry, Node, Value};
use crate::chance::{Spread, whole};
use crate::scenario::SECOND;

pub(super) struct Fields<'n> {
    path: String,
    line: usize,
    entries: &'n [Entry],
    asked: Vec<&'static str>,
    pub(super) problems: Vec<ScenarioProblem>,
}

pub(super) const TIME: &str = "a time such as \"250ms\", \"10s\", \"2m\" or \"1h\"";
const SPREAD: &str = "a time such as \"10ms\", or one of { exponential = \"10ms\" }, \
     { uniform = [\"5ms\", \"15ms\"] }, { normal = \"10ms\", deviation = \"2ms\" }, \
     { lognormal = \"10ms\", sigma = 0.5 }";

impl<'n> Fields<'n> {
    pub(super) fn of(node: &'n Node, path: &str) -> Fields<'n> {
        let mut fields = Fields {
            path: path.to_owned(),
            line: node.line,
            entries: &[],
            asked: Vec::new(),
            problems: Vec::new(),
        };
        match &node.value {
            Value::Table(entries) => fields.entries = entries,
            _ => fields.wrong(node.line, path, "a table", node),
        }
        fields
    }

    pub(super) fn key(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    pub(super) fn get(&mut self, name: &'static str) -> Option<&'n Entry> {
        self.asked.push(name);
        self.entries.iter().find(|entry| entry.key == name)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.entries.iter().any(|entry| entry.key == name)
    }

    pub(super) fn problem(&mut self, line: usize, key: &str, what: String) {
        self.problems.push(ScenarioProblem { line, key: key.to_owned(), what });
    }

    fn wrong(&mut self, line: usize, key: &str, expected: &str, got: &Node) {
        self.problem(line, key, format!("must be {expected}, got {}", got.shown()));
    }

    /// Something about the table as a whole.
    pub(super) fn missing(&mut self, name: &str, expected: &str) {
        let key = self.key(name);
        self.problem(self.line, &key, format!("is missing: {expected}"));
    }

    /// Something about one key that could be read.
    pub(super) fn bad(&mut self, name: &'static str, expected: &str) {
        let key = self.key(name);
        if let Some(entry) = self.entries.iter().find(|entry| entry.key == name) {
            self.wrong(entry.line, &key, expected, &entry.node);
        }
    }

    /// Everything that was wrong, unknown keys included.
    pub(super) fn finish(mut self) -> Vec<ScenarioProblem> {
        for entry in self.entries {
            if self.asked.contains(&entry.key.as_str()) {
                continue;
            }
            let near =
                self.asked.iter().copied().map(|known| {
                    (strsim::osa_distance(known, &entry.key.to_ascii_lowercase()), known)
                });
            let meant = near.min().filter(|(distance, known)| *distance * 3 <= known.len());
            let what = match meant {
                Some((_, known)) => format!("is not known; did you mean `{known}`?"),
                None => format!("is not known; allowed here: {}", self.asked.join(", ")),
            };
            let key = self.key(&entry.key);
            self.problem(entry.line, &key, what);
        }
        self.problems
    }

    fn read<T>(
        &mut self,
        name: &'static str,
        expected: &str,
        read: impl FnOnce(&'n Node) -> Option<T>,
    ) -> Option<T> {
        let entry = self.get(name)?;
        let value = read(&entry.node);
        if value.is_none() {
            let key = self.key(name);
            self.wrong(entry.line, &key, expected, &entry.node);
        }
        value
    }

    pub(super) fn text(&mut self, name: &'static str) -> Option<&'n str> {
        self.read(name, "a text", text)
    }

    pub(super) fn flag(&mut self, name: &'static str) -> Option<bool> {
        self.read(name, "true or false", |node| match node.value {
            Value::Bool(flag) => Some(flag),
            _ => None,
        })
    }

    pub(super) fn time(&mut self, name: &'static str) -> Option<u64> {
        self.read(name, TIME, time)
    }

    pub(super) fn number(&mut self, name: &'static str, least: f64, most: f64) -> Option<f64> {
        let expected = match most {
            most if most.is_infinite() => format!("a number, {least} or more"),
            most => format!("a number, {least} to {most}"),
        };
        let within = |number: &f64| (least..=most).contains(number);
        self.read(name, &expected, |node| number(node).filter(within))
    }

    pub(super) fn count(&mut self, name: &'static str, least: u32, most: u32) -> Option<u32> {
        let expected = format!("a whole number, {least} to {most}");
        self.read(name, &expected, |node| match node.value {
            Value::Integer(number) => {
                u32::try_from(number).ok().filter(|number| (least..=most).contains(number))
            }
            _ => None,
        })
    }

    /// One of some words, each of which stands for something.
    pub(super) fn word<T: Copy>(&mut self, name: &'static str, words: &[(&str, T)]) -> Option<T> {
        let names: Vec<String> = words.iter().map(|(word, _)| format!("\"{word}\"")).collect();
        let find = |node: &Node| {
            let text = text(node)?;
            words.iter().find(|(word, _)| *word == text).map(|(_, meaning)| *meaning)
        };
        self.read(name, &format!("one of {}", names.join(", ")), find)
    }

    pub(super) fn texts(&mut self, name: &'static str) -> Option<Vec<String>> {
        self.read(name, "a list of texts", |node| match &node.value {
            Value::List(items) => {
                items.iter().map(|item| text(item).map(str::to_owned)).collect::<Option<Vec<_>>>()
            }
            _ => None,
        })
    }

    pub(super) fn spread(&mut self, name: &'static str) -> Option<Spread> {
        self.read(name, SPREAD, spread)
    }

    /// A table of its own.
    pub(super) fn table<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&mut Fields<'n>) -> T,
    ) -> Option<T> {
        let entry = self.get(name)?;
        let mut inner = Fields::of(&entry.node, &self.key(name));
        inner.line = entry.line;
        let value = read(&mut inner);
        self.problems.extend(inner.finish());
        Some(value)
    }

    /// A list of tables.
    pub(super) fn tables<T>(
        &mut self,
        name: &'static str,
        mut read: impl FnMut(&mut Fields<'n>, &'n Node) -> Option<T>,
    ) -> Vec<T> {
        let Some(entry) = self.get(name) else { return Vec::new() };
        let Value::List(items) = &entry.node.value else {
            let key = self.key(name);
            self.wrong(entry.line, &key, &format!("a list of tables, [[{name}]]"), &entry.node);
            return Vec::new();
        };
        let mut values = Vec::new();
        for (index, item) in items.iter().enumerate() {
            let mut inner = Fields::of(item, &format!("{}[{index}]", self.key(name)));
            values.extend(read(&mut inner, item));
            self.problems.extend(inner.finish());
        }
        values
    }

    pub(super) fn take_all(&mut self) {
        self.entries = &[];
    }
}

fn text(node: &Node) -> Option<&str> {
    match &node.value {
        Value::Text(text) => Some(text),
        _ => None,
    }
}

fn number(node: &Node) -> Option<f64> {
    match node.value {
        Value::Integer(number) => Some(number as f64),
        Value::Number(number) if number.is_finite() => Some(number),
        _ => None,
    }
}

fn time(node: &Node) -> Option<u64> {
    read_time(text(node)?)
}

/// `250ms`, `1.5s`, `2m`, `1h`, `1d`; nothing longer than a year.
pub(crate) fn read_time(text: &str) -> Option<u64> {
    let text = text.trim();
    let unit_at = text.find(|c: char| c.is_ascii_alphabetic())?;
    let (amount, unit) = text.split_at(unit_at);
    let unit = match unit {
        "us" => 1e3,
        "ms" => 1e6,
        "s" => SECOND as f64,
        "m" | "min" => 60e9,
        "h" => 3_600e9,
        "d" => 86_400e9,
        _ => return None,
    };
    let nanos = amount.trim().parse::<f64>().ok()? * unit;
    (0.0..=366.0 * 86_400e9).contains(&nanos).then(|| whole(nanos.round()))
}

fn spread(node: &Node) -> Option<Spread> {
    let Value::Table(entries) = &node.value else { return time(node).map(Spread::Constant) };
    let get = |name: &str| entries.iter().find(|entry| entry.key == name).map(|entry| &entry.node);
    let mut names: Vec<&str> = entries.iter().map(|entry| entry.key.as_str()).collect();
    names.sort_unstable();
    match names[..] {
        ["exponential"] => Some(Spread::Exponential { mean: time(get("exponential")?)? }),
        ["uniform"] => match &get("uniform")?.value {
            Value::List(ends) => match &ends[..] {
                [from, to] => {
                    let (from, to) = (time(from)?, time(to)?);
                    (from <= to).then_some(Spread::Uniform { from, to })
                }
                _ => None,
            },
            _ => None,
        },
        ["deviation", "normal"] => {
            let (mean, deviation) = (time(get("normal")?)?, time(get("deviation")?)?);
            Some(Spread::Normal { mean, deviation })
        }
        ["lognormal", "sigma"] => {
            let sigma = number(get("sigma")?).filter(|sigma| (0.0..=5.0).contains(sigma))?;
            Some(Spread::LogNormal { median: time(get("lognormal")?)?, sigma })
        }
        _ => None,
    }
}
