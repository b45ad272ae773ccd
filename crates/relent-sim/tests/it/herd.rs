//! Where jitter matters and where it does nothing. `docs/concepts/jitter-verdict.md` has these numbers.

use relent_sim::Recovery;

use crate::{assert_near, known, run};

/// Against the herd of another implementation: most calls in a tenth of a second once the server is
/// back, calls in all, and seconds until the last client is through.
#[test]
fn jitter_is_what_disperses_a_herd() {
    let scenario = known("herd");
    let cases = [
        ("fixed", 1_000, 32_500.0, 57.0),
        ("exponential", 1_000, 28_500.0, 1_471.0),
        ("equal", 34, 4_130.0, 28.0),
        ("full", 23, 4_660.0, 37.0),
        ("decorrelated", 30, 3_340.0, 27.0),
    ];
    for (id, peak, calls, seconds) in cases {
        let run = run(&scenario, id);
        assert_eq!(run.succeeded, 1_000, "{id}");
        // The other one counts from the second attempt on, and lets the first client in at 8 s.
        let made = run.sent[0] as f64 - 1_000.0;
        assert_near(made, calls, 0.05, id);
        assert_near(run.peak_per_tenth_after as f64, f64::from(peak), 0.3, id);
        assert!(run.last_end_at as f64 / 1e9 <= seconds * 1.3 + 3.0, "{id}: {}", run.last_end_at);
    }
}

#[test]
fn jitter_does_nothing_against_an_open_loop_that_is_too_much() {
    let scenario = known("metastable-80");
    let (plain, full) = (run(&scenario, "exponential"), run(&scenario, "full"));
    assert_eq!((plain.recovery, full.recovery), (Recovery::Never, Recovery::Never));
    assert_near(full.success_ratio, plain.success_ratio, 0.05, "success");
    assert_near(full.peak_per_second as f64, plain.peak_per_second as f64, 0.05, "busiest second");
}

#[test]
fn budgets_breakers_and_bounded_queues_do() {
    let mut scenario = known("metastable-80");
    for id in ["full-budget-10", "full-breaker", "sync-api"] {
        assert!(matches!(run(&scenario, id).recovery, Recovery::After(_)), "{id}");
    }
    scenario.servers[0].queue_max = Some(200);
    let bounded = run(&scenario, "full");
    assert!(matches!(bounded.recovery, Recovery::After(nanos) if nanos <= 2_000_000_000));
    scenario.servers[0].queue_max = None;
    // The newest first, and nobody who has left: the order matters, see `parts`.
    scenario.servers[0].drop_expired = true;
    scenario.servers[0].order = relent_sim::Order::Lifo;
    let dropping = run(&scenario, "full");
    assert!(matches!(dropping.recovery, Recovery::After(_)), "{:?}", dropping.recovery);
    assert!(dropping.wasted_ratio < 0.1, "{}", dropping.wasted_ratio);
}
