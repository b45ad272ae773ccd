//! A TOML document in which everything knows its line.

use relent_policy::Document;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::problem::ScenarioProblem;

/// A value and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    pub(super) line: usize,
    pub(super) value: Value,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Text(String),
    Integer(i64),
    Number(f64),
    Bool(bool),
    List(Vec<Node>),
    Table(Vec<Entry>),
    /// A date, or a number too large: nothing that a scenario has a use for.
    Other(String),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) line: usize,
    pub(super) node: Node,
}

/// Reads a document as far as it can be read.
pub(super) fn parse(text: &str) -> (Node, Vec<ScenarioProblem>) {
    let (table, errors) = DeTable::parse_recoverable(text);
    let problems = errors.iter().map(|error| ScenarioProblem {
        line: line(text, error.span().map_or(0, |span| span.start)),
        key: "the file".to_owned(),
        what: format!("is not TOML: {}", error.message()),
    });
    let problems = problems.collect();
    (Node { line: 1, value: Value::Table(entries(text, table.get_ref())) }, problems)
}

fn line(text: &str, at: usize) -> usize {
    text.get(..at).unwrap_or(text).matches('\n').count() + 1
}

fn entries(text: &str, table: &DeTable<'_>) -> Vec<Entry> {
    let entry = |(key, value): (&Spanned<_>, &Spanned<DeValue<'_>>)| {
        let key_line = line(text, key.span().start);
        let name: &std::borrow::Cow<'_, str> = key.get_ref();
        Entry { key: name.to_string(), line: key_line, node: node(text, key_line, value) }
    };
    table.iter().map(entry).collect()
}

/// The key's line is the value's, where a value does not say its own.
fn node(text: &str, key_line: usize, value: &Spanned<DeValue<'_>>) -> Node {
    let span = value.span();
    let at = if span.is_empty() { key_line } else { line(text, span.start) };
    let value = match value.get_ref() {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) => Value::Integer(number),
            Err(_) => Value::Other(number.to_string()),
        },
        DeValue::Float(number) => match number.as_str().parse() {
            Ok(number) => Value::Number(number),
            Err(_) => Value::Other(number.to_string()),
        },
        DeValue::Boolean(flag) => Value::Bool(*flag),
        DeValue::Datetime(date) => Value::Other(date.to_string()),
        DeValue::Array(items) => {
            Value::List(items.iter().map(|item| node(text, at, item)).collect())
        }
        DeValue::Table(table) => Value::Table(entries(text, table)),
    };
    Node { line: at, value }
}

impl Node {
    /// The value as a message shows it.
    pub(super) fn shown(&self) -> String {
        const SHOWN_MAX: usize = 40;
        match &self.value {
            Value::Text(text) if text.chars().count() > SHOWN_MAX => {
                format!("{:?}…", text.chars().take(SHOWN_MAX).collect::<String>())
            }
            Value::Text(text) => format!("{text:?}"),
            Value::Integer(number) => number.to_string(),
            Value::Number(number) => number.to_string(),
            Value::Bool(flag) => flag.to_string(),
            Value::List(items) => format!("a list of {}", items.len()),
            Value::Table(_) => "a table".to_owned(),
            Value::Other(text) => text.clone(),
        }
    }

    /// The same as a policy document.
    pub(super) fn document(&self) -> Document {
        match &self.value {
            Value::Text(text) => Document::Text(text.clone()),
            Value::Integer(number) => Document::Integer((*number).into()),
            Value::Number(number) => Document::Number(*number),
            Value::Bool(flag) => Document::Bool(*flag),
            Value::Other(text) => Document::Text(text.clone()),
            Value::List(items) => Document::List(items.iter().map(Node::document).collect()),
            Value::Table(entries) => {
                let entry = |entry: &Entry| (entry.key.clone(), entry.node.document());
                Document::Map(entries.iter().map(entry).collect())
            }
        }
    }

    /// The line of a field such as `budget.ratio` or `waivers[0].rule`, as far as it is there.
    pub(super) fn line_of(&self, field: &str) -> usize {
        let name = field.split(['.', '[']).next().unwrap_or_default();
        let Value::Table(entries) = &self.value else { return self.line };
        let Some(entry) = entries.iter().find(|entry| entry.key == name) else { return self.line };
        match field.split_once('.') {
            Some((_, rest)) if matches!(entry.node.value, Value::Table(_)) => {
                let inner = entry.node.line_of(rest);
                inner.max(entry.line)
            }
            _ => entry.line,
        }
    }
}
