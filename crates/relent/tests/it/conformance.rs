//! What goes wrong in retry libraries, and that it does not here: the tests behind
//! `docs/conformance.md`.
//!
//! A test named `peer_…` shows what another crate does, so that the page stays true: when one of them
//! fails, the peer has been mended and its row can go.

use std::collections::HashSet;
use std::fs;
use std::future::ready;
use std::io::{Error, ErrorKind};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::http::Response;
use backon::{BackoffBuilder, ExponentialBuilder, Retryable};
use google_cloud_gax as gax;
use google_cloud_gax::retry_policy::RetryPolicyExt;
use google_cloud_gax::retry_throttler::{AdaptiveThrottler, RetryThrottler};
use relent::{CallError, GiveUpReason, Policy, Retrier};
use tokio::time::Instant;
use tower::retry::backoff::{Backoff, ExponentialBackoffMaker, MakeBackoff};
use tower::retry::budget::{Budget, TpsBudget};
use tower::util::rng::HasherRng;

use crate::error;

const SECOND: Duration = Duration::from_secs(1);

fn timed_out() -> Error {
    error(ErrorKind::TimedOut)
}

#[tokio::test(start_paused = true)]
async fn a_hundred_calls_draw_a_hundred_delays() {
    let retrier = Retrier::builder("stock").policy(Policy::batch_item()).ungated().build();
    let mut delays = HashSet::new();
    for _ in 0..100 {
        let (started, mut failures) = (Instant::now(), [timed_out()].into_iter());
        let call = retrier.repeatable().call(|_| ready(failures.next().map_or(Ok(()), Err)));
        assert!(call.await.is_ok());
        delays.insert(started.elapsed());
    }
    // tokio's timer counts in milliseconds, so two of a thousand possible ones may meet.
    assert!(delays.len() > 80, "{} different delays", delays.len());
}

#[tokio::test(start_paused = true)]
async fn the_deadline_counts_the_time_that_calls_take() {
    let retrier = Retrier::builder("stock").policy(Policy::sync_api()).ungated().build();
    let started = Instant::now();
    let failed = retrier
        .repeatable()
        .call(async |_| {
            tokio::time::sleep(9 * SECOND).await;
            Err::<(), _>(timed_out())
        })
        .await;
    assert!(started.elapsed() <= 30 * SECOND, "{:?}", started.elapsed());
    assert!(failed.unwrap_err().report().attempts >= 2);
}

#[tokio::test(start_paused = true)]
async fn the_first_retry_of_a_fresh_dependency_is_always_granted() {
    for _ in 0..100 {
        let retrier = Retrier::new("fresh", Policy::sync_api());
        let mut failures = [timed_out()].into_iter();
        let call = retrier.repeatable().call(|_| ready(failures.next().map_or(Ok(()), Err)));
        assert!(call.await.is_ok());
    }
}

#[tokio::test(start_paused = true)]
async fn a_retry_counts_from_its_decision_and_not_from_its_sending() {
    let retrier = Retrier::builder("stock").policy(Policy::sync_api()).seed(1).build();
    for _ in 0..10 {
        retrier.call(async |_| Ok::<_, Error>(())).await.unwrap();
    }
    let call = retrier.repeatable().call(async |_| Err::<(), _>(timed_out()));
    let mut call = std::pin::pin!(call);
    assert!(tokio::time::timeout(Duration::from_millis(1), &mut call).await.is_err());
    assert!(retrier.budget_utilization_ratio() > 0.0, "it waits, and is counted");
}

#[tokio::test(start_paused = true)]
async fn a_spent_budget_hands_the_original_error_back() {
    let retrier = Retrier::builder("stock").policy(Policy::sync_api()).repeatable().build();
    let spend = async || {
        let call = retrier.call(async |_| Err::<(), _>(Error::new(ErrorKind::TimedOut, "mine")));
        call.await.unwrap_err()
    };
    let mut failed = spend().await;
    for _ in 0..10 {
        if failed.because() == Some(GiveUpReason::BudgetExhausted) {
            break;
        }
        failed = spend().await;
    }
    assert_eq!(failed.because(), Some(GiveUpReason::BudgetExhausted));
    let CallError::GaveUp(gave_up) = failed else { panic!("{failed}") };
    assert_eq!(
        (gave_up.kind(), gave_up.into_inner().to_string()),
        (ErrorKind::TimedOut, "mine".into())
    );
}

/// The next delay of a session, exactly: the clock stands still.
fn delay<B: Backoff<Future = tokio::time::Sleep>>(session: &mut B) -> Duration {
    session.next_backoff().deadline().saturating_duration_since(Instant::now())
}

