//! The same for the client of hyper-util.

use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Client, Error};
use hyper_util::rt::{TokioExecutor, TokioIo};
use relent::{Fault, GiveUpReason};
use std::time::Duration;

use super::servers::{FullQueue, answering, closed_port, reset, say_last, stall};
use super::{Seen, always, observe, once, twice};

async fn hang_up(mut stream: tokio::net::TcpStream) {
    say_last(&mut stream, b"").await;
}

async fn get(url: &str) -> Seen {
    let mut connector = HttpConnector::new();
    connector.set_connect_timeout(Some(Duration::from_millis(100)));
    let client: Client<_, Empty<Bytes>> =
        Client::builder(TokioExecutor::new()).retry_canceled_requests(false).build(connector);
    observe(async || Ok::<_, Error>(client.get(url.parse().unwrap()).await?.status())).await
}

#[tokio::test]
async fn hyper_util_tells_how_connecting_failed() {
    let url = format!("http://{}/", closed_port().await);
    assert_eq!(get(&url).await, always(Fault::ConnectRefused));
    let url = format!("http://{}.invalid/", "n".repeat(64));
    assert_eq!(get(&url).await, twice(Fault::Dns, GiveUpReason::ClassLimit));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn hyper_util_tells_a_connect_timeout() {
    let peer = FullQueue::start().await;
    assert_eq!(get(&format!("http://{}/", peer.address)).await, always(Fault::ConnectTimeout));
}

#[tokio::test]
async fn hyper_util_tells_how_the_answer_failed() {
    let server = answering(Vec::new(), reset).await;
    assert_eq!(get(&server.http()).await, always(Fault::Reset));
    assert_eq!(server.connections(), 4);

    let server = answering(Vec::new(), hang_up).await;
    assert_eq!(get(&server.http()).await, always(Fault::ClosedEarly));
    assert_eq!(server.connections(), 4);

    let server = answering(b"SSH-2.0-OpenSSH_9.9\r\n\r\n".to_vec(), hang_up).await;
    assert_eq!(get(&server.http()).await, once(Fault::HttpParse));
    assert_eq!(server.connections(), 1);
}

/// GET over a connection of one's own, and the whole body.
async fn get_without_pool(address: std::net::SocketAddr) -> Result<Bytes, hyper::Error> {
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let serving = tokio::spawn(connection);
    let response = sender.send_request(hyper::Request::new(Empty::<Bytes>::new())).await?;
    let body = response.into_body().collect().await?.to_bytes();
    serving.abort();
    Ok(body)
}

#[tokio::test]
async fn hyper_tells_how_the_answer_failed() {
    let half = b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf.".to_vec();
    let rows = [
        (answering(Vec::new(), reset).await, always(Fault::Reset)),
        (answering(Vec::new(), hang_up).await, always(Fault::ClosedEarly)),
        (answering(half.clone(), hang_up).await, always(Fault::ClosedEarly)),
        (answering(half, reset).await, always(Fault::Reset)),
        (answering(b"not HTTP\r\n\r\n".to_vec(), stall).await, once(Fault::HttpParse)),
    ];
    for (server, expected) in rows {
        let seen = observe(async || get_without_pool(server.address).await).await;
        assert_eq!(seen, expected);
        assert_eq!(server.connections() as usize, expected.attempts.len());
    }
}
