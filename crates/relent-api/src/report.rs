//! Everything that is wrong with a request, collected and told at once. REQ-S2.

use crate::problem::{Code, FieldError, Place, Problem};

/// More errors than this are counted and not told: a batch could have many thousands.
const TOLD_MAX: usize = 100;

/// A value that is not allowed, before anybody knows where it stands.
#[derive(Debug)]
pub(crate) struct Wrong {
    code: Code,
    got: String,
    expected: String,
    fix: Option<String>,
}

impl Wrong {
    pub(crate) fn new(got: impl Into<String>, expected: impl Into<String>) -> Wrong {
        Wrong { code: Code::InvalidRequest, got: got.into(), expected: expected.into(), fix: None }
    }

    /// The same, with a code of its own in case nothing else is wrong.
    pub(crate) fn code(self, code: Code) -> Wrong {
        Wrong { code, ..self }
    }

    pub(crate) fn fix(self, fix: impl Into<String>) -> Wrong {
        Wrong { fix: Some(fix.into()), ..self }
    }
}

/// What was found wrong so far.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// The list and the index of the item under review; pointers are told inside of it.
    item: Option<(&'static str, usize)>,
    errors: Vec<FieldError>,
    left_out: usize,
    /// The code of all findings, or `InvalidRequest` once they differ.
    code: Option<Code>,
}

impl Report {
    pub(crate) fn is_empty(&self) -> bool {
        self.errors.is_empty()
    }

    /// From here on, pointers are those inside this item of the list.
    pub(crate) fn enter(&mut self, list: &'static str, index: usize) {
        self.item = Some((list, index));
    }

    fn pointer(&self, inside: &str) -> String {
        match self.item {
            Some((list, index)) => format!("{list}/{index}{inside}"),
            None => inside.to_owned(),
        }
    }

    /// Whether something is known to be wrong at this place of the document.
    pub(crate) fn has(&self, pointer: &str) -> bool {
        if self.is_empty() {
            return false;
        }
        let pointer = self.pointer(pointer);
        self.errors.iter().any(|error| matches!(&error.at, Place::Pointer(at) if *at == pointer))
    }

    pub(crate) fn add(&mut self, at: Place, wrong: Wrong) {
        let Wrong { code, got, expected, fix } = wrong;
        self.code = match self.code {
            Some(other) if other != code => Some(Code::InvalidRequest),
            _ => Some(code),
        };
        if self.errors.len() == TOLD_MAX {
            self.left_out += 1;
            return;
        }
        self.errors.push(FieldError { fix, ..FieldError::new(at, &got, &expected) });
    }

    pub(crate) fn at(&mut self, pointer: &str, wrong: Wrong) {
        self.add(Place::Pointer(self.pointer(pointer)), wrong);
    }

    /// The value, or `None` and a finding.
    pub(crate) fn keep<T>(&mut self, pointer: &str, result: Result<T, Wrong>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(wrong) => {
                self.at(pointer, wrong);
                None
            }
        }
    }

    pub(crate) fn into_problem(self) -> Problem {
        let code = self.code.unwrap_or(Code::InvalidRequest);
        let count = self.errors.len() + self.left_out;
        let first = self.errors.first().map_or("the request is not allowed", |error| &error.detail);
        let detail = match count {
            0 | 1 => first.to_owned(),
            _ if self.left_out > 0 => {
                format!("{count} problems, of which {TOLD_MAX} are listed; the first: {first}")
            }
            _ => format!("{count} problems; the first: {first}"),
        };
        Problem { errors: self.errors, ..Problem::new(code, detail) }
    }

    /// The value if nothing was wrong.
    pub(crate) fn finish<T>(self, value: Option<T>) -> Result<T, Problem> {
        match value {
            Some(value) if self.is_empty() => Ok(value),
            _ => Err(self.into_problem()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_of_one_kind_keep_its_code_and_others_share_one() {
        let missing = || Wrong::new("nothing", "a key").code(Code::MissingIdempotencyKey);
        let mut report = Report::default();
        report.at("/a", missing());
        report.at("/b", missing());
        assert_eq!(report.code, Some(Code::MissingIdempotencyKey));
        report.at("/c", Wrong::new("x", "y"));
        report.at("/d", missing());
        assert_eq!(report.into_problem().code, Code::InvalidRequest);
    }

    #[test]
    fn a_hundred_errors_are_told_and_the_others_counted() {
        let mut report = Report::default();
        (0..250).for_each(|index| report.at(&format!("/{index}"), Wrong::new("x", "y")));
        let problem = report.into_problem();
        assert_eq!(problem.errors.len(), 100);
        assert!(problem.detail.starts_with("250 problems, of which 100 are listed"));
    }
}
