//! `cargo xtask …`: the project's own chores, in Rust, so that a fresh machine needs nothing else.
//!
//! Exit codes: 0 fine, 1 found something, 2 could not run.

mod metadata;
mod repo;
mod tidy;

use std::{env, process::ExitCode};

const USAGE: &str = "\
usage: cargo xtask <chore>

chores:
  tidy    check what the compiler cannot: crate table, citations, purity,
          licences, bans, source rules, links
";

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();

    let outcome = match args.as_slice() {
        ["tidy"] => tidy::run(),
        ["help" | "--help" | "-h"] => {
            print!("{USAGE}");
            Ok(ExitCode::SUCCESS)
        }
        _ => {
            eprint!("{USAGE}");
            Ok(ExitCode::from(2))
        }
    };

    outcome.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::from(2)
    })
}
