//! What one run came to, in figures. REQ-X1.

use relent_policy::{GiveUpReason, Policy};

use crate::measure::{Bucket, Histogram, halved};
use crate::recovery::{Recovery, recovery};
use crate::scenario::Scenario;
use crate::world::World;

/// What one run came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// The seed.
    pub seed: u64,
    /// When the last operation ended.
    pub last_end_at: u64,
    /// How long was simulated.
    pub simulated: u64,
    /// Operations that began.
    pub operations: u64,
    /// Operations that succeeded.
    pub succeeded: u64,
    /// Operations that failed; the rest had not ended.
    pub failed: u64,
    /// Why operations were given up.
    pub given_up: Vec<(GiveUpReason, u64)>,
    /// Attempts sent on each hop of the chain.
    pub sent: Vec<u64>,
    /// Calls to the last server for each operation, after the warm-up.
    pub amplification: f64,
    /// Attempts a second that clients sent, after the warm-up.
    pub load_per_second: f64,
    /// The share of ended operations that succeeded.
    pub success_ratio: f64,
    /// The most calls in one second.
    pub peak_per_second: u64,
    /// The most calls in a tenth of a second.
    pub peak_per_tenth: u64,
    /// The same, once the trouble was over.
    pub peak_per_tenth_after: u64,
    /// The most calls in 10 ms.
    pub busiest_10ms: u64,
    /// How many other calls came within the same 10 ms as a call, on average.
    pub collisions: f64,
    /// The share of the servers' work that was for callers who had gone.
    pub wasted_ratio: f64,
    /// How long calls waited for a worker, on average, in nanoseconds.
    pub mean_wait: f64,
    /// The share of calls that had to wait for a worker.
    pub waited_ratio: f64,
    /// Calls that servers turned away.
    pub refused: u64,
    /// The longest queue.
    pub queue_max: u64,
    /// Whether and when things were as before.
    pub recovery: Recovery,
    /// How long operations took that succeeded.
    pub completions: Histogram,
    /// How long a bucket of the series is.
    pub bucket_nanos: u64,
    /// What happened when.
    pub buckets: Vec<Bucket>,
    /// Events of the simulation.
    pub events: u64,
}

impl Run {
    /// Makes the series' buckets as long as those of another run, so that they can be compared.
    pub(crate) fn widen(&mut self, bucket_nanos: u64) {
        while self.bucket_nanos < bucket_nanos {
            self.buckets = halved(&self.buckets);
            self.bucket_nanos *= 2;
        }
    }
}

/// Runs a scenario once.
pub fn simulate(scenario: &Scenario, policy: &Policy, seed: u64) -> Run {
    let mut world = World::new(scenario, policy, seed);
    world.run();
    let simulated = world.ended_at();
    let tallies = || world.servers.iter().map(|server| server.tally);
    let busy: u128 = tallies().map(|tally| tally.busy_nanos).sum();
    let wasted: u128 = tallies().map(|tally| tally.wasted_nanos).sum();
    let first = world.servers.first().map(|server| server.tally).unwrap_or_default();
    let (refused, queue_max) = (
        tallies().map(|tally| tally.refused).sum(),
        tallies().map(|tally| tally.queue_max as u64).max().unwrap_or(0),
    );
    let measure = world.measure;
    let warm_seconds = simulated.saturating_sub(scenario.warm_up) as f64 / 1e9;
    let given_up = GiveUpReason::ALL.iter().copied().zip(measure.given_up);
    Run {
        seed,
        last_end_at: measure.last_end_at,
        simulated,
        operations: measure.operations,
        succeeded: measure.succeeded,
        failed: measure.failed,
        given_up: given_up.filter(|(_, count)| *count > 0).collect(),
        amplification: ratio(
            measure.warm_sent.last().copied().unwrap_or(0) as f64,
            measure.warm_operations as f64,
        ),
        load_per_second: ratio(measure.warm_sent[0] as f64, warm_seconds),
        success_ratio: ratio(measure.succeeded as f64, (measure.succeeded + measure.failed) as f64),
        peak_per_second: measure.seconds.most,
        peak_per_tenth: measure.tenths.most,
        peak_per_tenth_after: measure.tenths.most_after,
        busiest_10ms: measure.hundredths.most,
        collisions: measure.hundredths.company(),
        wasted_ratio: ratio(wasted as f64, busy as f64),
        mean_wait: ratio(first.wait_nanos as f64, first.served as f64),
        waited_ratio: ratio(first.waited as f64, first.served as f64),
        refused,
        queue_max,
        recovery: recovery(scenario, &measure.buckets, measure.bucket_nanos),
        completions: measure.completions,
        bucket_nanos: measure.bucket_nanos,
        buckets: measure.buckets,
        sent: measure.sent,
        events: measure.events,
    }
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}
