//! `relent migrate`: makes a store's tables, or brings them up to date, without serving. REQ-S7.

use anyhow::Context as _;

use crate::settings::StoreArgs;
use crate::{Ended, output};

/// Make a store's tables, or bring them up to date
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    store: StoreArgs,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Ended> {
    let store = args.store.load()?.store;
    let migrated = store.migrate().with_context(|| format!("cannot migrate {store}"))?;
    let done = match migrated {
        None => "has no tables".to_owned(),
        Some(migrated) => match migrated.from {
            None => format!("made at version {}", migrated.to),
            Some(from) if from == migrated.to => format!("is at version {from} already"),
            Some(from) => format!("brought from version {from} to version {}", migrated.to),
        },
    };
    output::line(format_args!("{store}: {done}"))?;
    Ok(Ended::Fine)
}
