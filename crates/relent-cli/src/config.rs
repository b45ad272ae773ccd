//! `relent config`: the settings of `serve`, as they are by default or as they hold.

use std::io::{self, Write as _};

use relent_server::config::DEFAULT;

use crate::Ended;
use crate::settings::SettingArgs;

/// Print the settings of `serve`
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print what holds here, with file, environment and flags, and where each comes from
    #[arg(long)]
    effective: bool,
    #[command(flatten)]
    settings: SettingArgs,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Ended> {
    let text = match args.effective {
        true => &args.settings.load()?.effective(),
        false => DEFAULT,
    };
    io::stdout().write_all(text.as_bytes())?;
    Ok(Ended::Fine)
}
