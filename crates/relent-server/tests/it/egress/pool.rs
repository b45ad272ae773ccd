//! Connections that are used again, and requests that are not sent twice. REQ-S5, REQ-P4.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use relent_policy::{Fault, Outcome};
use relent_server::egress::EgressRules;
use tokio::io::AsyncReadExt as _;
use tokio::sync::Barrier;

use super::servers::{OK, Peer, Server, answering, answering_then, closed_port};
use super::{SHORT, egress, egress_with, fault, get, post, send, within};

#[tokio::test]
async fn a_connection_is_used_again() {
    let server = answering(OK).await;
    let egress = egress();
    for reused in [false, true, true] {
        let answer = send(&egress.clone(), post(&server.http(), "payload")).await;
        assert_eq!(answer.outcome, Outcome::Success);
        assert_eq!(answer.phases.reused, reused);
        assert_eq!(answer.phases.connect.is_none(), reused);
    }
    assert_eq!((server.connections(), server.requests().len()), (1, 3));
}

#[tokio::test]
async fn a_connection_that_the_server_has_closed_costs_no_attempt() {
    let server = answering_then(OK, async |_| tokio::time::sleep(KEEP_ALIVE).await).await;
    assert_each_on_its_own_connection(server).await;
}

#[tokio::test]
async fn a_connection_that_the_server_has_reset_costs_no_attempt() {
    let server = answering_then(OK, async |peer: Peer| {
        tokio::time::sleep(KEEP_ALIVE).await;
        peer.reset();
    })
    .await;
    assert_each_on_its_own_connection(server).await;
}

/// How long a server waits for another request.
const KEEP_ALIVE: Duration = Duration::from_millis(50);

/// Asserts that the target sees each request once, although each finds an ended connection. The
/// requests come from a task that runs right after the server's, before the reactor has its turn.
async fn assert_each_on_its_own_connection(server: Server) {
    let egress = egress();
    let attempts = tokio::spawn(async move {
        for attempt in 1..=10 {
            let answer = send(&egress, post(&server.http(), "payload")).await;
            assert_eq!(answer.outcome, Outcome::Success, "{answer:?}");
            server.until_ended(attempt).await;
            let seen = (server.connections(), server.requests().len());
            assert_eq!(seen, (attempt, attempt as usize));
        }
    });
    attempts.await.unwrap();
}

