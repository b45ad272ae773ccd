//! Retryable, permanent or unknown: the judgement before every decision.
//! REQ-C1, REQ-C2, REQ-C3, REQ-C4, REQ-C5.
//!
//! The same table also says what a failure tells about the dependency's health. A 400 is our
//! fault: it must neither open a breaker nor suspend a budget's floor.

use alloc::boxed::Box;
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
        | Fault::CalledOff
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

/// What a policy makes of every failure there can be: its class and the class limit it counts
/// under, one byte each, so that a decision is one look-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VerdictTable(Box<[Verdict; ROWS]>);

/// The class in the lowest two bits, above them whether it is a DNS failure, above that the index of
/// the class limit plus one. Zero is the plain case, retryable and without a limit of its own, which
/// a decision tells from the rest by one test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Verdict(u8);

const CLASS: u8 = 0b11;
const DNS: u8 = 0b100;
const LIMIT_SHIFT: u8 = 3;

/// 512 rows for HTTP statuses from 100 on, 32 for gRPC codes, 64 for faults, and the last one for
/// what fits nowhere.
const ROWS: usize = 512 + 32 + 64 + 1;
const FIRST_STATUS: u16 = 100;
const FIRST_GRPC: usize = 512;
const FIRST_FAULT: usize = FIRST_GRPC + 32;
const NOWHERE: usize = ROWS - 1;

impl Verdict {
    const fn of(class: Class) -> Verdict {
        Verdict(class as u8)
    }

    #[inline]
    pub(crate) fn is_plain(self) -> bool {
        self.0 == 0
    }

    #[inline]
    pub(crate) fn class(self) -> Class {
        match self.0 & CLASS {
            0 => Class::Retryable,
            1 => Class::Permanent,
            _ => Class::Unknown,
        }
    }

    #[inline]
    pub(crate) fn is_dns(self) -> bool {
        self.0 & DNS != 0
    }

    #[inline]
    pub(crate) fn limit(self) -> Option<u8> {
        (self.0 >> LIMIT_SHIFT).checked_sub(1)
    }
}

impl VerdictTable {
    /// The default classes, except that of all failures for which `listed` has an opinion exactly
    /// the listed ones are retryable: what is left out of a list is permanent, never "once".
    pub(crate) fn new(listed: impl Fn(FailureKind) -> Option<bool>) -> VerdictTable {
        let mut table = VerdictTable(Box::new([Verdict::of(Class::Unknown); ROWS]));
        let statuses = (FIRST_STATUS..FIRST_STATUS + 512).map(FailureKind::Http);
        let codes = (0..32).map(FailureKind::Grpc);
        let faults = Fault::ALL.iter().copied().map(FailureKind::Fault);
        for kind in statuses.chain(codes).chain(faults) {
            let class = match (listed(kind), Class::of(kind)) {
                (Some(true), _) => Class::Retryable,
                (Some(false), Class::Retryable) => Class::Permanent,
                (_, class) => class,
            };
            table.0[row(kind)] = Verdict::of(class);
        }
        table.0[row(FailureKind::Fault(Fault::Dns))].0 |= DNS;
        table
    }

    /// Puts a failure under the limit with this index.
    pub(crate) fn limit(&mut self, kind: FailureKind, index: u8) {
        let verdict = &mut self.0[row(kind)];
        verdict.0 = verdict.0 & (CLASS | DNS) | (index + 1) << LIMIT_SHIFT;
    }

    #[inline]
    pub(crate) fn get(&self, kind: FailureKind) -> Verdict {
        match kind {
            FailureKind::Http(status) => self.0[http_row(status)],
            FailureKind::Judged(class) => Verdict::of(class),
            kind => self.0[row(kind)],
        }
    }
}

fn row(kind: FailureKind) -> usize {
    match kind {
        FailureKind::Http(status) => http_row(status),
        FailureKind::Grpc(code @ 0..32) => FIRST_GRPC + usize::from(code),
        FailureKind::Fault(fault) => FIRST_FAULT + fault as usize,
        FailureKind::Grpc(_) | FailureKind::Judged(_) => NOWHERE,
    }
}

#[inline]
fn http_row(status: u16) -> usize {
    let offset = usize::from(status.wrapping_sub(FIRST_STATUS));
    if offset < FIRST_GRPC { offset } else { NOWHERE }
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
    fn a_table_without_lists_says_what_the_standard_says() {
        let table = VerdictTable::new(|_| None);
        let statuses = (0..=u16::MAX).map(FailureKind::Http);
        let codes = (0..=255).map(FailureKind::Grpc);
        let faults = Fault::ALL.iter().copied().map(FailureKind::Fault);
        for kind in statuses.chain(codes).chain(faults) {
            assert_eq!(table.get(kind).class(), Class::of(kind), "{kind}");
            assert_eq!(table.get(kind).limit(), None, "{kind}");
        }
    }

    #[test]
    fn leaving_a_status_out_makes_it_permanent() {
        let table = VerdictTable::new(|kind| match kind {
            FailureKind::Http(status) => Some([425, 503].contains(&status)),
            _ => None,
        });
        let class = |kind| table.get(kind).class();
        assert_eq!(class(FailureKind::Http(500)), Class::Permanent);
        assert_eq!(class(FailureKind::Http(425)), Class::Retryable);
        assert_eq!(class(FailureKind::Http(520)), Class::Unknown);
        assert_eq!(class(FailureKind::Grpc(14)), Class::Retryable);
        assert_eq!(class(FailureKind::Judged(Class::Retryable)), Class::Retryable);
    }

    #[test]
    fn a_limit_leaves_the_rest_alone() {
        let mut table = VerdictTable::new(|_| None);
        let dns = FailureKind::Fault(Fault::Dns);
        assert!(!table.get(dns).is_plain() && table.get(dns).is_dns());
        table.limit(dns, 0);
        assert!(table.get(dns).is_dns());
        assert!(table.get(FailureKind::Http(503)).is_plain());
        table.limit(FailureKind::Http(503), 5);
        assert_eq!(table.get(FailureKind::Http(503)).class(), Class::Retryable);
        assert_eq!(table.get(FailureKind::Http(503)).limit(), Some(5));
        assert_eq!(table.get(FailureKind::Http(502)).limit(), None);
    }
}
