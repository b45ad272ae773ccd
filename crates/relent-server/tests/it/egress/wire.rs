//! What a target gets to read. REQ-P4.

use ::http::{HeaderMap, HeaderName, HeaderValue, Method};
use relent_policy::Outcome;
use relent_server::egress::Outgoing;

use super::servers::{OK, answering};
use super::{egress, get, post, send};

/// The request as the target read it.
async fn on_the_wire(outgoing: impl FnOnce(String) -> Outgoing) -> (String, String) {
    let server = answering(OK).await;
    let answer = send(&egress(), outgoing(server.http())).await;
    assert_eq!(answer.outcome, Outcome::Success);
    let mut requests = server.requests();
    assert_eq!(requests.len(), 1);
    (requests.remove(0), server.address.to_string())
}

#[tokio::test]
async fn a_get_is_short() {
    let (request, host) = on_the_wire(|url| get(&format!("{url}a%2Fb?c=d&e#f"))).await;
    let agent = concat!("relent/", env!("CARGO_PKG_VERSION"));
    let expected =
        format!("GET /a%2Fb?c=d&e HTTP/1.1\r\nhost: {host}\r\nuser-agent: {agent}\r\n\r\n");
    assert_eq!(request, expected);
}

#[tokio::test]
async fn a_body_has_its_length() {
    let (request, _) = on_the_wire(|url| post(&url, "payload")).await;
    assert!(request.starts_with("POST / HTTP/1.1\r\n"), "{request}");
    assert!(request.contains("\r\ncontent-length: 7\r\n"), "{request}");
    assert!(request.ends_with("\r\n\r\npayload"), "{request}");
}

#[tokio::test]
async fn a_body_is_sent_with_every_method_that_has_one_and_none_is_said_to_be_none() {
    for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::GET] {
        let with = |url: String| Outgoing { method: method.clone(), ..post(&url, "payload") };
        let (request, _) = on_the_wire(with).await;
        assert_eq!(request.matches("content-length: 7\r\n").count(), 1, "{request}");
    }
    for method in [Method::POST, Method::PUT, Method::PATCH] {
        let without = |url: String| Outgoing { method: method.clone(), ..get(&url) };
        let (request, _) = on_the_wire(without).await;
        assert_eq!(request.matches("content-length: 0\r\n").count(), 1, "{request}");
    }
}

#[tokio::test]
async fn framing_headers_of_others_do_not_get_out() {
    let smuggled = [
        ("host", "elsewhere"),
        ("content-length", "1"),
        ("transfer-encoding", "chunked"),
        ("connection", "idempotency-key"),
        ("keep-alive", "timeout=1"),
        ("te", "trailers"),
        ("trailer", "x"),
        ("upgrade", "websocket"),
        ("expect", "100-continue"),
        ("proxy-connection", "close"),
        ("proxy-authorization", "secret"),
    ];
    let headers: HeaderMap = smuggled
        .iter()
        .chain(&[("idempotency-key", "k"), ("user-agent", "mine")])
        .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
        .collect();
    let outgoing = |url: String| Outgoing { headers, ..post(&url, "payload") };
    let (request, host) = on_the_wire(outgoing).await;
    let mut lines: Vec<&str> = request.split("\r\n").collect();
    lines.sort_unstable();
    let host = format!("host: {host}");
    let expected = [
        "",
        "POST / HTTP/1.1",
        "content-length: 7",
        &host,
        "idempotency-key: k",
        "payload",
        "user-agent: mine",
    ];
    assert_eq!(lines, expected);
}

#[tokio::test]
async fn a_large_body_arrives_whole() {
    let body = "0123456789".repeat(100_000);
    let (request, _) = on_the_wire(|url| post(&url, body.clone())).await;
    assert!(request.ends_with(&body));
}
