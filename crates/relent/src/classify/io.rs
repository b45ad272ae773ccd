//! `std::io::Error`, by its kind, and by what it wraps.

use std::io::{Error, ErrorKind};

use relent_policy::{Failure, FailureKind, Fault, Timestamp};

use crate::judge::Classify;

impl Classify for Error {
    fn failure(&self, _now: Timestamp) -> Failure {
        FailureKind::Fault(fault_of(self.kind())).into()
    }
}

/// What a kind of I/O error says about trying again.
pub(crate) fn fault_of(kind: ErrorKind) -> Fault {
    match kind {
        ErrorKind::ConnectionRefused => Fault::ConnectRefused,
        ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable | ErrorKind::NetworkDown => {
            Fault::ConnectUnreachable
        }
        ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted | ErrorKind::BrokenPipe => {
            Fault::Reset
        }
        ErrorKind::UnexpectedEof => Fault::ClosedEarly,
        ErrorKind::TimedOut => Fault::IoTimedOut,
        ErrorKind::Interrupted => Fault::IoInterrupted,
        ErrorKind::WouldBlock | ErrorKind::ResourceBusy | ErrorKind::ExecutableFileBusy => {
            Fault::IoFileLocked
        }
        ErrorKind::NotFound => Fault::IoNotFound,
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => Fault::IoPermissionDenied,
        ErrorKind::AlreadyExists | ErrorKind::DirectoryNotEmpty => Fault::IoAlreadyExists,
        ErrorKind::InvalidInput
        | ErrorKind::InvalidData
        | ErrorKind::InvalidFilename
        | ErrorKind::IsADirectory
        | ErrorKind::NotADirectory
        | ErrorKind::Unsupported
        | ErrorKind::ArgumentListTooLong => Fault::IoInvalid,
        _ => Fault::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use relent_policy::Class;

    #[test]
    fn a_locked_file_is_worth_another_attempt_and_a_missing_one_is_not() {
        let class = |kind: ErrorKind| fault_of(kind).class();
        for kind in [ErrorKind::WouldBlock, ErrorKind::TimedOut, ErrorKind::ConnectionRefused] {
            assert_eq!(class(kind), Class::Retryable, "{kind}");
        }
        for kind in [ErrorKind::NotFound, ErrorKind::PermissionDenied, ErrorKind::InvalidData] {
            assert_eq!(class(kind), Class::Permanent, "{kind}");
        }
        assert_eq!(class(ErrorKind::OutOfMemory), Class::Unknown);
    }
}
