//! Driving an async call: its attempts, and the waits in between.
//!
//! Most calls are over when they are first polled: the first attempt is ready at once, and succeeds.
//! Such a call keeps what it [holds](Held) on the stack, reads the clock once at most, and never becomes
//! a whole [`Call`]. The future is written by hand, because the bookkeeping that the compiler adds to
//! an `async fn` costs more than all the rest of that way, and keeps a place for everything twice.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pin_project_lite::pin_project;
use relent_policy::{GiveUpReason, Outcome, Refusal, Turn};

use crate::attempt::Attempt;
use crate::call::{Call, Next, NotNow};
use crate::clock::{Clock, Sleep};
use crate::described::Described;
use crate::error::{CallError, Refused, Report, TimedOut};
use crate::held::Held;
use crate::judge::Judge;
use crate::retrier::Inner;

/// How a driven call ended.
pub(crate) enum Ended<R> {
    /// With what the last attempt came to.
    Success(R),
    /// With what the last attempt came to, and why there was no further one.
    GaveUp(R, GiveUpReason, Report),
    /// Without a result: the last attempt's time ran out.
    TimedOut(GiveUpReason, Report),
    /// Without an attempt.
    Refused(Refusal),
}

impl<R> Ended<R> {
    /// The end of a call that was given up after an attempt that came to this, or to nothing in its
    /// time.
    pub(crate) fn gave_up<C: Clock>(
        result: Option<R>,
        because: GiveUpReason,
        call: &Call<'_, C>,
    ) -> Ended<R> {
        let report = call.report(call.now());
        match result {
            Some(result) => Ended::GaveUp(result, because, report),
            None => Ended::TimedOut(because, report),
        }
    }

    #[cfg(feature = "tower")]
    pub(crate) fn map<T>(self, change: impl FnOnce(R) -> T) -> Ended<T> {
        match self {
            Ended::Success(result) => Ended::Success(change(result)),
            Ended::GaveUp(result, because, report) => {
                Ended::GaveUp(change(result), because, report)
            }
            Ended::TimedOut(because, report) => Ended::TimedOut(because, report),
            Ended::Refused(refusal) => Ended::Refused(refusal),
        }
    }
}

impl<T, E> Ended<Result<T, E>> {
    /// As the caller sees it. A response with a failing status that is given up is returned as it is.
    #[inline]
    pub(crate) fn into_result(self) -> Result<T, CallError<E>> {
        match self {
            Ended::Success(Ok(value)) | Ended::GaveUp(Ok(value), ..) => Ok(value),
            Ended::Success(Err(_)) => unreachable!("an error is no success"),
            Ended::GaveUp(Err(error), because, report) => {
                Err(CallError::gave_up(error, because, report))
            }
            Ended::TimedOut(because, report) => {
                Err(CallError::TimedOut(TimedOut { because, report }))
            }
            Ended::Refused(refusal) => Err(CallError::Refused(Refused { refusal })),
        }
    }
}

pin_project! {
    /// A call and its operation. What an attempt came to is kept during the wait that follows, for the
    /// case that the next one is refused; `lighten` may drop what is too heavy to be kept so long.
    pub(crate) struct Drive<'r, C: Sleep, D, O, L, F: Future> {
        inner: &'r Inner<C>,
        // Until the call is begun.
        described: Option<D>,
        operation: O,
        lighten: L,
        #[pin]
        attempt: Option<F>,
        // What is needed if the first attempt is not enough. Dropped after the attempt: that is gone
        // before its place is free.
        #[pin]
        rest: Option<Rest<'r, C, F::Output>>,
    }
}

pin_project! {
    struct Rest<'r, C: Sleep, R> {
        // The time of the attempt, if that has been found pending; or the wait for the next.
        #[pin]
        timer: Option<C::Sleep>,
        // What the attempt before came to, within it nothing if its time ran out.
        last: Option<Option<R>>,
        call: Call<'r, C>,
    }
}

