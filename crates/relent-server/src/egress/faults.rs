//! What went wrong, by how far the attempt had come. REQ-C3, REQ-P3.
//!
//! Types decide, texts never do. The same I/O error means another thing in another phase, so there
//! is one function for each. A rustls error sits inside an `io::Error`, where `source` does not
//! reach: the walk goes into what an `io::Error` wraps.

use std::error::Error;
use std::io::{self, ErrorKind};
use std::iter;

use relent_policy::Fault;
use rustls::AlertDescription as Alert;

/// TCP did not connect. What is not known better is this machine's own trouble (no more ports, no
/// more files): nothing was sent, the target is not to blame, and it may pass.
pub(super) fn of_connect(error: &io::Error) -> Fault {
    match error.kind() {
        ErrorKind::ConnectionRefused => Fault::ConnectRefused,
        ErrorKind::TimedOut => Fault::ConnectTimeout,
        kind if is_reset(kind) => Fault::ConnectReset,
        _ => Fault::ConnectUnreachable,
    }
}

/// The TLS handshake did not come to its end.
pub(super) fn of_handshake(error: &io::Error) -> Fault {
    if let Some(error) = rustls_error(error) {
        return of_tls(error, Fault::TlsHandshakeReset);
    }
    match error.kind() {
        ErrorKind::TimedOut => Fault::TlsHandshakeTimeout,
        kind if is_reset(kind) || kind == ErrorKind::UnexpectedEof => Fault::TlsHandshakeReset,
        _ => Fault::TlsProtocol,
    }
}

/// The connection was made and ended before the request was written. With TLS 1.3 a peer refuses
/// our side of the handshake only then.
pub(super) fn of_unsent(error: Option<&hyper::Error>) -> Fault {
    let Some(error) = error else { return Fault::ConnectReset };
    if let Some(error) = rustls_error(error) {
        return of_tls(error, Fault::ConnectReset);
    }
    let is_io = causes(error).any(<dyn Error>::is::<io::Error>);
    let has_ended = error.is_incomplete_message() || error.is_closed() || error.is_canceled();
    // A peer that speaks first does not speak HTTP.
    if is_io || has_ended { Fault::ConnectReset } else { Fault::HttpParse }
}

/// The request was written, or may have been.
pub(super) fn of_sent(error: &hyper::Error) -> Fault {
    if let Some(error) = rustls_error(error) {
        return of_tls(error, Fault::Reset);
    }
    let io = causes(error).find_map(|cause| cause.downcast_ref::<io::Error>());
    match io.map(io::Error::kind) {
        Some(kind) if is_reset(kind) => Fault::Reset,
        Some(ErrorKind::UnexpectedEof) => Fault::ClosedEarly,
        Some(ErrorKind::TimedOut) => Fault::ResponseTimeout,
        _ if error.is_parse() => Fault::HttpParse,
        _ if error.is_incomplete_message() || error.is_canceled() || error.is_closed() => {
            Fault::ClosedEarly
        }
        _ => Fault::Unknown,
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

fn rustls_error<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e rustls::Error> {
    causes(error).find_map(|cause| cause.downcast_ref::<rustls::Error>())
}

/// The error and what caused it, outermost first, including what an `io::Error` wraps.
fn causes<'e>(error: &'e (dyn Error + 'static)) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    /// Errors that are their own cause exist; nobody nests this deep.
    const DEPTH_MAX: usize = 16;
    fn next<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e (dyn Error + 'static)> {
        match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(wrapped) => Some(wrapped),
            None => error.source(),
        }
    }
    iter::successors(Some(error), |error| next(*error)).take(DEPTH_MAX)
}

/// `passing` is what an alert about the peer's own trouble amounts to.
fn of_tls(error: &rustls::Error, passing: Fault) -> Fault {
    match error {
        rustls::Error::InvalidCertificate(_)
        | rustls::Error::InvalidCertRevocationList(_)
        | rustls::Error::NoCertificatesPresented
        | rustls::Error::UnsupportedNameType => Fault::TlsCertificate,
        rustls::Error::AlertReceived(alert) => of_alert(*alert, passing),
        _ => Fault::TlsProtocol,
    }
}

fn of_alert(alert: Alert, passing: Fault) -> Fault {
    match alert {
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
        | Alert::UnknownPSKIdentity => Fault::TlsAlert,
        Alert::ProtocolVersion
        | Alert::InsufficientSecurity
        | Alert::InappropriateFallback
        | Alert::IllegalParameter
        | Alert::MissingExtension
        | Alert::UnsupportedExtension
        | Alert::NoApplicationProtocol
        | Alert::EncryptedClientHelloRequired => Fault::TlsProtocol,
        _ => passing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::CertificateError;

    /// As tokio-rustls hands it on.
    fn in_tls(error: rustls::Error) -> io::Error {
        io::Error::new(ErrorKind::InvalidData, error)
    }

    #[test]
    fn a_certificate_is_a_certificate_however_deep() {
        let error = in_tls(rustls::Error::InvalidCertificate(CertificateError::Expired));
        assert_eq!(of_handshake(&error), Fault::TlsCertificate);
        assert_eq!(of_handshake(&io::Error::other(error)), Fault::TlsCertificate);
    }

    #[test]
    fn alerts_that_would_come_again_are_told_from_those_that_pass() {
        let fault = |alert| of_handshake(&in_tls(rustls::Error::AlertReceived(alert)));
        assert_eq!(fault(Alert::UnknownCA), Fault::TlsAlert);
        assert_eq!(fault(Alert::ProtocolVersion), Fault::TlsProtocol);
        assert_eq!(fault(Alert::InternalError), Fault::TlsHandshakeReset);
    }

    #[test]
    fn connecting_fails_in_known_ways() {
        let fault = |kind: ErrorKind| of_connect(&kind.into());
        assert_eq!(fault(ErrorKind::ConnectionRefused), Fault::ConnectRefused);
        assert_eq!(fault(ErrorKind::HostUnreachable), Fault::ConnectUnreachable);
        assert_eq!(fault(ErrorKind::NetworkUnreachable), Fault::ConnectUnreachable);
        assert_eq!(fault(ErrorKind::TimedOut), Fault::ConnectTimeout);
        assert_eq!(fault(ErrorKind::ConnectionReset), Fault::ConnectReset);
        let no_more_files = io::Error::from_raw_os_error(24);
        assert_eq!(of_connect(&no_more_files), Fault::ConnectUnreachable);
    }

    #[test]
    fn a_handshake_that_breaks_off_may_do_better_next_time() {
        for kind in [ErrorKind::UnexpectedEof, ErrorKind::ConnectionReset] {
            assert_eq!(of_handshake(&kind.into()), Fault::TlsHandshakeReset, "{kind}");
        }
        assert_eq!(of_handshake(&ErrorKind::TimedOut.into()), Fault::TlsHandshakeTimeout);
    }
}
