//! Whom the service believes: a certificate that nobody vouches for is told at once and never tried
//! again; one that the operator vouches for is as good as any. REQ-P3.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::{World, column};
use crate::rig::task;

/// A target with a certificate that it signed itself.
struct SelfSigned {
    address: SocketAddr,
    pem: String,
    connections: Arc<AtomicUsize>,
    _accepting: JoinSet<()>,
}

impl SelfSigned {
    async fn start() -> SelfSigned {
        let signed = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let (der, pem) = (signed.cert.der().clone(), signed.cert.pem());
        let key = PrivateKeyDer::try_from(signed.signing_key.serialize_der()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![der], key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&connections);
        let mut accepting = JoinSet::new();
        accepting.spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                count.fetch_add(1, Ordering::Relaxed);
                // Who does not like the certificate hangs up here.
                let Ok(mut stream) = acceptor.accept(stream).await else { continue };
                if stream.read(&mut [0; 4_096]).await.is_ok() {
                    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
                    let _ = stream.write_all(answer).await;
                }
            }
        });
        SelfSigned { address, pem, connections, _accepting: accepting }
    }

    /// By name: that is what the certificate is for.
    fn url(&self) -> String {
        format!("https://localhost:{}/", self.address.port())
    }
}

#[tokio::test]
async fn a_certificate_that_nobody_vouches_for_is_never_tried_again() {
    let (world, target) = (World::start().await, SelfSigned::start().await);
    let id = world.client.create(&task(&target.url(), "unvouched", "quick")).await;
    let ended = world.client.until_status(&id, "EXHAUSTED").await;
    assert_eq!(ended["endedBecause"], "permanent");
    let attempts = world.client.attempts(&id).await;
    assert_eq!(column(&attempts, "error"), [json!("tls_certificate")]);
    assert_eq!(column(&attempts, "effect"), [json!("not_sent")]);
    assert_eq!(target.connections.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_certificate_that_the_operator_vouches_for_is_good() {
    let target = SelfSigned::start().await;
    let roots = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(roots.path(), &target.pem).unwrap();
    let setting = format!("egress.extra_roots_file={}", roots.path().display());
    let world = World::start_with(&["--set", &setting]).await;
    let id = world.client.create(&task(&target.url(), "vouched", "quick")).await;
    world.client.until_status(&id, "SUCCEEDED").await;
}
