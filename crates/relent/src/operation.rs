//! Making a call: async, blocking, or in the caller's own loop.

use std::future::Future;
use std::time::Duration;

use relent_policy::{GiveUpReason, Refusal, Turn};

use crate::attempt::Attempt;
use crate::call::{Call, Next, NotNow, Options};
use crate::clock::{Clock, DefaultClock, Sleep};
use crate::described::{Described, Undescribed};
use crate::drive::{Drive, Driven, Ended};
use crate::error::CallError;
use crate::held::Held;
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
    pub fn call<'r, T, E, F>(
        &'r self,
        operation: impl FnMut(Attempt<'r>) -> F,
    ) -> impl Future<Output = Result<T, CallError<E>>>
    where
        F: Future<Output = Result<T, E>>,
        Result<T, E>: Judge,
    {
        driven(&self.inner, Undescribed, operation)
    }
}

impl<'r, C: Sleep> Operation<'r, C> {
    /// Makes the call, and makes it again as long as the policy allows.
    ///
    /// # Errors
    ///
    /// The last attempt's error, with how often and why; or that there was no attempt.
    pub fn call<T, E, F>(
        self,
        operation: impl FnMut(Attempt<'r>) -> F,
    ) -> impl Future<Output = Result<T, CallError<E>>>
    where
        F: Future<Output = Result<T, E>>,
        Result<T, E>: Judge,
    {
        driven(self.inner, self.options, operation)
    }
}

#[inline]
fn driven<'r, C, T, E, F>(
    inner: &'r Inner<C>,
    described: impl Described,
    operation: impl FnMut(Attempt<'r>) -> F,
) -> impl Future<Output = Result<T, CallError<E>>>
where
    C: Sleep,
    F: Future<Output = Result<T, E>>,
    Result<T, E>: Judge,
{
    Driven { drive: Drive::new(inner, described, operation, |result| result) }
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
        let Operation { inner, options } = self;
        let mut last = None;
        // What blocks takes time, so its start counts also where nothing is shared.
        let (mut held, begun) = match Held::begin_first(inner, options.key.as_ref(), true) {
            Ok(held) => (held, Ok(())),
            Err(mut held) => {
                let asked = held.ask(Turn::First);
                (held, asked)
            }
        };
        let mut attempts = match begun {
            Err(refusal) => {
                let mut attempts = Attempts::of(Call::around(held, options, 0));
                attempts.hold_back(attempts.call.refused(refusal));
                attempts
            }
            Ok(()) => {
                let result = operation(held.first_attempt(options.deadline));
                if held.is_settled_by(&result) {
                    held.succeeded(|| inner.clock.now());
                    return Ended::Success(result).into_result();
                }
                let mut attempts = Attempts::of(Call::around(held, options, 1));
                last = Some(attempts.record(result));
                attempts
            }
        };
        while let Some(attempt) = attempts.next() {
            last = Some(attempts.record(operation(attempt)));
        }
        let ended = match (last, attempts.state) {
            (Some(result), State::GivenUp(because)) => {
                Ended::gave_up(Some(result), because, &attempts.call)
            }
            (Some(result), _) => Ended::Success(result),
            (None, State::Refused(refusal)) => Ended::Refused(refusal),
            (None, _) => unreachable!("without an attempt there was a refusal"),
        };
        ended.into_result()
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
        Attempts::of(Call::new(self.inner, self.options))
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
    fn of(call: Call<'r, C>) -> Attempts<'r, C> {
        Attempts { call, state: State::Ready(Duration::ZERO) }
    }

    /// The next attempt, after its wait; `None` when the call has ended. An attempt that is not
    /// recorded ends the call.
    #[expect(
        clippy::should_implement_trait,
        reason = "recording needs the attempts back in between"
    )]
    pub fn next(&mut self) -> Option<Attempt<'r>> {
        while let State::Ready(wait) = self.state {
            if !wait.is_zero() {
                std::thread::sleep(wait);
            }
            match self.call.begin() {
                Ok(attempt) => {
                    self.call.pended();
                    self.state = State::UnderWay;
                    return Some(attempt);
                }
                Err(not_now) => self.hold_back(not_now),
            }
        }
        None
    }

    fn hold_back(&mut self, not_now: NotNow) {
        self.state = match not_now {
            NotNow::Wait(wait) => State::Ready(wait),
            NotNow::Refused(refusal) if self.call.has_begun() => State::GivenUp(refusal.into()),
            NotNow::Refused(refusal) => State::Refused(refusal),
        };
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
