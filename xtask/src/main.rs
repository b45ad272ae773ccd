//! `cargo xtask …`: the project's own chores, in Rust, so that a fresh machine needs nothing else.
//!
//! Exit codes: 0 fine, 1 found something, 2 could not run.

mod bench;
#[cfg(test)]
mod docs_numbers;
#[cfg(test)]
mod docs_tables;
mod golden;
mod metadata;
mod pictures;
mod repo;
mod tidy;
mod vectors;

use std::{env, process::ExitCode};

use golden::Mode;

const USAGE: &str = "\
usage: cargo xtask <chore>

chores:
  tidy    check what the compiler cannot: crate table, citations, purity,
          licences, bans, source rules, links
  vectors [--bless]
          compare the golden vectors with the engine, or write them anew
  pictures [--bless]
          compare the pictures of the docs with the engine, or draw them anew
  bench [scenario …] [--tasks N] [--waiting N] [--runs N] [--json FILE]
        [--store URL] [--binary FILE] [--data DIRECTORY]
          measure the service; scenarios: enqueue, batch, end-to-end, lateness,
          waiting, restart, neighbour; all of them if none is named
  bench stores [scenario …] [--store postgres|redis|all] [--nodes 1,3] [--peers]
        [--tune JSON] [--only NAME] [--tasks N] [--waiting N] [--hold SECONDS] [--runs N]
        [--json FILE] [--binary FILE] [--data DIRECTORY]
          measure the service on servers that are started for it, beside peers;
          scenarios: enqueue, end-to-end, lateness, statements, waiting,
          long-transaction
";

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();

    let outcome = match args.as_slice() {
        ["tidy"] => tidy::run(),
        ["vectors"] => vectors::run(Mode::Check),
        ["vectors", "--bless"] => vectors::run(Mode::Bless),
        ["pictures"] => pictures::run(Mode::Check),
        ["pictures", "--bless"] => pictures::run(Mode::Bless),
        ["bench", args @ ..] => bench::run(args),
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
