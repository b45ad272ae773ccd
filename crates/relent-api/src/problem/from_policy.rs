//! A policy that was refused, as a problem: every violation with its rule and its fix. REQ-E1.

use relent_policy::Rejected;

use super::{Code, FieldError, Place, Problem, pointer};

impl From<Rejected> for Problem {
    fn from(rejected: Rejected) -> Problem {
        let Rejected { policy_id, problems } = rejected;
        let count = match problems.len() {
            1 => "one problem".to_owned(),
            count => format!("{count} problems"),
        };
        let detail = format!("policy `{policy_id}` was refused: {count}");
        let errors = problems.into_iter().map(error).collect();
        Problem { errors, ..Problem::new(Code::PolicyRejected, detail) }
    }
}

fn error(problem: relent_policy::Problem) -> FieldError {
    let detail = problem.to_string();
    let relent_policy::Problem { field, got, expected, rule, fix } = problem;
    let is_whole = field == "document" && expected == "an object";
    let at = if is_whole { String::new() } else { pointer::of_path(&field) };
    FieldError {
        at: Place::Pointer(at),
        expected,
        got,
        rule: rule.map(|rule| rule.id().to_owned()),
        fix: Some(fix),
        detail,
    }
}
