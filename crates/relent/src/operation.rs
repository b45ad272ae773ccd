//! Driving a call: async, blocking, or in the caller's own loop.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use relent_policy::{GiveUpReason, Outcome, Refusal, Timestamp};

use crate::attempt::Attempt;
use crate::call::{Call, Next, NotNow, Options};
use crate::clock::{Clock, DefaultClock, Sleep};
use crate::error::{CallError, Refused, TimedOut};
use crate::judge::Judge;
use crate::retrier::{Inner, Retrier};

/// A call that has been described and not yet made.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), relent::CallError<std::io::Error>> {
/// use relent::{Policy, Retrier};
/// use std::time::Duration;
///
/// let stock = Retrier::new("stock", Policy::sync_api());
/// let level = stock
///     .repeatable()
///     .deadline_in(Duration::from_secs(2))
///     .correlation_id("order-17")
///     .call(async |_attempt| Ok::<_, std::io::Error>(12))
///     .await?;
/// assert_eq!(level, 12);
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is called before `call`, `run` or `attempts`"]
pub struct Operation<'r, C: Clock = DefaultClock> {
    pub(crate) inner: &'r Inner<C>,
    pub(crate) options: Options,
}

impl<C: Clock> std::fmt::Debug for Operation<'_, C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Operation").field("options", &self.options).finish_non_exhaustive()
    }
}

/// How a driven call ended.
pub(crate) enum Ended<R> {
    /// With a result: a success, or what the last attempt came to and why there is no further one.
    With(R, Option<GiveUpReason>),
    /// Without one: the last attempt's time ran out.
    TimedOut(GiveUpReason),
    /// Without an attempt.
    Refused(Refusal),
}

#[cfg(feature = "tower")]
impl<R> Ended<R> {
    pub(crate) fn map<T>(self, change: impl FnOnce(R) -> T) -> Ended<T> {
        match self {
            Ended::With(result, because) => Ended::With(change(result), because),
            Ended::TimedOut(because) => Ended::TimedOut(because),
            Ended::Refused(refusal) => Ended::Refused(refusal),
        }
    }
}

impl<C: Sleep> Retrier<C> {
    /// Makes the call, and makes it again as long as the policy allows. The operation is repeatable
    /// if it asks for the attempt's key.
    ///
    /// `async |attempt| …` is what to pass. One that changes what it has captured needs another form,
    /// because its attempts may not borrow from each other: `|attempt| { count += 1; async move { … } }`.
    ///
    /// An `Ok` that holds an HTTP response with a failing status is retried like an error; if it is
    /// given up, that response is returned as it is.
    ///
    /// # Errors
    ///
    /// The last attempt's error, with how often and why; or that there was no attempt.
    pub async fn call<'r, T, E, F>(
        &'r self,
        operation: impl FnMut(Attempt<'r>) -> F,
    ) -> Result<T, CallError<E>>
    where
        F: Future<Output = Result<T, E>>,
        Result<T, E>: Judge,
    {
        self.operation().call(operation).await
    }
}

