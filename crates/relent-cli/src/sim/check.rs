//! `relent sim check`: a scenario's expectations, for continuous integration.

use serde::Serialize;

use super::input;
use crate::Ended;
use crate::output::{self, Format};

/// Run scenarios and check what they expect
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// TOML files, or names of scenarios that come with relent
    #[arg(required = true)]
    scenarios: Vec<String>,
    #[command(flatten)]
    amount: input::Amount,
    #[command(flatten)]
    format: Format,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Checked {
    scenario: String,
    ok: bool,
    expectations: usize,
    broken: Vec<Breach>,
}

#[derive(Debug, Serialize)]
struct Breach {
    policy: String,
    key: &'static str,
    expected: String,
    found: String,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Ended> {
    let mut checked = Vec::new();
    // All are read before the first is run: a slip in the last should not cost the time of the others.
    let scenarios = args.scenarios.iter().map(|name| input::scenario(name));
    for scenario in scenarios.collect::<anyhow::Result<Vec<_>>>()? {
        let study = args.amount.study(scenario, false)?;
        let broken = study.broken().into_iter().map(|broken| Breach {
            policy: broken.policy,
            key: broken.key,
            expected: broken.expected,
            found: broken.found,
        });
        let broken: Vec<Breach> = broken.collect();
        checked.push(Checked {
            scenario: study.scenario.name.clone(),
            ok: broken.is_empty(),
            expectations: study.expectations_checked(),
            broken,
        });
    }
    if args.format.json {
        output::document(&serde_json::to_string_pretty(&checked)?)?;
    } else {
        checked.iter().try_for_each(show)?;
    }
    Ok(if checked.iter().all(|it| it.ok) { Ended::Fine } else { Ended::Found })
}

fn show(checked: &Checked) -> anyhow::Result<()> {
    let Checked { scenario, expectations, broken, .. } = checked;
    let (noun, verb) =
        if *expectations == 1 { ("expectation", "holds") } else { ("expectations", "hold") };
    match broken.len() {
        0 if *expectations == 0 => {
            output::line(format_args!("{} {scenario}: expects nothing", output::care("ok")))?;
            output::hint("add a section [expect], such as max_amplification = 1.3");
        }
        0 => output::line(format_args!(
            "{} {scenario}: {expectations} {noun} {verb}",
            output::good("ok")
        ))?,
        count => output::line(format_args!(
            "{} {scenario}: {count} of {expectations} {noun} broken",
            output::bad("broken")
        ))?,
    }
    for Breach { policy, key, expected, found } in broken {
        output::line(format_args!("  {policy}: {key} = {expected}, found {found}"))?;
    }
    Ok(())
}