fn tower_maker(min: Duration) -> ExponentialBackoffMaker {
    ExponentialBackoffMaker::new(min, 60 * SECOND, 0.99, HasherRng::default()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn peer_tower_has_no_jitter_on_a_whole_second() {
    let delays: HashSet<Duration> =
        (0..200).map(|_| delay(&mut tower_maker(SECOND).make_backoff())).collect();
    assert_eq!(delays, HashSet::from([SECOND]));
}

#[tokio::test(start_paused = true)]
async fn peer_tower_gives_all_sessions_of_a_maker_the_same_delays() {
    let mut maker = tower_maker(Duration::from_millis(50));
    let delays: HashSet<Duration> = (0..1_000).map(|_| delay(&mut maker.make_backoff())).collect();
    assert_eq!(delays.len(), 1);
}

/// How many retries this budget grants after so many deposits.
fn granted(budget: &TpsBudget, deposits: u32) -> usize {
    (0..deposits).for_each(|_| budget.deposit());
    (0..1_000).filter(|_| budget.withdraw()).count()
}

#[tokio::test(start_paused = true)]
async fn peer_tower_rounds_the_ratio_of_its_budget_up() {
    for (ratio, meant, percent) in [(0.3, 30, 33), (0.4, 40, 50), (0.6, 60, 100), (0.9, 90, 100)] {
        let got = granted(&TpsBudget::new(10 * SECOND, 0, ratio), 100);
        assert_eq!(got, percent, "{meant} % was asked for");
    }
}

#[tokio::test(start_paused = true)]
async fn peer_tower_spends_ten_seconds_floor_in_one_burst() {
    let budget = TpsBudget::new(10 * SECOND, 10, 0.2);
    assert_eq!(granted(&budget, 0), 100, "of 10 a second");
    tokio::time::advance(5 * SECOND).await;
    assert_eq!(granted(&budget, 0), 0, "and then none for as long");
}

#[tokio::test(start_paused = true)]
async fn peer_tokio_retry2_ignores_retry_after() {
    let started = Instant::now();
    let mut times = Vec::new();
    let delays = tokio_retry2::strategy::FixedInterval::from_millis(100).take(2);
    let action = || {
        times.push(started.elapsed().as_millis());
        ready(tokio_retry2::RetryError::to_retry_after::<()>("busy", 5 * SECOND))
    };
    assert!(tokio_retry2::Retry::spawn(delays, action).await.is_err());
    assert_eq!(times, [0, 100, 200]);
}

#[test]
fn peer_backon_waits_longer_than_its_longest_delay() {
    let cap = 30 * SECOND;
    let delays =
        ExponentialBuilder::default().with_jitter().with_min_delay(cap).with_max_delay(cap);
    assert!(delays.with_max_times(100).build().any(|delay| delay > cap + 20 * SECOND));
}

#[tokio::test(start_paused = true)]
async fn peer_backon_leaves_the_calls_out_of_its_total() {
    let started = Instant::now();
    let failing = || async {
        tokio::time::sleep(20 * SECOND).await;
        Err::<(), _>(timed_out())
    };
    let delays = ExponentialBuilder::default().with_total_delay(Some(30 * SECOND));
    assert!(failing.retry(delays).sleep(tokio::time::sleep).await.is_err());
    assert_eq!(started.elapsed(), 87 * SECOND, "four calls and 1 + 2 + 4 s");
}

#[derive(Debug)]
struct TwentySeconds;

impl gax::backoff_policy::BackoffPolicy for TwentySeconds {
    fn on_failure(&self, _: &gax::retry_state::RetryState) -> Duration {
        20 * SECOND
    }
}

#[tokio::test(start_paused = true)]
async fn peer_gax_grants_an_attempt_the_time_it_has_slept_away() {
    let started = Instant::now();
    let mut first = true;
    let attempt = async |remaining: Option<Duration>| {
        let takes = if std::mem::take(&mut first) { 5 * SECOND } else { remaining.unwrap() };
        tokio::time::sleep(takes).await;
        Err::<(), _>(gax::error::Error::io(timed_out()))
    };
    let sleep = async |delay| tokio::time::sleep(delay).await;
    let limit = gax::retry_policy::AlwaysRetry.with_time_limit(30 * SECOND);
    let throttler = Arc::new(Mutex::new(gax::retry_throttler::CircuitBreaker::default()));
    let failed = gax::retry_loop_internal::retry_loop(
        attempt,
        sleep,
        true,
        throttler,
        Arc::new(limit),
        Arc::new(TwentySeconds),
    );
    assert!(failed.await.is_err());
    assert_eq!(started.elapsed(), 50 * SECOND, "of 30");
}

#[test]
fn peer_gax_refuses_every_other_first_retry_of_a_fresh_client() {
    let refused = (0..1_000).filter(|_| {
        let mut fresh = AdaptiveThrottler::default();
        fresh.on_retry_failure(&gax::retry_result::RetryResult::Continue(gax::error::Error::io(
            timed_out(),
        )));
        fresh.throttle_retry_attempt()
    });
    assert!((350..650).contains(&refused.count()));
}

#[test]
fn peer_reqwest_retry_repeats_what_the_server_will_never_do() {
    for status in [501, 505] {
        let response = Response::builder().status(status).body("").unwrap();
        let verdict = reqwest_retry::default_on_request_success(&response.into());
        assert!(matches!(verdict, Some(reqwest_retry::Retryable::Transient)), "{status}");
    }
}

fn sources(folder: &Path, text: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, text);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text.push_str(&fs::read_to_string(path).unwrap());
        }
    }
}

#[test]
fn every_test_on_the_conformance_page_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join("docs/conformance.md")).unwrap();
    let mut text = String::new();
    for krate in ["relent", "relent-policy"] {
        sources(&root.join("crates").join(krate), &mut text);
    }
    let rows = page.lines().filter(|line| line.starts_with("| B"));
    let mut named = HashSet::new();
    for row in rows {
        let proofs = row.trim_end_matches('|').rsplit('|').next().unwrap();
        let names: Vec<&str> = proofs.split('`').skip(1).step_by(2).collect();
        assert!(!names.is_empty(), "no test in: {row}");
        for name in &names {
            assert!(text.contains(&format!("fn {name}(")), "no such test: {name}");
        }
        named.extend(names);
    }
    let missing: Vec<&str> = include_str!("conformance.rs")
        .split("fn peer_")
        .skip(1)
        .filter_map(|rest| rest.split_once('(').map(|(name, _)| name))
        .filter(|name| !name.contains(' ') && !named.contains(format!("peer_{name}").as_str()))
        .collect();
    assert_eq!(missing, [""; 0], "shown here and not on the page");
}
