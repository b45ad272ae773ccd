//! After the request was written: answers that do not come, or are no answers. REQ-C3, REQ-A1.

use std::time::Duration;

use relent_policy::{Fault, Hint, IgnoredRetryAfter, Outcome};
use relent_server::egress::{EgressRules, Outgoing, RetryAfterSeen};

use super::servers::{OK, Peer, Server, answering, answering_then};
use super::{SHORT, egress, egress_with, fault, get, post, send};

async fn hang_up(mut peer: Peer) {
    peer.say_last(b"").await;
}

/// Asserts what an answer is called, and that the target saw the request once.
async fn assert_fault(server: &Server, expected: Fault) {
    let answer = send(&egress(), post(&server.http(), "payload")).await;
    assert_eq!(fault(&answer), expected);
    assert_eq!((server.connections(), server.requests().len()), (1, 1));
}

#[tokio::test]
async fn a_reset_after_the_request_is_reset() {
    let server = answering_then("", async |peer: Peer| peer.reset()).await;
    assert_fault(&server, Fault::Reset).await;
}

#[tokio::test]
async fn an_end_without_an_answer_is_closed_early() {
    for beginning in ["", "HTTP/1.1 200 O", "HTTP/1.1 100 Continue\r\n\r\n"] {
        let server = answering_then(beginning, hang_up).await;
        assert_fault(&server, Fault::ClosedEarly).await;
    }
}

#[tokio::test]
async fn what_is_not_http_is_http_parse() {
    let rows = [
        "SSH-2.0-OpenSSH_9.9\r\n\r\n",
        "\0\0\0\0\0\0\0\0",
        "HTTP/1.1 abc OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: minus\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
    ];
    for garbage in rows {
        let server = answering_then(garbage, hang_up).await;
        assert_fault(&server, Fault::HttpParse).await;
    }
}

#[tokio::test]
async fn a_peer_that_speaks_first_is_http_parse() {
    let server = Server::start(async |mut peer: Peer| {
        peer.say_last(b"SSH-2.0-OpenSSH_9.9\r\n").await;
    })
    .await;
    let answer = send(&egress(), get(&server.http())).await;
    assert_eq!(fault(&answer), Fault::HttpParse);
}

#[tokio::test]
async fn a_head_that_is_too_large_is_http_parse() {
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "x-padding: x\r\n".repeat(200));
    let long = format!("HTTP/1.1 200 OK\r\nx-padding: {}\r\n\r\n", "x".repeat(65 * 1_024));
    for head in [many, long] {
        let server = answering_then(head, hang_up).await;
        assert_fault(&server, Fault::HttpParse).await;
    }
}

#[tokio::test]
async fn the_size_of_a_head_is_a_rule() {
    let head = format!("HTTP/1.1 204 OK\r\nx-padding: {}\r\n\r\n", "x".repeat(20_000));
    let server = answering(head).await;
    assert_eq!(send(&egress(), get(&server.http())).await.status, Some(204));
    let small = EgressRules { response_head_max: 10_000, ..EgressRules::default() };
    let answer = send(&egress_with(small), get(&server.http())).await;
    assert_eq!(fault(&answer), Fault::HttpParse);
}

