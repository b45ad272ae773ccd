//! The faults: everything that goes wrong without an HTTP or gRPC status, as one table.
//!
//! Each row says how a fault is called, whether trying again can help where a policy says nothing
//! else, and whether the dependency may have acted. REQ-C3, REQ-C4, REQ-C6.

use crate::classify::Class;

macro_rules! faults {
    ($($variant:ident $name:literal $class:ident $effect:ident $doc:literal)*) => {
        /// A failure outside the HTTP and gRPC status codes.
        ///
        /// ```
        /// use relent_policy::{Class, Fault};
        ///
        /// assert_eq!(Fault::DbDeadlock.name(), "db_deadlock");
        /// assert_eq!(Fault::DbDeadlock.class(), Class::Retryable);
        /// assert_eq!(Fault::TlsCertificate.class(), Class::Permanent);
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Fault {
            $(#[doc = $doc] $variant,)*
        }

        impl Fault {
            /// Every fault there is.
            pub const ALL: &[Fault] = &[$(Fault::$variant),*];

            /// Its name in policies, logs and metrics.
            pub const fn name(self) -> &'static str {
                match self { $(Fault::$variant => $name),* }
            }

            /// Its class where a policy says nothing else.
            pub const fn class(self) -> Class {
                match self { $(Fault::$variant => Class::$class),* }
            }

            /// Whether the dependency may have acted on the attempt.
            ///
            /// ```
            /// # use relent_policy::{Effect, Fault};
            /// assert_eq!(Fault::Dns.effect(), Effect::NotSent);
            /// ```
            pub const fn effect(self) -> Effect {
                match self { $(Fault::$variant => Effect::$effect),* }
            }
        }
    };
}

faults! {
    Dns "dns" Retryable NotSent "The name could not be resolved. Two attempts at most."
    ConnectRefused "connect_refused" Retryable NotSent "The port is closed."
    ConnectUnreachable "connect_unreachable" Retryable NotSent "No route to the host."
    ConnectTimeout "connect_timeout" Retryable NotSent "TCP did not connect in time."
    ConnectReset "connect_reset" Retryable NotSent "The connection was reset while it was being made."
    TlsHandshakeTimeout "tls_handshake_timeout" Retryable NotSent "TLS did not come up in time."
    TlsHandshakeReset "tls_handshake_reset" Retryable NotSent "The peer went away during the TLS handshake."
    TlsCertificate "tls_certificate" Permanent NotSent "The peer's certificate is not to be trusted. Never retried."
    TlsAlert "tls_alert" Permanent NotSent "The peer refused our side of the handshake."
    TlsProtocol "tls_protocol" Permanent NotSent "The peer does not speak TLS, or not ours."
    Reset "reset" Retryable Ambiguous "The connection was reset after the request was written."
    ClosedEarly "closed_early" Retryable Ambiguous "The connection was closed without an answer."
    ResponseTimeout "response_timeout" Retryable Ambiguous "No answer within the attempt's time."
    StreamRefused "stream_refused" Retryable NotSent "An HTTP/2 peer refused the stream unprocessed."
    HttpParse "http_parse" Permanent Ambiguous "The answer is not HTTP, or its head is too large."
    Blocked "blocked" Permanent NotSent "The target address is not allowed."
    DbDeadlock "db_deadlock" Retryable Answered "The database chose this transaction as a deadlock's victim."
    DbSerialization "db_serialization" Retryable Answered "A serializable transaction lost a race."
    DbPoolExhausted "db_pool_exhausted" Retryable NotSent "No pooled connection became free in time."
    DbTooManyConnections "db_too_many_connections" Retryable NotSent "The database takes no more connections."
    DbBusy "db_busy" Retryable Answered "An embedded database, or one of its tables, is locked by another writer."
    DbConnectionLost "db_connection_lost" Retryable Ambiguous "The database connection broke."
    DbUnavailable "db_unavailable" Retryable NotSent "The database is starting, stopping or failing over."
    DbConstraint "db_constraint" Permanent Answered "A constraint was violated."
    DbQuery "db_query" Permanent Answered "The statement itself is wrong or not allowed."
    IoInterrupted "io_interrupted" Retryable Ambiguous "A signal interrupted the operation."
    IoTimedOut "io_timed_out" Retryable Ambiguous "The operation took too long."
    IoFileLocked "io_file_locked" Retryable Answered "Somebody else holds the file's lock."
    IoNotFound "io_not_found" Permanent Answered "There is no such file."
    IoPermissionDenied "io_permission_denied" Permanent Answered "The file may not be used so."
    IoAlreadyExists "io_already_exists" Permanent Answered "The file is there already."
    IoInvalid "io_invalid" Permanent Answered "The input or the data is malformed."
    Serialization "serialization" Permanent Ambiguous "The request or the answer could not be encoded or decoded."
    Configuration "configuration" Permanent NotSent "The call was set up wrongly."
    TokenRevoked "token_revoked" Permanent NotSent "The credential is gone for good."
    Abandoned "abandoned" Retryable Ambiguous "The worker was lost during the attempt."
    CalledOff "called_off" Retryable NotSent "The task was cancelled between its claim and its sending."
    Unknown "unknown" Unknown Ambiguous "Nothing known is wrong. Retried once."
}

