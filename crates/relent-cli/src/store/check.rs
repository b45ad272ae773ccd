//! `relent store check`: what a store guarantees as it is set up. REQ-S7.

use anyhow::Context as _;
use relent_store::{Assurance, Severity, Survives};
use serde::Serialize;

use crate::settings::StoreArgs;
use crate::{Ended, output};

/// Say what a store guarantees as it is set up; exit 1 if it may lose acknowledged tasks
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    store: StoreArgs,
    /// Also read the whole file of an embedded store, and say whether it is damaged
    #[arg(long)]
    thorough: bool,
    /// Write a JSON document, for machines
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Document<'a> {
    place: String,
    severity: Severity,
    #[serde(flatten)]
    assurance: &'a Assurance,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Ended> {
    let store = args.store.load()?.store;
    let failed = || format!("cannot examine {store}");
    let mut assurance = store.examine().with_context(failed)?;
    if args.thorough {
        match store.verify().with_context(failed)? {
            Some(finding) => assurance.findings.push(finding),
            None => {
                output::note("--thorough reads the file of an embedded store; this one has none");
            }
        }
    }
    let severity = assurance.severity();
    if args.json {
        let place = store.to_string();
        let document = Document { place, severity, assurance: &assurance };
        output::line(serde_json::to_string(&document)?)?;
    } else {
        show(&store.to_string(), &assurance)?;
    }
    Ok(if severity == Severity::Danger { Ended::Found } else { Ended::Fine })
}

fn show(place: &str, assurance: &Assurance) -> anyhow::Result<()> {
    output::line(format_args!("{} in {place}\n", assurance.store))?;
    let rows = assurance.findings.iter().map(|finding| {
        // Colours only in the last column: they would count as width.
        let severity = coloured(finding.severity);
        let meaning = format!("{severity}: {}", finding.meaning);
        vec![finding.name.to_owned(), finding.found.clone(), meaning]
    });
    output::line(output::table(&["looked at", "found", "and that is"], rows))?;
    output::line("")?;
    let rows = assurance.survives.rows().map(|(trouble, survives)| {
        let answer = match survives {
            Survives::Yes => output::good(survives),
            Survives::No(_) => output::bad(survives),
            Survives::MayLose(_) => output::care(survives),
        };
        vec![trouble.to_owned(), answer]
    });
    output::line(output::table(&["an acknowledged task survives", ""], rows))?;
    for finding in &assurance.findings {
        if let Some(way_out) = &finding.way_out {
            output::hint(format_args!("{}: {way_out}", finding.name));
        }
    }
    Ok(())
}

fn coloured(severity: Severity) -> String {
    match severity {
        Severity::Good => output::good(severity),
        Severity::Caution => output::care(severity),
        Severity::Danger => output::bad(severity),
    }
}
