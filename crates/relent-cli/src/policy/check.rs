//! `relent policy check`: what is wrong with policies, before anybody registers them. REQ-E1, REQ-E3.

use std::path::{Path, PathBuf};

use anyhow::bail;
use relent_policy::{Policy, Problem, Rejected, Standard, Timestamp, Waived, Waiver};
use serde::Serialize;

use crate::Ended;
use crate::output::{self, Format};
use crate::times;

/// What came of one file.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Checked {
    file: String,
    policy_id: String,
    ok: bool,
    problems: Vec<Problem>,
    waived: Vec<Allowed>,
    idle_waivers: Vec<String>,
}

/// A departure that a waiver allows.
#[derive(Debug, Serialize)]
struct Allowed {
    #[serde(flatten)]
    problem: Problem,
    approver: String,
    reason: String,
    expires: String,
}

pub(super) fn run(files: &[PathBuf], format: Format) -> anyhow::Result<Ended> {
    let now = times::now();
    let (mut checked, mut unreadable) = (Vec::new(), 0);
    for file in files {
        match check(file, now) {
            Ok(found) => checked.push(found),
            Err(error) => {
                unreadable += 1;
                output::error(&error);
            }
        }
    }
    if format.json {
        output::document(&serde_json::to_string_pretty(&checked)?)?;
    } else {
        for found in &checked {
            show(found)?;
        }
    }
    if unreadable > 0 {
        bail!("{unreadable} of {} files could not be checked", files.len());
    }
    Ok(if checked.iter().all(|found| found.ok) { Ended::Fine } else { Ended::Found })
}

fn check(file: &Path, now: Timestamp) -> anyhow::Result<Checked> {
    let document = super::read(file)?;
    let file = file.display().to_string();
    Ok(match Policy::from_document(&document, now) {
        Ok(policy) => {
            let conformance = Standard::check(policy.spec(), now);
            Checked {
                file,
                policy_id: policy.id().to_owned(),
                ok: true,
                problems: Vec::new(),
                waived: conformance.waived.into_iter().map(allowed).collect(),
                idle_waivers: conformance
                    .idle_waivers
                    .iter()
                    .map(|it| it.rule.to_string())
                    .collect(),
            }
        }
        Err(Rejected { policy_id, problems }) => Checked {
            file,
            policy_id,
            ok: false,
            problems,
            waived: Vec::new(),
            idle_waivers: Vec::new(),
        },
    })
}

fn allowed(Waived { problem, waiver }: Waived) -> Allowed {
    let Waiver { approver, reason, expires, .. } = waiver;
    Allowed { problem, approver, reason, expires: expires.to_string() }
}

fn show(found: &Checked) -> anyhow::Result<()> {
    let Checked { file, policy_id, ok, problems, waived, idle_waivers } = found;
    if *ok {
        output::line(format_args!(
            "{} {file}: policy `{policy_id}` may be used",
            output::good("ok")
        ))?;
    } else {
        let count = match problems.len() {
            1 => "1 problem".to_owned(),
            count => format!("{count} problems"),
        };
        output::line(format_args!(
            "{} {file}: policy `{policy_id}`: {count}",
            output::bad("refused")
        ))?;
    }
    for problem in problems {
        output::line(format_args!("  {problem}\n    fix: {}", problem.fix))?;
    }
    for Allowed { problem, approver, reason, expires } in waived {
        output::line(format_args!(
            "  waived until {expires} by {approver}: {problem}\n    reason: {reason}"
        ))?;
    }
    for rule in idle_waivers {
        output::line(format_args!("  the waiver for {rule} can go: the policy keeps the rule"))?;
    }
    Ok(())
}
