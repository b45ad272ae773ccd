//! Driving an async call: the first attempt, the rest of them, and the waits in between.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use relent_policy::{GiveUpReason, IdempotencyKey, Outcome, Refusal, Timestamp, Turn};

use crate::attempt::Attempt;
use crate::call::{Call, Deadline, Next, NotNow, Options};
use crate::clock::{Clock, Sleep};
use crate::error::{CallError, Refused, TimedOut};
use crate::first::Held;
use crate::judge::Judge;
use crate::retrier::Inner;

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

/// Makes the first attempt with as little as possible around it, and goes on with a whole [`Call`] if
/// it fails or has to wait.
pub(crate) async fn first_then_rest<'r, C, T, E, F>(
    inner: &'r Inner<C>,
    described: impl Described,
    mut operation: impl FnMut(Attempt<'r>) -> F,
) -> Result<T, CallError<E>>
where
    C: Sleep,
    F: Future<Output = Result<T, E>>,
    Result<T, E>: Judge,
{
    let deadline = described.deadline();
    let mut held = Held::new(inner, described.key());
    let mut call;
    let begun;
    match held.begin(Turn::First, deadline.is_some()) {
        Err(refusal) => {
            call = Call::around(held, described.into_options(inner), 0);
            begun = Begun::NotNow(call.refused(refusal));
        }
        Ok(()) => {
            let mut future = pin!(operation(held.first_attempt(deadline)));
            match poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await {
                Poll::Ready(result) => {
                    // What ended at once took no time: its start is its end, and the clock is not
                    // read again.
                    let now = held.started_at.unwrap_or(Timestamp::ZERO);
                    let succeeded = result.judge(now) == Outcome::Success;
                    match result {
                        Ok(value) if succeeded && !inner.is_observed() => {
                            held.succeeded_at_once();
                            return Ok(value);
                        }
                        result => {
                            call = Call::around(held, described.into_options(inner), 1);
                            begun = Begun::Ended(Some(result), false);
                        }
                    }
                }
                Poll::Pending => {
                    let timeout = held.first_attempt(described.deadline()).timeout();
                    call = Call::around(held, described.into_options(inner), 1);
                    let result = rest_in_time(&mut call, timeout, future).await;
                    begun = Begun::Ended(result, true);
                }
            }
        }
    }
    let ended = drive_on(&mut call, begun, operation, |result| result).await;
    conclude(&call, inner, ended)
}

/// What is said about a call, looked at before there are [`Options`] in memory.
pub(crate) trait Described {
    fn deadline(&self) -> Deadline;
    fn key(&self) -> Option<&IdempotencyKey>;
    fn into_options<C>(self, inner: &Inner<C>) -> Options;
}

/// Nothing but what holds for all calls.
pub(crate) struct Undescribed;

impl Described for Undescribed {
    fn deadline(&self) -> Deadline {
        Deadline::None
    }

    fn key(&self) -> Option<&IdempotencyKey> {
        None
    }

    fn into_options<C>(self, inner: &Inner<C>) -> Options {
        Options { declared: inner.declared, ..Options::default() }
    }
}

impl Described for Options {
    fn deadline(&self) -> Deadline {
        self.deadline
    }

    fn key(&self) -> Option<&IdempotencyKey> {
        self.key.as_ref()
    }

    fn into_options<C>(self, _: &Inner<C>) -> Options {
        self
    }
}

/// Makes the attempts and the waits between them. What an attempt came to is kept during the wait
/// that follows, for the case that the next one is refused; `lighten` may drop what is too heavy to
/// be kept so long.
#[cfg(feature = "tower")]
pub(crate) async fn drive<'r, C, R, F>(
    call: &mut Call<'r, C>,
    operation: impl FnMut(Attempt<'r>) -> F,
    lighten: impl Fn(R) -> R,
) -> Ended<R>
where
    C: Sleep,
    R: Judge,
    F: Future<Output = R>,
{
    drive_on(call, Begun::Not, operation, lighten).await
}

/// How far a call is when [`drive_on`] takes it over.
enum Begun<R> {
    /// Nothing has happened yet.
    Not,
    /// The first attempt may not start now.
    NotNow(NotNow),
    /// The first attempt has ended, without a result if its time ran out; and whether it took any.
    Ended(Option<R>, bool),
}

async fn drive_on<'r, C, R, F>(
    call: &mut Call<'r, C>,
    mut begun: Begun<R>,
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
        let started = match std::mem::replace(&mut begun, Begun::Not) {
            Begun::Ended(result, pended) => Ok((result, pended)),
            Begun::NotNow(not_now) => Err(not_now),
            Begun::Not => match call.begin() {
                Ok(attempt) => Ok(in_time(call, attempt.timeout(), operation(attempt)).await),
                Err(not_now) => Err(not_now),
            },
        };
        let (result, pended) = match started {
            Ok(ended) => ended,
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
pub(crate) async fn in_time<C: Sleep, R>(
    call: &mut Call<'_, C>,
    timeout: Duration,
    future: impl Future<Output = R>,
) -> (Option<R>, bool) {
    let mut future = pin!(future);
    match poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await {
        Poll::Ready(result) => (Some(result), false),
        Poll::Pending => (rest_in_time(call, timeout, future).await, true),
    }
}

/// The result of a future that has just been found pending, or `None` if the attempt's time runs out
/// first. Only now is a timer armed: a future that is ready at once needs none.
async fn rest_in_time<C: Sleep, R>(
    call: &mut Call<'_, C>,
    timeout: Duration,
    mut future: Pin<&mut impl Future<Output = R>>,
) -> Option<R> {
    call.pended();
    let mut timer = pin!(call.sleep(timeout));
    // It was polled a moment ago: once more at once, and a future that only wants to let others
    // run would be taken for one that was woken.
    let mut just_polled = true;
    poll_fn(|cx| {
        if !std::mem::take(&mut just_polled)
            && let Poll::Ready(result) = future.as_mut().poll(cx)
        {
            return Poll::Ready(Some(result));
        }
        timer.as_mut().poll(cx).map(|()| None)
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