#[tokio::test]
async fn a_connection_that_closes_with_its_answer_costs_no_attempt() {
    let server = answering_then(OK, async |_| ()).await;
    assert_each_on_its_own_connection(server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_was_reset_is_not_sent_again() {
    let server = answering_then(OK, async |mut peer: Peer| {
        peer.read_request().await;
        peer.reset();
    })
    .await;
    let egress = egress();
    for attempt in 1..=20 {
        let first = send(&egress, post(&server.http(), "payload")).await;
        assert_eq!(first.outcome, Outcome::Success);
        let second = send(&egress, post(&server.http(), "payload")).await;
        assert_eq!(fault(&second), Fault::Reset);
        assert!(second.phases.reused);
        assert_eq!(
            (server.connections(), server.requests().len()),
            (attempt, 2 * attempt as usize)
        );
    }
}

#[tokio::test]
async fn a_request_that_was_read_is_not_sent_again() {
    let server = answering_then(OK, async |mut peer: Peer| {
        peer.read_request().await;
        peer.say_last(b"").await;
    })
    .await;
    let egress = egress();
    assert_eq!(send(&egress, post(&server.http(), "first")).await.outcome, Outcome::Success);
    let second = send(&egress, post(&server.http(), "second")).await;
    assert_eq!(fault(&second), Fault::ClosedEarly);
    assert!(second.phases.reused);
    assert_eq!((server.connections(), server.requests().len()), (1, 2));
}

#[tokio::test]
async fn a_connection_that_does_not_get_rid_of_its_body_is_given_up() {
    let server = Server::start(async |mut peer: Peer| {
        let mut some = [0; 16];
        peer.stream.read_exact(&mut some).await.unwrap();
        peer.write(OK).await.unwrap();
        std::future::pending::<()>().await;
    })
    .await;
    let egress = egress();
    let body = "x".repeat(16 << 20);
    for attempt in 1..=2 {
        let answer = send(&egress, post(&server.http(), body.clone())).await;
        assert_eq!(answer.outcome, Outcome::Success, "{answer:?}");
        assert_eq!(server.connections(), attempt);
    }
}

#[tokio::test]
async fn an_answer_that_nobody_asked_for_is_nobodys_answer() {
    let planted = b"HTTP/1.1 500 Planted\r\ncontent-length: 0\r\n\r\n";
    let server = answering([OK, planted].concat()).await;
    let egress = egress();
    for attempt in 1..=10 {
        let answer = send(&egress, get(&server.http())).await;
        assert_eq!(answer.outcome, Outcome::Success);
        assert_eq!((server.connections(), server.requests().len()), (attempt, attempt as usize));
    }
}

#[tokio::test]
async fn a_server_that_says_close_is_believed() {
    let close = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
    for answer in [close, "HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n"] {
        let server = answering(answer).await;
        let egress = egress();
        for attempt in 1..=3 {
            assert_eq!(send(&egress, get(&server.http())).await.outcome, Outcome::Success);
            assert_eq!(server.connections(), attempt);
        }
    }
}

#[tokio::test]
async fn a_connection_does_not_get_old() {
    let server = answering(OK).await;
    let connection_age_max = Duration::ZERO;
    let egress = egress_with(EgressRules { connection_age_max, ..EgressRules::default() });
    for attempt in 1..=2 {
        assert!(!send(&egress, get(&server.http())).await.phases.reused);
        server.until_ended(attempt).await;
    }
}

#[tokio::test]
async fn an_idle_connection_is_closed_without_further_traffic() {
    let server = answering(OK).await;
    let egress = egress_with(EgressRules { idle_for: SHORT, ..EgressRules::default() });
    assert_eq!(send(&egress, get(&server.http())).await.outcome, Outcome::Success);
    server.until_ended(1).await;
    assert!(!send(&egress, get(&server.http())).await.phases.reused);
}

#[tokio::test]
async fn all_connections_end_with_the_client() {
    let server = answering(OK).await;
    let egress = egress();
    assert_eq!(send(&egress, get(&server.http())).await.outcome, Outcome::Success);
    drop(egress);
    server.until_ended(1).await;
}

/// A server that answers when this many requests are there.
async fn answering_together(requests: usize) -> Server {
    let together = Arc::new(Barrier::new(requests));
    Server::start(move |mut peer| {
        let together = Arc::clone(&together);
        async move {
            while peer.read_request().await.is_some() {
                together.wait().await;
                peer.write(OK).await.unwrap();
            }
        }
    })
    .await
}

#[tokio::test]
async fn only_so_many_idle_connections_are_kept() {
    let server = answering_together(2).await;
    let egress = egress_with(EgressRules { idle_per_target_max: 1, ..EgressRules::default() });
    for connections in [2, 3, 4] {
        let url = server.http();
        let both = async { tokio::join!(egress.send(get(&url)), egress.send(get(&url))) };
        let (one, other) = within(both).await;
        assert_eq!((one.outcome, other.outcome), (Outcome::Success, Outcome::Success));
        assert_eq!(server.connections(), connections);
        server.until_ended(connections - 1).await;
    }
}

#[tokio::test]
async fn connections_are_kept_for_only_so_many_targets() {
    let (kept, left) = (answering(OK).await, answering(OK).await);
    let egress = egress_with(EgressRules { targets_max: 1, ..EgressRules::default() });
    for _ in 0..3 {
        for server in [&kept, &left] {
            assert_eq!(send(&egress, get(&server.http())).await.outcome, Outcome::Success);
        }
    }
    assert_eq!((kept.connections(), left.connections()), (1, 3));
}

#[tokio::test]
async fn an_attempt_that_is_dropped_closes_its_connection() {
    let server = answering_then("", async |mut peer: Peer| peer.until_closed().await).await;
    let egress = egress();
    let request = get(&server.http());
    let attempt = tokio::spawn(async move { egress.send(request).await });
    let arrived = async {
        while server.requests().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    within(arrived).await;
    attempt.abort();
    server.until_ended(1).await;
}

#[tokio::test]
async fn proxies_of_the_environment_are_not_asked() {
    let proxy = format!("http://{}/", closed_port().await);
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "egress::pool::a_connection_is_used_again"]);
    for name in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY"] {
        child.env(name, &proxy);
    }
    child.env_remove("NO_PROXY").env_remove("no_proxy");
    let output = within(tokio::task::spawn_blocking(move || child.output())).await;
    let output = output.unwrap().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}
