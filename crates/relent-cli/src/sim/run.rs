//! `relent sim run`: policies side by side.

use std::fs;
use std::path::PathBuf;

use anyhow::Context as _;

use super::{input, summary};
use crate::Ended;
use crate::output;

/// Run a scenario with some policies
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A TOML file, or the name of a scenario that comes with relent
    scenario: String,
    #[command(flatten)]
    amount: input::Amount,
    /// Write a page with all pictures to this file
    #[arg(long, value_name = "FILE.html")]
    out: Option<PathBuf>,
    /// Leave the sweeps over failure rates, loads and lengths out of the page
    #[arg(long)]
    no_sweeps: bool,
    /// Write all figures as JSON, for machines
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Write what happened when as CSV
    #[arg(long)]
    csv: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Ended> {
    let scenario = input::scenario(&args.scenario)?;
    let sweeps = args.out.is_some() && !args.no_sweeps;
    let study = args.amount.study(scenario, sweeps)?;
    if let Some(path) = &args.out {
        let page = study.html();
        fs::write(path, page).with_context(|| format!("cannot write {}", path.display()))?;
        output::note(format_args!("wrote {}", path.display()));
    }
    if args.json {
        output::document(&study.json())?;
    } else if args.csv {
        output::document(&study.csv())?;
    } else {
        output::line(summary::of(&study))?;
    }
    Ok(Ended::Fine)
}
