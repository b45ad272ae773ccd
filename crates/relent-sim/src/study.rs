//! Policies side by side: the same scenario, the same seeds, each figure with its error. REQ-X1.
//!
//! Runs are independent of each other, so they are shared out to threads; what is found is put in
//! order afterwards, and does not depend on how many threads there were.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use relent_policy::Policy;

use crate::figures::{Run, simulate};
use crate::recovery::Recovery;
use crate::scenario::Scenario;
use crate::sweep::{self, Phase, Point};
use crate::verdict::{Verdict, verdict};

/// What to do beside the runs themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// How many seeds, counted from the first.
    pub seeds: u64,
    /// The first seed.
    pub first_seed: u64,
    /// Whether to sweep failure rates and, where it makes sense, loads and lengths of the trouble.
    pub sweeps: bool,
    /// How many threads.
    pub threads: usize,
}

/// Policies side by side.
#[derive(Clone, Debug)]
pub struct Study {
    /// What was simulated.
    pub scenario: Scenario,
    /// The plan.
    pub plan: Plan,
    /// What came of each policy, in the order in which they were given.
    pub results: Vec<PolicyResult>,
}

/// What came of one policy.
#[derive(Clone, Debug)]
pub struct PolicyResult {
    /// The policy.
    pub policy: Policy,
    /// One run for each seed.
    pub runs: Vec<Run>,
    /// Whether it recovers.
    pub verdict: Verdict,
    /// Amplification against the failure rate.
    pub amplification: Vec<Point>,
    /// Which loads and lengths of trouble it recovers from.
    pub phases: Vec<Phase>,
}

/// A figure over all seeds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// The mean.
    pub mean: f64,
    /// The standard error of the mean; 0 for a single run.
    pub error: f64,
}

impl Figure {
    /// The mean and its standard error.
    ///
    /// ```
    /// use relent_sim::Figure;
    ///
    /// let figure = Figure::of([1.0, 2.0, 3.0]);
    /// assert!((figure.mean - 2.0).abs() < 1e-12 && (figure.error - 0.577).abs() < 1e-3);
    /// ```
    pub fn of(values: impl IntoIterator<Item = f64>) -> Figure {
        let values: Vec<f64> = values.into_iter().collect();
        let count = values.len().max(1) as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let error = if values.len() > 1 { (squares / (count - 1.0) / count).sqrt() } else { 0.0 };
        Figure { mean, error }
    }
}

impl PolicyResult {
    /// A figure over all runs.
    pub fn figure(&self, of: impl Fn(&Run) -> f64) -> Figure {
        Figure::of(self.runs.iter().map(of))
    }

    /// The mean time to recovery in seconds over the runs that recovered; `None` if half or more
    /// did not, or there was nothing to recover from.
    pub fn recovery_seconds(&self) -> Option<Figure> {
        let times: Vec<f64> = self
            .runs
            .iter()
            .filter_map(|run| match run.recovery {
                Recovery::After(nanos) => Some(nanos as f64 / 1e9),
                Recovery::Nothing | Recovery::Never => None,
            })
            .collect();
        (times.len() * 2 > self.runs.len()).then(|| Figure::of(times))
    }

    /// A percentile of the time that successful operations took, in seconds, over all runs.
    pub fn completion_seconds(&self, share: f64) -> Option<f64> {
        self.completions().quantile(share).map(|nanos| nanos / 1e9)
    }

    /// How long successful operations took, over all runs.
    pub fn completions(&self) -> crate::measure::Histogram {
        let mut all = crate::measure::Histogram::default();
        self.runs.iter().for_each(|run| all.add(&run.completions));
        all
    }

    /// A series over time, as the mean over all runs: the value in each bucket.
    pub fn series(&self, of: impl Fn(&crate::measure::Bucket) -> f64) -> Vec<f64> {
        let longest = self.runs.iter().map(|run| run.buckets.len()).max().unwrap_or(0);
        let mut sums = vec![0.0; longest];
        for run in &self.runs {
            sums.iter_mut().zip(&run.buckets).for_each(|(sum, bucket)| *sum += of(bucket));
        }
        let runs = self.runs.len().max(1) as f64;
        sums.iter().map(|sum| sum / runs).collect()
    }
}

enum Job {
    Run { policy: usize, seed: u64 },
    Longer { policy: usize, seed: u64 },
    Amplification { policy: usize, point: usize },
    Phase { policy: usize, cell: usize },
}

enum Found {
    Run(Box<Run>),
    Longer(Recovery),
    Amplification(Point),
    Phase(Phase),
}

/// How many seeds the longer trouble is tried with.
const LONGER_SEEDS: u64 = 3;

