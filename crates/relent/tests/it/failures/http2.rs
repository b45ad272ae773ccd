//! HTTP/2: a server that refuses every stream, and what that shows about reqwest's own retries.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use relent::{Fault, GiveUpReason};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::servers::Server;
use super::{client, get, twice};

const PREFACE_BYTES: usize = 24;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const REFUSED_STREAM: u8 = 7;

fn frame(kind: u8, stream: [u8; 4], payload: &[u8]) -> Vec<u8> {
    let length = u8::try_from(payload.len()).unwrap();
    let [a, b, c, d] = stream;
    [&[0, 0, length, kind, 0, a, b, c, d], payload].concat()
}

/// Refuses every stream and counts them.
async fn refuse_streams(mut stream: TcpStream, streams: Arc<AtomicU32>) -> std::io::Result<()> {
    stream.read_exact(&mut [0; PREFACE_BYTES]).await?;
    stream.write_all(&frame(SETTINGS, [0; 4], &[])).await?;
    loop {
        let mut header = [0; 9];
        stream.read_exact(&mut header).await?;
        let [a, b, c, kind, _, id @ ..] = header;
        let length = u32::from_be_bytes([0, a, b, c]) as usize;
        stream.read_exact(&mut vec![0; length]).await?;
        if kind == HEADERS {
            streams.fetch_add(1, Ordering::Relaxed);
            let reason = [0, 0, 0, REFUSED_STREAM];
            stream.write_all(&frame(RST_STREAM, id, &reason)).await?;
        }
    }
}

async fn refusing() -> (Server, Arc<AtomicU32>) {
    let streams = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&streams);
    let server = Server::start(move |stream| {
        let counter = Arc::clone(&counter);
        async move {
            let _ = refuse_streams(stream, counter).await;
        }
    })
    .await;
    (server, streams)
}

#[tokio::test]
async fn reqwest_retries_by_itself_unless_told_never_to() {
    let (server, streams) = refusing().await;
    super::install_ring();
    let by_default = reqwest::Client::builder().no_proxy().tls_certs_only([]);
    let by_default = by_default.http2_prior_knowledge().build().unwrap();
    by_default.get(server.http()).send().await.unwrap_err();
    assert!(streams.swap(0, Ordering::Relaxed) > 1, "one `send`, more than one request");

    let never = client().http2_prior_knowledge().build().unwrap();
    never.get(server.http()).send().await.unwrap_err();
    assert_eq!(streams.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_refused_stream_is_unknown_and_tried_once_more() {
    let (server, streams) = refusing().await;
    let client = client().http2_prior_knowledge().build().unwrap();
    let seen = get(&client, &server.http()).await;
    assert_eq!(seen, twice(Fault::Unknown, GiveUpReason::Permanent));
    assert_eq!(streams.load(Ordering::Relaxed), 2);
}
