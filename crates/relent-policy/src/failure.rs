//! What came back: every way an attempt can end, as closed enums that never pass through text.
//!
//! The words of a failure (`connect_refused`, `http_503`, `grpc_14`) are one vocabulary for
//! policies, logs, metrics and the attempt log. REQ-C1, REQ-C2, REQ-C3, REQ-C4, REQ-C6, REQ-O1.

use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use crate::classify::Class;
use crate::fault::{Effect, Fault};

/// What one attempt came to.
///
/// ```
/// use core::time::Duration;
/// use relent_policy::{Failure, FailureKind, Outcome};
///
/// assert_eq!(Outcome::http(204), Outcome::Success);
/// let limited = Failure::from(FailureKind::Http(429)).retry_after(Duration::from_secs(5));
/// assert_eq!(Outcome::http(429).retry_after(Duration::from_secs(5)), Outcome::Failure(limited));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The dependency did what was asked.
    Success,
    /// Anything else.
    Failure(Failure),
}

impl Outcome {
    /// The outcome of an HTTP exchange: 2xx succeeds, redirects are not followed.
    ///
    /// ```
    /// # use relent_policy::{FailureKind, Outcome};
    /// assert_eq!(Outcome::http(302), Outcome::from(FailureKind::Http(302)));
    /// ```
    pub const fn http(status: u16) -> Outcome {
        match status {
            200..=299 => Outcome::Success,
            _ => Outcome::Failure(Failure { kind: FailureKind::Http(status), hint: Hint::None }),
        }
    }

    /// The outcome of a gRPC call: code 0 succeeds.
    ///
    /// ```
    /// # use relent_policy::{FailureKind, Outcome};
    /// assert_eq!(Outcome::grpc(14), Outcome::from(FailureKind::Grpc(14)));
    /// ```
    pub const fn grpc(code: u8) -> Outcome {
        match code {
            0 => Outcome::Success,
            _ => Outcome::Failure(Failure { kind: FailureKind::Grpc(code), hint: Hint::None }),
        }
    }

    /// The same outcome with the server's wish to be left alone for `wait`. A success has no use
    /// for it.
    #[must_use]
    pub const fn retry_after(self, wait: Duration) -> Outcome {
        match self {
            Outcome::Success => Outcome::Success,
            Outcome::Failure(failure) => Outcome::Failure(failure.retry_after(wait)),
        }
    }
}

impl From<FailureKind> for Outcome {
    fn from(kind: FailureKind) -> Outcome {
        Outcome::Failure(kind.into())
    }
}

impl From<Fault> for Outcome {
    fn from(fault: Fault) -> Outcome {
        Outcome::Failure(FailureKind::Fault(fault).into())
    }
}

/// A failed attempt: what went wrong and what the server said about trying again.
///
/// ```
/// use relent_policy::{Failure, FailureKind, Hint};
///
/// let failure = Failure::from(FailureKind::Http(503));
/// assert_eq!(failure.hint, Hint::None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What went wrong.
    pub kind: FailureKind,
    /// What the server said about trying again.
    pub hint: Hint,
}

impl Failure {
    /// The same failure with the server's wish to be left alone for `wait`.
    ///
    /// ```
    /// # use core::time::Duration;
    /// # use relent_policy::{Failure, FailureKind, Hint};
    /// let failure = Failure::from(FailureKind::Http(503)).retry_after(Duration::from_secs(1));
    /// assert_eq!(failure.hint, Hint::RetryAfter(Duration::from_secs(1)));
    /// ```
    #[must_use]
    pub const fn retry_after(self, wait: Duration) -> Failure {
        Failure { kind: self.kind, hint: Hint::RetryAfter(wait) }
    }
}

impl From<FailureKind> for Failure {
    fn from(kind: FailureKind) -> Failure {
        Failure { kind, hint: Hint::None }
    }
}

/// What the server said about trying again.
///
/// ```
/// use relent_policy::Hint;
///
/// // gRPC servers push back with milliseconds; a negative or unreadable value means "stop".
/// assert_eq!(Hint::from_grpc_pushback("-1"), Hint::Stop);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hint {
    /// Nothing.
    #[default]
    None,
    /// Not before this long from now (`Retry-After`, or a gRPC pushback).
    RetryAfter(Duration),
    /// Not again (a negative gRPC pushback).
    Stop,
}

