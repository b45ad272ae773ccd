//! Asking a server again, by the same engine that it delivers with.

use std::time::Duration;

use anyhow::Error;
use relent_api::{Code, Problem};
use relent_policy::{Decision, Fault, History, Outcome, Policy, Repeatable, Ungated, decide};

use crate::client::Unreachable;
use crate::{output, times};

/// What is being done: not everything may be done twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    Reading,
    /// Only what certainly was not stored is sent again: not every task has a key.
    Creating,
}

/// How often and how long one request was tried so far.
#[derive(Debug)]
pub(crate) struct Patience {
    work: Work,
    policy: Policy,
    history: History,
}

impl Patience {
    pub(crate) fn new(work: Work) -> Patience {
        let history = History::start(times::now(), Repeatable::ByMethod);
        Patience { work, policy: Policy::async_event(), history }
    }

    /// Waits until it is worth trying again.
    ///
    /// # Errors
    ///
    /// The same error, when it is not.
    pub(crate) async fn wait(&mut self, error: Error) -> Result<(), Error> {
        let Some(outcome) = self.outcome(&error) else { return Err(error) };
        self.history = self.history.begin_attempt();
        let (now, roll) = (times::now(), fastrand::u64(..));
        match decide(&self.policy, &self.history, &outcome, &mut Ungated, now, roll) {
            Decision::RetryAt { at, charge, .. } => {
                self.history = self.history.charged(charge);
                let wait = at.saturating_since(now);
                output::note(format_args!("{error}; asking again in {}", times::short(wait)));
                tokio::time::sleep(wait).await;
                Ok(())
            }
            Decision::GiveUp { .. } | Decision::Done => Err(error),
        }
    }

    /// What the error is to the engine; `None` where asking again is no use or no good.
    fn outcome(&self, error: &Error) -> Option<Outcome> {
        if error.is::<Unreachable>() {
            let reading = self.work == Work::Reading;
            return reading.then(|| Fault::ConnectRefused.into());
        }
        let problem = error.downcast_ref::<Problem>()?;
        let again = match problem.code {
            Code::Overloaded | Code::KeyInProgress => true,
            Code::StoreUnavailable | Code::Draining => self.work == Work::Reading,
            _ => false,
        };
        let wait = Duration::from_secs(problem.retry_after_secs.unwrap_or(0).into());
        again.then(|| Outcome::http(503).retry_after(wait))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_certainly_was_not_stored_is_sent_again() {
        let (reading, creating) = (Patience::new(Work::Reading), Patience::new(Work::Creating));
        for (code, when_reading, when_creating) in [
            (Code::Overloaded, true, true),
            (Code::StoreUnavailable, true, false),
            (Code::StorageFull, false, false),
            (Code::TaskNotFound, false, false),
        ] {
            let error = Error::from(Problem::new(code, ""));
            assert_eq!(reading.outcome(&error).is_some(), when_reading, "{code}");
            assert_eq!(creating.outcome(&error).is_some(), when_creating, "{code}");
        }
    }
}
