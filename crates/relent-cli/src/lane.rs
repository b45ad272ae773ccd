//! `relent lane`: how the traffic to each dependency fares, and holding it. REQ-L6, REQ-K1, REQ-G3.

use clap::Subcommand;
use http::Method;
use relent_api::{LaneDocument, LaneLimits, Page};
use relent_policy::Timestamp;

use crate::Ended;
use crate::client::{Answer, Body, Client, Remote};
use crate::output::{self, Format};
use crate::times;

/// See how the traffic to each dependency fares, and hold it
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List lanes
    List {
        #[command(flatten)]
        format: Format,
        #[command(flatten)]
        remote: Remote,
    },
    /// Show a lane
    Show(LaneArgs),
    /// Send nothing more; what is under way ends
    Pause(LaneArgs),
    /// Send again
    Resume(LaneArgs),
    /// Set limits; what is left out is the policy's again
    Limits {
        /// Attempts in flight, retries included
        #[arg(long, value_name = "COUNT")]
        in_flight_max: Option<u32>,
        /// Retries in flight
        #[arg(long, value_name = "COUNT")]
        retries_in_flight_max: Option<u32>,
        /// Attempts started in a second
        #[arg(long, value_name = "COUNT")]
        rate_per_second: Option<u32>,
        #[command(flatten)]
        lane: LaneArgs,
    },
}

/// Which lane.
#[derive(Debug, clap::Args)]
pub(crate) struct LaneArgs {
    /// Its id, or the name of its dependency
    lane: String,
    #[command(flatten)]
    format: Format,
    #[command(flatten)]
    remote: Remote,
}

pub(crate) async fn run(command: Command) -> anyhow::Result<Ended> {
    let (answer, format) = match command {
        Command::List { format, remote } => {
            let answer = remote.client()?.get(&["lanes"], &[]).await?;
            if format.json {
                output::document(&answer.text)?;
            } else {
                let page: Page<LaneDocument> = answer.read()?;
                output::line(lanes_table(&page.items))?;
            }
            return Ok(Ended::Fine);
        }
        Command::Show(args) => (args.send(Method::GET, None, Body::None).await?, args.format),
        Command::Pause(args) => {
            (args.send(Method::POST, Some("pause"), Body::None).await?, args.format)
        }
        Command::Resume(args) => {
            (args.send(Method::POST, Some("resume"), Body::None).await?, args.format)
        }
        Command::Limits { in_flight_max, retries_in_flight_max, rate_per_second, lane } => {
            let limits = LaneLimits { in_flight_max, retries_in_flight_max, rate_per_second };
            let body = Body::Json(serde_json::to_vec(&limits)?.into());
            (lane.send(Method::PUT, Some("limits"), body).await?, lane.format)
        }
    };
    if format.json {
        output::document(&answer.text)?;
    } else {
        output::line(sheet(&answer.read()?, times::now()))?;
    }
    Ok(Ended::Fine)
}

impl LaneArgs {
    async fn send(&self, method: Method, verb: Option<&str>, body: Body) -> anyhow::Result<Answer> {
        let client = self.remote.client()?;
        let lane_id = find(&client, &self.lane).await?;
        let path: Vec<&str> = ["lanes", &lane_id].into_iter().chain(verb).collect();
        client.send(method, &path, &[], body).await
    }
}

/// The id of the lane with this id or to this dependency; as it was typed if there is none.
async fn find(client: &Client, typed: &str) -> anyhow::Result<String> {
    let lanes: Page<LaneDocument> = client.get(&["lanes"], &[]).await?.read()?;
    let named = lanes.items.into_iter().find(|lane| lane.dependency == typed);
    Ok(named.map_or_else(|| typed.to_owned(), |lane| lane.lane_id))
}

fn lanes_table(lanes: &[LaneDocument]) -> String {
    let heading = [
        "lane",
        "dependency",
        "state",
        "breaker",
        "budget used",
        "in flight",
        "waiting",
        "retries",
        "dead letters",
    ];
    let rows = lanes.iter().map(|lane| {
        vec![
            lane.lane_id.clone(),
            output::cut(&lane.dependency, 50),
            state(lane),
            lane.breaker.map(|breaker| breaker.state.to_string()).unwrap_or_default(),
            budget(lane).unwrap_or_default(),
            lane.in_flight.to_string(),
            lane.waiting_first.to_string(),
            lane.waiting_retries.to_string(),
            lane.dead_letters.to_string(),
        ]
    });
    output::table(&heading, rows)
}

fn state(lane: &LaneDocument) -> String {
    match lane.blocked_by {
        _ if lane.paused => "paused".to_owned(),
        Some(reason) => format!("held: {reason}"),
        None => "running".to_owned(),
    }
}

fn budget(lane: &LaneDocument) -> Option<String> {
    lane.budget.map(|budget| format!("{:.0} %", budget.utilization_ratio * 100.0))
}

fn sheet(lane: &LaneDocument, now: Timestamp) -> String {
    let LaneLimits { in_flight_max, retries_in_flight_max, rate_per_second } = lane.limits;
    let of = |count: u32, max: Option<u32>| match max {
        Some(max) => format!("{count} of {max}"),
        None => count.to_string(),
    };
    output::facts([
        ("lane", Some(lane.lane_id.clone())),
        ("dependency", Some(lane.dependency.clone())),
        ("state", Some(state(lane))),
        ("held until", lane.blocked_until.map(|at| times::both(Timestamp::from_millis(at), now))),
        ("breaker", lane.breaker.map(|breaker| breaker.state.to_string())),
        ("budget used", budget(lane)),
        ("in flight", Some(of(lane.in_flight, in_flight_max))),
        ("retries in flight", Some(of(lane.retries_in_flight, retries_in_flight_max))),
        ("rate per second", rate_per_second.map(|rate| rate.to_string())),
        ("waiting", Some(lane.waiting_first.to_string())),
        ("waiting retries", Some(lane.waiting_retries.to_string())),
        ("dead letters", Some(lane.dead_letters.to_string())),
        (
            "rules",
            lane.rules_from.as_ref().map(|of| format!("{} (version {})", of.policy_id, of.version)),
        ),
    ])
}
