//! `relent policy`: checking and previewing policies where they are written, and registering them.
//! REQ-E1, REQ-S2.

mod check;
mod draw;
mod preview;

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::Subcommand;
use http::{Method, StatusCode};
use relent_api::{Code, Page, PolicyDocument, Problem};
use relent_policy::{Document, PolicySpec};

use crate::Ended;
use crate::client::{Body, Remote};
use crate::output::{self, Format};
use crate::times;

/// Check, preview and register policies
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List policies, the latest version of each
    List {
        #[command(flatten)]
        format: Format,
        #[command(flatten)]
        remote: Remote,
    },
    /// Show a policy
    Get {
        /// Its id
        policy_id: String,
        /// This version instead of the latest
        #[arg(long)]
        version: Option<u32>,
        #[command(flatten)]
        format: Format,
        #[command(flatten)]
        remote: Remote,
    },
    /// Register a policy; exit 1 if it is refused
    Put {
        /// A JSON or TOML file; `-` is stdin
        file: PathBuf,
        #[command(flatten)]
        format: Format,
        #[command(flatten)]
        remote: Remote,
    },
    /// Let a policy take no more tasks; those it has keep it
    Delete {
        /// Its id
        policy_id: String,
        /// Do it
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        format: Format,
        #[command(flatten)]
        remote: Remote,
    },
    /// Check files against what can work and against the standard, without a server; exit 1 if one is refused
    Check {
        /// JSON or TOML files; `-` is stdin
        #[arg(required = true)]
        files: Vec<PathBuf>,
        #[command(flatten)]
        format: Format,
    },
    /// Draw how long a policy waits before each attempt, without a server for files and built-in policies
    Preview(preview::Args),
}

pub(crate) async fn run(command: Command) -> anyhow::Result<Ended> {
    match command {
        Command::List { format, remote } => {
            let answer = remote.client()?.get(&["retry-policies"], &[]).await?;
            if format.json {
                output::document(&answer.text)?;
            } else {
                let page: Page<PolicyDocument> = answer.read()?;
                output::line(policies_table(&page.items))?;
            }
        }
        Command::Get { policy_id, version, format, remote } => {
            let query: Vec<_> =
                version.map(|version| ("version", version.to_string())).into_iter().collect();
            let answer = remote.client()?.get(&["retry-policies", &policy_id], &query).await?;
            if format.json {
                output::document(&answer.text)?;
            } else {
                show(&answer.read()?)?;
            }
        }
        Command::Put { file, format, remote } => return put(&file, format, &remote).await,
        Command::Delete { policy_id, yes, format, remote } => {
            let (client, path) = (remote.client()?, ["retry-policies", policy_id.as_str()]);
            if !yes {
                let policy: PolicyDocument = client.get(&path, &[]).await?.read()?;
                output::line(format_args!(
                    "would delete `{policy_id}`, version {}",
                    policy.version
                ))?;
                bail!("nothing was changed; add --yes to delete it");
            }
            let answer = client.send(Method::DELETE, &path, &[], Body::None).await?;
            match format.json {
                true => output::document(&answer.text)?,
                false => output::line(format_args!("`{policy_id}` deleted"))?,
            }
        }
        Command::Check { files, format } => return check::run(&files, format),
        Command::Preview(args) => return preview::run(&args).await,
    }
    Ok(Ended::Fine)
}

async fn put(file: &Path, format: Format, remote: &Remote) -> anyhow::Result<Ended> {
    // Only for what is not JSON anyway: a server says better what is wrong with a policy.
    let text = text_of(file)?;
    let document = match is_toml(file, &text) {
        false => text,
        true => {
            let value: serde_json::Value =
                toml::from_str(&text).with_context(|| not(file, "TOML"))?;
            value.to_string()
        }
    };
    let (client, body) = (remote.client()?, Body::Json(document.into()));
    let answer = match client.send(Method::POST, &["retry-policies"], &[], body).await {
        Ok(answer) => answer,
        Err(error) => {
            let problem = error.downcast::<Problem>()?;
            if problem.code != Code::PolicyRejected {
                return Err(problem.into());
            }
            output::problem(&problem);
            return Ok(Ended::Found);
        }
    };
    if format.json {
        output::document(&answer.text)?;
    } else {
        let policy: PolicyDocument = answer.read()?;
        let new = if answer.status == StatusCode::CREATED { "registered" } else { "unchanged" };
        output::line(format_args!(
            "`{}` version {} {new}",
            policy.policy.policy_id, policy.version
        ))?;
    }
    Ok(Ended::Fine)
}

fn policies_table(policies: &[PolicyDocument]) -> String {
    let heading = [
        "policy", "version", "context", "attempts", "within", "backoff", "jitter", "waived", "from",
    ];
    let rows = policies.iter().map(|document| {
        let PolicySpec { policy_id, context, max_attempts, total_budget, backoff, jitter, .. } =
            &document.policy;
        let waived: Vec<&str> = document.waived.iter().map(|waived| waived.rule.as_str()).collect();
        vec![
            policy_id.clone(),
            document.version.to_string(),
            context.to_string(),
            max_attempts.to_string(),
            times::short(*total_budget),
            backoff.name().to_owned(),
            jitter.name().to_owned(),
            waived.join(", "),
            if document.built_in { "relent" } else { "registered" }.to_owned(),
        ]
    });
    output::table(&heading, rows)
}

fn show(document: &PolicyDocument) -> anyhow::Result<()> {
    let from = if document.built_in { ", comes with relent" } else { "" };
    output::note(format_args!("version {}{from}", document.version));
    for waived in &document.waived {
        output::note(format_args!(
            "waived until {}: {} must be {}, got {} ({}); {}: {}",
            waived.expires,
            waived.pointer.trim_start_matches('/'),
            waived.expected,
            waived.got,
            waived.rule,
            waived.approver,
            waived.reason
        ));
    }
    output::line(serde_json::to_string_pretty(&document.policy)?)?;
    Ok(())
}

fn text_of(file: &Path) -> anyhow::Result<String> {
    if file.as_os_str() != "-" {
        return fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()));
    }
    let mut text = String::new();
    io::stdin().read_to_string(&mut text).context("cannot read stdin")?;
    Ok(text)
}

/// By its name, or else by how it begins.
fn is_toml(file: &Path, text: &str) -> bool {
    match file.extension().and_then(|extension| extension.to_str()) {
        Some("toml") => true,
        Some("json") => false,
        _ => !text.trim_start().starts_with(['{', '[']),
    }
}

fn not(file: &Path, format: &str) -> String {
    format!("{} is not {format}", file.display())
}

/// The policy document in a file, whatever it says.
pub(crate) fn read(file: &Path) -> anyhow::Result<Document> {
    let text = text_of(file)?;
    match is_toml(file, &text) {
        true => toml::from_str(&text).with_context(|| not(file, "TOML")),
        false => serde_json::from_str(&text).with_context(|| not(file, "JSON")),
    }
}
