//! relent and its peers, each as a closure that makes one whole call.
//!
//! The shape is the same for all: `u64` in, `u64` out, the future polled once with a waker that does
//! nothing. None of them may wait, so a retry's delay is zero and its sleep is over at once.

use std::future::{Future, Ready, ready};
use std::hint::black_box;
use std::ops::Deref;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use backon::Retryable;
use execution_policy::core::{BoxFuture, Core};
use execution_policy::{CircuitBreaker, ExecutionPolicyBuilder, Jitter as PeerJitter, RetryBudget};
use google_cloud_gax as gax;
use google_cloud_gax::retry_policy::RetryPolicyExt;
use relent::clock::{Clock, Sleep, SystemClock};
use relent::relent_policy::{Backoff, Jitter, Rule, Waiver};
use relent::{Classify, Failure, Policy, PolicySpec, Retrier, Timestamp};
use tower::Service;
use tower::retry::budget::{Budget, TpsBudget};

/// An error that is worth another attempt.
#[derive(Debug)]
pub(crate) struct Busy;

impl Classify for Busy {
    fn failure(&self, _now: Timestamp) -> Failure {
        relent::retryable()
    }
}

/// What a future comes to that is ready when it is first polled.
#[inline]
pub(crate) fn at_once<F: Future>(future: F) -> Option<F::Output> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

/// The operation of all successful calls.
#[inline]
fn echo<E>(n: u64) -> Ready<Result<u64, E>> {
    ready(Ok(black_box(n)))
}

/// The operation of all failing calls.
#[inline]
fn busy(n: u64) -> Ready<Result<u64, Busy>> {
    ready(if black_box(n) == 0 { Ok(n) } else { Err(Busy) })
}

pub(crate) fn bare(n: u64) -> bool {
    at_once(echo::<Busy>(n)).is_some_and(|it| it.is_ok())
}

/// What relent does at all: budget, deadline, breaker, limits.
pub(crate) fn gated() -> Retrier {
    Retrier::new("bench", Policy::sync_api())
}

pub(crate) fn on_the_systems_clock() -> Retrier<SystemClock> {
    Retrier::builder("bench").policy(Policy::sync_api()).clock(SystemClock::default()).build()
}

/// Everything shared off: what is left are attempts, backoff and classification.
pub(crate) fn ungated() -> Retrier {
    Retrier::builder("bench").policy(Policy::sync_api()).ungated().build()
}

pub(crate) fn relent_call<C: Sleep>(retrier: Retrier<C>) -> impl Fn(u64) -> bool {
    move |n| {
        let call = retrier.call(async |_| echo::<Busy>(n).await);
        at_once(call).is_some_and(|it| it.is_ok())
    }
}

pub(crate) fn relent_run<C: Clock>(retrier: Retrier<C>) -> impl Fn(u64) -> bool {
    move |n| retrier.run(|_| Ok::<_, Busy>(black_box(n))).is_ok()
}

/// A clock on which every sleep is over at once.
#[derive(Default)]
pub(crate) struct Sleepless(SystemClock);

impl Clock for Sleepless {
    #[inline]
    fn now(&self) -> Timestamp {
        self.0.now()
    }
}

impl Sleep for Sleepless {
    type Sleep = Ready<()>;

    fn sleep(&self, _duration: Duration) -> Ready<()> {
        ready(())
    }
}

/// Three retries without any delay, which takes two waivers.
fn hasty() -> Policy {
    let waiver = |rule| Waiver {
        rule,
        approver: "the benchmark".into(),
        reason: "to measure without waiting".into(),
        expires: "2099-12-31".parse().expect("a day"),
    };
    let spec = PolicySpec {
        backoff: Backoff::Fixed { delay: Duration::ZERO },
        jitter: Jitter::None,
        budget: None,
        breaker: None,
        waivers: vec![waiver(Rule::R1), waiver(Rule::R7)],
        ..PolicySpec::sync_api()
    };
    spec.build(Timestamp::ZERO).expect("what departs is waived")
}

pub(crate) fn relent_failing() -> impl Fn(u64) -> bool {
    let retrier = Retrier::builder("bench")
        .policy(hasty())
        .clock(Sleepless::default())
        .repeatable()
        .ungated()
        .build();
    move |n| {
        let call = retrier.call(async |_| busy(n).await);
        at_once(call).is_some_and(|it| it.is_err_and(|error| error.report().attempts == 4))
    }
}

pub(crate) fn backon_plain(n: u64) -> bool {
    let call = (|| echo::<Busy>(n)).retry(backon::ExponentialBuilder::default());
    at_once(call.sleep(|_| ready(()))).is_some_and(|it| it.is_ok())
}

