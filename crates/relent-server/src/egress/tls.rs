//! TLS as a client: who is believed, and what is spoken. REQ-P3.
//!
//! The provider is named here and not taken from the process, where another crate could have put
//! another one. There is no switch that skips a certificate's checks, and none is to be added.

use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};

use super::EgressError;

/// Trusts what this machine trusts, or Mozilla's list where it has none, and these roots.
pub(super) fn config(extra_roots: &[CertificateDer<'static>]) -> Result<ClientConfig, EgressError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    for root in extra_roots {
        roots.add(root.clone()).map_err(EgressError::Root)?;
    }
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(EgressError::Tls)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}
