//! TLS: whom the client believes, and what it calls the rest. REQ-P3.

use relent_policy::Fault;
use relent_server::egress::Outgoing;
use rustls::version::{TLS12, TLS13};

use super::certificates::{Authority, Valid};
use super::servers::{Peer, Server, answering_hello, tls};
use super::{SHORT, egress, fault, get, send};

/// Asserts that the server's certificate is refused, without a request.
async fn assert_refused(authority: &Authority, server: Server, url: &str) {
    let answer = send(&authority.client(), get(url)).await;
    assert_eq!(fault(&answer), Fault::TlsCertificate);
    assert_eq!((server.connections(), server.requests().len()), (1, 0));
}

#[tokio::test]
async fn a_good_certificate_is_good_and_its_connection_is_kept() {
    let authority = Authority::new("ours");
    let server = tls(authority.server("localhost", Valid::Now)).await;
    let client = authority.client();
    let first = send(&client, get(&server.https())).await;
    assert_eq!(first.status, Some(200), "{first:?}");
    assert!(first.phases.tls.is_some() && !first.phases.reused, "{first:?}");
    let second = send(&client, get(&server.https())).await;
    assert_eq!(second.status, Some(200), "{second:?}");
    assert!(second.phases.tls.is_none() && second.phases.reused, "{second:?}");
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn an_address_needs_a_certificate_for_the_address() {
    let authority = Authority::new("ours");
    let server = tls(authority.server("127.0.0.1", Valid::Now)).await;
    let url = format!("https://{}/", server.address);
    assert_eq!(send(&authority.client(), get(&url)).await.status, Some(200));

    let server = tls(authority.server("localhost", Valid::Now)).await;
    let url = format!("https://{}/", server.address);
    assert_refused(&authority, server, &url).await;
}

#[tokio::test]
async fn an_unknown_issuer_is_tls_certificate() {
    let server = tls(Authority::new("theirs").server("localhost", Valid::Now)).await;
    let url = server.https();
    assert_refused(&Authority::new("ours"), server, &url).await;
}

#[tokio::test]
async fn a_certificate_for_another_name_or_time_is_tls_certificate() {
    let rows =
        [("localhost", Valid::Past), ("localhost", Valid::Future), ("elsewhere.test", Valid::Now)];
    for (name, valid) in rows {
        let authority = Authority::new("ours");
        let server = tls(authority.server(name, valid)).await;
        let url = server.https();
        assert_refused(&authority, server, &url).await;
    }
}

#[tokio::test]
async fn a_required_client_certificate_is_tls_alert() {
    let authority = Authority::new("ours");
    // With TLS 1.3 the client believes to be connected before it is refused.
    for version in [&TLS12, &TLS13] {
        for _ in 0..5 {
            let server = tls(authority.server_for_known_clients(version)).await;
            let answer = send(&authority.client(), get(&server.https())).await;
            assert_eq!(fault(&answer), Fault::TlsAlert, "{version:?}");
            assert_eq!((server.connections(), server.requests().len()), (1, 0));
        }
    }
}

#[tokio::test]
async fn only_http_1_is_offered() {
    let authority = Authority::new("ours");
    let mut config = authority.server("localhost", Valid::Now);
    config.alpn_protocols = vec![b"h2".to_vec()];
    let server = tls(config).await;
    let answer = send(&authority.client(), get(&server.https())).await;
    assert_eq!(fault(&answer), Fault::TlsProtocol);

    let mut config = authority.server("localhost", Valid::Now);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let server = tls(config).await;
    assert_eq!(send(&authority.client(), get(&server.https())).await.status, Some(200));
}

/// A fatal alert, as a record.
fn alert(description: u8) -> Vec<u8> {
    vec![21, 3, 3, 0, 2, 2, description]
}

#[tokio::test]
async fn an_answer_to_the_hello_is_called_what_it_is() {
    let rows = [
        (alert(40), Fault::TlsAlert, "handshake_failure"),
        (alert(48), Fault::TlsAlert, "unknown_ca"),
        (alert(49), Fault::TlsAlert, "access_denied"),
        (alert(70), Fault::TlsProtocol, "protocol_version"),
        (alert(80), Fault::TlsHandshakeReset, "internal_error"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(), Fault::TlsProtocol, "a plain port"),
        (Vec::new(), Fault::TlsHandshakeReset, "the end"),
    ];
    for (bytes, expected, what) in rows {
        let server = answering_hello(bytes).await;
        let answer = send(&egress(), get(&server.https())).await;
        assert_eq!(fault(&answer), expected, "{what}");
        assert_eq!(server.connections(), 1);
    }
}

#[tokio::test]
async fn a_handshake_that_stalls_is_tls_handshake_timeout() {
    let server = Server::start(async |mut peer: Peer| peer.until_closed().await).await;
    let request = get(&server.https());
    let impatient = Outgoing { connect_timeout: SHORT, ..request.clone() };
    assert_eq!(fault(&send(&egress(), impatient).await), Fault::TlsHandshakeTimeout);
    let hasty = Outgoing { attempt_timeout: SHORT, ..request };
    assert_eq!(fault(&send(&egress(), hasty).await), Fault::TlsHandshakeTimeout);
    server.until_ended(2).await;
}

#[tokio::test]
async fn a_handshake_that_is_reset_is_tls_handshake_reset() {
    let server = Server::start(async |mut peer: Peer| {
        peer.read_hello().await;
        peer.reset();
    })
    .await;
    let answer = send(&egress(), get(&server.https())).await;
    assert_eq!(fault(&answer), Fault::TlsHandshakeReset);
}
