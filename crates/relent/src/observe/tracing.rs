//! Attempts as `tracing` events: the eight fields of the standard and no others. REQ-O1, REQ-P2.
//!
//! The levels are for whoever is on duty. `DEBUG`: an attempt succeeded; usually not collected.
//! `WARN`: an attempt failed; the caller does not know of it yet. `ERROR`: a call was given up, and
//! its caller got an error. That is an event of its own, after the last attempt's, because a call can
//! also end without an attempt, when the breaker or a limit does not let the next one through.
//! A call that is retried above is not lost, so its end is a `WARN` like its one attempt.
//!
//! Every field is on every event, empty or 0 where there is nothing to say, so that a query never has
//! to ask whether it is there. Nothing is formatted unless somebody listens.

use std::fmt;
use std::time::Duration;

use ::tracing::{debug, error, warn};
use relent_policy::{FailureKind, GiveUpReason};

use super::{AttemptEvent, GiveUpEvent, Observer};

/// Writes an event for every attempt and for every call that was given up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Events;

/// One event with the standard's fields. Only macros can choose a level at no cost.
macro_rules! emit {
    ($level:ident, $event:ident, $attempt:expr, $wait:expr, $elapsed:expr, $($rest:tt)+) => {
        $level!(
            target: "relent",
            correlation_id = $event.correlation_id.unwrap_or_default(),
            dependency = $event.dependency,
            attempt = $attempt,
            max_attempts = $event.max_attempts,
            backoff_ms = millis($wait),
            error_type = %ErrorType($event.failure),
            idempotency_key = $event.idempotency_key.unwrap_or_default(),
            elapsed = millis($elapsed),
            $($rest)+
        )
    };
}

impl Observer for Events {
    fn attempt(&self, event: &AttemptEvent<'_>) {
        let wait = event.wait.unwrap_or_default();
        match (event.failure, event.wait) {
            (None, _) => {
                emit!(debug, event, event.attempt, wait, event.elapsed, "attempt succeeded");
            }
            (Some(_), Some(_)) => {
                emit!(
                    warn,
                    event,
                    event.attempt,
                    wait,
                    event.elapsed,
                    "attempt failed, will retry"
                );
            }
            (Some(_), None) => {
                emit!(warn, event, event.attempt, wait, event.elapsed, "attempt failed");
            }
        }
    }

    fn gave_up(&self, event: &GiveUpEvent<'_>) {
        let (attempt, elapsed) = (event.report.attempts, event.report.elapsed);
        let reason = event.because.name();
        if event.because == GiveUpReason::RetriedAbove {
            emit!(warn, event, attempt, Duration::ZERO, elapsed, reason, "left to the layer above");
        } else {
            emit!(error, event, attempt, Duration::ZERO, elapsed, reason, "gave up");
        }
    }
}

/// A failure's name, or nothing for a success.
struct ErrorType(Option<FailureKind>);

impl fmt::Display for ErrorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |kind| kind.fmt(f))
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
