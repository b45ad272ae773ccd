//! Many small runs around a scenario: over failure rates, and over loads and lengths of the trouble.
//! REQ-X1.

use relent_policy::Policy;

use crate::chance::whole;
use crate::figures::simulate;
use crate::scenario::{
    FailureCost, Fault, FaultKind, Lanes, Load, Network, Outage, Pick, SECOND, Scenario, Server,
    WhenRefused,
};

/// Amplification at one failure rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// The share of attempts that fail, each independently.
    pub ratio: f64,
    /// Calls for each operation.
    pub amplification: f64,
}

/// Whether a policy recovers at one load from trouble of one length.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Phase {
    /// The load as a share of the capacity.
    pub load: f64,
    /// How long the trouble lasts, in seconds.
    pub seconds: f64,
    /// Whether goodput was at 90 % of the load again in the last third of the time after it.
    pub recovers: bool,
}

/// Failure rates that are swept.
pub(crate) const RATIOS: [f64; 11] = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0];
const LOADS: [f64; 8] = [0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9];
const LENGTHS: [u64; 5] = [1, 2, 5, 10, 20];

/// The same trouble three times as long, watched three times as long after it.
pub(crate) fn with_longer_trouble(scenario: &Scenario) -> Option<Scenario> {
    const TIMES: u64 = 3;
    let (from, to) = scenario.trouble()?;
    let after = scenario.horizon.saturating_sub(to);
    if after == 0 {
        return None;
    }
    let mut longer = scenario.clone();
    for fault in &mut longer.faults {
        let (offset, length) = (fault.from - from, fault.to - fault.from);
        fault.from = from + offset * TIMES;
        fault.to = fault.from + length * TIMES;
        fault.ramp *= TIMES;
    }
    let (_, to) = Scenario { horizon: u64::MAX, ..longer.clone() }.trouble()?;
    longer.horizon = to.saturating_add(after * TIMES);
    if let Some(until) = &mut longer.clients.until {
        *until = longer.horizon;
    }
    Some(longer)
}

/// How many calls each operation becomes when this share of attempts fails, whatever the load.
pub(crate) fn amplification(scenario: &Scenario, policy: &Policy, ratio: f64, seed: u64) -> Point {
    let mut small = scenario.clone();
    small.horizon = 120 * SECOND;
    small.warm_up = 40 * SECOND;
    small.network = Network { loss: 0.0, ..small.network };
    small.clients.load = Load::Poisson { per_second: 200.0 };
    small.clients.lanes = Lanes::Shared;
    small.clients.count = 1;
    small.clients.deadline = None;
    small.clients.when_refused = WhenRefused::GiveUp;
    small.clients.until = None;
    small.servers = vec![plain(&scenario.servers[0])];
    let kind = FaultKind::Errors { ratio, pick: Pick::Attempts, status: 503 };
    small.faults = vec![Fault { server: 0, from: 0, to: small.horizon, ramp: 0, kind }];
    Point { ratio, amplification: simulate(&small, policy, seed).amplification }
}

/// A server that is never in the way.
fn plain(server: &Server) -> Server {
    Server {
        workers: None,
        queue_max: None,
        failure: FailureCost::Fast,
        retry_after: None,
        versioned: false,
        ..server.clone()
    }
}

/// Loads and lengths to try, where there is a capacity that an open loop can exceed.
pub(crate) fn cells(scenario: &Scenario) -> Vec<(f64, u64)> {
    let open = scenario.clients.load.per_second().is_some();
    let outage =
        |fault: &Fault| matches!(fault.kind, FaultKind::Outage(_) | FaultKind::BrownOut { .. });
    if !open || scenario.capacity().is_none() || !scenario.faults.iter().any(outage) {
        return Vec::new();
    }
    let lengths = |load: &f64| LENGTHS.map(|length| (*load, length));
    LOADS.iter().flat_map(lengths).collect()
}

/// The scenario at another load with trouble of another length, made small: as many workers as it
/// takes for 100 calls a second, and everything else in proportion.
pub(crate) fn phase(
    scenario: &Scenario,
    policy: &Policy,
    (load, seconds): (f64, u64),
    seed: u64,
) -> Phase {
    const CAPACITY: f64 = 100.0;
    let scale = CAPACITY / scenario.capacity().unwrap_or(CAPACITY);
    let mut small = scenario.clone();
    let (from, to) = (10 * SECOND, (10 + seconds) * SECOND);
    small.warm_up = 0;
    small.horizon = to + (60 + 8 * seconds) * SECOND;
    small.clients.load = Load::Poisson { per_second: load * CAPACITY };
    small.clients.count = scaled(small.clients.count, scale);
    small.clients.until = None;
    for server in &mut small.servers {
        server.workers = server.workers.map(|workers| scaled(workers, scale));
        server.queue_max = server.queue_max.map(|max| scaled(max, scale));
    }
    let kind = scenario.faults.first().map_or(FaultKind::Outage(Outage::Hang), |it| it.kind);
    let server = scenario.faults.first().map_or(0, |it| it.server);
    small.faults = vec![Fault { server, from, to, ramp: 0, kind }];
    let run = simulate(&small, policy, seed);
    let buckets = run.buckets.len().saturating_sub(1);
    let last_third = usize::try_from((60 + 8 * seconds) / 3).unwrap_or(1);
    let end = &run.buckets[buckets.saturating_sub(last_third)..buckets];
    let good: u64 = end.iter().map(|bucket| u64::from(bucket.succeeded)).sum();
    let begun: u64 = end.iter().map(|bucket| u64::from(bucket.operations)).sum();
    Phase { load, seconds: seconds as f64, recovers: good as f64 >= 0.9 * begun as f64 }
}

/// In proportion, rounded to the nearest and at least one.
fn scaled(number: u32, scale: f64) -> u32 {
    let scaled = whole((f64::from(number) * scale).round());
    u32::try_from(scaled).unwrap_or(u32::MAX).max(1)
}
