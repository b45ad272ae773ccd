//! `relent store`: what a store guarantees, and moving from one to another. No server is asked.

mod check;
mod copy;

use crate::Ended;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Say what a store guarantees as it is set up; exit 1 if it may lose acknowledged tasks
    Check(check::Args),
    /// Copy everything from one store to another, and count it
    Copy(copy::Args),
}

pub(crate) fn run(command: &Command) -> anyhow::Result<Ended> {
    match command {
        Command::Check(args) => check::run(args),
        Command::Copy(args) => copy::run(args),
    }
}
