//! Names and numbers that stand for states, reasons and failures. They are stored: what is here stays as
//! it is. REQ-S1.

use relent_policy::{Class, FailureKind, GiveUpReason, Repeatable};

use super::pack::damaged;
use crate::error::Error;
use crate::task::{State, Waiting};

pub(super) const PENDING: u8 = 0;
pub(super) const IN_FLIGHT: u8 = 1;
pub(super) const SUCCEEDED: u8 = 2;
pub(super) const EXHAUSTED: u8 = 3;
pub(super) const CANCELLED: u8 = 4;
/// In flight, and no attempt is: it was taken over because its deadline had passed.
pub(super) const HELD: u8 = 5;

pub(super) fn to_state(state: u8) -> Result<State, Error> {
    Ok(match state {
        PENDING => State::Pending,
        IN_FLIGHT | HELD => State::InFlight,
        SUCCEEDED => State::Succeeded,
        EXHAUSTED => State::Exhausted,
        CANCELLED => State::Cancelled,
        _ => return Err(damaged("is no state of a task")),
    })
}

pub(super) fn from_state(state: State) -> u8 {
    match state {
        State::Pending => PENDING,
        State::InFlight => IN_FLIGHT,
        State::Succeeded => SUCCEEDED,
        State::Exhausted => EXHAUSTED,
        State::Cancelled => CANCELLED,
    }
}

pub(super) fn from_waiting(waiting: Waiting) -> u8 {
    match waiting {
        Waiting::Scheduled => 0,
        Waiting::Backoff => 1,
        Waiting::RetryAfter => 2,
    }
}

pub(super) fn to_waiting(waiting: u8) -> Result<Waiting, Error> {
    Ok(match waiting {
        0 => Waiting::Scheduled,
        1 => Waiting::Backoff,
        2 => Waiting::RetryAfter,
        _ => return Err(damaged("is no reason to wait")),
    })
}

pub(super) fn from_repeatable(repeatable: Repeatable) -> u8 {
    match repeatable {
        Repeatable::No => 0,
        Repeatable::ByMethod => 1,
        Repeatable::ByKey => 2,
        Repeatable::Declared => 3,
    }
}

/// What is not known is not repeated.
pub(super) fn to_repeatable(repeatable: u8) -> Repeatable {
    match repeatable {
        1 => Repeatable::ByMethod,
        2 => Repeatable::ByKey,
        3 => Repeatable::Declared,
        _ => Repeatable::No,
    }
}

/// Numbers of reasons, from 1. They are stored: what is here stays where it is.
pub(super) fn from_reason(because: GiveUpReason) -> u8 {
    match because {
        GiveUpReason::Permanent => 1,
        GiveUpReason::UnsafeToRepeat => 2,
        GiveUpReason::RetriedAbove => 3,
        GiveUpReason::RefusedByServer => 4,
        GiveUpReason::AttemptsExhausted => 5,
        GiveUpReason::ClassLimit => 6,
        GiveUpReason::RetryAfterTooLong => 7,
        GiveUpReason::DeadlineWouldPass => 8,
        GiveUpReason::BreakerOpen => 9,
        GiveUpReason::BudgetExhausted => 10,
        GiveUpReason::LimitReached => 11,
    }
}

pub(super) fn to_reason(number: u8) -> Result<Option<GiveUpReason>, Error> {
    if number == 0 {
        return Ok(None);
    }
    let found = GiveUpReason::ALL.iter().find(|reason| from_reason(**reason) == number);
    found.copied().map(Some).ok_or_else(|| damaged("is no reason to give up"))
}

pub(super) fn from_failure(kind: FailureKind) -> String {
    match kind {
        FailureKind::Fault(fault) => fault.name().to_owned(),
        other => other.to_string(),
    }
}

pub(super) fn to_failure(text: &str) -> Result<FailureKind, Error> {
    let http = || text.strip_prefix("http_")?.parse().ok().map(FailureKind::Http);
    let grpc = || text.strip_prefix("grpc_")?.parse().ok().map(FailureKind::Grpc);
    let judged = || {
        let classes = [Class::Retryable, Class::Permanent, Class::Unknown];
        let name = text.strip_prefix("application_")?;
        classes.into_iter().find(|class| class.to_string() == name).map(FailureKind::Judged)
    };
    let kind = text.parse().ok().or_else(http).or_else(grpc).or_else(judged);
    kind.ok_or_else(|| Error::Damaged(format!("`{text}` names no failure")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use relent_policy::Fault;

    #[test]
    fn every_failure_is_read_back() {
        let faults = Fault::ALL.iter().map(|fault| FailureKind::Fault(*fault));
        let classes = [Class::Retryable, Class::Permanent, Class::Unknown];
        let kinds = [FailureKind::Http(503), FailureKind::Http(999), FailureKind::Grpc(14)];
        for kind in faults.chain(classes.map(FailureKind::Judged)).chain(kinds) {
            assert_eq!(to_failure(&from_failure(kind)), Ok(kind));
        }
        assert!(to_failure("nonsense").is_err());
    }

    #[test]
    fn every_reason_has_a_number_of_its_own() {
        for because in GiveUpReason::ALL {
            assert_eq!(to_reason(from_reason(*because)), Ok(Some(*because)));
        }
        assert_eq!(to_reason(0), Ok(None));
        assert!(to_reason(200).is_err());
    }
}
