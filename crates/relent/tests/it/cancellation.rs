//! A call that is dropped, wherever it is, gives back what it holds.

use std::io::{Error, ErrorKind};
use std::time::Duration;

use relent::{Policy, PolicySpec, Retrier, Timestamp};

use crate::error;

#[tokio::test(start_paused = true)]
async fn a_call_dropped_during_its_attempt_frees_its_place() {
    let retrier = Retrier::new("stock", Policy::sync_api());
    let call = retrier.call(async |_| std::future::pending::<Result<(), Error>>().await);
    assert!(tokio::time::timeout(Duration::from_secs(1), call).await.is_err());
    assert_eq!(retrier.lane().unwrap().in_flight(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_call_dropped_during_its_wait_gives_its_retry_back() {
    let retrier = Retrier::builder("stock").policy(Policy::sync_api()).seed(1).build();
    let before = retrier.lane().unwrap();
    for _ in 0..3 {
        let call = retrier.repeatable().call(async |_| Err::<(), _>(error(ErrorKind::TimedOut)));
        assert!(tokio::time::timeout(Duration::from_millis(1), call).await.is_err());
    }
    assert!(before.budget().is_some());
    assert!(retrier.budget_utilization_ratio() < f64::EPSILON, "no retry is counted");
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_is_dropped_leaves_its_turn_to_the_next() {
    let retrier = Retrier::new("stock", Policy::sync_api());
    for _ in 0..20 {
        let _ = retrier.call(async |_| Err::<(), _>(error(ErrorKind::TimedOut))).await;
    }
    tokio::time::sleep(Duration::from_secs(6)).await;
    let probe = retrier.call(async |_| std::future::pending::<Result<(), Error>>().await);
    assert!(tokio::time::timeout(Duration::from_secs(1), probe).await.is_err());
    assert!(retrier.call(async |_| Ok::<(), Error>(())).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn an_operation_that_panics_frees_its_place() {
    let retrier = Retrier::new("stock", Policy::sync_api());
    let clone = retrier.clone();
    let task = tokio::spawn(async move {
        clone.call(async |_| -> Result<(), Error> { panic!("the operation's own fault") }).await
    });
    assert!(task.await.is_err());
    assert_eq!(retrier.lane().unwrap().in_flight(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_limit_on_attempts_in_flight_holds_and_is_freed() {
    let mut spec = PolicySpec::sync_api();
    spec.concurrency.in_flight_max = 2;
    spec.concurrency.retries_in_flight_max = 1;
    let retrier = Retrier::new("narrow", spec.build(Timestamp::ZERO).unwrap());
    let slow = async || {
        retrier
            .call(async |_| {
                tokio::time::sleep(Duration::from_secs(1)).await;
                Ok::<(), Error>(())
            })
            .await
    };
    let (first, second, third) = tokio::join!(slow(), slow(), slow());
    assert!(first.is_ok() && second.is_ok());
    assert_eq!(third.unwrap_err().to_string(), "not attempted: concurrency");
    assert!(slow().await.is_ok());
}
