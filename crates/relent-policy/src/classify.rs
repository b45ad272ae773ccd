//! Retryable, permanent or unknown: the judgement before every decision.
//! REQ-C1, REQ-C2, REQ-C3, REQ-C4, REQ-C5.
//!
//! The same table also says what a failure tells about the dependency's health. A 400 is our
//! fault: it must neither open a breaker nor suspend a budget's floor.

use core::fmt;

use crate::failure::{Failure, FailureKind, Outcome};
use crate::fault::Fault;

/// Whether trying again can help.
///
/// ```
/// use relent_policy::{Class, FailureKind};
///
/// assert_eq!(Class::of(FailureKind::Http(503)), Class::Retryable);
/// assert_eq!(Class::of(FailureKind::Http(404)), Class::Permanent);
/// assert_eq!(Class::of(FailureKind::Grpc(2)), Class::Unknown);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Transient: worth another attempt.
    Retryable,
    /// The same call would fail the same way.
    Permanent,
    /// Cannot tell: retried once, permanent after that.
    Unknown,
}

impl Class {
    /// The class of a failure where a policy says nothing else.
    pub const fn of(kind: FailureKind) -> Class {
        match kind {
            FailureKind::Http(status) => http(status),
            FailureKind::Grpc(code) => grpc(code),
            FailureKind::Fault(fault) => fault.class(),
            FailureKind::Judged(class) => class,
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Class::Retryable => "retryable",
            Class::Permanent => "permanent",
            Class::Unknown => "unknown",
        })
    }
}

const fn http(status: u16) -> Class {
    match status {
        408 | 429 | 500 | 502 | 503 | 504 => Class::Retryable,
        501 | 505 | 100..=499 => Class::Permanent,
        _ => Class::Unknown,
    }
}

const fn grpc(code: u8) -> Class {
    match code {
        4 | 8 | 10 | 14 => Class::Retryable,
        1 | 3 | 5 | 6 | 7 | 9 | 11 | 12 | 15 | 16 => Class::Permanent,
        _ => Class::Unknown,
    }
}

/// What an attempt tells about the dependency, for budgets and breakers.
///
/// ```
/// use relent_policy::{Fault, Health, Outcome};
///
/// assert_eq!(Health::of(&Outcome::http(404)), Health::Alive);
/// assert_eq!(Health::of(&Outcome::http(503)), Health::Failing);
/// assert_eq!(Health::of(&Outcome::from(Fault::Serialization)), Health::NoSignal);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// It answered, if only to say that the request is wrong.
    Alive,
    /// It failed, was overloaded, or could not be reached.
    Failing,
    /// The attempt never got that far.
    NoSignal,
}

impl Health {
    /// What this outcome tells about the dependency.
    pub const fn of(outcome: &Outcome) -> Health {
        let kind = match outcome {
            Outcome::Success => return Health::Alive,
            Outcome::Failure(Failure { kind, .. }) => *kind,
        };
        match kind {
            FailureKind::Http(408 | 429 | 500..) => Health::Failing,
            FailureKind::Http(_) => Health::Alive,
            FailureKind::Grpc(1 | 3 | 5 | 6 | 7 | 9 | 11 | 16) => Health::Alive,
            FailureKind::Grpc(_) => Health::Failing,
            FailureKind::Judged(Class::Permanent) => Health::Alive,
            FailureKind::Judged(_) => Health::Failing,
            FailureKind::Fault(fault) => fault_health(fault),
        }
    }
}

const fn fault_health(fault: Fault) -> Health {
    match fault {
        Fault::Blocked
        | Fault::Serialization
        | Fault::Configuration
        | Fault::TokenRevoked
        | Fault::Abandoned
        | Fault::IoInterrupted => Health::NoSignal,
        Fault::DbDeadlock
        | Fault::DbSerialization
        | Fault::DbConstraint
        | Fault::DbQuery
        | Fault::IoNotFound
        | Fault::IoPermissionDenied
        | Fault::IoAlreadyExists
        | Fault::IoInvalid => Health::Alive,
        _ => Health::Failing,
    }
}

/// Which failures a policy (or one of its class limits) means, as a set that is asked in
/// constant time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FailureSet {
    http: [u64; 8],
    grpc: u32,
    faults: u64,
}

const FIRST_STATUS: u16 = 100;

impl FailureSet {
    /// The failures that are retryable where a policy says nothing else.
    pub(crate) fn retryable_by_default() -> FailureSet {
        let statuses = (FIRST_STATUS..600).map(FailureKind::Http);
        let codes = (1..=16).map(FailureKind::Grpc);
        let faults = Fault::ALL.iter().copied().map(FailureKind::Fault);
        let retryable = |kind: &FailureKind| Class::of(*kind) == Class::Retryable;
        statuses.chain(codes).chain(faults).filter(retryable).collect()
    }

