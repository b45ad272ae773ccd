//! What people see: tables, errors with hints, and documents as they came. Colours only where a
//! terminal shows them and `NO_COLOR` does not forbid it.

use std::fmt::Display;
use std::io::{self, Write};

use anstyle::{AnsiColor, Style};
use comfy_table::{ContentArrangement, Table, TableStyle};
use relent_api::{Place, Problem, Status};

use crate::client::Unreachable;

const BAD: Style = AnsiColor::Red.on_default().bold();
const GOOD: Style = AnsiColor::Green.on_default();
const CARE: Style = AnsiColor::Yellow.on_default();
const ASIDE: Style = AnsiColor::Cyan.on_default();

/// How what was read is written.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Format {
    /// Write the server's documents as they are, for machines
    #[arg(long)]
    pub(crate) json: bool,
}

/// A text in a style.
pub(crate) fn styled(text: impl Display, style: Style) -> String {
    format!("{style}{text}{style:#}")
}

pub(crate) fn good(text: impl Display) -> String {
    styled(text, GOOD)
}

pub(crate) fn bad(text: impl Display) -> String {
    styled(text, BAD)
}

pub(crate) fn care(text: impl Display) -> String {
    styled(text, CARE)
}

pub(crate) fn aside(text: impl Display) -> String {
    styled(text, ASIDE)
}

/// A status in its colour.
pub(crate) fn status(status: Status) -> String {
    match status {
        Status::Succeeded => good(status),
        Status::Exhausted => bad(status),
        Status::Cancelled => care(status),
        Status::Pending | Status::InFlight => status.to_string(),
    }
}

/// Data: a line on stdout.
pub(crate) fn line(text: impl Display) -> io::Result<()> {
    writeln!(anstream::stdout(), "{text}")
}

/// Everything else: a line on stderr.
pub(crate) fn note(text: impl Display) {
    // Nobody is left to be told that stderr is gone.
    let _ = writeln!(anstream::stderr(), "{text}");
}

/// Advice: a `hint:` line on stderr.
pub(crate) fn hint(text: impl Display) {
    note(format_args!("{} {text}", aside("hint:")));
}

/// A document as the server wrote it.
pub(crate) fn document(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        stdout.write_all(b"\n")?;
    }
    Ok(())
}

/// Rows under a heading, columns two spaces apart.
pub(crate) fn table(heading: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(TableStyle::new()).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(heading.iter().map(|name| name.to_uppercase()));
    rows.into_iter().for_each(|row| {
        table.add_row(row);
    });
    let last = heading.len().saturating_sub(1);
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, if index == last { 0 } else { 2 }));
    }
    table.trim_fmt()
}

/// Names and values, a line each; what has no value is left out.
pub(crate) fn facts(facts: impl IntoIterator<Item = (&'static str, Option<String>)>) -> String {
    let facts: Vec<_> =
        facts.into_iter().filter_map(|(name, value)| value.map(|value| (name, value))).collect();
    let width = facts.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let lines = facts.iter().map(|(name, value)| format!("{name:<width$}  {value}"));
    lines.collect::<Vec<_>>().join("\n")
}

/// At most so many characters, the last ones cut.
pub(crate) fn cut(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some(_) => text.chars().take(chars_max.saturating_sub(1)).chain(['…']).collect(),
        None => text.to_owned(),
    }
}

/// A command that could not run: what, why, and what to do about it.
pub(crate) fn error(error: &anyhow::Error) {
    let mut causes = error.chain();
    match error.downcast_ref::<Problem>() {
        Some(refused) => problem(refused),
        None => {
            if let Some(first) = causes.next() {
                note(format_args!("{} {first}", bad("error:")));
            }
            causes.for_each(|cause| note(format_args!("  because: {cause}")));
        }
    }
    if let Some(unreachable) = error.chain().find_map(|cause| cause.downcast_ref::<Unreachable>()) {
        hint(unreachable.hint());
    }
}

/// A refusal of the server, with every place that is wrong.
pub(crate) fn problem(problem: &Problem) {
    let Problem { code, detail, errors, retry_after_secs, task_id } = problem;
    note(format_args!("{} {} ({code})", bad("error:"), code.title()));
    note(format_args!("  {detail}"));
    for error in errors {
        let place = match &error.at {
            Place::Pointer(pointer) if pointer.is_empty() => "the document".to_owned(),
            Place::Pointer(pointer) => pointer.clone(),
            Place::Parameter(name) => format!("parameter {name}"),
            Place::Header(name) => format!("header {name}"),
        };
        let rule = error.rule.as_ref().map(|rule| format!(" ({rule})")).unwrap_or_default();
        note(format_args!("  {place}{rule}"));
        note(format_args!("    expected {}, got {}", error.expected, error.got));
        if let Some(fix) = &error.fix {
            note(format_args!("    fix: {fix}"));
        }
    }
    if let Some(task_id) = task_id {
        note(format_args!("  task: {task_id}"));
    }
    if let Some(seconds) = retry_after_secs {
        hint(format_args!("the server asks to be left alone for {seconds} s"));
    }
    hint(format_args!("`relent explain {code}` says more"));
}
