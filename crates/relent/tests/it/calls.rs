//! What a call does: how often, how long, why it stops, and what comes back.

use std::cell::{Cell, RefCell};
use std::io::{Error, ErrorKind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use relent::{
    CallError, Classify, Failure, FailureKind, GiveUpReason, Hop, IdempotencyKey, Policy,
    PolicySpec, Refusal, Retrier, Timestamp, hop,
};
use tokio::time::Instant;

use crate::error;

fn retrier() -> Retrier {
    Retrier::builder("stock").policy(Policy::sync_api()).seed(7).build()
}

#[tokio::test(start_paused = true)]
async fn a_transient_failure_is_retried_until_it_succeeds() {
    let failures = [ErrorKind::TimedOut, ErrorKind::ConnectionReset];
    let seen = RefCell::new(Vec::new());
    let result = retrier()
        .repeatable()
        .call(async |attempt| {
            let previous = attempt.previous().map(|kind| kind.to_string());
            seen.borrow_mut().push((attempt.number(), previous));
            failures.get(attempt.number() as usize - 1).map_or(Ok(12), |kind| Err(error(*kind)))
        })
        .await;
    assert_eq!(result.unwrap(), 12);
    let io = |name: &str| Some(name.to_owned());
    assert_eq!(seen.into_inner(), [(1, None), (2, io("io_timed_out")), (3, io("reset"))]);
}

#[tokio::test(start_paused = true)]
async fn attempts_run_out_and_the_error_is_the_last_one() {
    let started = Instant::now();
    let failed = retrier()
        .repeatable()
        .call(async |attempt| {
            let text = format!("number {}", attempt.number());
            Err::<(), _>(Error::new(ErrorKind::TimedOut, text))
        })
        .await
        .unwrap_err();
    let CallError::GaveUp(gave_up) = failed else { panic!("{failed}") };
    assert_eq!(
        gave_up.to_string(),
        format!("gave up after {}: attempts_exhausted", gave_up.report())
    );
    assert_eq!((*gave_up).to_string(), "number 4");
    assert_eq!(gave_up.kind(), ErrorKind::TimedOut);
    assert_eq!(gave_up.report().attempts, 4);
    assert_eq!(gave_up.report().elapsed, started.elapsed());
    assert!(started.elapsed() <= Duration::from_secs(7), "1 + 2 + 4 s at most");
}

#[tokio::test(start_paused = true)]
async fn without_key_or_declaration_there_is_one_attempt_and_the_error_says_why() {
    let count = Cell::new(0);
    let failed = retrier()
        .call(async |attempt| {
            count.set(attempt.number());
            Err::<(), _>(error(ErrorKind::TimedOut))
        })
        .await
        .unwrap_err();
    assert_eq!(count.get(), 1);
    assert_eq!(failed.because(), Some(GiveUpReason::UnsafeToRepeat));
}

#[tokio::test(start_paused = true)]
async fn asking_for_the_key_makes_a_call_repeatable_and_the_key_stays() {
    let keys = RefCell::new(Vec::new());
    let failed = retrier()
        .call(async |attempt| {
            keys.borrow_mut().push(attempt.key());
            Err::<(), _>(error(ErrorKind::TimedOut))
        })
        .await
        .unwrap_err();
    let keys = keys.into_inner();
    assert_eq!(failed.because(), Some(GiveUpReason::AttemptsExhausted));
    assert_eq!(keys.len(), 4);
    assert!(
        keys.iter().all(|key| *key == keys[0] && key.len() == 36 && key.as_bytes()[14] == b'4')
    );

    let given = IdempotencyKey::try_new("order-17").unwrap();
    let key = retrier().with_key(given).call(async |attempt| Ok::<_, Error>(attempt.key())).await;
    assert_eq!(key.unwrap().as_str(), "order-17");
}

#[tokio::test(start_paused = true)]
async fn two_calls_never_share_a_key() {
    let retrier = retrier();
    let key = async || {
        let made = retrier.call(async |attempt| Ok::<_, Error>(attempt.key())).await;
        made.unwrap()
    };
    assert_ne!(key().await, key().await);
}

#[tokio::test(start_paused = true)]
async fn a_permanent_failure_is_not_repeated() {
    let failed = retrier()
        .repeatable()
        .call(async |_| Err::<(), _>(error(ErrorKind::NotFound)))
        .await
        .unwrap_err();
    assert_eq!(failed.report().attempts, 1);
    assert_eq!(failed.because(), Some(GiveUpReason::Permanent));
}

#[tokio::test(start_paused = true)]
async fn an_attempt_ends_when_its_time_is_over() {
    let started = Instant::now();
    let failed = retrier()
        .repeatable()
        .call(async |attempt| {
            assert!(attempt.timeout() <= Duration::from_secs(10));
            std::future::pending::<Result<(), Error>>().await
        })
        .await
        .unwrap_err();
    let CallError::TimedOut(timed_out) = failed else { panic!("{failed}") };
    assert!(timed_out.report.attempts >= 2);
    assert!(started.elapsed() <= Duration::from_secs(30), "{:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn no_sleep_passes_the_deadline() {
    for millis in [0, 50, 700, 1_500, 5_000] {
        let deadline = Duration::from_millis(millis);
        let started = Instant::now();
        let failed = retrier()
            .repeatable()
            .deadline_in(deadline)
            .call(async |_| Err::<(), _>(error(ErrorKind::TimedOut)))
            .await
            .unwrap_err();
        assert!(started.elapsed() <= deadline, "{:?} of {deadline:?}", started.elapsed());
        assert!(matches!(
            failed.because(),
            Some(GiveUpReason::DeadlineWouldPass | GiveUpReason::AttemptsExhausted)
        ));
    }
}

#[tokio::test(start_paused = true)]
async fn the_attempt_after_a_wait_gets_what_is_left_and_not_more() {
    // Without shared state there is no estimate of the call's time that would end it earlier.
    let retrier = Retrier::builder("stock").policy(Policy::sync_api()).ungated().build();
    let timeouts = RefCell::new(Vec::new());
    let _ = retrier
        .repeatable()
        .deadline_in(Duration::from_secs(12))
        .call(async |attempt| {
            timeouts.borrow_mut().push(attempt.timeout());
            std::future::pending::<Result<(), Error>>().await
        })
        .await;
    let timeouts = timeouts.into_inner();
    assert_eq!(timeouts[0], Duration::from_secs(10));
    assert!(timeouts[1] < Duration::from_secs(2), "{timeouts:?}");
}

/// An error with a server's wish in it.
#[derive(Debug)]
struct Limited(Duration);

impl Classify for Limited {
    fn failure(&self, _now: Timestamp) -> Failure {
        Failure::from(FailureKind::Http(429)).retry_after(self.0)
    }
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_waited_for_and_too_long_a_wish_ends_the_call_at_once() {
    let started = Instant::now();
    let result = retrier()
        .repeatable()
        .call(async |attempt| match attempt.number() {
            1 => Err(Limited(Duration::from_secs(5))),
            _ => Ok(()),
        })
        .await;
    assert!(result.is_ok());
    assert!((5_000..7_501).contains(&started.elapsed().as_millis()), "{:?}", started.elapsed());

    let started = Instant::now();
    let failed = retrier()
        .repeatable()
        .call(async |_| Err::<(), _>(Limited(Duration::from_secs(31))))
        .await
        .unwrap_err();
    assert_eq!(failed.because(), Some(GiveUpReason::RetryAfterTooLong));
    assert_eq!(started.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn an_open_breaker_fails_fast_and_half_open_allows_one() {
    let retrier = retrier();
    for _ in 0..20 {
        let _ = retrier.call(async |_| Err::<(), _>(error(ErrorKind::TimedOut))).await;
    }
    let calls = AtomicU32::new(0);
    let counted = async || {
        let call = retrier.call(async |_| {
            calls.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(100)).await;
            Ok::<(), Error>(())
        });
        call.await
    };
    let refused = counted().await.unwrap_err();
    let CallError::Refused(refused) = refused else { panic!("{refused}") };
    assert!(matches!(refused.refusal, Refusal::BreakerOpen { .. }));
    assert_eq!(calls.load(Ordering::Relaxed), 0);

    tokio::time::sleep(Duration::from_secs(5)).await;
    let (first, second) = tokio::join!(counted(), counted());
    assert!(first.is_ok() && second.is_err());
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_retried_above_is_not_retried_here() {
    let retrier = retrier();
    let calls = AtomicU32::new(0);
    let call = async || {
        let operation = retrier.repeatable().call(async |_| {
            calls.fetch_add(1, Ordering::Relaxed);
            Err::<(), _>(error(ErrorKind::TimedOut))
        });
        operation.await.unwrap_err().because()
    };
    assert_eq!(hop::within(Hop::RetriedAbove, call()).await, Some(GiveUpReason::RetriedAbove));
    assert_eq!(calls.swap(0, Ordering::Relaxed), 1);
    assert_eq!(call().await, Some(GiveUpReason::AttemptsExhausted), "only inside");
}

#[tokio::test(start_paused = true)]
async fn a_rate_limit_is_waited_for() {
    let mut spec = PolicySpec::sync_api();
    spec.concurrency.rate_per_second = Some(10);
    let retrier = Retrier::new("slow", spec.build(Timestamp::ZERO).unwrap());
    let started = Instant::now();
    for _ in 0..21 {
        retrier.call(async |_| Ok::<(), Error>(())).await.unwrap();
    }
    assert_eq!(started.elapsed().as_millis(), 2_000);
}

#[tokio::test(start_paused = true)]
async fn one_seed_gives_one_schedule() {
    let schedule = async |seed| {
        let retrier = Retrier::builder("stock").policy(Policy::async_event()).seed(seed).build();
        let started = Instant::now();
        let times = RefCell::new(Vec::new());
        let _ = retrier
            .repeatable()
            .call(async |_| {
                times.borrow_mut().push(started.elapsed());
                Err::<(), _>(error(ErrorKind::TimedOut))
            })
            .await;
        times.into_inner()
    };
    assert_eq!(schedule(1).await, schedule(1).await);
    assert_ne!(schedule(1).await, schedule(2).await);
}

#[tokio::test]
async fn calls_that_borrow_and_carry_their_key_can_be_spawned() {
    async fn post(client: &str, url: &str, key: &str) -> Result<String, Error> {
        tokio::task::yield_now().await;
        Ok(format!("{client} {url} {}", key.len()))
    }
    let (retrier, client, url) = (retrier(), "client".to_owned(), "url".to_owned());
    let task = tokio::spawn(async move {
        let url = url.as_str();
        retrier.call(async |attempt| post(&client, url, &attempt.key()).await).await
    });
    assert_eq!(task.await.unwrap().unwrap(), "client url 36");
}

#[test]
fn blocking_code_has_the_same_calls() {
    let retrier = Retrier::new("disk", Policy::database());
    let mut failures = [ErrorKind::WouldBlock, ErrorKind::Interrupted].into_iter();
    let result = retrier
        .repeatable()
        .run(|attempt| failures.next().map_or(Ok(attempt.number()), |kind| Err(error(kind))));
    assert_eq!(result.unwrap(), 3);

    let mut count = 0;
    let failed = retrier.repeatable().run(|_| {
        count += 1;
        Err::<(), _>(error(ErrorKind::NotFound))
    });
    assert_eq!((count, failed.unwrap_err().because()), (1, Some(GiveUpReason::Permanent)));
}

#[test]
fn a_loop_of_ones_own_sees_every_attempt() {
    let retrier = Retrier::new("disk", Policy::database());
    let mut attempts = retrier.repeatable().attempts();
    let mut numbers = Vec::new();
    while let Some(attempt) = attempts.next() {
        numbers.push(attempt.number());
        let _ = attempts.record(Err::<(), _>(error(ErrorKind::TimedOut)));
    }
    assert_eq!(numbers, [1, 2, 3, 4]);
    assert_eq!(attempts.because(), Some(GiveUpReason::AttemptsExhausted));
}

#[test]
fn the_first_registered_retrier_stays() {
    let first = Retrier::new("only-one", Policy::sync_api()).register();
    let second = Retrier::new("only-one", Policy::webhook()).register();
    assert_eq!(first.policy().id(), second.policy().id());
    assert!(Retrier::named("nobody").is_none());
}
