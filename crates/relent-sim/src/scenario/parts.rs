//! The parts of a scenario: servers, faults, expectations, traces.

use super::fields::Fields;
use super::{FailureCost, Fault, FaultKind, Order, Outage, Pick, Server};
use crate::chance::{Spread, whole};
use crate::expect::Expectations;

pub(super) fn server(fields: &mut Fields<'_>) -> Server {
    let name = fields.text("name").unwrap_or("server").to_owned();
    let workers = fields.count("workers", 1, 10_000_000);
    let service = fields.spread("service");
    let versioned = fields.flag("versioned").unwrap_or(false);
    let order = fields.word("order", &[("fifo", Order::Fifo), ("lifo", Order::Lifo)]);
    let queue_max = fields.count("queue_max", 0, u32::MAX);
    if workers.is_none() && queue_max.is_some() && !fields.has("workers") {
        fields.bad("queue_max", "left out without `workers`: nothing waits");
    }
    let costs = [("fast", FailureCost::Fast), ("slow", FailureCost::Slow)];
    Server {
        name,
        workers,
        service: service.unwrap_or(Spread::Constant(0)),
        order: order.unwrap_or(Order::Fifo),
        queue_max,
        drop_expired: fields.flag("drop_expired").unwrap_or(false),
        failure: fields.word("failure", &costs).unwrap_or(FailureCost::Fast),
        retry_after: fields.time("retry_after"),
        versioned,
        told: fields.flag("told").unwrap_or(false),
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Outage,
    BrownOut,
    Errors,
    Latency,
    RateLimit,
}

const KINDS: [(&str, Kind); 5] = [
    ("outage", Kind::Outage),
    ("brown-out", Kind::BrownOut),
    ("errors", Kind::Errors),
    ("latency", Kind::Latency),
    ("rate-limit", Kind::RateLimit),
];

pub(super) fn fault(fields: &mut Fields<'_>, servers: &[Server]) -> Option<Fault> {
    let kind = fields.word("kind", &KINDS);
    if kind.is_none() && !fields.has("kind") {
        fields.missing("kind", "outage, brown-out, errors, latency or rate-limit");
    }
    let server = which(fields, servers);
    let (from, to) = (fields.time("from"), fields.time("to"));
    for name in ["from", "to"] {
        if !fields.has(name) {
            fields.missing(name, "a time such as \"30s\"");
        }
    }
    if let (Some(from), Some(to)) = (from, to)
        && to <= from
    {
        fields.bad("to", "after `from`");
    }
    let ramp = fields.time("ramp").unwrap_or(0);
    let kind = kind_of(fields, kind);
    Some(Fault { server: server?, from: from?, to: to?, ramp, kind: kind? })
}

/// The server by its name; without one, the last of the chain.
fn which(fields: &mut Fields<'_>, servers: &[Server]) -> Option<usize> {
    let last = servers.len().saturating_sub(1);
    let Some(name) = fields.text("server") else {
        return (!fields.has("server")).then_some(last);
    };
    let found = servers.iter().position(|server| server.name == name);
    if found.is_none() {
        let names: Vec<&str> = servers.iter().map(|server| server.name.as_str()).collect();
        fields.bad("server", &format!("the name of a server: {}", names.join(", ")));
    }
    found
}

fn kind_of(fields: &mut Fields<'_>, kind: Option<Kind>) -> Option<FaultKind> {
    let outages = [("hang", Outage::Hang), ("refuse", Outage::Refuse), ("drop", Outage::Drop)];
    let picks = [
        ("attempts", Pick::Attempts),
        ("operations", Pick::Operations),
        ("clients", Pick::Clients),
    ];
    let how = fields.word("how", &outages);
    let capacity = fields.number("capacity", 0.0, 1.0);
    let ratio = fields.number("ratio", 0.0, 1.0);
    let pick = fields.word("pick", &picks);
    let status = fields.count("status", 400, 599);
    let factor = fields.number("factor", 0.0, 1e6);
    let extra = fields.time("extra");
    let per_second = fields.number("per_second", 1e-6, 1e9);
    let burst = fields.count("burst", 1, 1_000_000);
    let kind = kind?;
    for (name, of) in [
        ("how", Kind::Outage),
        ("capacity", Kind::BrownOut),
        ("ratio", Kind::Errors),
        ("pick", Kind::Errors),
        ("status", Kind::Errors),
        ("factor", Kind::Latency),
        ("extra", Kind::Latency),
        ("per_second", Kind::RateLimit),
        ("burst", Kind::RateLimit),
    ] {
        if of != kind && fields.has(name) {
            fields.bad(name, "left out with this kind of fault");
        }
    }
    let mut need = |name: &str, value: Option<f64>, what: &str| {
        if value.is_none() && !fields.has(name) {
            fields.missing(name, what);
        }
        value
    };
    Some(match kind {
        Kind::Outage => FaultKind::Outage(how.unwrap_or(Outage::Hang)),
        Kind::BrownOut => FaultKind::BrownOut {
            capacity: need("capacity", capacity, "the share of workers that is left, 0 to 1")?,
        },
        Kind::Errors => FaultKind::Errors {
            ratio: need("ratio", ratio, "the share of calls that fail, 0 to 1")?,
            pick: pick.unwrap_or(Pick::Attempts),
            status: status.and_then(|status| u16::try_from(status).ok()).unwrap_or(503),
        },
        Kind::Latency => {
            FaultKind::Latency { factor: factor.unwrap_or(1.0), extra: extra.unwrap_or(0) }
        }
        Kind::RateLimit => FaultKind::RateLimit {
            per_second: need("per_second", per_second, "calls a second that pass")?,
            burst: burst.unwrap_or(1),
        },
    })
}

pub(super) fn expectations(fields: &mut Fields<'_>) -> Expectations {
    Expectations {
        policies: fields.texts("policies").unwrap_or_default(),
        max_amplification: fields.number("max_amplification", 0.0, f64::INFINITY),
        max_peak_per_second: fields.number("max_peak_per_second", 0.0, f64::INFINITY),
        max_load_per_second: fields.number("max_load_per_second", 0.0, f64::INFINITY),
        recover_within: fields.time("recover_within"),
        min_success_ratio: fields.number("min_success_ratio", 0.0, 1.0),
        max_p99: fields.time("max_p99"),
        not_metastable: fields.flag("not_metastable").unwrap_or(false),
    }
}

/// When operations begin: the first column of each line, in seconds. A first line that is no number
/// is a heading.
///
/// ```
/// let at = relent_sim::parse_trace("seconds,path\n0.5,/a\n0.25,/b\n");
/// assert_eq!(at, Ok(vec![250_000_000, 500_000_000]));
/// ```
///
/// # Errors
///
/// The line that has no time, or that there is none.
pub fn parse_trace(text: &str) -> Result<Vec<u64>, String> {
    let mut times = Vec::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let first = line.split([',', ';', '\t']).next().unwrap_or_default().trim();
        match first.parse::<f64>() {
            Ok(seconds) if (0.0..=366.0 * 86_400.0).contains(&seconds) => {
                times.push(whole(seconds * 1e9));
            }
            _ if number == 0 => {}
            _ => return Err(format!("line {} has {first:?}", number + 1)),
        }
    }
    if times.is_empty() {
        return Err("it has no times".to_owned());
    }
    times.sort_unstable();
    Ok(times)
}
