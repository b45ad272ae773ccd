//! `relent drill`: the real service against a target that goes down and comes back, next to what the
//! simulator says. REQ-X2.
//!
//! Everything is on this machine and in this process: a service on a store in memory, and a target
//! on loopback that answers 503 while it is down. What is measured is what the target saw.

mod figures;
mod target;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail};
use bytes::Bytes;
use http::Method;
use relent_policy::{Policy, PolicySpec, Timestamp};
use relent_server::Server;
use relent_server::config::{Config, Override};
use serde_json::json;
use tokio::time::{Instant, sleep_until};

use crate::Ended;
use crate::client::{Body, Client};
use crate::output::{self, Format};
use crate::progress;
use crate::times;
use figures::{Figures, Shape};
use target::Target;

/// Take a dependency down and up again, and see what the service does
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The policy: a JSON or TOML file, or the name of a built-in one
    #[arg(long, default_value = "async-event", value_name = "FILE|NAME")]
    policy: String,
    /// Tasks a second
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    rate: u32,
    /// How long the target answers at first
    #[arg(long, default_value = "10s", value_parser = times::parse_duration)]
    before: Duration,
    /// How long it is down
    #[arg(long, default_value = "10s", value_parser = times::parse_duration)]
    down: Duration,
    /// How long tasks go on after it is back
    #[arg(long, default_value = "20s", value_parser = times::parse_duration)]
    after: Duration,
    #[command(flatten)]
    format: Format,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Ended> {
    let policy = policy(&args.policy)?;
    let shape = Shape {
        rate: args.rate,
        before: args.before,
        down: args.down,
        total: args.before + args.down + args.after,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let measured = runtime.context("cannot start threads")?.block_on(drill(&policy, shape))?;
    let predicted = figures::predicted(&policy, shape);
    if args.format.json {
        let document =
            json!({ "policyId": policy.id(), "measured": measured, "predicted": predicted });
        output::document(&serde_json::to_string_pretty(&document)?)?;
    } else {
        output::line(figures::table(&policy, shape, &measured, &predicted))?;
    }
    Ok(if measured.succeeded == measured.tasks { Ended::Fine } else { Ended::Found })
}

fn policy(name: &str) -> anyhow::Result<Policy> {
    if Path::new(name).exists() {
        let document = crate::policy::read(Path::new(name))?;
        return Ok(Policy::from_document(&document, times::now())?);
    }
    match PolicySpec::presets().into_iter().find(|preset| preset.policy_id == name) {
        Some(preset) => Ok(preset.build(Timestamp::ZERO)?),
        None => bail!("there is no file {name} and no built-in policy {name}"),
    }
}

/// How often tasks are handed over.
const TICK: Duration = Duration::from_millis(20);

async fn drill(policy: &Policy, shape: Shape) -> anyhow::Result<Figures> {
    let overrides = [
        Override::new("drill", "store.url", "memory:"),
        Override::new("drill", "server.listen", "127.0.0.1:0"),
    ];
    let config = Config::load(None, std::iter::empty(), &overrides)?;
    let server = Server::start(config.store.open()?, config.server).await?;
    let client = Client::new(&format!("http://{}", server.address()))?;
    let built_in = PolicySpec::presets().iter().any(|preset| preset == policy.spec());
    if !built_in {
        let document = serde_json::to_string(policy.spec())?;
        client.send(Method::POST, &["retry-policies"], &[], Body::Json(document.into())).await?;
    }
    let target = Target::start().await.context("cannot start the target")?;
    let bar = progress::bar(Some(shape.tasks()), "tasks handed over");
    let start = Instant::now();
    let (mut sent, mut next) = (0, start);
    while sent < shape.tasks() {
        let since = start.elapsed();
        target.set_down(since >= shape.before && since < shape.before + shape.down);
        let due = shape.due(since);
        if due > sent {
            let lines = (sent..due).map(|number| line(&target, policy, number)).collect::<String>();
            let body = Body::Lines(Bytes::from(lines));
            client.send(Method::POST, &["retry-tasks:batch"], &[], body).await?;
            sent = due;
            bar.set_position(sent);
        }
        next += TICK;
        sleep_until(next).await;
    }
    // What is still held or waiting gets some time to come through.
    let patience = Instant::now() + shape.down + Duration::from_secs(60);
    while target.succeeded() < shape.tasks() && Instant::now() < patience {
        next = Instant::now() + TICK;
        sleep_until(next).await;
    }
    bar.finish_and_clear();
    let seen = target.seen(start);
    server.stop().await.context("cannot close the store")?;
    Ok(Figures::of(&seen, shape))
}

fn line(target: &Target, policy: &Policy, number: u64) -> String {
    let task = json!({
        "targetUrl": target.url(),
        "method": "POST",
        "policyId": policy.id(),
        "idempotencyKey": format!("drill-{number}"),
    });
    format!("{task}\n")
}