impl<'r, C: Sleep> Operation<'r, C> {
    /// Makes the call, and makes it again as long as the policy allows.
    ///
    /// # Errors
    ///
    /// The last attempt's error, with how often and why; or that there was no attempt.
    pub async fn call<T, E, F>(
        self,
        operation: impl FnMut(Attempt<'r>) -> F,
    ) -> Result<T, CallError<E>>
    where
        F: Future<Output = Result<T, E>>,
        Result<T, E>: Judge,
    {
        let mut call = Call::new(self.inner, self.options);
        let ended = drive(&mut call, operation, |result| result).await;
        conclude(&call, self.inner, ended)
    }
}

impl<C: Clock> Retrier<C> {
    /// [`call`](Retrier::call) for code that blocks. The attempt's timeout is the operation's to
    /// keep: a thread cannot be interrupted from outside.
    ///
    /// # Errors
    ///
    /// The last attempt's error, with how often and why; or that there was no attempt.
    pub fn run<T, E>(
        &self,
        operation: impl FnMut(Attempt<'_>) -> Result<T, E>,
    ) -> Result<T, CallError<E>>
    where
        Result<T, E>: Judge,
    {
        self.operation().run(operation)
    }
}

impl<'r, C: Clock> Operation<'r, C> {
    /// [`call`](Operation::call) for code that blocks.
    ///
    /// # Errors
    ///
    /// The last attempt's error, with how often and why; or that there was no attempt.
    pub fn run<T, E>(
        self,
        mut operation: impl FnMut(Attempt<'_>) -> Result<T, E>,
    ) -> Result<T, CallError<E>>
    where
        Result<T, E>: Judge,
    {
        let inner = self.inner;
        let mut attempts = self.attempts();
        let mut last = None;
        while let Some(attempt) = attempts.next() {
            let result = operation(attempt);
            last = Some(attempts.record(result));
        }
        let ended = match (last, attempts.state) {
            (Some(result), State::GivenUp(because)) => Ended::With(result, Some(because)),
            (Some(result), _) => Ended::With(result, None),
            (None, State::Refused(refusal)) => Ended::Refused(refusal),
            (None, _) => unreachable!("without an attempt there was a refusal"),
        };
        conclude(&attempts.call, inner, ended)
    }

    /// The call's attempts, one by one, for people who keep their own loop. Between two of them
    /// [`Attempts::next`] blocks for as long as the policy says.
    ///
    /// ```
    /// use relent::{Policy, Retrier};
    ///
    /// # fn read() -> std::io::Result<String> { Ok("text".into()) }
    /// let disk = Retrier::new("disk", Policy::batch_item());
    /// let mut attempts = disk.repeatable().attempts();
    /// let mut text = None;
    /// while let Some(_attempt) = attempts.next() {
    ///     text = Some(attempts.record(read()));
    /// }
    /// assert_eq!(text.unwrap().unwrap(), "text");
    /// ```
    pub fn attempts(self) -> Attempts<'r, C> {
        Attempts { call: Call::new(self.inner, self.options), state: State::Ready(Duration::ZERO) }
    }
}

/// The attempts of a call that somebody drives in a loop of their own: take the
/// [`next`](Attempts::next), make it, [`record`](Attempts::record) what came of it, until there is
/// none.
pub struct Attempts<'r, C: Clock = DefaultClock> {
    call: Call<'r, C>,
    state: State,
}

#[derive(Clone, Copy)]
enum State {
    Ready(Duration),
    UnderWay,
    Succeeded,
    GivenUp(GiveUpReason),
    Refused(Refusal),
}

impl<'r, C: Clock> Attempts<'r, C> {
    /// The next attempt, after its wait; `None` when the call has ended. An attempt that is not
    /// recorded ends the call.
    #[expect(
        clippy::should_implement_trait,
        reason = "recording needs the attempts back in between"
    )]
    pub fn next(&mut self) -> Option<Attempt<'r>> {
        let State::Ready(wait) = self.state else { return None };
        let mut wait = wait;
        loop {
            if !wait.is_zero() {
                std::thread::sleep(wait);
            }
            match self.call.begin() {
                Ok(attempt) => {
                    self.call.pended();
                    self.state = State::UnderWay;
                    return Some(attempt);
                }
                Err(NotNow::Wait(until)) => wait = until,
                Err(NotNow::Refused(refusal)) => {
                    self.state = match self.call.report(self.call.now()).attempts {
                        0 => State::Refused(refusal),
                        _ => State::GivenUp(refusal.into()),
                    };
                    return None;
                }
            }
        }
    }

    /// Takes note of what an attempt came to, and hands it back.
    pub fn record<R: Judge>(&mut self, result: R) -> R {
        let now = self.call.now();
        self.state = match self.call.end(&result.judge(now), now) {
            Next::Done => State::Succeeded,
            Next::RetryIn(wait) => State::Ready(wait),
            Next::GiveUp(because) => State::GivenUp(because),
        };
        result
    }

    /// Why there is no further attempt; `None` as long as there may be one, and after a success.
    pub fn because(&self) -> Option<GiveUpReason> {
        match self.state {
            State::GivenUp(because) => Some(because),
            _ => None,
        }
    }

    /// What refused the call before its first attempt.
    pub fn refused(&self) -> Option<Refusal> {
        match self.state {
            State::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }
}

impl<C: Clock> std::fmt::Debug for Attempts<'_, C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Attempts").finish_non_exhaustive()
    }
}

