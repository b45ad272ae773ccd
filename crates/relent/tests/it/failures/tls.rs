//! TLS: what may pass is tried again, and a certificate never is. REQ-P3.

use std::time::Duration;

use relent::{Classify, Fault};
use reqwest::{Certificate, ClientBuilder};
use rustls::version::{TLS12, TLS13};

use super::certificates::{Authority, Valid};
use super::servers::{Server, answering_hello, read_hello, reset, stall, tls};
use super::{always, assert_get, client_of, once};

/// A client that trusts this authority and finds this server.
fn trusting(authority: &Authority, server: &Server) -> ClientBuilder {
    let root = Certificate::from_der(&authority.certificate).unwrap();
    client_of(server.address).tls_certs_only([root])
}

/// Asserts that one look at the certificate is enough.
async fn assert_refused_once(client: ClientBuilder, server: &Server) {
    assert_get(client, &server.https(), server, once(Fault::TlsCertificate)).await;
}

#[tokio::test]
async fn a_good_certificate_is_good() {
    super::install_ring();
    let authority = Authority::new("ours");
    let server = tls(authority.server("localhost", Valid::Now)).await;
    let client = trusting(&authority, &server).build().unwrap();
    let response = client.get(server.https()).send().await.unwrap();
    assert_eq!(response.status(), 200);
}

#[tokio::test]
async fn an_unknown_issuer_is_never_tried_again() {
    super::install_ring();
    let server = tls(Authority::new("theirs").server("localhost", Valid::Now)).await;
    assert_refused_once(trusting(&Authority::new("ours"), &server), &server).await;
}

#[tokio::test]
async fn an_expired_certificate_is_never_tried_again() {
    super::install_ring();
    let authority = Authority::new("ours");
    let server = tls(authority.server("localhost", Valid::Past)).await;
    assert_refused_once(trusting(&authority, &server), &server).await;
}

#[tokio::test]
async fn a_certificate_that_is_not_yet_valid_is_never_tried_again() {
    super::install_ring();
    let authority = Authority::new("ours");
    let server = tls(authority.server("localhost", Valid::Future)).await;
    assert_refused_once(trusting(&authority, &server), &server).await;
}

#[tokio::test]
async fn a_certificate_for_another_name_is_never_tried_again() {
    super::install_ring();
    let authority = Authority::new("ours");
    let server = tls(authority.server("elsewhere.test", Valid::Now)).await;
    assert_refused_once(trusting(&authority, &server), &server).await;
}

#[tokio::test]
async fn a_certificate_error_hides_from_the_sources_and_calls_itself_a_connect_error() {
    super::install_ring();
    let server = tls(Authority::new("theirs").server("localhost", Valid::Now)).await;
    let client = trusting(&Authority::new("ours"), &server).build().unwrap();
    let error = client.get(server.https()).send().await.unwrap_err();
    assert!(error.is_connect());
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        assert!(!cause.is::<rustls::Error>(), "the walk is not needed any more");
        source = cause.source();
    }
    assert_eq!(error.failure(relent::Timestamp::ZERO).kind.to_string(), "tls_certificate");
}

#[tokio::test]
async fn a_required_client_certificate_is_tls_alert_in_tls_1_2() {
    super::install_ring();
    let authority = Authority::new("ours");
    let server = tls(authority.server_for_known_clients(&TLS12)).await;
    let client = trusting(&authority, &server);
    assert_get(client, &server.https(), &server, once(Fault::TlsAlert)).await;
}

#[tokio::test]
async fn a_required_client_certificate_is_tls_alert_in_tls_1_3_after_connecting() {
    super::install_ring();
    let authority = Authority::new("ours");
    let server = tls(authority.server_for_known_clients(&TLS13)).await;
    let client = trusting(&authority, &server).build().unwrap();
    let error = client.get(server.https()).send().await.unwrap_err();
    assert!(!error.is_connect(), "the client believed to be connected: {error:?}");

    let server = tls(authority.server_for_known_clients(&TLS13)).await;
    let client = trusting(&authority, &server);
    assert_get(client, &server.https(), &server, once(Fault::TlsAlert)).await;
}

/// A fatal alert, as a record.
fn alert(description: u8) -> Vec<u8> {
    vec![21, 3, 3, 0, 2, 2, description]
}

#[tokio::test]
async fn an_alert_that_refuses_us_is_tls_alert() {
    let [handshake_failure, unknown_ca, access_denied] = [40, 48, 49];
    for description in [handshake_failure, unknown_ca, access_denied] {
        let server = answering_hello(alert(description)).await;
        let client = client_of(server.address);
        assert_get(client, &server.https(), &server, once(Fault::TlsAlert)).await;
    }
}

#[tokio::test]
async fn an_alert_about_the_version_is_tls_protocol() {
    let server = answering_hello(alert(70)).await;
    let client = client_of(server.address);
    assert_get(client, &server.https(), &server, once(Fault::TlsProtocol)).await;
}

#[tokio::test]
async fn an_internal_error_of_the_peer_may_pass() {
    let server = answering_hello(alert(80)).await;
    let client = client_of(server.address);
    assert_get(client, &server.https(), &server, always(Fault::TlsHandshakeReset)).await;
}

#[tokio::test]
async fn https_to_a_plain_port_is_tls_protocol() {
    let server = answering_hello(b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()).await;
    let client = client_of(server.address);
    assert_get(client, &server.https(), &server, once(Fault::TlsProtocol)).await;
}

#[tokio::test]
async fn a_handshake_that_stalls_is_tls_handshake_timeout() {
    let server = Server::start(stall).await;
    let client = client_of(server.address).connect_timeout(Duration::from_millis(100));
    assert_get(client, &server.https(), &server, always(Fault::TlsHandshakeTimeout)).await;
}

#[tokio::test]
async fn a_handshake_that_is_reset_is_tls_handshake_reset() {
    let server = Server::start(async |mut stream| {
        read_hello(&mut stream).await;
        reset(stream).await;
    })
    .await;
    let client = client_of(server.address);
    assert_get(client, &server.https(), &server, always(Fault::TlsHandshakeReset)).await;
}

#[tokio::test]
async fn a_handshake_that_ends_early_is_tls_handshake_reset() {
    let server = answering_hello(Vec::new()).await;
    let client = client_of(server.address);
    assert_get(client, &server.https(), &server, always(Fault::TlsHandshakeReset)).await;
}