/// Asserts that an answer's head does not come in time, and that the connection is closed then.
async fn assert_times_out(server: Server) {
    let outgoing = Outgoing { attempt_timeout: SHORT, ..get(&server.http()) };
    let answer = send(&egress(), outgoing).await;
    assert_eq!(fault(&answer), Fault::ResponseTimeout);
    assert!(answer.phases.total >= SHORT, "{answer:?}");
    server.until_ended(1).await;
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn a_head_that_does_not_come_is_response_timeout() {
    assert_times_out(answering_then("", async |mut peer: Peer| peer.until_closed().await).await)
        .await;
}

#[tokio::test]
async fn a_head_that_comes_in_drops_is_response_timeout() {
    let drip = async |mut peer: Peer| {
        let mut ticks = tokio::time::interval(Duration::from_millis(5));
        while peer.write(b"x").await.is_some() {
            ticks.tick().await;
        }
    };
    assert_times_out(answering_then("HTTP/1.1 200 OK\r\nx-drop: ", drip).await).await;
}

#[tokio::test]
async fn informational_answers_without_end_are_response_timeout() {
    let flood = async |mut peer: Peer| {
        while peer.write(&b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n".repeat(20)).await.is_some()
        {
        }
    };
    assert_times_out(answering_then("HTTP/1.1 100 Continue\r\n\r\n", flood).await).await;
}

#[tokio::test]
async fn an_informational_answer_is_not_the_answer() {
    let server = answering([&b"HTTP/1.1 103 Early Hints\r\n\r\n"[..], OK].concat()).await;
    assert_eq!(send(&egress(), get(&server.http())).await.status, Some(200));
}

#[tokio::test]
async fn a_status_is_the_outcome_and_a_redirect_is_not_followed() {
    let elsewhere = answering(OK).await;
    for status in [200, 204, 302, 307, 400, 404, 429, 500, 503] {
        let location = elsewhere.http();
        let head = format!("HTTP/1.1 {status} X\r\nlocation: {location}\r\ncontent-length: 0\r\n");
        let server = answering(format!("{head}\r\n")).await;
        let answer = send(&egress(), get(&server.http())).await;
        assert_eq!((answer.outcome, answer.status), (Outcome::http(status), Some(status)));
        assert_eq!(server.requests().len(), 1);
    }
    assert_eq!(elsewhere.connections(), 0);
}

#[tokio::test]
async fn a_status_that_does_not_exist_is_http_parse() {
    let server = answering("HTTP/1.1 999 Go Away\r\ncontent-length: 0\r\n\r\n").await;
    let answer = send(&egress(), get(&server.http())).await;
    assert_eq!((answer.outcome, answer.status), (Fault::HttpParse.into(), Some(999)));
}

#[tokio::test]
async fn a_switch_of_protocols_is_a_status_and_ends_the_connection() {
    let server = answering("HTTP/1.1 101 Switching\r\nupgrade: x\r\n\r\n").await;
    let egress = egress();
    for attempt in 1..=2 {
        let answer = send(&egress, get(&server.http())).await;
        assert_eq!(answer.outcome, Outcome::http(101));
        assert_eq!(server.connections(), attempt);
    }
}

#[tokio::test]
async fn retry_after_is_read_in_both_forms() {
    let far = "Sun, 06 Nov 1994 08:49:47 GMT";
    let date = "date: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
    let rows = [
        ("", "", RetryAfterSeen::None),
        ("retry-after: 7\r\n", "", RetryAfterSeen::Honoured(Duration::from_secs(7))),
        (
            &format!("retry-after: {far}\r\n"),
            date,
            RetryAfterSeen::Honoured(Duration::from_secs(10)),
        ),
        (&format!("retry-after: {far}\r\n"), "", RetryAfterSeen::Ignored(IgnoredRetryAfter::Past)),
        ("retry-after: -5\r\n", "", RetryAfterSeen::Ignored(IgnoredRetryAfter::Malformed)),
        ("retry-after: \u{e9}\r\n", "", RetryAfterSeen::Ignored(IgnoredRetryAfter::Malformed)),
    ];
    for (retry_after, date, seen) in rows {
        let head = format!("HTTP/1.1 503 Later\r\n{retry_after}{date}content-length: 0\r\n\r\n");
        let server = answering(head).await;
        let answer = send(&egress(), get(&server.http())).await;
        assert_eq!(answer.retry_after, seen, "{retry_after}");
        let hint = match seen {
            RetryAfterSeen::Honoured(wait) => Hint::RetryAfter(wait),
            _ => Hint::None,
        };
        let Outcome::Failure(failure) = answer.outcome else { panic!("503 is no success") };
        assert_eq!(failure.hint, hint, "{retry_after}");
    }
}
