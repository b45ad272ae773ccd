//! An authority and its certificates, good and bad.

use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use relent_server::egress::{Egress, EgressRules};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion};

/// An authority that signs server certificates.
pub(crate) struct Authority {
    certificate: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

/// For which years a certificate holds.
pub(crate) enum Valid {
    Now,
    Past,
    Future,
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

impl Authority {
    pub(crate) fn new(name: &str) -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap().der().clone();
        Authority { certificate, issuer: Issuer::new(params, key) }
    }

    /// A client that trusts this authority.
    pub(crate) fn client(&self) -> Egress {
        let extra_roots = vec![self.certificate.clone()];
        super::egress_with(EgressRules { extra_roots, ..EgressRules::default() })
    }

    /// A certificate for a name, and its key.
    fn sign(
        &self,
        name: &str,
        valid: Valid,
    ) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let (from, until) = match valid {
            Valid::Now => (1975, 4096),
            Valid::Past => (1975, 1999),
            Valid::Future => (4000, 4096),
        };
        params.not_before = date_time_ymd(from, 1, 1);
        params.not_after = date_time_ymd(until, 1, 1);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (vec![certificate.der().clone()], key.into())
    }

    /// A server with a certificate for this name.
    pub(crate) fn server(&self, name: &str, valid: Valid) -> ServerConfig {
        let (chain, key) = self.sign(name, valid);
        ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap()
    }

    /// A server that wants a certificate of its clients too.
    pub(crate) fn server_for_known_clients(
        &self,
        version: &'static SupportedProtocolVersion,
    ) -> ServerConfig {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).unwrap();
        let clients = WebPkiClientVerifier::builder_with_provider(roots.into(), provider());
        let (chain, key) = self.sign("localhost", Valid::Now);
        ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[version])
            .unwrap()
            .with_client_cert_verifier(clients.build().unwrap())
            .with_single_cert(chain, key)
            .unwrap()
    }
}
