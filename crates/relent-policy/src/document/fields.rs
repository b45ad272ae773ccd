//! One object of a document, read field by field. What is not asked for by name is reported.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::str::FromStr;
use core::time::Duration;

use super::{Document, names};
use crate::problem::Problem;
use crate::ratio::Ratio;

pub(super) struct Fields<'d> {
    /// What stands before a field's name in messages: nothing, `budget.`, `waivers[0].`.
    prefix: String,
    entries: &'d [(String, Document)],
    asked: Vec<&'static str>,
    problems: Vec<Problem>,
}

impl<'d> Fields<'d> {
    /// The fields of an object; of anything else none, and a problem.
    pub(super) fn of(document: &'d Document, path: &str) -> Fields<'d> {
        let (mut prefix, mut problems) = (String::new(), Vec::new());
        if !path.is_empty() {
            prefix = format!("{path}.");
        }
        let entries = match document {
            Document::Map(entries) => entries.as_slice(),
            other => {
                let field = if path.is_empty() { "document" } else { path };
                problems.push(Problem::new(field, other, "an object"));
                &[]
            }
        };
        Fields { prefix, entries, asked: Vec::new(), problems }
    }

    /// Everything that was wrong, unknown and repeated fields included.
    pub(super) fn finish(mut self) -> Vec<Problem> {
        for (index, (name, _)) in self.entries.iter().enumerate() {
            let path = format!("{}{}", self.prefix, if name.is_empty() { "\"\"" } else { name });
            if !self.asked.contains(&name.as_str()) {
                let expected = match names::closest(name, &self.asked) {
                    Some(meant) => format!("a field of a policy; did you mean {meant}?"),
                    None => format!("a field of a policy: {}", self.asked.join(", ")),
                };
                let mut problem = Problem::new(&path, "an unknown field", expected);
                problem.fix = "rename it or take it out".to_string();
                self.problems.push(problem);
            } else if self.entries[..index].iter().any(|(earlier, _)| earlier == name) {
                self.problems.push(Problem::new(&path, "a second one", "given once"));
            }
        }
        self.problems
    }

    pub(super) fn report(&mut self, problems: Vec<Problem>) {
        self.problems.extend(problems);
    }

    pub(super) fn problem(&mut self, name: &str, got: impl ToString, expected: &str) {
        let path = format!("{}{name}", self.prefix);
        self.problems.push(Problem::new(&path, got, expected));
    }

    pub(super) fn path(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// The field's value; `None` if it is not there.
    pub(super) fn get(&mut self, name: &'static str) -> Option<&'d Document> {
        self.asked.push(name);
        self.entries.iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.entries.iter().any(|(key, _)| key == name)
    }

    pub(super) fn u32(&mut self, name: &'static str) -> Option<u32> {
        let value = self.get(name)?;
        let number = whole(value).and_then(|number| u32::try_from(number).ok());
        self.or_problem(number, name, value, "a whole number, 0 to 4294967295")
    }

    pub(super) fn millis(&mut self, name: &'static str) -> Option<Duration> {
        let value = self.get(name)?;
        self.or_problem(duration(value), name, value, MILLISECONDS)
    }

    pub(super) fn ratio(&mut self, name: &'static str) -> Option<Ratio> {
        let value = self.get(name)?;
        let ratio = number(value).and_then(|number| Ratio::try_from(number).ok());
        self.or_problem(ratio, name, value, "a number, 0 or more, in steps of 0.001")
    }

    pub(super) fn bool(&mut self, name: &'static str) -> Option<bool> {
        let value = self.get(name)?;
        let flag = match value {
            Document::Bool(flag) => Some(*flag),
            _ => None,
        };
        self.or_problem(flag, name, value, "true or false")
    }

    pub(super) fn text(&mut self, name: &'static str) -> Option<&'d str> {
        let value = self.get(name)?;
        self.or_problem(as_text(value), name, value, "a text")
    }

    /// A text that stands for something; `expected` says for what.
    pub(super) fn parse<T: FromStr>(&mut self, name: &'static str, expected: &str) -> Option<T> {
        let value = self.get(name)?;
        let parsed = as_text(value).and_then(|text| text.parse().ok());
        self.or_problem(parsed, name, value, expected)
    }

    /// One of some words.
    pub(super) fn word(
        &mut self,
        name: &'static str,
        words: &[&'static str],
    ) -> Option<&'static str> {
        let value = self.get(name)?;
        let word = as_text(value).and_then(|text| words.iter().copied().find(|word| *word == text));
        self.or_problem(word, name, value, &words.join(", "))
    }

    /// A list; each item that cannot be read is a problem of its own.
    pub(super) fn list<T>(
        &mut self,
        name: &'static str,
        expected: &str,
        read: impl Fn(&Document) -> Option<T>,
    ) -> Option<Vec<T>> {
        let value = self.get(name)?;
        let Document::List(items) = value else {
            self.problem(name, value, &format!("a list; each item {expected}"));
            return None;
        };
        let mut list = Vec::new();
        for (index, item) in items.iter().enumerate() {
            match read(item) {
                Some(read) => list.push(read),
                None => self.problem(&format!("{name}[{index}]"), item, expected),
            }
        }
        Some(list)
    }

    /// A list of objects with fields of their own.
    pub(super) fn objects<T>(
        &mut self,
        name: &'static str,
        read: impl Fn(&mut Fields<'d>) -> Option<T>,
    ) -> Option<Vec<T>> {
        let value = self.get(name)?;
        let Document::List(items) = value else {
            self.problem(name, value, "a list of objects");
            return None;
        };
        let mut list = Vec::new();
        for (index, item) in items.iter().enumerate() {
            let mut fields = Fields::of(item, &self.path(&format!("{name}[{index}]")));
            list.extend(read(&mut fields));
            let problems = fields.finish();
            self.report(problems);
        }
        Some(list)
    }

    fn or_problem<T>(
        &mut self,
        read: Option<T>,
        name: &str,
        got: &Document,
        expected: &str,
    ) -> Option<T> {
        if read.is_none() {
            self.problem(name, got, expected);
        }
        read
    }
}

pub(super) const MILLISECONDS: &str = "a whole number of milliseconds, 0 or more";

pub(super) fn duration(value: &Document) -> Option<Duration> {
    whole(value).and_then(|millis| u64::try_from(millis).ok()).map(Duration::from_millis)
}

/// A whole number, also when the format wrote it as `4.0` or `1e3`.
#[expect(clippy::cast_possible_truncation, reason = "only numbers that survive the cast are taken")]
pub(super) fn whole(value: &Document) -> Option<i128> {
    match value {
        Document::Integer(number) => Some(*number),
        #[expect(
            clippy::float_cmp,
            clippy::cast_precision_loss,
            reason = "exactness is the question"
        )]
        Document::Number(number) => {
            let truncated = *number as i128;
            (number.abs() < 1e15 && truncated as f64 == *number).then_some(truncated)
        }
        _ => None,
    }
}

#[expect(clippy::cast_precision_loss, reason = "ratios are small; larger numbers are refused")]
fn number(value: &Document) -> Option<f64> {
    match value {
        Document::Integer(number) => Some(*number as f64),
        Document::Number(number) => Some(*number),
        _ => None,
    }
}

pub(super) fn as_text(value: &Document) -> Option<&str> {
    match value {
        Document::Text(text) => Some(text),
        _ => None,
    }
}
