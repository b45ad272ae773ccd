//! What an HTTP client's error was caused by, found by walking its causes. REQ-C3, REQ-C6, REQ-P3.
//!
//! [`Error::source`] alone never shows a rustls error: `io::Error::source` is the source *of the
//! error it wraps* and skips that error itself, and a certificate error sits inside two of them.
//! So the walk goes into what an `io::Error` wraps. A retry library that does not do this sees "an
//! I/O error while connecting" and tries an expired certificate again until its attempts run out.
//!
//! The order of the tests is the point:
//!
//! 1. TLS, as every client calls a certificate error a connect error too;
//! 2. names that do not resolve, as the resolver's error may wrap any I/O error;
//! 3. the I/O error, by its kind and by whether the connection was still being made;
//! 4. hyper's own opinion.
//!
//! Types decide, texts do not, with two exceptions for types that are out of reach. Both are tried
//! last and fail safe: hyper-util's "dns error" (unrecognised, it is an unknown failure, which gets
//! two attempts as well), and the word "certificate" in a connect error of a TLS library other than
//! rustls (it can only make a failure permanent). An HTTP/2 peer's refusal of a stream stays
//! unknown: h2's error type is out of reach and its text says too little.

use std::error::Error;
use std::io::{self, ErrorKind};
use std::iter;

use relent_policy::Fault;
use rustls::AlertDescription as Alert;

/// How far the call had come: the same I/O error means another thing before and after the request
/// was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The connection was still being made: the request was not sent.
    Connecting,
    /// The request was written, or may have been.
    Sent,
}

/// What this error was caused by, if anything known.
pub(crate) fn fault_of(error: &(dyn Error + 'static), phase: Phase) -> Option<Fault> {
    let tls = causes(error).find_map(|cause| cause.downcast_ref::<rustls::Error>());
    if let Some(tls) = tls {
        return Some(of_tls(tls, phase));
    }
    match phase {
        Phase::Connecting => while_connecting(error),
        Phase::Sent => after_sending(error),
    }
}

/// Errors that are their own cause exist; nobody nests this deep.
const DEPTH_MAX: usize = 32;

/// The error and what caused it, outermost first, including what an `io::Error` wraps.
fn causes<'e>(error: &'e (dyn Error + 'static)) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    iter::successors(Some(error), |error| {
        let error: &'e (dyn Error + 'static) = *error;
        wrapped(error).or_else(|| error.source())
    })
    .take(DEPTH_MAX)
}

fn wrapped<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e (dyn Error + 'static)> {
    let inner = error.downcast_ref::<io::Error>()?.get_ref()?;
    Some(inner)
}

fn of_tls(error: &rustls::Error, phase: Phase) -> Fault {
    match error {
        rustls::Error::InvalidCertificate(_)
        | rustls::Error::InvalidCertRevocationList(_)
        | rustls::Error::NoCertificatesPresented
        | rustls::Error::UnsupportedNameType => Fault::TlsCertificate,
        rustls::Error::AlertReceived(alert) => of_alert(*alert, phase),
        _ => Fault::TlsProtocol,
    }
}

/// What the peer said before it hung up. With TLS 1.3 a client's certificate is refused after the
/// client believes to be connected, so these alerts mean the same in both phases.
fn of_alert(alert: Alert, phase: Phase) -> Fault {
    match (alert, phase) {
        (
            Alert::HandshakeFailure
            | Alert::NoCertificate
            | Alert::BadCertificate
            | Alert::UnsupportedCertificate
            | Alert::CertificateRevoked
            | Alert::CertificateExpired
            | Alert::CertificateUnknown
            | Alert::CertificateUnobtainable
            | Alert::CertificateRequired
            | Alert::BadCertificateStatusResponse
            | Alert::BadCertificateHashValue
            | Alert::UnknownCA
            | Alert::AccessDenied
            | Alert::UnrecognisedName
            | Alert::UnknownPSKIdentity,
            _,
        ) => Fault::TlsAlert,
        (
            Alert::ProtocolVersion
            | Alert::InsufficientSecurity
            | Alert::InappropriateFallback
            | Alert::IllegalParameter
            | Alert::MissingExtension
            | Alert::UnsupportedExtension
            | Alert::NoApplicationProtocol
            | Alert::EncryptedClientHelloRequired,
            _,
        ) => Fault::TlsProtocol,
        // `internal_error` and the like: the peer's trouble, and it may pass.
        (_, Phase::Connecting) => Fault::TlsHandshakeReset,
        (_, Phase::Sent) => Fault::Reset,
    }
}

