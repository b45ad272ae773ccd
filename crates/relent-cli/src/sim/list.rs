//! `relent sim list` and `show`: the scenarios that come with relent.

use relent_sim::shipped;
use serde::Serialize;

use super::input;
use crate::Ended;
use crate::output::{self, Format};

/// List the scenarios that come with relent
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    format: Format,
}

#[derive(Serialize)]
struct Listed {
    name: &'static str,
    about: String,
    policies: Vec<String>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Ended> {
    let mut listed = Vec::new();
    for known in shipped() {
        let scenario = input::scenario(known.name)?;
        let policies = scenario.policies.iter().map(|policy| policy.id().to_owned()).collect();
        listed.push(Listed { name: known.name, about: scenario.about, policies });
    }
    if args.format.json {
        output::document(&serde_json::to_string_pretty(&listed)?)?;
        return Ok(Ended::Fine);
    }
    for Listed { name, about, policies } in listed {
        let about = about.replace('\n', "\n  ");
        output::line(format_args!("{}\n  {about}\n  policies: {}\n", output::aside(name), {
            policies.join(", ")
        }))?;
    }
    output::hint(
        "`relent sim run NAME --out report.html` runs one, `relent sim show NAME` prints it",
    );
    Ok(Ended::Fine)
}

pub(super) fn show(name: &str) -> anyhow::Result<Ended> {
    output::document(input::known(name)?)?;
    Ok(Ended::Fine)
}
