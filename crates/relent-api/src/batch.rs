//! Many tasks in one request: `POST /retry-tasks:batch`. REQ-S2.
//!
//! A batch is all or nothing, so a single problem refuses it, and the caller learns of all problems
//! of all tasks. Three forms: `{"tasks": […]}`, a bare list, and one document a line (NDJSON).

use std::collections::HashMap;

use relent_policy::{IdempotencyKey, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::fields::Fields;
use crate::json::{self, Object};
use crate::limits::Limits;
use crate::problem::{Code, Problem};
use crate::report::{Report, Wrong};
use crate::task::given::{self, Given};
use crate::task::{NewTask, check};
use crate::task_document::CreatedDocument;

/// The answer to a batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BatchDocument {
    /// How many tasks are new; the others were there already.
    pub created: u64,
    /// The tasks, in the order they were sent.
    pub items: Vec<CreatedDocument>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GivenBatch<'j> {
    #[serde(borrow)]
    tasks: Vec<Object<Given<'j>>>,
}

/// Where the tasks of a JSON object, and the lines of NDJSON, stand.
const TASKS: &str = "/tasks";

/// Reads `{"tasks": […]}` or a bare list of tasks.
///
/// ```
/// use relent_api::{Limits, parse_batch};
/// use relent_policy::Timestamp;
///
/// let json = br#"[{"targetUrl": "http://a.b/", "method": "PUT"}, {"targetUrl": "nowhere"}]"#;
/// let problem = parse_batch(json, &Limits::default(), Timestamp::ZERO).unwrap_err();
/// assert_eq!(problem.errors.len(), 2); // no URL, and no key
/// ```
///
/// # Errors
///
/// Everything that is wrong with any of them; of more than 100 errors the first 100.
pub fn parse_batch(json: &[u8], limits: &Limits, now: Timestamp) -> Result<Vec<NewTask>, Problem> {
    let text = json::text(json, limits)?;
    let is_list = text.trim_ascii_start().starts_with('[');
    let given = match is_list {
        true => serde_json::from_str(text),
        false => serde_json::from_str(text).map(|Object(GivenBatch { tasks })| tasks),
    };
    let mut tasks = Tasks::in_list(if is_list { "" } else { TASKS });
    if let Ok(given) = given {
        tasks.count(given.len(), limits);
        for (index, Object(given)) in given.into_iter().take(limits.batch_tasks_max).enumerate() {
            tasks.report.enter(tasks.list, index);
            let task = check::check(given, None, limits, now, &mut tasks.report);
            tasks.push(task);
        }
        return tasks.finish();
    }
    for (index, value) in tasks.values(text, is_list, limits)?.into_iter().enumerate() {
        tasks.report.enter(tasks.list, index);
        let given = given::read_all(value, &mut tasks.report);
        let report = &mut tasks.report;
        let task = given.and_then(|given| check::check(given, None, limits, now, report));
        tasks.push(task);
    }
    tasks.finish()
}

/// Reads one task a line; empty lines are left out.
///
/// # Errors
///
/// Everything that is wrong with any of them, as in [`parse_batch`]; `/tasks/3` is the fourth line
/// that is not empty.
pub fn parse_lines(
    ndjson: &[u8],
    limits: &Limits,
    now: Timestamp,
) -> Result<Vec<NewTask>, Problem> {
    let text = json::text(ndjson, limits)?;
    let lines = || text.split('\n').map(str::trim_ascii).filter(|line| !line.is_empty());
    let mut tasks = Tasks::in_list(TASKS);
    tasks.count(lines().count(), limits);
    for (index, line) in lines().take(limits.batch_tasks_max).enumerate() {
        let report = &mut tasks.report;
        report.enter(TASKS, index);
        let given = match serde_json::from_str(line) {
            Ok(Object(given)) => Some(given),
            Err(_) => match json::value(line) {
                Ok(value) => given::read_all(value, report),
                Err(problem) => {
                    let got = format!("a line of {} bytes that is none", line.len());
                    report.at("", Wrong::new(got, "a JSON document").code(problem.code));
                    None
                }
            },
        };
        let task = given.and_then(|given| check::check(given, None, limits, now, report));
        tasks.push(task);
    }
    tasks.finish()
}

/// The tasks read so far, and what is wrong with them.
struct Tasks {
    list: &'static str,
    tasks: Vec<NewTask>,
    report: Report,
    /// Which task has a key.
    keys: HashMap<IdempotencyKey, usize>,
}

impl Tasks {
    fn in_list(list: &'static str) -> Tasks {
        Tasks { list, tasks: Vec::new(), report: Report::default(), keys: HashMap::new() }
    }

    fn count(&mut self, count: usize, limits: &Limits) {
        let max = limits.batch_tasks_max;
        if count == 0 || count > max {
            let wrong = Wrong::new(format!("{count} tasks"), format!("1 to {max} tasks"));
            self.report.at(self.list, wrong);
        }
    }

    /// The documents of the tasks, where the derived reader would not take them.
    fn values<'j>(
        &mut self,
        text: &'j str,
        is_list: bool,
        limits: &Limits,
    ) -> Result<Vec<&'j RawValue>, Problem> {
        let document = json::value(text)?;
        let list = if is_list { Some(document) } else { self.list_in(document) };
        let Some(list) = list else { return Ok(Vec::new()) };
        let Ok(mut values) = serde_json::from_str::<Vec<&RawValue>>(list.get()) else {
            self.report.at(self.list, Wrong::new(json::kind(list), "a list of tasks"));
            return Ok(Vec::new());
        };
        self.count(values.len(), limits);
        values.truncate(limits.batch_tasks_max);
        Ok(values)
    }

    fn list_in<'j>(&mut self, document: &'j RawValue) -> Option<&'j RawValue> {
        let mut fields = Fields::of(document, "", &mut self.report)?;
        let list = fields.get("tasks");
        if list.is_none() {
            self.report.at(self.list, Wrong::new("nothing", "a list of tasks"));
        }
        fields.finish("a batch", &mut self.report);
        list
    }

    fn push(&mut self, task: Option<NewTask>) {
        let Some(task) = task else { return };
        if !self.report.is_empty() {
            return;
        }
        if let Some(key) = &task.key {
            let index = self.tasks.len();
            let first = *self.keys.entry(key.clone()).or_insert(index);
            if first != index && self.tasks[first].fingerprint() != task.fingerprint() {
                let got = format!("the key of task {first}, whose content is another");
                let wrong = Wrong::new(got, "a key of its own").code(Code::KeyConflict);
                self.report.at("/idempotencyKey", wrong);
            }
        }
        self.tasks.push(task);
    }

    fn finish(self) -> Result<Vec<NewTask>, Problem> {
        self.report.finish(Some(self.tasks))
    }
}

#[cfg(test)]
mod tests;