pub(crate) fn backon_all(n: u64) -> bool {
    let call = (|| echo::<Busy>(n))
        .retry(backon::ExponentialBuilder::default().with_jitter())
        .sleep(|_| ready(()))
        .when(|error| black_box(matches!(error, Busy)))
        .notify(|_, delay| _ = black_box(delay));
    at_once(call).is_some_and(|it| it.is_ok())
}

pub(crate) fn backon_failing(n: u64) -> bool {
    let delays = backon::ExponentialBuilder::default().with_min_delay(Duration::ZERO);
    let call = (|| busy(n)).retry(delays.with_jitter()).sleep(|_| ready(()));
    at_once(call).is_some_and(|it| it.is_err())
}

/// The policy that tower's documentation suggests: a success pays in, a retry pays.
#[derive(Clone)]
pub(crate) struct Budgeted<B> {
    budget: B,
    retries: u32,
}

impl<B: Deref<Target: Budget>> tower::retry::Policy<u64, u64, Busy> for Budgeted<B> {
    type Future = Ready<()>;

    fn retry(&mut self, _: &mut u64, result: &mut Result<u64, Busy>) -> Option<Ready<()>> {
        if result.is_ok() {
            self.budget.deposit();
            return None;
        }
        let granted = self.retries > 0 && self.budget.withdraw();
        self.retries = self.retries.saturating_sub(1);
        granted.then(|| ready(()))
    }

    fn clone_request(&mut self, request: &u64) -> Option<u64> {
        Some(*request)
    }
}

/// A budget that is never spent, for a peer without one.
pub(crate) struct Unlimited;

impl Budget for Unlimited {
    fn deposit(&self) {}

    fn withdraw(&self) -> bool {
        true
    }
}

pub(crate) fn tower_budgeted() -> impl FnMut(u64) -> bool {
    let budget = Arc::new(TpsBudget::new(Duration::from_secs(10), 10, 0.2));
    tower_call(Budgeted { budget, retries: 3 }, echo)
}

pub(crate) fn tower_plain() -> impl FnMut(u64) -> bool {
    tower_call(Budgeted { budget: &Unlimited, retries: 3 }, echo)
}

pub(crate) fn tower_failing() -> impl FnMut(u64) -> bool {
    let mut call = tower_call(Budgeted { budget: &Unlimited, retries: 3 }, busy);
    move |n| !call(n)
}

fn tower_call<B: Deref<Target: Budget> + Clone>(
    policy: Budgeted<B>,
    operation: fn(u64) -> Ready<Result<u64, Busy>>,
) -> impl FnMut(u64) -> bool {
    let mut service = tower::retry::Retry::new(policy, tower::service_fn(operation));
    move |n| at_once(service.call(n)).is_some_and(|it| it.is_ok())
}

pub(crate) fn execution_policy_plain() -> impl Fn(u64) -> bool {
    let policy = ExecutionPolicyBuilder::<u64, Busy>::new()
        .retry(execution_policy::Retry::exponential().max_attempts(4).jitter(PeerJitter::Full))
        .build();
    move |n| at_once(policy.run(async || echo(n).await)).is_some_and(|it| it.is_ok())
}

pub(crate) fn execution_policy_budgeted() -> impl Fn(u64) -> bool {
    let policy = execution_policy_with_budget().build();
    move |n| at_once(policy.run(async || echo(n).await)).is_some_and(|it| it.is_ok())
}

pub(crate) fn execution_policy_all() -> impl Fn(u64) -> bool {
    let breaker = CircuitBreaker::failure_ratio();
    let policy = execution_policy_with_budget().circuit_breaker(breaker).build();
    move |n| at_once(policy.run(async || echo(n).await)).is_some_and(|it| it.is_ok())
}

fn execution_policy_with_budget() -> ExecutionPolicyBuilder<u64, Busy> {
    let retry = execution_policy::Retry::exponential().max_attempts(4).jitter(PeerJitter::Full);
    ExecutionPolicyBuilder::new()
        .retry(retry.budget(RetryBudget::new(0.2, 10)))
        .attempt_timeout(Duration::from_secs(10))
        .total_timeout(Duration::from_secs(30))
}

/// A sleep that is over at once and needs no memory, for a peer that boxes its sleeps.
struct Over;

impl Future for Over {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }
}

impl Core for Sleepless {
    fn now(&self) -> Instant {
        Instant::now()
    }

    fn sleep(&self, _: Duration) -> BoxFuture<'_, ()> {
        Box::pin(Over)
    }

    fn next_u64(&self) -> u64 {
        fastrand::u64(..)
    }
}

pub(crate) fn execution_policy_failing() -> impl Fn(u64) -> bool {
    let policy = ExecutionPolicyBuilder::<u64, Busy>::new()
        .retry(execution_policy::Retry::fixed(Duration::ZERO).max_attempts(4))
        .build_with(Sleepless::default());
    move |n| at_once(policy.run(async || busy(n).await)).is_some_and(|it| it.is_err())
}

