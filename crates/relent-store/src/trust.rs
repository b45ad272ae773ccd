//! Whom to believe on the way to a store: always somebody, never anybody. REQ-S7.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::{ClientConfig, RootCertStore};

/// Why TLS cannot be set up.
#[derive(Debug)]
pub(crate) enum BadTrust {
    /// The file cannot be used.
    Certificates { file: PathBuf, source: PemError },
    /// A certificate in it cannot be used.
    Tls(rustls::Error),
}

/// TLS that trusts the certificates in a file, or those that the system trusts.
pub(crate) fn client_config(file: Option<&Path>) -> Result<ClientConfig, BadTrust> {
    let mut roots = RootCertStore::empty();
    if let Some(file) = file {
        let failed = |source| BadTrust::Certificates { file: file.to_owned(), source };
        for certificate in CertificateDer::pem_file_iter(file).map_err(failed)? {
            roots.add(certificate.map_err(failed)?).map_err(BadTrust::Tls)?;
        }
        if roots.is_empty() {
            return Err(failed(PemError::NoItemsFound));
        }
    } else {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if roots.is_empty() {
            roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    Ok(ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(BadTrust::Tls)?
        .with_root_certificates(roots)
        .with_no_client_auth())
}

/// What a failed connection says, with a way out if nobody vouches for the server.
pub(crate) fn with_way_out(text: String, setting: &str) -> String {
    match text.contains("UnknownIssuer") {
        true => format!("{text}; {setting} is the file that says whom to trust"),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_certificates_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let empty = folder.path().join("empty.pem");
        for text in ["", "a note\n"] {
            std::fs::write(&empty, text).unwrap();
            let refused = client_config(Some(&empty)).map(drop);
            let nothing = matches!(
                &refused,
                Err(BadTrust::Certificates { source: PemError::NoItemsFound, .. })
            );
            assert!(nothing, "{refused:?}");
        }
        let missing = client_config(Some(&folder.path().join("missing.pem"))).map(drop);
        assert!(matches!(missing, Err(BadTrust::Certificates { .. })), "{missing:?}");
    }
}
