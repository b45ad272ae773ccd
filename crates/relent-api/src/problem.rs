//! Problem documents: what a caller is told when a request is refused. REQ-S2, REQ-P2.
//!
//! One shape for every refusal, RFC 9457's, with a stable `code` to branch on and, for what was
//! sent wrongly, a list of every place with what was expected and what was there. Bodies and the
//! values of headers never come back in a problem: of those it tells the kind and the length.

use std::fmt;

use http::StatusCode;
use serde::{Deserialize, Serialize};

mod code;
mod from_policy;
pub(crate) mod pointer;

pub use code::Code;

/// A request that was refused, and why.
///
/// ```
/// use relent_api::{Code, Problem};
///
/// let problem = Problem::new(Code::TaskNotFound, "there is no task `t-1`");
/// assert_eq!(problem.status(), 404);
/// let json = serde_json::to_value(&problem)?;
/// assert_eq!(json["type"], "https://relent.dev/problems/task_not_found");
/// assert_eq!(json["code"], "task_not_found");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "ProblemDocument", into = "ProblemDocument")]
pub struct Problem {
    /// What kind of refusal it is.
    pub code: Code,
    /// What happened this time, for people.
    pub detail: String,
    /// Every place in the request that is wrong.
    pub errors: Vec<FieldError>,
    /// After how many seconds the same request may succeed; sent as `Retry-After`.
    pub retry_after_secs: Option<u32>,
    /// The task it is about, if the caller may not know it.
    pub task_id: Option<String>,
}

/// One place in a request that is wrong.
///
/// ```
/// use relent_api::{FieldError, Place};
///
/// let error = FieldError::new(Place::Pointer("/delayMs".into()), "-5", "0 or more");
/// assert_eq!(error.detail, "delayMs must be 0 or more, got -5");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldError {
    /// Where.
    #[serde(flatten)]
    pub at: Place,
    /// What is allowed there.
    pub expected: String,
    /// What was there, cut to 60 characters.
    pub got: String,
    /// The rule of the standard that says so, if one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// How to put it right.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
    /// All of it in one sentence.
    pub detail: String,
}

/// Where in a request something is wrong. The document says it under the variant's name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Place {
    /// In its document, as an RFC 6901 pointer.
    Pointer(String),
    /// In its query string, under this name.
    Parameter(String),
    /// In this header.
    Header(String),
}

/// Longer values are cut in messages.
const SHOWN_CHARS_MAX: usize = 60;

/// The text, cut to what a message shows.
pub(crate) fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((end, _)) => [&text[..end], "…"].concat(),
        None => text.to_owned(),
    }
}

impl Problem {
    /// A problem of this kind, with the `Retry-After` that its kind usually has.
    pub fn new(code: Code, detail: impl Into<String>) -> Problem {
        Problem {
            code,
            detail: detail.into(),
            errors: Vec::new(),
            retry_after_secs: code.retry_after_secs(),
            task_id: None,
        }
    }

    /// The same problem, about this task.
    #[must_use]
    pub fn about_task(self, task_id: impl Into<String>) -> Problem {
        Problem { task_id: Some(task_id.into()), ..self }
    }

    /// The same problem, with one more place that is wrong.
    #[must_use]
    pub fn with_error(mut self, error: FieldError) -> Problem {
        self.errors.push(error);
        self
    }

    /// The same problem, to be tried again after this many seconds.
    #[must_use]
    pub fn retry_after(self, seconds: u32) -> Problem {
        Problem { retry_after_secs: Some(seconds), ..self }
    }

    /// The HTTP status it is answered with.
    pub fn status(&self) -> StatusCode {
        self.code.status()
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.detail, self.code)?;
        for error in &self.errors {
            write!(f, "\n  {}", error.detail)?;
            if let Some(fix) = &error.fix {
                write!(f, "\n    fix: {fix}")?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for Problem {}

impl FieldError {
    /// An error whose sentence is made of its parts; what was there is cut where it is long.
    pub fn new(at: Place, got: &str, expected: &str) -> FieldError {
        let got = shown(got);
        let detail = format!("{at} must be {expected}, got {got}");
        FieldError { at, expected: expected.to_owned(), got, rule: None, fix: None, detail }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Pointer(pointer) => f.write_str(&pointer::as_path(pointer)),
            Place::Parameter(name) => write!(f, "the parameter {name}"),
            Place::Header(name) => write!(f, "the header {name}"),
        }
    }
}

/// The document, as RFC 9457 has it.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ProblemDocument {
    #[serde(rename = "type", default)]
    type_uri: String,
    #[serde(default)]
    title: String,
    #[serde(default)]
    status: u16,
    code: Code,
    #[serde(default)]
    detail: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    errors: Vec<FieldError>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    task_id: Option<String>,
}

impl From<Problem> for ProblemDocument {
    fn from(problem: Problem) -> ProblemDocument {
        let Problem { code, detail, errors, retry_after_secs, task_id } = problem;
        ProblemDocument {
            type_uri: code.type_uri(),
            title: code.title().to_owned(),
            status: code.status().as_u16(),
            code,
            detail,
            errors,
            retry_after_ms: retry_after_secs.map(|seconds| u64::from(seconds) * 1_000),
            task_id,
        }
    }
}

impl From<ProblemDocument> for Problem {
    fn from(document: ProblemDocument) -> Problem {
        let ProblemDocument { code, detail, errors, retry_after_ms, task_id, .. } = document;
        let seconds = |millis: u64| u32::try_from(millis.div_ceil(1_000)).unwrap_or(u32::MAX);
        let retry_after_secs = retry_after_ms.map(seconds);
        Problem { code, detail, errors, retry_after_secs, task_id }
    }
}

#[cfg(test)]
mod tests;
