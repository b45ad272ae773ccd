//! `relent explain CODE`: what a code, a rule, a reason or a word in a document means. REQ-E1.

use std::fmt::Write as _;

use anyhow::bail;
use relent_api::{Code, WaitingReason};
use relent_policy::{GiveUpReason, Rule};
use serde::Serialize;

use crate::Ended;
use crate::output::{self, Format};

/// Say what a code, a rule or a reason means
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A problem's code, a rule such as R-7, or a reason; all of them if none is given
    code: Option<String>,
    #[command(flatten)]
    format: Format,
}

/// One thing that can be explained.
#[derive(Debug, Serialize)]
struct Entry {
    code: &'static str,
    kind: &'static str,
    title: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    explanation: &'static str,
    advice: &'static str,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Ended> {
    let entries = entries();
    let Some(code) = &args.code else {
        if args.format.json {
            output::document(&serde_json::to_string_pretty(&entries)?)?;
            return Ok(Ended::Fine);
        }
        let rows = entries.iter().map(|it| vec![it.code.into(), it.kind.into(), it.title.into()]);
        output::line(output::table(&["code", "kind", "title"], rows))?;
        return Ok(Ended::Fine);
    };
    let typed = code.replace('-', "_");
    let is_it = |entry: &&Entry| entry.code.replace('-', "_").eq_ignore_ascii_case(&typed);
    let Some(entry) = entries.iter().find(is_it) else {
        let near = entries.iter().map(|it| (strsim::damerau_levenshtein(&typed, it.code), it.code));
        match near.filter(|(distance, code)| *distance <= 1 + code.len() / 4).min() {
            Some((_, meant)) => bail!("there is no `{code}`; did you mean `{meant}`?"),
            None => bail!("there is no `{code}`; `relent explain` lists all there are"),
        }
    };
    if args.format.json {
        output::document(&serde_json::to_string_pretty(entry)?)?;
    } else {
        output::line(page(entry))?;
    }
    Ok(Ended::Fine)
}

fn page(entry: &Entry) -> String {
    let Entry { code, kind, title, status, explanation, advice } = entry;
    let mut page = format!("{title}\n{kind} `{code}`");
    if let Some(status) = status {
        let _ = write!(page, ", HTTP status {status}");
    }
    let _ = write!(page, "\n\n{}\n\n{}", wrapped(explanation), wrapped(advice));
    page
}

/// Lines of at most 80 characters.
fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().filter(|line| line.len() + word.len() < 80);
        match line {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) => {
                line.push(' ');
                line.push_str(word);
            }
            None => lines.push(word.to_owned()),
        }
    }
    lines.join("\n")
}

fn entries() -> Vec<Entry> {
    let codes = Code::ALL.iter().map(|code| Entry {
        code: code.name(),
        kind: "problem",
        title: code.title(),
        status: Some(code.status().as_u16()),
        explanation: code.explanation(),
        advice: code.advice(),
    });
    let rules = Rule::ALL.iter().map(|rule| {
        let (explanation, advice) = rule_text(*rule);
        let (code, title) = (rule.id(), rule.title());
        Entry { code, kind: "rule", title, status: None, explanation, advice }
    });
    let endings = GiveUpReason::ALL.iter().map(|reason| {
        let (title, explanation, advice) = ending_text(*reason);
        Entry {
            code: reason.name(),
            kind: "reason to give up",
            title,
            status: None,
            explanation,
            advice,
        }
    });
    let waits = WaitingReason::ALL.iter().filter(|reason| **reason != WaitingReason::BreakerOpen);
    let waits = waits.map(|reason| {
        let (title, explanation, advice) = waiting_text(*reason);
        Entry {
            code: reason.name(),
            kind: "reason to wait",
            title,
            status: None,
            explanation,
            advice,
        }
    });
    codes.chain(rules).chain(endings).chain(waits).collect()
}

const WAIVER: &str = "A departure that was approved needs a waiver with rule, approver, reason and expiry in the policy; it stays visible as long as it holds.";

fn rule_text(rule: Rule) -> (&'static str, &'static str) {
    let says = match rule {
        Rule::R1 => {
            "Exponential backoff with full jitter, base 1 s, cap 30 s. Decorrelated jitter is allowed; equal jitter and fixed intervals are not: they bring everybody back at the same time."
        }
        Rule::R2 => {
            "Every retry loop has a maximum count, within the range of its context: sync-api, batch-item and grpc-unary 1 to 5 retries, async-event 1 to 10, webhook 3 to 8."
        }
        Rule::R3 => {
            "Every retry loop has a total duration: 30 s for synchronous calls, 24 h for events and webhooks, which use growing intervals."
        }
        Rule::R4 => {
            "A failure is classified before anything is retried; what cannot succeed is not retried."
        }
        Rule::R5 => {
            "`Retry-After` is the least wait and wins over a shorter backoff; beyond what remains of the time, the call fails at once."
        }
        Rule::R6 => {
            "Only what is idempotent is retried: POST and PATCH need a key, the same on every attempt."
        }
        Rule::R7 => {
            "At most 20 % of the requests to a dependency are retries, over a rolling 30 s. Beyond that retries are held back, so that an outage is not met with more load than usual."
        }
        Rule::R8 => {
            "What asynchronous work gives up goes to the dead letters, whole; nothing is silently dropped."
        }
        Rule::R9 => {
            "Retrying weakens nothing: original credentials, no bodies or secrets in logs, and certificate errors are never retried."
        }
        Rule::R10 => "Every attempt is logged with its fields, and the required metrics exist.",
    };
    let advice = match rule {
        Rule::R9 => {
            "No waiver allows retrying a certificate error: it may be somebody in the middle."
        }
        _ => WAIVER,
    };
    (says, advice)
}

