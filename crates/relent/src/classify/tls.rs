//! What broke a database's TLS handshake. REQ-P3.
//!
//! The drivers hand on whatever their TLS library said, as a type that may be any of several
//! crates'. A peer that went away may be back next time; everything else would come again, and with
//! a certificate that is not to be trusted it must not be tried. Which of the permanent faults it is
//! the words tell, and only that: no text makes a failure retryable.

use std::error::Error;
use std::io::{self, ErrorKind};
use std::iter;

use relent_policy::Fault;

pub(super) fn fault_of(error: &(dyn Error + 'static)) -> Fault {
    let says = |word: &str| causes(error).any(|cause| cause.to_string().contains(word));
    if says("alert") {
        return Fault::TlsAlert;
    }
    if says("certificate") {
        return Fault::TlsCertificate;
    }
    let mut kinds = causes(error).filter_map(|cause| cause.downcast_ref().map(io::Error::kind));
    let went_away = kinds.find_map(|kind| match kind {
        ErrorKind::TimedOut => Some(Fault::TlsHandshakeTimeout),
        ErrorKind::ConnectionReset
        | ErrorKind::ConnectionAborted
        | ErrorKind::BrokenPipe
        | ErrorKind::UnexpectedEof => Some(Fault::TlsHandshakeReset),
        _ => None,
    });
    went_away.unwrap_or(Fault::TlsProtocol)
}

/// The error and its causes. What an I/O error wraps is not among its sources.
fn causes<'e>(error: &'e (dyn Error + 'static)) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    const DEPTH_MAX: usize = 32;
    fn next<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e (dyn Error + 'static)> {
        match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(wrapped) => Some(wrapped),
            None => error.source(),
        }
    }
    iter::successors(Some(error), |error| next(*error)).take(DEPTH_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use relent_policy::Class;
    use rustls::{AlertDescription, CertificateError, Error as Rustls};

    #[test]
    fn a_peer_that_went_away_may_come_back() {
        let fault = |kind: ErrorKind| fault_of(&io::Error::from(kind));
        assert_eq!(fault(ErrorKind::UnexpectedEof), Fault::TlsHandshakeReset);
        assert_eq!(fault(ErrorKind::TimedOut), Fault::TlsHandshakeTimeout);
        let wrapped = io::Error::other(io::Error::from(ErrorKind::ConnectionReset));
        assert_eq!(fault_of(&wrapped), Fault::TlsHandshakeReset);
    }

    #[test]
    fn what_rustls_says_is_permanent_and_told_apart() {
        let cases = [
            (Rustls::InvalidCertificate(CertificateError::Expired), Fault::TlsCertificate),
            (Rustls::InvalidCertificate(CertificateError::UnknownIssuer), Fault::TlsCertificate),
            (Rustls::NoCertificatesPresented, Fault::TlsCertificate),
            (Rustls::AlertReceived(AlertDescription::CertificateRequired), Fault::TlsAlert),
            (Rustls::DecryptError, Fault::TlsProtocol),
        ];
        for (error, fault) in cases {
            // As tokio-rustls hands it on.
            let wrapped = io::Error::other(io::Error::new(ErrorKind::InvalidData, error));
            assert_eq!(fault_of(&wrapped), fault, "{wrapped:?}");
            assert_eq!(fault.class(), Class::Permanent);
        }
    }
}