impl Hint {
    /// Reads the value of `grpc-retry-pushback-ms` as gRFC A6 has it: a whole number of
    /// milliseconds, and anything negative or unreadable asks not to be called again.
    ///
    /// ```
    /// # use core::time::Duration;
    /// # use relent_policy::Hint;
    /// assert_eq!(Hint::from_grpc_pushback("250"), Hint::RetryAfter(Duration::from_millis(250)));
    /// assert_eq!(Hint::from_grpc_pushback("soon"), Hint::Stop);
    /// ```
    pub fn from_grpc_pushback(value: &str) -> Hint {
        match value.parse::<u32>() {
            Ok(millis) => Hint::RetryAfter(Duration::from_millis(u64::from(millis))),
            Err(_) => Hint::Stop,
        }
    }
}

/// What went wrong, precise enough to classify and to log.
///
/// ```
/// use relent_policy::{FailureKind, Fault};
///
/// assert_eq!(FailureKind::Http(503).to_string(), "http_503");
/// assert_eq!("connect_refused".parse(), Ok(FailureKind::Fault(Fault::ConnectRefused)));
/// assert!("http_200".parse::<FailureKind>().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailureKind {
    /// An HTTP response with this status, which is not 2xx.
    Http(u16),
    /// A gRPC status with this code, which is not 0.
    Grpc(u8),
    /// No answer, or a failure outside HTTP and gRPC.
    Fault(Fault),
    /// A failure that the caller's own code has classified already.
    Judged(Class),
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FailureKind::Http(status) => write!(f, "http_{status}"),
            FailureKind::Grpc(code) => write!(f, "grpc_{code}"),
            FailureKind::Fault(fault) => f.write_str(fault.name()),
            FailureKind::Judged(class) => write!(f, "application_{class}"),
        }
    }
}

/// The text names no failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownFailureName;

impl fmt::Display for UnknownFailureName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "expected `http_STATUS`, `grpc_CODE` or a failure's name such as `connect_refused`",
        )
    }
}

impl core::error::Error for UnknownFailureName {}

impl FromStr for FailureKind {
    type Err = UnknownFailureName;

    fn from_str(text: &str) -> Result<FailureKind, UnknownFailureName> {
        if let Some(fault) = Fault::ALL.iter().find(|fault| fault.name() == text) {
            return Ok(FailureKind::Fault(*fault));
        }
        if let Some(status) = text.strip_prefix("http_") {
            return match status.parse() {
                Ok(status @ (100..=199 | 300..=599)) => Ok(FailureKind::Http(status)),
                _ => Err(UnknownFailureName),
            };
        }
        if let Some(code) = text.strip_prefix("grpc_") {
            return match code.parse() {
                Ok(code @ 1..=16) => Ok(FailureKind::Grpc(code)),
                _ => Err(UnknownFailureName),
            };
        }
        Err(UnknownFailureName)
    }
}

impl FailureKind {
    /// Whether the dependency may have acted on this attempt.
    pub const fn effect(self) -> Effect {
        match self {
            FailureKind::Http(_) => Effect::Answered,
            // A client library reports 4 and 14 also when the server never saw the call.
            FailureKind::Grpc(4 | 14) => Effect::Ambiguous,
            FailureKind::Grpc(_) => Effect::Answered,
            FailureKind::Fault(fault) => fault.effect(),
            FailureKind::Judged(_) => Effect::Ambiguous,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn every_fault_is_found_by_its_name() {
        for fault in Fault::ALL {
            assert_eq!(fault.name().parse(), Ok(FailureKind::Fault(*fault)));
        }
    }

    #[test]
    fn names_round_trip() {
        for kind in [FailureKind::Http(503), FailureKind::Grpc(16)] {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
    }

    #[test]
    fn names_of_successes_and_of_nothing_are_refused() {
        for text in ["http_200", "http_99", "http_600", "grpc_0", "grpc_17", "", "HTTP_503"] {
            assert_eq!(text.parse::<FailureKind>(), Err(UnknownFailureName), "{text}");
        }
    }
}
