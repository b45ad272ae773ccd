//! Certificates for servers of a test's own.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use tempfile::TempDir;

/// Who vouches for servers.
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: TempDir,
}

/// What a server shows, and what only it has.
pub(crate) struct Files {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

impl Authority {
    pub(crate) fn new() -> Authority {
        let mut own = CertificateParams::new(Vec::new()).unwrap();
        // Not that of what it signs: that would count as signed by itself.
        own.distinguished_name.push(DnType::CommonName, "the tests");
        own.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(own, KeyPair::generate().unwrap()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("ca.pem"), issuer.pem()).unwrap();
        Authority { issuer, folder }
    }

    /// Whom to trust, as a file.
    pub(crate) fn file(&self) -> String {
        self.folder.path().join("ca.pem").display().to_string()
    }

    /// A certificate for a server that goes by these names.
    pub(crate) fn issue(&self, folder: &Path, names: &[&str]) -> Files {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let own_key = KeyPair::generate().unwrap();
        let own = CertificateParams::new(names).unwrap().signed_by(&own_key, &self.issuer).unwrap();
        let files = Files { certificate: folder.join("own.pem"), key: folder.join("key.pem") };
        fs::write(&files.certificate, own.pem()).unwrap();
        fs::write(&files.key, own_key.serialize_pem()).unwrap();
        fs::set_permissions(&files.key, std::os::unix::fs::PermissionsExt::from_mode(0o600))
            .unwrap();
        files
    }
}
