//! A thousand callers, a dependency that is down for eight seconds, and how its recovery looks.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::io::ErrorKind;
use std::rc::Rc;
use std::time::Duration;

use relent::relent_policy::{Backoff, Expiry, Jitter, Rule, Waiver};
use relent::{Policy, PolicySpec, Retrier, Timestamp};
use tokio::time::Instant;

use crate::error;

const CALLERS: usize = 1_000;
const DOWN_FOR: Duration = Duration::from_secs(8);
/// Callers keep calling until they get through; between two calls they rest up to two seconds.
const REST_MAX: Duration = Duration::from_secs(2);
const HORIZON: Duration = Duration::from_secs(120);

struct Recovery {
    /// Requests in each tenth of a second.
    per_tenth: Vec<u32>,
    calls: u32,
    recovered: usize,
}

impl Recovery {
    fn requests(&self) -> u32 {
        self.per_tenth.iter().sum()
    }

    /// The worst tenth of a second after the one in which all calls failed together.
    fn peak(&self) -> u32 {
        *self.per_tenth[1..].iter().max().unwrap()
    }

    /// How often more than a tenth of the herd came in one tenth of a second, the first time
    /// included.
    fn waves(&self) -> usize {
        self.per_tenth.iter().filter(|requests| **requests > 100).count()
    }
}

/// All callers begin at once, the moment the dependency goes down.
async fn outage(policy: Policy) -> Recovery {
    let retrier = Retrier::builder("database").policy(policy).seed(3).build();
    let tenths = usize::try_from(HORIZON.as_millis() / 100).unwrap();
    let seen =
        Rc::new(RefCell::new(Recovery { per_tenth: vec![0; tenths], calls: 0, recovered: 0 }));
    let started = Instant::now();
    let callers = tokio::task::LocalSet::new();
    for caller in 0..CALLERS {
        let (retrier, seen) = (retrier.clone(), Rc::clone(&seen));
        let mut moods = fastrand::Rng::with_seed(caller as u64);
        callers.spawn_local(async move {
            while started.elapsed() < HORIZON - Duration::from_secs(40) {
                seen.borrow_mut().calls += 1;
                let call = retrier.repeatable().call(async |_| {
                    let tenth = usize::try_from(started.elapsed().as_millis() / 100).unwrap();
                    seen.borrow_mut().per_tenth[tenth] += 1;
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    if started.elapsed() < DOWN_FOR {
                        Err(error(ErrorKind::TimedOut))
                    } else {
                        Ok(())
                    }
                });
                if call.await.is_ok() {
                    seen.borrow_mut().recovered += 1;
                    break;
                }
                tokio::time::sleep(REST_MAX.mul_f64(moods.f64())).await;
            }
        });
    }
    callers.await;
    Rc::try_unwrap(seen).ok().unwrap().into_inner()
}

fn careless() -> Policy {
    let expires: Expiry = "2099-12-31".parse().unwrap();
    let waiver = |rule| Waiver {
        rule,
        approver: "the tests".into(),
        reason: "to show the storm".into(),
        expires: expires.clone(),
    };
    let mut spec = PolicySpec {
        backoff: Backoff::Fixed { delay: Duration::from_secs(1) },
        jitter: Jitter::None,
        max_attempts: 11,
        budget: None,
        breaker: None,
        waivers: vec![waiver(Rule::R1), waiver(Rule::R7)],
        ..PolicySpec::async_event()
    };
    spec.concurrency.retries_in_flight_max = 1_000;
    spec.build(Timestamp::ZERO).unwrap()
}

#[tokio::test(start_paused = true)]
async fn with_the_standard_policy_an_outage_ends_without_a_storm() {
    let recovery = outage(Policy::async_event()).await;
    assert_eq!(recovery.recovered, CALLERS, "everybody got through in the end");
    let retries = recovery.requests().saturating_sub(recovery.calls);
    assert!(retries <= recovery.calls / 5 + 20, "{retries} retries for {} calls", recovery.calls);
    assert_eq!(recovery.waves(), 1, "none but the one that failed together");
    assert!(recovery.peak() <= 100, "{} in a tenth of a second", recovery.peak());
}

#[tokio::test(start_paused = true)]
async fn with_a_fixed_delay_every_second_is_a_wave_of_the_whole_herd() {
    let recovery = outage(careless()).await;
    assert_eq!(recovery.recovered, CALLERS);
    assert_eq!(recovery.waves(), 9, "eight seconds, and the one that got through");
    assert_eq!(recovery.peak(), 1_000, "all of them in one tenth of a second");
}

/// The picture in `docs/pictures/herd.svg` is drawn from these numbers; `RELENT_BLESS=1` writes them
/// anew.
#[tokio::test(start_paused = true)]
async fn the_picture_shows_what_was_measured() {
    let (standard, fixed) = (outage(Policy::async_event()).await, outage(careless()).await);
    let mut measured = String::from("tenth,standard,fixed\n");
    for tenth in 0..400 {
        let (standard, fixed) = (standard.per_tenth[tenth], fixed.per_tenth[tenth]);
        writeln!(measured, "{tenth},{standard},{fixed}").unwrap();
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/pictures/herd.csv");
    if std::env::var_os("RELENT_BLESS").is_some() {
        std::fs::write(path, &measured).unwrap();
    }
    assert_eq!(std::fs::read_to_string(path).unwrap(), measured);
}
