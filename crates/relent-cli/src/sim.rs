//! `relent sim`: what a policy does to a dependency, before production does. REQ-X1.
//!
//! No server and no network: the engine on a virtual clock. Policies may depart from the standard
//! here, because seeing what that does is what a simulation is for.

mod check;
mod input;
mod list;
mod replay;
mod run;
mod summary;

use clap::Subcommand;

use crate::Ended;

/// Simulate policies against outages
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a scenario with some policies, and show them side by side
    Run(run::Args),
    /// Run scenarios and check what they expect; exit 1 if something does not hold
    Check(check::Args),
    /// Run recorded arrivals through other policies, and show the difference
    Replay(replay::Args),
    /// List the scenarios that come with relent
    List(list::Args),
    /// Print a scenario that comes with relent, to start one's own from
    Show {
        /// Its name
        name: String,
    },
}

pub(crate) fn run(command: &Command) -> anyhow::Result<Ended> {
    match command {
        Command::Run(args) => run::run(args),
        Command::Check(args) => check::run(args),
        Command::Replay(args) => replay::run(args),
        Command::List(args) => list::run(args),
        Command::Show { name } => list::show(name),
    }
}