impl<'r, C, D, O, L, F> Drive<'r, C, D, O, L, F>
where
    C: Sleep,
    D: Described,
    O: FnMut(Attempt<'r>) -> F,
    L: Fn(F::Output) -> F::Output,
    F: Future<Output: Judge>,
{
    #[inline]
    pub(crate) fn new(inner: &'r Inner<C>, described: D, operation: O, lighten: L) -> Self {
        let described = Some(described);
        Drive { inner, described, operation, lighten, attempt: None, rest: None }
    }

    /// Polls the call, and makes of its end what its owner wants.
    #[inline]
    fn poll_into<T>(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        end: impl FnOnce(Ended<F::Output>) -> T,
    ) -> Poll<T> {
        let this = self.as_mut().project();
        let Some(described) = this.described.take() else {
            return self.poll_rest(None, cx).map(end);
        };
        let deadline = described.deadline();
        let begun = Held::begin_first(this.inner, described.key(), deadline.is_some());
        let mut held = match begun {
            Ok(held) => held,
            Err(held) => return self.ask(held, described, cx).map(end),
        };
        let polled = self.as_mut().poll_first(held.first_attempt(deadline), cx);
        match polled {
            Poll::Ready(result) if held.is_settled_by(&result) => {
                held.succeeded_at_once();
                self.project().attempt.set(None);
                Poll::Ready(end(Ended::Success(result)))
            }
            polled => self.go_on(held, described, Ok(polled), cx).map(end),
        }
    }

    /// Makes the first attempt, and polls it.
    #[inline]
    fn poll_first(
        self: Pin<&mut Self>,
        first: Attempt<'r>,
        cx: &mut Context<'_>,
    ) -> Poll<F::Output> {
        let mut this = self.project();
        this.attempt.set(Some((this.operation)(first)));
        this.attempt.as_pin_mut().expect("it was just put there").poll(cx)
    }

    /// Asks the lane for the first attempt.
    #[cold]
    fn ask(
        mut self: Pin<&mut Self>,
        mut held: Held<'r, C>,
        described: D,
        cx: &mut Context<'_>,
    ) -> Poll<Ended<F::Output>> {
        let asked = held.ask(Turn::First);
        let first = held.first_attempt(described.deadline());
        let polled = asked.map(|()| self.as_mut().poll_first(first, cx));
        self.go_on(held, described, polled, cx)
    }

    /// Goes on with a first attempt that was not settled when it was first polled, or could not be
    /// made.
    #[cold]
    fn go_on(
        mut self: Pin<&mut Self>,
        held: Held<'r, C>,
        described: D,
        first: Result<Poll<F::Output>, Refusal>,
        cx: &mut Context<'_>,
    ) -> Poll<Ended<F::Output>> {
        let mut this = self.as_mut().project();
        let call = Call::around(held, described.into_options(this.inner), first.is_ok().into());
        let mut rest = Rest { timer: None, last: None, call };
        let polled = match first {
            Ok(polled) => Some(polled),
            Err(refusal) => match rest.call.refused(refusal) {
                NotNow::Refused(refusal) => return Poll::Ready(Ended::Refused(refusal)),
                NotNow::Wait(wait) => {
                    rest.timer = Some(rest.call.sleep(wait));
                    None
                }
            },
        };
        this.rest.set(Some(rest));
        self.poll_rest(polled, cx)
    }

    /// Everything after the first poll. The attempt may have been polled already: once more at once,
    /// and one that only wants to let others run would be taken for one that was woken.
    fn poll_rest(
        self: Pin<&mut Self>,
        polled: Option<Poll<F::Output>>,
        cx: &mut Context<'_>,
    ) -> Poll<Ended<F::Output>> {
        let mut this = self.project();
        let rest = this.rest.as_mut().as_pin_mut().expect("a call that is over is not polled");
        let ended = ready!(rest.poll(this.attempt, this.operation, this.lighten, polled, cx));
        this.rest.set(None);
        Poll::Ready(ended)
    }
}

impl<'r, C: Sleep, R: Judge> Rest<'r, C, R> {
    fn poll<F: Future<Output = R>>(
        self: Pin<&mut Self>,
        mut attempt: Pin<&mut Option<F>>,
        operation: &mut impl FnMut(Attempt<'r>) -> F,
        lighten: &impl Fn(R) -> R,
        mut polled: Option<Poll<R>>,
        cx: &mut Context<'_>,
    ) -> Poll<Ended<R>> {
        let mut this = self.project();
        let call = this.call;
        loop {
            if let Some(under_way) = attempt.as_mut().as_pin_mut() {
                let polled = polled.take().unwrap_or_else(|| under_way.poll(cx));
                if polled.is_pending() && this.timer.is_none() {
                    this.timer.set(Some(call.timer()));
                }
                let pended = this.timer.is_some();
                let result = match (polled, this.timer.as_mut().as_pin_mut()) {
                    (Poll::Ready(result), _) => Some(result),
                    (Poll::Pending, timer) => {
                        ready!(timer.map_or(Poll::Ready(()), |timer| timer.poll(cx)));
                        None
                    }
                };
                attempt.set(None);
                match after(call, result, pended) {
                    After::End(ended) => return Poll::Ready(ended),
                    After::Wait(wait, result) => {
                        *this.last = Some(result.map(lighten));
                        this.timer.set(Some(call.sleep(wait)));
                    }
                }
            }
            if let Some(timer) = this.timer.as_mut().as_pin_mut() {
                ready!(timer.poll(cx));
                this.timer.set(None);
            }
            match call.begin() {
                Ok(begun) => attempt.set(Some(operation(begun))),
                Err(NotNow::Wait(wait)) => this.timer.set(Some(call.sleep(wait))),
                Err(NotNow::Refused(refusal)) => {
                    return Poll::Ready(match this.last.take() {
                        Some(result) => Ended::gave_up(result, refusal.into(), call),
                        None => Ended::Refused(refusal),
                    });
                }
            }
        }
    }
}

/// What comes after an attempt: a wait, or the end.
enum After<R> {
    Wait(Duration, Option<R>),
    End(Ended<R>),
}

/// Decides on what an attempt came to; `None` if its time ran out.
fn after<C: Clock, R: Judge>(call: &mut Call<'_, C>, result: Option<R>, pended: bool) -> After<R> {
    // What ended at once took no time: its start is its end, and the clock is not read again.
    let started_at = if pended { None } else { call.started_at() };
    let now = started_at.unwrap_or_else(|| call.now());
    let outcome = match &result {
        Some(result) => result.judge(now),
        None => Call::<C>::timed_out(),
    };
    let next = match outcome {
        Outcome::Success if !pended => {
            call.succeeded_at_once();
            Next::Done
        }
        outcome => call.end(&outcome, now),
    };
    match (next, result) {
        (Next::Done, Some(result)) => After::End(Ended::Success(result)),
        (Next::Done, None) => unreachable!("a timeout is no success"),
        (Next::GiveUp(because), result) => After::End(Ended::gave_up(result, because, call)),
        (Next::RetryIn(wait), result) => After::Wait(wait, result),
    }
}

impl<'r, C, D, O, L, F> Future for Drive<'r, C, D, O, L, F>
where
    C: Sleep,
    D: Described,
    O: FnMut(Attempt<'r>) -> F,
    L: Fn(F::Output) -> F::Output,
    F: Future<Output: Judge>,
{
    type Output = Ended<F::Output>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_into(cx, |ended| ended)
    }
}

pin_project! {
    /// A call whose end is its caller's result.
    pub(crate) struct Driven<'r, C: Sleep, D, O, L, F: Future> {
        #[pin]
        pub(crate) drive: Drive<'r, C, D, O, L, F>,
    }
}

impl<'r, C, D, O, L, F, T, E> Future for Driven<'r, C, D, O, L, F>
where
    C: Sleep,
    D: Described,
    O: FnMut(Attempt<'r>) -> F,
    L: Fn(F::Output) -> F::Output,
    F: Future<Output = Result<T, E>>,
    Result<T, E>: Judge,
{
    type Output = Result<T, CallError<E>>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.project().drive.poll_into(cx, Ended::into_result)
    }
}