fn while_connecting(error: &(dyn Error + 'static)) -> Option<Fault> {
    if causes(error).any(|cause| cause.to_string() == "dns error") {
        return Some(Fault::Dns);
    }
    // An I/O error around another is the mark of the TLS handshake; TCP's has none around it.
    let mut layer = Layer::Tcp;
    let io =
        causes(error).filter_map(|cause| cause.downcast_ref::<io::Error>()).find_map(|error| {
            let fault = of_io(error, layer);
            layer = Layer::Tls;
            fault
        });
    io.or_else(|| causes(error).find_map(of_hyper)).or_else(|| {
        let says_so = |cause: &(dyn Error + 'static)| {
            cause.to_string().to_lowercase().contains("certificate")
        };
        causes(error).any(says_so).then_some(Fault::TlsCertificate)
    })
}

#[derive(Clone, Copy)]
enum Layer {
    Tcp,
    Tls,
}

fn of_io(error: &io::Error, layer: Layer) -> Option<Fault> {
    match (error.kind(), layer) {
        (ErrorKind::ConnectionRefused, _) => Some(Fault::ConnectRefused),
        (
            ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable | ErrorKind::NetworkDown,
            _,
        ) => Some(Fault::ConnectUnreachable),
        (ErrorKind::TimedOut, Layer::Tcp) => Some(Fault::ConnectTimeout),
        (ErrorKind::TimedOut, Layer::Tls) => Some(Fault::TlsHandshakeTimeout),
        (kind, Layer::Tcp) if is_reset(kind) => Some(Fault::ConnectReset),
        (kind, Layer::Tls) if is_reset(kind) => Some(Fault::TlsHandshakeReset),
        (ErrorKind::UnexpectedEof, _) => Some(Fault::TlsHandshakeReset),
        _ => None,
    }
}

fn after_sending(error: &(dyn Error + 'static)) -> Option<Fault> {
    let io = causes(error).find_map(|cause| cause.downcast_ref::<io::Error>().and_then(of_sent_io));
    io.or_else(|| causes(error).find_map(of_hyper)).or_else(|| {
        // Chunks that cannot be read reach us as an I/O error about data; without hyper around it,
        // it is about the data's own encoding, and not ours to name.
        let hyper = causes(error).any(<dyn Error>::is::<hyper::Error>);
        let malformed = causes(error)
            .filter_map(|cause| cause.downcast_ref::<io::Error>())
            .any(|error| matches!(error.kind(), ErrorKind::InvalidData | ErrorKind::InvalidInput));
        (hyper && malformed).then_some(Fault::HttpParse)
    })
}

fn of_sent_io(error: &io::Error) -> Option<Fault> {
    match error.kind() {
        kind if is_reset(kind) => Some(Fault::Reset),
        ErrorKind::UnexpectedEof => Some(Fault::ClosedEarly),
        ErrorKind::TimedOut => Some(Fault::ResponseTimeout),
        _ => None,
    }
}

fn is_reset(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::ConnectionReset
            | ErrorKind::ConnectionAborted
            | ErrorKind::BrokenPipe
            | ErrorKind::NotConnected
    )
}

/// A canceled request was usually never written. hyper does not promise it, so it counts as a
/// connection that closed early.
fn of_hyper(cause: &(dyn Error + 'static)) -> Option<Fault> {
    let error = cause.downcast_ref::<hyper::Error>()?;
    if error.is_parse() {
        Some(Fault::HttpParse)
    } else if error.is_incomplete_message() || error.is_canceled() || error.is_closed() {
        Some(Fault::ClosedEarly)
    } else if error.is_timeout() {
        Some(Fault::ResponseTimeout)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt;

    /// What a client puts around the cause.
    #[derive(Debug)]
    struct Outer(Box<dyn Error + Send + Sync>);

    impl fmt::Display for Outer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("client error (Connect)")
        }
    }

    impl Error for Outer {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&*self.0)
        }
    }

    fn outer(inner: impl Into<Box<dyn Error + Send + Sync>>) -> Outer {
        Outer(inner.into())
    }

    fn in_tls(error: rustls::Error) -> Outer {
        outer(io::Error::other(io::Error::new(ErrorKind::InvalidData, error)))
    }

    #[test]
    fn a_certificate_error_is_found_where_source_does_not_reach() {
        let error = in_tls(rustls::Error::InvalidCertificate(rustls::CertificateError::Expired));
        let mut source = error.source();
        while let Some(cause) = source {
            assert!(!cause.is::<rustls::Error>());
            source = cause.source();
        }
        for phase in [Phase::Connecting, Phase::Sent] {
            assert_eq!(fault_of(&error, phase), Some(Fault::TlsCertificate));
        }
    }

    #[test]
    fn alerts_that_would_come_again_are_told_from_those_that_pass() {
        let fault = |alert, phase| fault_of(&in_tls(rustls::Error::AlertReceived(alert)), phase);
        for phase in [Phase::Connecting, Phase::Sent] {
            assert_eq!(fault(Alert::CertificateRequired, phase), Some(Fault::TlsAlert));
            assert_eq!(fault(Alert::ProtocolVersion, phase), Some(Fault::TlsProtocol));
        }
        let internal = |phase| fault(Alert::InternalError, phase);
        assert_eq!(internal(Phase::Connecting), Some(Fault::TlsHandshakeReset));
        assert_eq!(internal(Phase::Sent), Some(Fault::Reset), "the request may have been applied");
    }

    #[test]
    fn the_same_kind_means_another_thing_in_another_place() {
        let tcp = |kind: ErrorKind| outer(io::Error::new(kind, "the kernel's or a timer's"));
        let tls = |kind: ErrorKind| outer(io::Error::other(io::Error::from(kind)));
        let rows = [
            (
                ErrorKind::ConnectionReset,
                Fault::ConnectReset,
                Fault::TlsHandshakeReset,
                Fault::Reset,
            ),
            (
                ErrorKind::TimedOut,
                Fault::ConnectTimeout,
                Fault::TlsHandshakeTimeout,
                Fault::ResponseTimeout,
            ),
            (
                ErrorKind::UnexpectedEof,
                Fault::TlsHandshakeReset,
                Fault::TlsHandshakeReset,
                Fault::ClosedEarly,
            ),
        ];
        for (kind, in_tcp, in_tls, sent) in rows {
            assert_eq!(fault_of(&tcp(kind), Phase::Connecting), Some(in_tcp), "{kind}");
            assert_eq!(fault_of(&tls(kind), Phase::Connecting), Some(in_tls), "{kind}");
            assert_eq!(fault_of(&tcp(kind), Phase::Sent), Some(sent), "{kind}");
        }
        for kind in [ErrorKind::HostUnreachable, ErrorKind::NetworkUnreachable] {
            let fault = fault_of(&tcp(kind), Phase::Connecting);
            assert_eq!(fault, Some(Fault::ConnectUnreachable), "{kind}");
        }
    }

    #[test]
    fn another_tls_library_is_believed_when_it_speaks_of_certificates() {
        let error = outer("error:0A000086:SSL routines::Certificate verify failed");
        assert_eq!(fault_of(&error, Phase::Connecting), Some(Fault::TlsCertificate));
        assert_eq!(fault_of(&error, Phase::Sent), None);
    }

    #[test]
    fn a_chain_without_end_is_left_at_some_point() {
        #[derive(Debug)]
        struct Itself;
        impl fmt::Display for Itself {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("itself")
            }
        }
        impl Error for Itself {
            fn source(&self) -> Option<&(dyn Error + 'static)> {
                Some(self)
            }
        }
        assert_eq!(fault_of(&Itself, Phase::Connecting), None);
        assert_eq!(fault_of(&Itself, Phase::Sent), None);
    }
}