type Text = (&'static str, &'static str, &'static str);

fn ending_text(reason: GiveUpReason) -> Text {
    match reason {
        GiveUpReason::Permanent => (
            "Permanent failure",
            "The same request would fail the same way: its target said that the request itself is wrong, or a failure of an unknown kind came twice.",
            "Look at the last attempt's status or failure, correct the cause, then redrive the dead letter.",
        ),
        GiveUpReason::UnsafeToRepeat => (
            "Not safe to repeat",
            "Neither the method nor an idempotency key makes a second attempt safe.",
            "Send an idempotency key with POST and PATCH.",
        ),
        GiveUpReason::RetriedAbove => (
            "Retried above",
            "The caller is itself a retry of a layer above, which will come again; two layers that both retry multiply.",
            "Let one layer retry, and the others pass failures on.",
        ),
        GiveUpReason::RefusedByServer => (
            "Refused by the server",
            "The target asked not to be sent this request again.",
            "Ask the target's owner, then redrive.",
        ),
        GiveUpReason::AttemptsExhausted => (
            "Attempts exhausted",
            "As many attempts were made as the policy allows, and all failed.",
            "See what failed with `relent task attempts`, and redrive once the target is back.",
        ),
        GiveUpReason::ClassLimit => (
            "Limit of this failure",
            "The policy limits how often or how long this kind of failure is retried, and the limit is reached.",
            "See the policy's `classLimits`; redrive once the target is back.",
        ),
        GiveUpReason::RetryAfterTooLong => (
            "Retry-After too long",
            "The target asked for more time than the task had left, so waiting would have been in vain.",
            "Redrive later, or give the policy a longer `totalBudgetMs`.",
        ),
        GiveUpReason::DeadlineWouldPass => (
            "Deadline",
            "The next attempt could not have ended before the task's deadline, so it was given up at once and not after one more wait.",
            "Redrive it, or give the policy a longer `totalBudgetMs`.",
        ),
        GiveUpReason::BreakerOpen => (
            "Breaker open",
            "The dependency's breaker is open: so many recent attempts failed that it is left alone but for a single probe now and then. Durable tasks wait and spend no attempt; calls in process fail at once.",
            "Nothing, once the dependency is back: the probe finds out. `relent lane show` says when the next one is due.",
        ),
        GiveUpReason::BudgetExhausted => (
            "Budget exhausted",
            "As many requests to this dependency were retries as its budget allows.",
            "Find out why so much fails; the budget comes back with first attempts.",
        ),
        GiveUpReason::LimitReached => (
            "Limit reached",
            "Too many attempts were in flight, or started too fast, for the dependency's limits.",
            "Raise the limits in the policy or on the lane if the dependency can take more.",
        ),
    }
}

fn waiting_text(reason: WaitingReason) -> Text {
    match reason {
        WaitingReason::Scheduled => (
            "Scheduled",
            "The task's first attempt was asked for at a later time, or is next in line.",
            "Nothing: it goes out when it is due.",
        ),
        WaitingReason::Backoff => (
            "Backoff",
            "The last attempt failed, and the policy leaves the dependency some time before the next.",
            "Nothing: `nextAttemptAt` says when. `relent policy preview` shows how long such waits are.",
        ),
        WaitingReason::RetryAfter => (
            "Retry-After",
            "The target asked to be left alone for a while.",
            "Nothing: `nextAttemptAt` says when the next attempt is.",
        ),
        WaitingReason::Budget => (
            "Budget",
            "The dependency's retry budget is spent. The task waits without spending an attempt, and ends only by its deadline.",
            "Find out why so much fails; the budget comes back with first attempts.",
        ),
        WaitingReason::RateLimited => (
            "Rate limited",
            "The lane starts only so many attempts a second.",
            "`relent lane limits` changes the rate.",
        ),
        WaitingReason::Concurrency => (
            "Concurrency",
            "As many attempts are in flight to this dependency as its lane allows.",
            "`relent lane limits` changes how many.",
        ),
        WaitingReason::Paused => {
            ("Paused", "Somebody paused the lane.", "`relent lane resume` lets it go on.")
        }
        WaitingReason::BreakerOpen => ending_text(GiveUpReason::BreakerOpen),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_explained_once() {
        let mut codes: Vec<_> = entries().iter().map(|entry| entry.code).collect();
        codes.sort_unstable();
        let all = codes.len();
        codes.dedup();
        assert_eq!(codes.len(), all);
        for entry in entries() {
            assert!(entry.explanation.ends_with('.') && entry.advice.ends_with('.'), "{entry:?}");
        }
    }

    #[test]
    fn lines_are_wrapped() {
        assert!(wrapped(&"word ".repeat(100)).lines().all(|line| line.len() <= 80));
        assert_eq!(wrapped("a b"), "a b");
    }
}
