//! One retrier, many threads: nothing leaks, and the budget holds for all of them together.

use std::io::{Error, ErrorKind};
use std::sync::atomic::{AtomicU64, Ordering};

use relent::relent_policy::{Backoff, BudgetRules, Expiry, Jitter, Rule, Waiver};
use relent::{PolicySpec, Retrier, Timestamp};

use crate::error;

/// Immediate retries under a budget without a floor, and no breaker: what is left is the bound.
fn retrier() -> Retrier {
    let expires: Expiry = "2099-12-31".parse().unwrap();
    let waiver = Waiver {
        rule: Rule::R1,
        approver: "the tests".into(),
        reason: "to count without waiting".into(),
        expires,
    };
    let spec = PolicySpec {
        backoff: Backoff::Fixed { delay: std::time::Duration::ZERO },
        jitter: Jitter::None,
        budget: Some(BudgetRules { floor_retries: 0, ..BudgetRules::default() }),
        breaker: None,
        waivers: vec![waiver],
        ..PolicySpec::sync_api()
    };
    Retrier::builder("shared").policy(spec.build(Timestamp::ZERO).unwrap()).repeatable().build()
}

#[test]
fn the_budget_holds_over_all_threads_and_nothing_stays_in_flight() {
    const THREADS: u64 = 8;
    const CALLS: u64 = 2_000;
    let (retrier, requests) = (retrier(), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (retrier, requests) = (&retrier, &requests);
            scope.spawn(move || {
                for call in 0..CALLS {
                    let result = retrier.run(|_| -> Result<(), Error> {
                        requests.fetch_add(1, Ordering::Relaxed);
                        Err(error(ErrorKind::TimedOut))
                    });
                    assert!(result.is_err(), "call {call} of thread {thread}");
                }
            });
        }
    });
    let (calls, requests) = (THREADS * CALLS, requests.into_inner());
    let retries = requests - calls;
    assert!(retries <= calls / 5 + 10, "{retries} retries for {calls} calls");
    assert!(retries >= calls / 5 - 10, "{retries} retries: the budget is there to be used");
    assert_eq!(retrier.lane().unwrap().in_flight(), 0);
}

#[test]
fn calls_that_panic_on_other_threads_leave_the_retrier_usable() {
    let retrier = retrier();
    let panicked = std::thread::scope(|scope| {
        scope.spawn(|| retrier.run(|_| -> Result<(), Error> { panic!("not ours") })).join()
    });
    assert!(panicked.is_err());
    assert_eq!(retrier.lane().unwrap().in_flight(), 0);
    assert_eq!(retrier.run(|_| Ok::<_, Error>(7)).unwrap(), 7);
}
