//! The door: accepts connections and serves HTTP/1.1 on them.
//!
//! A loop of our own, because `axum::serve` sets no timer: a client that connects and says nothing
//! would hold its connection for ever. Here a request's head must come within a time, a connection
//! counts against a limit, and when the service stops, connections finish the request they are at.
//! HTTP/1 only: a builder that sniffs for HTTP/2 waits without a limit for its first bytes.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::upkeep::{Stopping, stopped};

/// For the head of a request, and between requests.
const HEAD_WITHIN: Duration = Duration::from_secs(30);
/// Head and small bodies; larger bodies are read in pieces.
const BUFFER_MAX: usize = 64 * 1024;
/// After an error of `accept`, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves until the service stops and every connection has finished what it was at.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    connections_max: usize,
    mut stopping: Stopping,
) {
    let places = Arc::new(Semaphore::new(connections_max));
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            () = stopped(&mut stopping) => break,
            place = Arc::clone(&places).acquire_owned() => match place {
                Ok(place) => tokio::select! {
                    () = stopped(&mut stopping) => break,
                    accepted = listener.accept() => accepted.map(|(stream, _)| (stream, place)),
                },
                Err(_) => break,
            },
        };
        match accepted {
            Ok((stream, place)) => {
                let (router, stopping) = (router.clone(), stopping.clone());
                connections.spawn(async move {
                    connection(stream, router, stopping).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "could not accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
        while connections.try_join_next().is_some() {}
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

async fn connection(stream: TcpStream, router: Router, mut stopping: Stopping) {
    // Answers are small; a failure to say so costs latency and nothing else.
    let _ = stream.set_nodelay(true);
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WITHIN)
        .max_buf_size(BUFFER_MAX)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut served = std::pin::pin!(served);
    let ended = tokio::select! {
        ended = served.as_mut() => ended,
        () = stopped(&mut stopping) => {
            served.as_mut().graceful_shutdown();
            served.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}