impl Fault {
    /// The fault behind a PostgreSQL error, by its SQLSTATE.
    ///
    /// ```
    /// use relent_policy::Fault;
    ///
    /// assert_eq!(Fault::from_sqlstate("40P01"), Fault::DbDeadlock);
    /// assert_eq!(Fault::from_sqlstate("23505"), Fault::DbConstraint);
    /// ```
    pub fn from_sqlstate(sqlstate: &str) -> Fault {
        match sqlstate {
            "40P01" => Fault::DbDeadlock,
            "40001" => Fault::DbSerialization,
            "53300" => Fault::DbTooManyConnections,
            "55P03" => Fault::DbBusy,
            "57P01" | "57P02" | "57P03" => Fault::DbUnavailable,
            "08P01" => Fault::DbQuery,
            _ => match sqlstate.get(..2) {
                Some("08") => Fault::DbConnectionLost,
                Some("23") => Fault::DbConstraint,
                Some("22" | "26" | "28" | "2B" | "34" | "3D" | "3F" | "42" | "44") => {
                    Fault::DbQuery
                }
                _ => Fault::Unknown,
            },
        }
    }

    /// The fault behind an SQLite primary result code.
    ///
    /// ```
    /// use relent_policy::Fault;
    ///
    /// assert_eq!(Fault::from_sqlite_code(5), Fault::DbBusy);
    /// ```
    pub const fn from_sqlite_code(code: i32) -> Fault {
        match code & 0xff {
            5 | 6 => Fault::DbBusy,
            19 => Fault::DbConstraint,
            1 | 8 | 11 | 12 | 18 | 20 | 21 | 23 | 25 | 26 => Fault::DbQuery,
            14 => Fault::DbUnavailable,
            _ => Fault::Unknown,
        }
    }
}

/// Whether the dependency may have acted on a failed attempt.
///
/// ```
/// use relent_policy::{Effect, FailureKind, Fault};
///
/// assert_eq!(FailureKind::Fault(Fault::ConnectRefused).effect(), Effect::NotSent);
/// assert_eq!(FailureKind::Fault(Fault::Reset).effect(), Effect::Ambiguous);
/// assert_eq!(FailureKind::Http(500).effect(), Effect::Answered);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The request never reached the dependency.
    NotSent,
    /// The request was written and no answer came: it may have been applied.
    Ambiguous,
    /// The dependency answered.
    Answered,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sqlstates_lead_to_their_faults() {
        let cases = [
            ("40001", Fault::DbSerialization),
            ("53300", Fault::DbTooManyConnections),
            ("08006", Fault::DbConnectionLost),
            ("57P03", Fault::DbUnavailable),
            ("55P03", Fault::DbBusy),
            ("42P01", Fault::DbQuery),
            ("XX000", Fault::Unknown),
            ("é", Fault::Unknown),
            ("", Fault::Unknown),
        ];
        for (sqlstate, fault) in cases {
            assert_eq!(Fault::from_sqlstate(sqlstate), fault, "{sqlstate}");
        }
    }
}
