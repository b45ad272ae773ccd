//! What a decision, a budget and a breaker cost, beside the peers in the same run.
//!
//! `cargo bench -p relent-policy`. Times depend on the machine; `docs/benchmarks.md` compares by
//! ratio and by instruction counts. Every benchmark also reports its allocations.

use std::hint::black_box;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use backon::BackoffBuilder;
use divan::{AllocProfiler, Bencher};
use relent_policy::{
    Budget, BudgetRules, Health, History, Lane, Outcome, Policy, Repeatable, Timestamp, Turn,
    Ungated, decide, roll,
};
use tower::retry::budget::{Budget as _, TpsBudget};

#[global_allocator]
static ALLOC: AllocProfiler = AllocProfiler::system();

fn main() {
    divan::main();
}

const NOW: Timestamp = Timestamp::from_secs(1_794_700_800);

fn failed_once() -> History {
    History::start(NOW, Repeatable::ByKey).begin_attempt()
}

/// One decision, with everything given.
mod decision {
    use super::*;

    fn bench(bencher: Bencher, policy: &Policy, outcome: Outcome) {
        let history = failed_once();
        let mut roll = 1_u64;
        bencher.bench_local(|| {
            roll = roll.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            decide(
                black_box(policy),
                black_box(&history),
                black_box(&outcome),
                &mut Ungated,
                NOW,
                roll,
            )
        });
    }

    /// What of the other figures is this benchmark's own: the next roll, and hiding the inputs.
    #[divan::bench]
    fn harness_alone(bencher: Bencher) {
        let (policy, history, outcome) = (Policy::sync_api(), failed_once(), Outcome::http(503));
        let mut roll = 1_u64;
        bencher.bench_local(|| {
            roll = roll.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            black_box(&policy);
            black_box(&history);
            black_box(&outcome);
            roll
        });
    }

    #[divan::bench]
    fn success(bencher: Bencher) {
        bench(bencher, &Policy::sync_api(), Outcome::Success);
    }

    #[divan::bench]
    fn permanent_failure(bencher: Bencher) {
        bench(bencher, &Policy::sync_api(), Outcome::http(404));
    }

    #[divan::bench]
    fn retry_with_full_jitter(bencher: Bencher) {
        bench(bencher, &Policy::sync_api(), Outcome::http(503));
    }

    #[divan::bench]
    fn retry_with_retry_after(bencher: Bencher) {
        let outcome = Outcome::http(429).retry_after(Duration::from_secs(5));
        bench(bencher, &Policy::sync_api(), outcome);
    }

    #[divan::bench]
    fn retry_under_the_decision_matrix(bencher: Bencher) {
        bench(bencher, &Policy::decision_matrix(), Outcome::http(503));
    }

    #[divan::bench]
    fn retry_with_clock_and_rng_read(bencher: Bencher) {
        let (policy, history, outcome) = (Policy::async_event(), failed_once(), Outcome::http(503));
        let started = Instant::now();
        bencher.bench_local(|| {
            let now = NOW + started.elapsed();
            let roll = fastrand::u64(..);
            decide(
                black_box(&policy),
                black_box(&history),
                black_box(&outcome),
                &mut Ungated,
                now,
                roll,
            )
        });
    }

    #[divan::bench]
    fn peer_backon_next_delay(bencher: Bencher) {
        let builder = backon::ExponentialBuilder::default()
            .with_jitter()
            .with_min_delay(Duration::from_secs(1))
            .with_max_delay(Duration::from_secs(30))
            .without_max_times();
        let mut delays = builder.build();
        bencher.bench_local(|| black_box(&mut delays).next());
    }
}

/// The budget, with the clock given, and with it read as the peer does.
mod budget {
    use super::*;

    fn busy() -> Budget {
        let mut budget = Budget::new(BudgetRules::default());
        for n in 0..30_000 {
            budget.count_first_attempt(NOW + Duration::from_millis(n));
        }
        budget
    }

    const LATER: Timestamp = Timestamp::from_secs(1_794_700_830);

    #[divan::bench]
    fn first_attempt(bencher: Bencher) {
        let mut budget = busy();
        bencher.bench_local(|| black_box(&mut budget).count_first_attempt(LATER));
    }

    #[divan::bench]
    fn first_attempt_and_granted_retry(bencher: Bencher) {
        let mut budget = busy();
        bencher.bench_local(|| {
            black_box(&mut budget).count_first_attempt(LATER);
            budget.try_retry(LATER).is_ok()
        });
    }

    #[divan::bench]
    fn refused_retry(bencher: Bencher) {
        let mut budget = busy();
        (0..5).for_each(|_| budget.note(Health::Failing));
        while budget.try_retry(LATER).is_ok() {}
        bencher.bench_local(|| black_box(&mut budget).try_retry(LATER).is_err());
    }

    #[divan::bench]
    fn first_attempt_behind_mutex_with_clock(bencher: Bencher) {
        let budget = Mutex::new(busy());
        let started = Instant::now();
        bencher.bench_local(|| {
            let now = LATER + started.elapsed();
            budget.lock().expect("nothing panics under this lock").count_first_attempt(now);
        });
    }

    #[divan::bench]
    fn first_and_retry_behind_mutex_with_clock(bencher: Bencher) {
        let budget = Mutex::new(busy());
        let started = Instant::now();
        bencher.bench_local(|| {
            let now = LATER + started.elapsed();
            let mut budget = budget.lock().expect("nothing panics under this lock");
            budget.count_first_attempt(now);
            budget.try_retry(now).is_ok()
        });
    }

    #[divan::bench]
    fn peer_tower_deposit(bencher: Bencher) {
        let budget = TpsBudget::new(Duration::from_secs(30), 0, 0.2);
        bencher.bench_local(|| black_box(&budget).deposit());
    }

    #[divan::bench]
    fn peer_tower_deposit_and_withdraw(bencher: Bencher) {
        let budget = TpsBudget::new(Duration::from_secs(30), 0, 0.2);
        bencher.bench_local(|| {
            black_box(&budget).deposit();
            budget.withdraw()
        });
    }

    #[divan::bench]
    fn peer_tower_refused(bencher: Bencher) {
        let budget = TpsBudget::new(Duration::from_secs(30), 0, 0.2);
        bencher.bench_local(|| black_box(&budget).withdraw());
    }
}

/// All that a lane does for one call, with the clock given.
mod lane {
    use super::*;

    #[divan::bench]
    fn successful_call(bencher: Bencher) {
        let mut lane = Lane::new(&Policy::sync_api());
        bencher.bench_local(|| {
            if let Ok(pass) = black_box(&mut lane).admit(Turn::First, NOW) {
                lane.finish(pass, &Outcome::Success, NOW, 0);
            }
        });
    }

    #[divan::bench]
    fn failing_call_and_decision(bencher: Bencher) {
        let policy = Policy::sync_api();
        let mut lane = Lane::new(&policy);
        let mut task = 0;
        bencher.bench_local(|| {
            task += 1;
            let roll = roll::for_attempt(1, task, 1);
            let outcome = if task % 5 == 0 { Outcome::http(503) } else { Outcome::Success };
            let history = failed_once();
            if let Ok(pass) = lane.admit(Turn::First, NOW) {
                lane.finish(pass, &outcome, NOW, roll);
            }
            decide(&policy, &history, &outcome, &mut lane.gates(), NOW, roll)
        });
    }
}