    pub(crate) fn insert(&mut self, kind: FailureKind) {
        match kind {
            FailureKind::Http(status) => {
                if let Some((word, bit)) = status_bit(status) {
                    self.http[word] |= bit;
                }
            }
            FailureKind::Grpc(code) => self.grpc |= 1_u32.checked_shl(code.into()).unwrap_or(0),
            FailureKind::Fault(fault) => self.faults |= 1 << fault as u8,
            FailureKind::Judged(_) => {}
        }
    }

    #[inline]
    pub(crate) fn contains(&self, kind: FailureKind) -> bool {
        match kind {
            FailureKind::Http(status) => {
                status_bit(status).is_some_and(|(word, bit)| self.http[word] & bit != 0)
            }
            FailureKind::Grpc(code) => self.grpc & 1_u32.checked_shl(code.into()).unwrap_or(0) != 0,
            FailureKind::Fault(fault) => self.faults & (1 << fault as u8) != 0,
            FailureKind::Judged(_) => false,
        }
    }

    /// The class of a failure under a policy whose retryable failures are this set: what the set
    /// leaves out of the default list is permanent, never "retried once".
    #[inline]
    pub(crate) fn classify(&self, kind: FailureKind) -> Class {
        if self.contains(kind) {
            return Class::Retryable;
        }
        match (kind, Class::of(kind)) {
            (FailureKind::Judged(class), _) => class,
            (_, Class::Retryable) => Class::Permanent,
            (_, class) => class,
        }
    }
}

impl FromIterator<FailureKind> for FailureSet {
    fn from_iter<I: IntoIterator<Item = FailureKind>>(kinds: I) -> FailureSet {
        let mut set = FailureSet::default();
        kinds.into_iter().for_each(|kind| set.insert(kind));
        set
    }
}

#[inline]
fn status_bit(status: u16) -> Option<(usize, u64)> {
    let index = usize::from(status.checked_sub(FIRST_STATUS)?);
    (index < 512).then(|| (index / 64, 1 << (index % 64)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn of_class(
        class: Class,
        kinds: impl Iterator<Item = u16>,
        wrap: fn(u16) -> FailureKind,
    ) -> Vec<u16> {
        kinds.filter(|n| Class::of(wrap(*n)) == class).collect()
    }

    #[test]
    fn http_classes_are_those_of_the_standard() {
        let retryable = of_class(Class::Retryable, 0..=u16::MAX, FailureKind::Http);
        assert_eq!(retryable, [408, 429, 500, 502, 503, 504]);
        for status in [301, 304, 400, 401, 403, 404, 409, 410, 418, 422, 425, 451, 501, 505] {
            assert_eq!(Class::of(FailureKind::Http(status)), Class::Permanent, "{status}");
        }
        for status in [0, 99, 506, 507, 520, 599, 999] {
            assert_eq!(Class::of(FailureKind::Http(status)), Class::Unknown, "{status}");
        }
    }

    #[test]
    fn grpc_classes_are_those_of_the_standard() {
        let grpc = |n: u16| FailureKind::Grpc(u8::try_from(n).unwrap());
        assert_eq!(of_class(Class::Retryable, 1..=255, grpc), [4, 8, 10, 14]);
        assert_eq!(of_class(Class::Permanent, 1..=255, grpc), [1, 3, 5, 6, 7, 9, 11, 12, 15, 16]);
        assert_eq!(Class::of(grpc(2)), Class::Unknown);
        assert_eq!(Class::of(grpc(13)), Class::Unknown);
    }

    #[test]
    fn a_set_holds_exactly_what_was_put_in() {
        let all: Vec<FailureKind> = (0..=1_000)
            .map(FailureKind::Http)
            .chain((0..=255).map(FailureKind::Grpc))
            .chain(Fault::ALL.iter().copied().map(FailureKind::Fault))
            .collect();
        let set = FailureSet::retryable_by_default();
        for kind in all {
            assert_eq!(set.contains(kind), Class::of(kind) == Class::Retryable, "{kind}");
        }
    }

    #[test]
    fn leaving_a_status_out_makes_it_permanent() {
        let set: FailureSet =
            [FailureKind::Http(503), FailureKind::Http(425)].into_iter().collect();
        assert_eq!(set.classify(FailureKind::Http(500)), Class::Permanent);
        assert_eq!(set.classify(FailureKind::Http(425)), Class::Retryable);
        assert_eq!(set.classify(FailureKind::Http(520)), Class::Unknown);
        assert_eq!(set.classify(FailureKind::Judged(Class::Retryable)), Class::Retryable);
    }
}
