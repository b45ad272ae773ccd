//! Bodies of answers: read as far as it goes, and never the judge of an attempt. REQ-L4, REQ-P4.

use std::time::Duration;

use relent_policy::Outcome;
use relent_server::egress::{EgressRules, Outgoing};

use super::servers::{Peer, Server, answering, answering_then};
use super::{SHORT, egress, egress_with, get, send};

async fn hang_up(mut peer: Peer) {
    peer.say_last(b"").await;
}

async fn stall(mut peer: Peer) {
    peer.until_closed().await;
}

/// Half of what it announces.
fn half(status: u16) -> String {
    format!("HTTP/1.1 {status} X\r\ncontent-length: 10\r\n\r\nhalf.")
}

/// Asserts that the status decides, and that the connection is not used again.
async fn assert_status_decides(server: &Server, status: u16, preview: &str) {
    let egress = egress();
    for attempt in 1..=2 {
        let outgoing = Outgoing { attempt_timeout: SHORT * 2, ..get(&server.http()) };
        let answer = send(&egress, outgoing).await;
        assert_eq!((answer.outcome, answer.status), (Outcome::http(status), Some(status)));
        assert_eq!(answer.preview.as_deref(), Some(preview.as_bytes()));
        assert_eq!(server.connections(), attempt);
    }
    server.until_ended(2).await;
}

#[tokio::test]
async fn a_body_that_stalls_does_not_change_the_outcome() {
    for status in [200, 503] {
        assert_status_decides(&answering_then(half(status), stall).await, status, "half.").await;
    }
}

#[tokio::test]
async fn a_body_that_breaks_off_does_not_change_the_outcome() {
    for status in [200, 503] {
        assert_status_decides(&answering_then(half(status), hang_up).await, status, "half.").await;
    }
}

#[tokio::test]
async fn a_body_without_a_length_ends_with_its_connection() {
    let server = answering_then("HTTP/1.1 200 OK\r\n\r\nall of it", hang_up).await;
    assert_status_decides(&server, 200, "all of it").await;
}

#[tokio::test]
async fn chunks_that_cannot_be_read_do_not_change_the_outcome() {
    let chunks = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\nno number\r\n";
    assert_status_decides(&answering_then(chunks, hang_up).await, 200, "ok").await;
}

#[tokio::test]
async fn a_body_without_end_is_left_at_the_limit() {
    let server = Server::start(async |mut peer: Peer| {
        peer.read_request().await.unwrap();
        let head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        peer.write(head).await.unwrap();
        let chunk = [&b"400\r\n"[..], &[b'x'; 0x400], b"\r\n"].concat();
        while peer.write(&chunk).await.is_some() {}
    })
    .await;
    let answer = send(&egress(), Outgoing { preview_max: 100, ..get(&server.http()) }).await;
    assert_eq!(answer.outcome, Outcome::Success);
    assert_eq!(answer.preview.unwrap(), [b'x'; 100][..]);
    assert!(answer.phases.total < Duration::from_secs(5), "it did not wait for the end");
    server.until_ended(1).await;
}

#[tokio::test]
async fn a_body_beyond_the_limit_costs_the_connection_and_one_within_does_not() {
    let rules = EgressRules { response_read_max: 1_000, ..EgressRules::default() };
    for (length, connections) in [(1_000, 1), (1_001, 2), (1_000_000, 2)] {
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n");
        let server = answering(head + &"x".repeat(length)).await;
        let egress = egress_with(rules.clone());
        for _ in 0..2 {
            let outgoing = Outgoing { preview_max: usize::MAX, ..get(&server.http()) };
            let answer = send(&egress, outgoing).await;
            assert_eq!(answer.outcome, Outcome::Success);
            assert_eq!(answer.preview.unwrap(), [b'x'; 1_000][..], "no more than is read");
        }
        assert_eq!(server.connections(), connections, "{length}");
    }
}

#[tokio::test]
async fn what_is_not_wanted_of_a_body_is_not_kept() {
    let server = answering(super::servers::OK).await;
    let egress = egress();
    for (preview_max, preview) in [(0, None), (1, Some(&b"o"[..])), (9, Some(&b"ok"[..]))] {
        let answer = send(&egress, Outgoing { preview_max, ..get(&server.http()) }).await;
        assert_eq!(answer.preview.as_deref(), preview);
    }
    assert_eq!(server.connections(), 1, "it was read all the same");
}

#[tokio::test]
async fn an_answer_in_chunks_and_one_without_a_body_keep_the_connection() {
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n";
    for answer in [chunked, "HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.1 304 X\r\n\r\n"] {
        let server = answering(answer).await;
        let egress = egress();
        for reused in [false, true] {
            assert_eq!(send(&egress, get(&server.http())).await.phases.reused, reused);
        }
    }
}

#[tokio::test]
async fn an_answer_to_head_has_no_body() {
    let server = answering("HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n").await;
    let egress = egress();
    for reused in [false, true] {
        let outgoing = Outgoing { method: ::http::Method::HEAD, ..get(&server.http()) };
        let answer = send(&egress, outgoing).await;
        assert_eq!((answer.outcome, answer.preview), (Outcome::Success, None));
        assert_eq!(answer.phases.reused, reused);
    }
}