/// Makes the attempts and the waits between them. What an attempt came to is kept during the wait
/// that follows, for the case that the next one is refused; `lighten` may drop what is too heavy to
/// be kept so long.
pub(crate) async fn drive<'r, C, R, F>(
    call: &mut Call<'r, C>,
    mut operation: impl FnMut(Attempt<'r>) -> F,
    lighten: impl Fn(R) -> R,
) -> Ended<R>
where
    C: Sleep,
    R: Judge,
    F: Future<Output = R>,
{
    let mut last = None;
    loop {
        let attempt = match call.begin() {
            Ok(attempt) => attempt,
            Err(NotNow::Wait(until)) => {
                call.sleep(until).await;
                continue;
            }
            Err(NotNow::Refused(refusal)) => {
                return match last {
                    None => Ended::Refused(refusal),
                    Some(Ended::With(result, _)) => Ended::With(result, Some(refusal.into())),
                    Some(_) => Ended::TimedOut(refusal.into()),
                };
            }
        };
        let (result, pended) = in_time(call, attempt.timeout(), operation(attempt)).await;
        // What ended at once took no time: its start is its end, and the clock is not read again.
        let known = if pended { Some(call.now()) } else { call.started_at() };
        let mut outcome = judged::<C, R>(result.as_ref(), known.unwrap_or(Timestamp::ZERO));
        if outcome == Outcome::Success
            && !pended
            && let Some(result) = result
        {
            call.succeeded_at_once();
            return Ended::With(result, None);
        }
        let now = known.unwrap_or_else(|| call.now());
        if known.is_none() {
            outcome = judged::<C, R>(result.as_ref(), now);
        }
        match (call.end(&outcome, now), result) {
            (Next::Done, Some(result)) => return Ended::With(result, None),
            (Next::GiveUp(because), Some(result)) => return Ended::With(result, Some(because)),
            (Next::GiveUp(because), None) => return Ended::TimedOut(because),
            (Next::Done, None) => unreachable!("a timeout is no success"),
            (Next::RetryIn(wait), result) => {
                last = Some(
                    result.map_or(Ended::TimedOut(GiveUpReason::AttemptsExhausted), |result| {
                        Ended::With(lighten(result), None)
                    }),
                );
                call.sleep(wait).await;
            }
        }
    }
}

/// What a result means. Not a closure in [`drive`]: it would hold a reference across the wait, and
/// calls with results that are not `Sync` could not be spawned.
#[inline]
fn judged<C: Clock, R: Judge>(result: Option<&R>, now: Timestamp) -> Outcome {
    result.map_or_else(Call::<C>::timed_out, |result| result.judge(now))
}

/// The future's result, or `None` if the attempt's time ran out first; and whether it took any time.
/// A timer is armed only once the future has to wait for something.
pub(crate) async fn in_time<C: Sleep, R>(
    call: &mut Call<'_, C>,
    timeout: Duration,
    future: impl Future<Output = R>,
) -> (Option<R>, bool) {
    let mut future = pin!(future);
    let mut timer = pin!(None);
    let mut pended = false;
    poll_fn(|cx| {
        if let Poll::Ready(result) = future.as_mut().poll(cx) {
            return Poll::Ready((Some(result), pended));
        }
        if !pended {
            pended = true;
            call.pended();
            timer.set(Some(call.sleep(timeout)));
        }
        match timer.as_mut().as_pin_mut() {
            Some(timer) => timer.poll(cx).map(|()| (None, true)),
            None => Poll::Pending,
        }
    })
    .await
}

pub(crate) fn conclude<T, E, C: Clock>(
    call: &Call<'_, C>,
    inner: &Inner<C>,
    ended: Ended<Result<T, E>>,
) -> Result<T, CallError<E>> {
    match ended {
        Ended::With(Ok(value), _) => Ok(value),
        Ended::With(Err(error), because) => {
            let because = because.unwrap_or(GiveUpReason::Permanent);
            Err(CallError::gave_up(error, because, call.report(inner.clock.now())))
        }
        Ended::TimedOut(because) => {
            let report = call.report(inner.clock.now());
            Err(CallError::TimedOut(TimedOut { because, report }))
        }
        Ended::Refused(refusal) => Err(CallError::Refused(Refused { refusal })),
    }
}
