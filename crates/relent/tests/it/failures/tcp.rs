//! Before the request: names, ports and connections.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use relent::{Classify, FailureKind, Fault, GiveUpReason, Timestamp};
use reqwest::dns::{Name, Resolve, Resolving};

use super::servers::{FullQueue, Server, closed_port, reset};
use super::{always, client, get, once, twice};

/// Knows no name, and counts who asks.
#[derive(Clone, Default)]
struct NoNames(Arc<AtomicU32>);

impl Resolve for NoNames {
    fn resolve(&self, name: Name) -> Resolving {
        self.0.fetch_add(1, Ordering::Relaxed);
        let text = format!("failed to lookup address information: {}", name.as_str());
        Box::pin(async { Err(std::io::Error::other(text).into()) })
    }
}

#[tokio::test]
async fn a_name_that_does_not_resolve_gets_two_attempts() {
    let names = NoNames::default();
    let client = client().dns_resolver(names.clone()).build().unwrap();
    let seen = get(&client, "http://peer.invalid/").await;
    assert_eq!(seen, twice(Fault::Dns, GiveUpReason::ClassLimit));
    assert_eq!(names.0.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn the_system_resolver_fails_as_dns_too() {
    // No label may be that long, so nobody has to be asked.
    let url = format!("http://{}.invalid/", "n".repeat(64));
    let seen = get(&client().build().unwrap(), &url).await;
    assert_eq!(seen, twice(Fault::Dns, GiveUpReason::ClassLimit));
}

/// Resolves over TLS, from a server that is not to be trusted.
struct Impostor;

impl Resolve for Impostor {
    fn resolve(&self, _name: Name) -> Resolving {
        let expired = rustls::Error::InvalidCertificate(rustls::CertificateError::Expired);
        Box::pin(async { Err(std::io::Error::other(expired).into()) })
    }
}

#[tokio::test]
async fn a_resolvers_certificate_is_a_certificate() {
    let client = client().dns_resolver(Impostor).build().unwrap();
    assert_eq!(get(&client, "http://peer.invalid/").await, once(Fault::TlsCertificate));
}

#[tokio::test]
async fn a_closed_port_is_connect_refused() {
    let url = format!("http://{}/", closed_port().await);
    assert_eq!(get(&client().build().unwrap(), &url).await, always(Fault::ConnectRefused));
    let url = format!("https://{}/", closed_port().await);
    assert_eq!(get(&client().build().unwrap(), &url).await, always(Fault::ConnectRefused));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn tcp_that_does_not_connect_in_time_is_connect_timeout() {
    let peer = FullQueue::start().await;
    let client = client().connect_timeout(Duration::from_millis(100)).build().unwrap();
    let seen = get(&client, &format!("http://{}/", peer.address)).await;
    assert_eq!(seen, always(Fault::ConnectTimeout));

    // Two timers of reqwest's race here, and the one that fires tells what it was.
    let seen = get(&client, &format!("https://{}/", peer.address)).await;
    let either = |kind: &FailureKind| {
        matches!(kind, FailureKind::Fault(Fault::ConnectTimeout | Fault::TlsHandshakeTimeout))
    };
    assert!(seen.attempts.len() == 4 && seen.attempts.iter().all(either), "{seen:?}");
}

#[test]
fn a_connection_that_is_reset_while_it_is_made_is_connect_reset() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let (reset_done, is_reset) = channel();
    let peer = std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        stream.set_nonblocking(true).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { reset(tokio::net::TcpStream::from_std(stream).unwrap()).await });
        reset_done.send(()).unwrap();
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let error = runtime.block_on(async {
        let client = client().build().unwrap();
        // The first poll of the request starts to connect. Its thread then waits for the RST, so
        // that the request cannot learn of the connection before that of its end.
        let wait = async { is_reset.recv_timeout(Duration::from_secs(5)).unwrap() };
        let (sent, ()) = tokio::join!(biased; client.get(&url).send(), wait);
        sent.unwrap_err()
    });
    peer.join().unwrap();
    assert!(error.is_connect(), "{error:?}");
    let kind = error.failure(Timestamp::ZERO).kind;
    assert_eq!(kind, FailureKind::Fault(Fault::ConnectReset));
}

#[tokio::test]
async fn a_peer_that_resets_on_accept_is_tried_four_times() {
    let server = Server::start(reset).await;
    let seen = get(&client().build().unwrap(), &server.http()).await;
    // Whether the request had been written by then is a race that the client sees either end of.
    let raced = |kind: &FailureKind| {
        matches!(kind, FailureKind::Fault(Fault::ConnectReset | Fault::Reset | Fault::ClosedEarly))
    };
    assert!(seen.attempts.iter().all(raced), "{seen:?}");
    assert_eq!(seen.because, Some(GiveUpReason::AttemptsExhausted));
    assert_eq!(server.connections(), 4);
}
