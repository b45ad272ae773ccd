//! A sentence for every failure. It belongs to the failure's name and holds nothing of what the
//! peer said, so it cannot carry a secret. REQ-P2, REQ-O1.

use http::StatusCode;
use relent_policy::{Class, FailureKind, Fault};

/// The sentence for a failure.
///
/// ```
/// use relent_api::error_message;
/// use relent_policy::{FailureKind, Fault};
///
/// let refused = FailureKind::Fault(Fault::ConnectRefused);
/// assert_eq!(error_message(refused), "the target's port is closed");
/// let busy = FailureKind::Http(503);
/// assert_eq!(error_message(busy), "the target answered 503 Service Unavailable");
/// ```
pub fn error_message(failure: FailureKind) -> String {
    match failure {
        FailureKind::Http(status) => {
            let known = StatusCode::from_u16(status).ok();
            match known.and_then(|status| status.canonical_reason()) {
                Some(reason) => format!("the target answered {status} {reason}"),
                None => format!("the target answered {status}"),
            }
        }
        FailureKind::Grpc(code) => match GRPC.get(usize::from(code)) {
            Some(name) => format!("the target answered gRPC {code} {name}"),
            None => format!("the target answered gRPC {code}"),
        },
        FailureKind::Fault(fault) => of_fault(fault).to_owned(),
        FailureKind::Judged(Class::Permanent) => "it cannot succeed, the caller says".to_owned(),
        FailureKind::Judged(_) => "it may succeed another time, the caller says".to_owned(),
    }
}

const GRPC: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

const fn of_fault(fault: Fault) -> &'static str {
    match fault {
        Fault::Dns => "the target's name could not be resolved",
        Fault::ConnectRefused => "the target's port is closed",
        Fault::ConnectUnreachable => "there is no route to the target",
        Fault::ConnectTimeout => "the target did not take the connection in time",
        Fault::ConnectReset => "the connection was reset while it was being made",
        Fault::TlsHandshakeTimeout => "the TLS handshake did not end in time",
        Fault::TlsHandshakeReset => "the target went away during the TLS handshake",
        Fault::TlsCertificate => "the target's certificate is not to be trusted",
        Fault::TlsAlert => "the target refused our side of the TLS handshake",
        Fault::TlsProtocol => "the target does not speak TLS, or not ours",
        Fault::Reset => {
            "the connection was reset after the request was sent; it may have been applied"
        }
        Fault::ClosedEarly => {
            "the connection was closed without an answer; the request may have been applied"
        }
        Fault::ResponseTimeout => "there was no answer in time; the request may have been applied",
        Fault::StreamRefused => "the target refused the stream without processing it",
        Fault::HttpParse => "the answer is not HTTP, or its head is too large",
        Fault::Blocked => "the target's address is not allowed",
        Fault::DbDeadlock => "the database ended the transaction to break a deadlock",
        Fault::DbSerialization => "the transaction lost a race with another one",
        Fault::DbPoolExhausted => "no database connection became free in time",
        Fault::DbTooManyConnections => "the database takes no more connections",
        Fault::DbBusy => "the database is locked by another writer",
        Fault::DbConnectionLost => "the database connection broke",
        Fault::DbUnavailable => "the database is starting, stopping or failing over",
        Fault::DbConstraint => "a constraint of the database was violated",
        Fault::DbQuery => "the statement is wrong or not allowed",
        Fault::IoInterrupted => "a signal interrupted the operation",
        Fault::IoTimedOut => "the operation took too long",
        Fault::IoFileLocked => "somebody else holds the file's lock",
        Fault::IoNotFound => "there is no such file",
        Fault::IoPermissionDenied => "the file may not be used so",
        Fault::IoAlreadyExists => "the file is there already",
        Fault::IoInvalid => "the input or the data is malformed",
        Fault::Serialization => "the request or the answer could not be encoded or decoded",
        Fault::Configuration => "the call was set up wrongly",
        Fault::TokenRevoked => "the credential is gone for good",
        Fault::Abandoned => {
            "the worker was lost during the attempt; the request may have been applied"
        }
        Fault::CalledOff => "the task was cancelled before the request was sent",
        Fault::Unknown => "nothing known went wrong",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_has_a_sentence_of_its_own() {
        let mut seen = Vec::new();
        for fault in Fault::ALL {
            let message = of_fault(*fault);
            assert!(!seen.contains(&message), "{message}");
            seen.push(message);
        }
    }

    #[test]
    fn statuses_and_codes_are_named_where_they_have_a_name() {
        assert_eq!(error_message(FailureKind::Http(599)), "the target answered 599");
        let unavailable = error_message(FailureKind::Grpc(14));
        assert_eq!(unavailable, "the target answered gRPC 14 UNAVAILABLE");
        assert_eq!(error_message(FailureKind::Grpc(99)), "the target answered gRPC 99");
    }
}
