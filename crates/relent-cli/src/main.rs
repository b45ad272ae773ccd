//! The one binary, `relent`: serves, and talks to a running server.
//!
//! Thin over the libraries: each noun has a file that says what can be typed, what it means, and how
//! what comes back is shown. Data goes to stdout, everything else to stderr. Exit 0: fine; 1: found
//! something; 2: could not run.

mod client;
mod config;
mod dead_letter;
mod drill;
mod explain;
mod lane;
mod migrate;
mod output;
mod patience;
mod policy;
mod progress;
mod serve;
mod settings;
mod sim;
mod store;
mod task;
mod times;

use std::io;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// A task is allocated on one thread and freed on another, which glibc's allocator does slowly.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Keeps trying, and knows when to ease off.
#[derive(Debug, Parser)]
#[command(name = "relent", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the service
    Serve(serve::Args),
    /// Make a store's tables, or bring them up to date
    Migrate(migrate::Args),
    /// Say what a store guarantees, and move to another
    #[command(subcommand)]
    Store(store::Command),
    /// Create tasks, and see what becomes of them
    #[command(subcommand)]
    Task(task::Command),
    /// Check, preview and register policies
    #[command(subcommand)]
    Policy(policy::Command),
    /// Look at tasks that were given up, and try them again
    #[command(subcommand)]
    DeadLetter(dead_letter::Command),
    /// See how the traffic to each dependency fares, and hold it
    #[command(subcommand)]
    Lane(lane::Command),
    /// See what a policy does to a dependency, before production does
    #[command(subcommand)]
    Sim(sim::Command),
    /// Take a dependency down and up again, and see what the service does
    Drill(drill::Args),
    /// Say what a code, a rule or a reason means
    Explain(explain::Args),
    /// Print the settings of `serve`
    Config(config::Args),
}

/// How a command that could run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    Fine,
    /// It found what it looks for: a policy that is refused, a task that gave up.
    Found,
}

fn main() -> ExitCode {
    let ended = match Cli::parse().command {
        Command::Serve(args) => serve::run(&args),
        Command::Migrate(args) => migrate::run(&args),
        Command::Store(command) => store::run(&command),
        Command::Task(command) => client::block_on(task::run(command)),
        Command::Policy(command) => client::block_on(policy::run(command)),
        Command::DeadLetter(command) => client::block_on(dead_letter::run(command)),
        Command::Lane(command) => client::block_on(lane::run(command)),
        Command::Sim(command) => sim::run(&command),
        Command::Drill(args) => drill::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Config(args) => config::run(&args),
    };
    match ended {
        Ok(Ended::Fine) => ExitCode::SUCCESS,
        Ok(Ended::Found) => ExitCode::from(1),
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            output::error(&error);
            ExitCode::from(2)
        }
    }
}

/// Whoever read the output has seen enough.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let mut causes = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>());
    causes.any(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_sound() {
        super::Cli::command().debug_assert();
    }
}
