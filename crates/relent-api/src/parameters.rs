//! A query string, read parameter by parameter. What is not asked for by name is reported.

use std::borrow::Cow;

use url::form_urlencoded;

use crate::names::closest;
use crate::problem::{Place, Problem, shown};
use crate::report::{Report, Wrong};

pub(crate) struct Parameters<'q> {
    pairs: Vec<(Cow<'q, str>, Cow<'q, str>)>,
    asked: Vec<&'static str>,
    report: Report,
}

impl<'q> Parameters<'q> {
    /// Decodes what stands after the `?`.
    pub(crate) fn of(query: &'q str) -> Parameters<'q> {
        let pairs = form_urlencoded::parse(query.as_bytes()).collect();
        Parameters { pairs, asked: Vec::new(), report: Report::default() }
    }

    pub(crate) fn wrong(&mut self, name: &str, wrong: Wrong) {
        self.report.add(Place::Parameter(shown(name)), wrong);
    }

    /// Whether nothing is known to be wrong so far.
    pub(crate) fn is_right(&self) -> bool {
        self.report.is_empty()
    }

    /// Every value of a parameter, in order.
    pub(crate) fn all(&mut self, name: &'static str) -> Vec<Cow<'q, str>> {
        self.asked.push(name);
        let values = self.pairs.iter().filter(|(key, _)| key == name);
        values.map(|(_, value)| value.clone()).collect()
    }

    /// The value of a parameter that is given once at most.
    pub(crate) fn one(&mut self, name: &'static str) -> Option<Cow<'q, str>> {
        let mut values = self.all(name);
        if values.len() > 1 {
            self.wrong(name, Wrong::new(format!("{} values", values.len()), "given once"));
        }
        values.truncate(1);
        values.pop()
    }

    /// The same, as what it means; what means nothing is reported.
    pub(crate) fn read<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&str) -> Result<T, Wrong>,
    ) -> Option<T> {
        let text = self.one(name)?;
        match read(&text) {
            Ok(value) => Some(value),
            Err(wrong) => {
                self.wrong(name, wrong);
                None
            }
        }
    }

    /// The value, if all parameters were known and right.
    pub(crate) fn finish<T>(mut self, value: T) -> Result<T, Problem> {
        let asked = self.asked.join(", ");
        for (name, _) in std::mem::take(&mut self.pairs) {
            if !self.asked.contains(&name.as_ref()) {
                let expected = match closest(&name, &self.asked) {
                    Some(meant) => format!("a parameter (did you mean {meant}?)"),
                    None => format!("one of these: {asked}"),
                };
                self.wrong(&name, Wrong::new("an unknown parameter", expected));
            }
        }
        self.report.finish(Some(value))
    }
}

/// A whole number in a range.
pub(crate) fn number(text: &str, min: u32, max: u32) -> Result<u32, Wrong> {
    let number = text.parse().ok().filter(|number| (min..=max).contains(number));
    number.ok_or_else(|| Wrong::new(format!("{text:?}"), format!("{min} to {max}")))
}

/// `true` or `false`.
pub(crate) fn flag(text: &str) -> Result<bool, Wrong> {
    text.parse().map_err(|_| Wrong::new(format!("{text:?}"), "true or false"))
}