impl Study {
    /// Runs a scenario with each policy and each seed. `progress` hears how many runs of how many
    /// are done.
    pub fn run(
        scenario: &Scenario,
        policies: &[Policy],
        plan: Plan,
        progress: &(dyn Fn(usize, usize) + Sync),
    ) -> Study {
        let longer = sweep::with_longer_trouble(scenario);
        let cells = if plan.sweeps { sweep::cells(scenario) } else { Vec::new() };
        let points = if plan.sweeps { sweep::RATIOS.len() } else { 0 };
        let jobs = jobs(policies.len(), plan, longer.is_some(), points, cells.len());
        let work = |job: &Job| match *job {
            Job::Run { policy, seed } => {
                Found::Run(Box::new(simulate(scenario, &policies[policy], seed)))
            }
            Job::Longer { policy, seed } => {
                let run = longer.as_ref().map(|longer| simulate(longer, &policies[policy], seed));
                Found::Longer(run.map_or(Recovery::Nothing, |run| run.recovery))
            }
            Job::Amplification { policy, point } => Found::Amplification(sweep::amplification(
                scenario,
                &policies[policy],
                sweep::RATIOS[point],
                plan.first_seed,
            )),
            Job::Phase { policy, cell } => Found::Phase(sweep::phase(
                scenario,
                &policies[policy],
                cells[cell],
                plan.first_seed,
            )),
        };
        let found = shared_out(&jobs, plan.threads, &work, progress);
        let mut results: Vec<PolicyResult> = policies.iter().map(PolicyResult::empty).collect();
        let mut recoveries = vec![Vec::new(); policies.len()];
        for (job, found) in jobs.iter().zip(found) {
            let policy = match job {
                Job::Run { policy, .. }
                | Job::Longer { policy, .. }
                | Job::Amplification { policy, .. }
                | Job::Phase { policy, .. } => *policy,
            };
            match found {
                Found::Run(run) => results[policy].runs.push(*run),
                Found::Longer(recovery) => recoveries[policy].push(recovery),
                Found::Amplification(point) => results[policy].amplification.push(point),
                Found::Phase(phase) => results[policy].phases.push(phase),
            }
        }
        let widest = results.iter().flat_map(|result| &result.runs);
        let widest = widest.map(|run| run.bucket_nanos).max().unwrap_or(0);
        for (result, longer) in results.iter_mut().zip(&recoveries) {
            result.runs.iter_mut().for_each(|run| run.widen(widest));
            let now: Vec<Recovery> = result.runs.iter().map(|run| run.recovery).collect();
            result.verdict = verdict(&now, longer);
        }
        Study { scenario: scenario.clone(), plan, results }
    }
}

impl PolicyResult {
    fn empty(policy: &Policy) -> PolicyResult {
        PolicyResult {
            policy: policy.clone(),
            runs: Vec::new(),
            verdict: Verdict::NothingToRecoverFrom,
            amplification: Vec::new(),
            phases: Vec::new(),
        }
    }
}

fn jobs(policies: usize, plan: Plan, longer: bool, points: usize, cells: usize) -> Vec<Job> {
    let mut jobs = Vec::new();
    for policy in 0..policies {
        let seeds = plan.first_seed..plan.first_seed.saturating_add(plan.seeds);
        jobs.extend(seeds.map(|seed| Job::Run { policy, seed }));
        if longer {
            let seeds = plan.seeds.min(LONGER_SEEDS);
            let seeds = plan.first_seed..plan.first_seed.saturating_add(seeds);
            jobs.extend(seeds.map(|seed| Job::Longer { policy, seed }));
        }
        jobs.extend((0..points).map(|point| Job::Amplification { policy, point }));
        jobs.extend((0..cells).map(|cell| Job::Phase { policy, cell }));
    }
    jobs
}

/// Does all jobs on some threads, and returns what was found in the jobs' order.
fn shared_out<J: Sync, F: Send>(
    jobs: &[J],
    threads: usize,
    work: &(dyn Fn(&J) -> F + Sync),
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Vec<F> {
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let one_thread = || {
        let mut found = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = jobs.get(index) else { return found };
            found.push((index, work(job)));
            progress(done.fetch_add(1, Ordering::Relaxed) + 1, jobs.len());
        }
    };
    let mut found: Vec<(usize, F)> = thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(one_thread)).collect();
        let mut found = one_thread();
        for other in others {
            match other.join() {
                Ok(more) => found.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        found
    });
    found.sort_unstable_by_key(|(index, _)| *index);
    found.into_iter().map(|(_, found)| found).collect()
}
