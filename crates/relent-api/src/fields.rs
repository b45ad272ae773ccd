//! One object of a request, read field by field. What is not asked for by name is reported.
//!
//! This is the way to every complaint: a derived reader stops at the first thing it dislikes.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::json::{self, Text};
use crate::limits::Limits;
use crate::names::closest;
use crate::problem::{Problem, pointer};
use crate::report::{Report, Wrong};

pub(crate) struct Fields<'j> {
    /// Where the object stands.
    at: String,
    entries: Vec<(Cow<'j, str>, &'j RawValue)>,
    asked: Vec<&'static str>,
}

impl<'j> Fields<'j> {
    /// The fields of an object; of anything else none, and a finding.
    pub(crate) fn of(value: &'j RawValue, at: &str, report: &mut Report) -> Option<Fields<'j>> {
        let entries = report.keep(at, json::entries(value))?;
        Some(Fields { at: at.to_owned(), entries, asked: Vec::new() })
    }

    /// The fields of a whole document.
    pub(crate) fn of_document(json: &'j [u8], limits: &Limits) -> Result<Fields<'j>, Problem> {
        let value = json::value(json::text(json, limits)?)?;
        let mut report = Report::default();
        let fields = Fields::of(value, "", &mut report);
        report.finish(fields)
    }

    /// Where a field of this object stands.
    pub(crate) fn pointer(&self, name: &str) -> String {
        pointer::field(&self.at, name)
    }

    /// A field's value, whatever it is; `None` if it is not there, or null.
    pub(crate) fn get(&mut self, name: &'static str) -> Option<&'j RawValue> {
        self.asked.push(name);
        let found = self.entries.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| *value).filter(|value| !json::is_null(value))
    }

    /// A field of one type; `None` if it is not there, or is something else, which is reported.
    pub(crate) fn read<T: Deserialize<'j>>(
        &mut self,
        name: &'static str,
        expected: &str,
        report: &mut Report,
    ) -> Option<T> {
        let value = self.get(name)?;
        let read = serde_json::from_str(value.get());
        let read = read.map_err(|_| Wrong::new(json::told(value), expected));
        report.keep(&self.pointer(name), read)
    }

    /// The same for a value that no message may show.
    pub(crate) fn read_hidden<T: Deserialize<'j>>(
        &mut self,
        name: &'static str,
        expected: &str,
        report: &mut Report,
    ) -> Option<T> {
        let value = self.get(name)?;
        let read = serde_json::from_str(value.get());
        let read = read.map_err(|_| Wrong::new(json::kind(value), expected));
        report.keep(&self.pointer(name), read)
    }

    /// A text, as what it means; what means nothing is reported.
    pub(crate) fn read_as<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&str) -> Result<T, Wrong>,
        report: &mut Report,
    ) -> Option<T> {
        let Text(text) = self.read(name, "a text", report)?;
        report.keep(&self.pointer(name), read(&text))
    }

    /// A whole number in a range.
    pub(crate) fn number(
        &mut self,
        name: &'static str,
        min: u32,
        max: u32,
        report: &mut Report,
    ) -> Option<u32> {
        let value = self.get(name)?;
        let number = serde_json::from_str(value.get()).ok();
        let number = number.filter(|number| (min..=max).contains(number));
        let number = number
            .ok_or_else(|| Wrong::new(json::told(value), format!("a number, {min} to {max}")));
        report.keep(&self.pointer(name), number)
    }

    /// Reports unknown and repeated fields. `what` says of what they would be fields.
    pub(crate) fn finish(self, what: &str, report: &mut Report) {
        for (index, (name, _)) in self.entries.iter().enumerate() {
            if !self.asked.contains(&name.as_ref()) {
                let expected = match closest(name, &self.asked) {
                    Some(meant) => format!("a field of {what} (did you mean {meant}?)"),
                    None => format!("a field of {what}: {}", self.asked.join(", ")),
                };
                let wrong = Wrong::new("an unknown field", expected);
                report.at(&self.pointer(name), wrong.fix("rename it or take it out"));
            } else if self.entries[..index].iter().any(|(earlier, _)| earlier == name) {
                report.at(&self.pointer(name), Wrong::new("a second one", "given once"));
            }
        }
    }
}
