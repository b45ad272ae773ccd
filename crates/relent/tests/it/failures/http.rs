//! After the request was written: answers that do not come, break off or cannot be read.

use std::time::Duration;

use relent::{FailureKind, Fault, GiveUpReason};

use super::servers::{Server, answering, read_request, reset, say_last, stall};
use super::{Seen, always, assert_get, client, get, observe, once, once_of};

const HALF: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf.";
const HALF_CHUNKED: &[u8] = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\na\r\nhalf.";

async fn hang_up(mut stream: tokio::net::TcpStream) {
    say_last(&mut stream, b"").await;
}

#[tokio::test]
async fn a_reset_after_the_request_is_reset() {
    let server = answering(Vec::new(), reset).await;
    assert_get(client(), &server.http(), &server, always(Fault::Reset)).await;
}

#[tokio::test]
async fn an_end_without_an_answer_is_closed_early() {
    let server = answering(Vec::new(), hang_up).await;
    assert_get(client(), &server.http(), &server, always(Fault::ClosedEarly)).await;
}

#[tokio::test]
async fn an_end_in_the_middle_of_the_head_is_closed_early() {
    let server = answering(b"HTTP/1.1 200 O".to_vec(), hang_up).await;
    assert_get(client(), &server.http(), &server, always(Fault::ClosedEarly)).await;
}

#[tokio::test]
async fn a_head_that_does_not_come_is_response_timeout() {
    let server = answering(Vec::new(), stall).await;
    let client = client().timeout(Duration::from_millis(100));
    assert_get(client, &server.http(), &server, always(Fault::ResponseTimeout)).await;
}

#[tokio::test]
async fn a_read_that_takes_too_long_is_response_timeout() {
    let server = answering(Vec::new(), stall).await;
    let client = client().read_timeout(Duration::from_millis(100));
    assert_get(client, &server.http(), &server, always(Fault::ResponseTimeout)).await;
}

#[tokio::test]
async fn with_a_total_timeout_only_a_hanging_connect_looks_like_a_slow_answer() {
    let server = Server::start(stall).await;
    let client = super::client_of(server.address).timeout(Duration::from_millis(100));
    assert_get(client, &server.https(), &server, always(Fault::ResponseTimeout)).await;
}

#[tokio::test]
async fn a_body_that_stalls_is_response_timeout() {
    let server = answering(HALF.to_vec(), stall).await;
    let client = client().timeout(Duration::from_millis(100));
    assert_get(client, &server.http(), &server, always(Fault::ResponseTimeout)).await;
}

#[tokio::test]
async fn a_body_that_ends_early_is_closed_early() {
    for half in [HALF, HALF_CHUNKED] {
        let server = answering(half.to_vec(), hang_up).await;
        assert_get(client(), &server.http(), &server, always(Fault::ClosedEarly)).await;
    }
}

#[tokio::test]
async fn a_body_that_is_reset_is_reset() {
    let server = answering(HALF.to_vec(), reset).await;
    assert_get(client(), &server.http(), &server, always(Fault::Reset)).await;
}

#[tokio::test]
async fn a_body_that_nobody_reads_does_not_fail_the_call() {
    let server = answering(HALF.to_vec(), hang_up).await;
    let client = client().build().unwrap();
    let seen = observe(async || client.get(server.http()).send().await).await;
    assert_eq!(seen, Seen { attempts: vec![], because: None });
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn an_answer_that_is_not_http_is_http_parse() {
    let server = answering(b"SSH-2.0-OpenSSH_9.9\r\n\r\n".to_vec(), hang_up).await;
    assert_get(client(), &server.http(), &server, once(Fault::HttpParse)).await;
}

#[tokio::test]
async fn a_head_that_is_too_large_is_http_parse() {
    let many = "x-padding: x\r\n".repeat(200);
    let server = answering(format!("HTTP/1.1 200 OK\r\n{many}\r\n").into_bytes(), hang_up).await;
    assert_get(client(), &server.http(), &server, once(Fault::HttpParse)).await;
}

#[tokio::test]
async fn chunks_that_cannot_be_read_are_http_parse() {
    let answer = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nno number\r\n".to_vec();
    let server = answering(answer, hang_up).await;
    assert_get(client(), &server.http(), &server, once(Fault::HttpParse)).await;
}

fn status(status: u16) -> Vec<u8> {
    let head = "location: /elsewhere\r\nconnection: close\r\ncontent-length: 0\r\n";
    format!("HTTP/1.1 {status} Some Reason\r\n{head}\r\n").into_bytes()
}

#[tokio::test]
async fn a_redirect_that_is_not_followed_is_its_status() {
    let server = answering(status(302), hang_up).await;
    let client = client().build().unwrap();
    let seen = observe(async || client.get(server.http()).send().await).await;
    assert_eq!(seen, Seen { because: None, ..once_of(FailureKind::Http(302)) });
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn a_redirect_without_end_is_configuration() {
    let server = answering(status(302), hang_up).await;
    let client = client().redirect(reqwest::redirect::Policy::limited(2)).build().unwrap();
    assert_eq!(get(&client, &server.http()).await, once(Fault::Configuration));
    assert_eq!(server.connections(), 3, "the first and two followed");
}

#[tokio::test]
async fn error_for_status_is_its_status() {
    for (code, expected) in [
        (404, once_of(FailureKind::Http(404))),
        (
            503,
            Seen {
                attempts: vec![FailureKind::Http(503); 4],
                because: Some(GiveUpReason::AttemptsExhausted),
            },
        ),
    ] {
        let server = answering(status(code), hang_up).await;
        let client = client().build().unwrap();
        let seen =
            observe(async || client.get(server.http()).send().await?.error_for_status()).await;
        assert_eq!(seen, expected);
        assert_eq!(server.connections() as usize, expected.attempts.len());
    }
}

#[tokio::test]
async fn a_scheme_that_is_not_ours_is_configuration() {
    let client = client().build().unwrap();
    assert_eq!(get(&client, "gopher://localhost/").await, once(Fault::Configuration));
    assert_eq!(get(&client, "no scheme").await, once(Fault::Configuration));
}

#[tokio::test]
async fn a_request_body_that_is_never_read_is_reset_or_closed() {
    let server = Server::start(async |mut stream| {
        read_request(&mut stream).await;
        reset(stream).await;
    })
    .await;
    let client = client().build().unwrap();
    let body = "x".repeat(1 << 20);
    let seen = observe(async || client.put(server.http()).body(body.clone()).send().await).await;
    let broken =
        |kind: &FailureKind| matches!(kind, FailureKind::Fault(Fault::Reset | Fault::ClosedEarly));
    assert!(seen.attempts.len() == 4 && seen.attempts.iter().all(broken), "{seen:?}");
}