pub(crate) fn tokio_retry2_plain(n: u64) -> bool {
    let delays = tokio_retry2::strategy::FixedInterval::from_millis(10).take(3);
    let call = tokio_retry2::Retry::spawn(delays, || echo::<tokio_retry2::RetryError<Busy>>(n));
    at_once(call).is_some_and(|it| it.is_ok())
}

#[derive(Debug)]
struct NoDelay;

impl gax::backoff_policy::BackoffPolicy for NoDelay {
    fn on_failure(&self, _: &gax::retry_state::RetryState) -> Duration {
        Duration::ZERO
    }
}

#[derive(Debug)]
struct NoThrottle;

impl gax::retry_throttler::RetryThrottler for NoThrottle {
    fn throttle_retry_attempt(&self) -> bool {
        false
    }

    fn on_retry_failure(&mut self, _: &gax::retry_result::RetryResult) {}

    fn on_success(&mut self) {}
}

pub(crate) fn gax_plain() -> impl Fn(u64) -> bool {
    let throttler = gax::retry_throttler::AdaptiveThrottler::default();
    gax_call(Arc::new(Mutex::new(throttler)), async |n| Ok(black_box(n)))
}

/// Its errors live on the heap, so making four of them is part of the figure.
pub(crate) fn gax_failing() -> impl Fn(u64) -> bool {
    let call = gax_call(Arc::new(Mutex::new(NoThrottle)), async |_| {
        Err(gax::error::Error::io(std::io::ErrorKind::TimedOut.to_string()))
    });
    move |n| !call(n)
}

fn gax_call(
    throttler: Arc<Mutex<dyn gax::retry_throttler::RetryThrottler>>,
    operation: impl AsyncFn(u64) -> gax::Result<u64> + Send + Sync,
) -> impl Fn(u64) -> bool {
    let limits = gax::retry_policy::AlwaysRetry.with_time_limit(Duration::from_secs(30));
    let limits: Arc<dyn gax::retry_policy::RetryPolicy> = Arc::new(limits.with_attempt_limit(4));
    let delays: Arc<dyn gax::backoff_policy::BackoffPolicy> = Arc::new(NoDelay);
    move |n| {
        let (throttler, limits, delays) = (throttler.clone(), limits.clone(), delays.clone());
        let attempt = async |_: Option<Duration>| operation(n).await;
        let sleep = async |_: Duration| ();
        let call =
            gax::retry_loop_internal::retry_loop(attempt, sleep, true, throttler, limits, delays);
        at_once(call).is_some_and(|it| it.is_ok())
    }
}

/// Makes one call and says whether it went as it should.
type Call = dyn FnMut(u64) -> bool;

/// Makes each call once and insists that it does what its name says.
pub(crate) fn check() {
    let once: [(&str, Box<Call>); 9] = [
        ("relent", Box::new(relent_call(gated()))),
        ("backon", Box::new(backon_all)),
        ("tower", Box::new(tower_budgeted())),
        ("execution-policy", Box::new(execution_policy_all())),
        ("relent failing", Box::new(relent_failing())),
        ("backon failing", Box::new(backon_failing)),
        ("tower failing", Box::new(tower_failing())),
        ("execution-policy failing", Box::new(execution_policy_failing())),
        ("gax failing", Box::new(gax_failing())),
    ];
    for (name, mut call) in once {
        assert!(call(1), "{name}: the call does not end as its name says");
    }
}

/// How large the futures of a successful call are.
pub(crate) fn sizes() -> [(&'static str, usize); 5] {
    let (gated, n) = (gated(), 1);
    let relent = gated.call(async |_| echo::<Busy>(n).await);
    let backon = (|| echo::<Busy>(n)).retry(backon::ExponentialBuilder::default());
    let policy = Budgeted { budget: Arc::new(TpsBudget::default()), retries: 3 };
    let mut tower = tower::retry::Retry::new(policy, tower::service_fn(echo::<Busy>));
    let execution_policy = execution_policy_with_budget().build();
    let delays = tokio_retry2::strategy::FixedInterval::from_millis(10).take(3);
    let tokio_retry2 =
        tokio_retry2::Retry::spawn(delays, || echo::<tokio_retry2::RetryError<Busy>>(n));
    [
        ("relent", size_of_val(&relent)),
        ("backon", size_of_val(&backon)),
        ("tower, TpsBudget", size_of_val(&tower.call(n))),
        (
            "execution-policy, budget, timeouts",
            size_of_val(&execution_policy.run(async || echo(n).await)),
        ),
        ("tokio-retry2", size_of_val(&tokio_retry2)),
    ]
}
