//! What a call costs beside calling directly: ours and the peers', in the same run.
//!
//! `cargo bench -p relent --bench call`. Times depend on the machine; `docs/benchmarks.md` compares by
//! ratio and by instruction counts. Every benchmark also reports its allocations, and the sizes of
//! the futures stand above the table.

#[path = "common/subjects.rs"]
mod subjects;

use std::hint::black_box;

use divan::{AllocProfiler, Bencher};

#[global_allocator]
static ALLOC: AllocProfiler = AllocProfiler::system();

fn main() {
    subjects::check();
    for (name, bytes) in subjects::sizes() {
        println!("size of the future: {name:<42} {bytes:>5} bytes");
    }
    divan::main();
}

fn bench(bencher: Bencher, mut call: impl FnMut(u64) -> bool) {
    let mut n = 0;
    // What happens once in a while is part of the mean, and not of the first sample, by which divan
    // chooses how many calls it times at once.
    for _ in 0..1_000 {
        call(black_box(1));
    }
    bencher.bench_local(|| {
        n += 1;
        call(black_box(n))
    });
}

/// Reading the time, which is most of what a call with a deadline costs.
mod clock {
    use std::time::Instant;

    #[divan::bench]
    fn instant_now() -> Instant {
        Instant::now()
    }

    #[divan::bench]
    fn tokio_instant_now() -> tokio::time::Instant {
        tokio::time::Instant::now()
    }
}

/// A call that succeeds at once.
mod success {
    use super::*;

    #[divan::bench]
    fn bare_future(bencher: Bencher) {
        bench(bencher, subjects::bare);
    }

    #[divan::bench]
    fn relent_budget_deadline_breaker(bencher: Bencher) {
        bench(bencher, subjects::relent_call(subjects::gated()));
    }

    #[divan::bench]
    fn relent_run_on_the_systems_clock(bencher: Bencher) {
        let retrier = subjects::on_the_systems_clock();
        bench(bencher, subjects::relent_run(retrier));
    }

    #[divan::bench]
    fn relent_ungated(bencher: Bencher) {
        bench(bencher, subjects::relent_call(subjects::ungated()));
    }

    #[divan::bench]
    fn relent_run_budget_deadline_breaker(bencher: Bencher) {
        bench(bencher, subjects::relent_run(subjects::gated()));
    }

    #[divan::bench]
    fn relent_run_ungated(bencher: Bencher) {
        bench(bencher, subjects::relent_run(subjects::ungated()));
    }

    #[divan::bench]
    fn peer_backon(bencher: Bencher) {
        bench(bencher, subjects::backon_plain);
    }

    #[divan::bench]
    fn peer_backon_jitter_when_notify(bencher: Bencher) {
        bench(bencher, subjects::backon_all);
    }

    #[divan::bench]
    fn peer_tower(bencher: Bencher) {
        bench(bencher, subjects::tower_plain());
    }

    #[divan::bench]
    fn peer_tower_budget(bencher: Bencher) {
        bench(bencher, subjects::tower_budgeted());
    }

    #[divan::bench]
    fn peer_execution_policy(bencher: Bencher) {
        bench(bencher, subjects::execution_policy_plain());
    }

    #[divan::bench]
    fn peer_execution_policy_budget_timeouts(bencher: Bencher) {
        bench(bencher, subjects::execution_policy_budgeted());
    }

    #[divan::bench]
    fn peer_execution_policy_budget_timeouts_breaker(bencher: Bencher) {
        bench(bencher, subjects::execution_policy_all());
    }

    #[divan::bench]
    fn peer_tokio_retry2(bencher: Bencher) {
        bench(bencher, subjects::tokio_retry2_plain);
    }

    #[divan::bench]
    fn peer_google_cloud_gax(bencher: Bencher) {
        bench(bencher, subjects::gax_plain());
    }
}

/// A call that fails four times, without any delay and without a budget.
///
/// tokio-retry2 is not among them: it sleeps on tokio's timer, which counts in milliseconds, for a
/// delay of zero as well.
mod three_retries {
    use super::*;

    #[divan::bench]
    fn relent(bencher: Bencher) {
        bench(bencher, subjects::relent_failing());
    }

    #[divan::bench]
    fn peer_backon(bencher: Bencher) {
        bench(bencher, subjects::backon_failing);
    }

    #[divan::bench]
    fn peer_tower(bencher: Bencher) {
        bench(bencher, subjects::tower_failing());
    }

    #[divan::bench]
    fn peer_execution_policy(bencher: Bencher) {
        bench(bencher, subjects::execution_policy_failing());
    }

    #[divan::bench]
    fn peer_google_cloud_gax(bencher: Bencher) {
        bench(bencher, subjects::gax_failing());
    }
}
