//! Those who hold connections without using them.

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{interval, timeout};

use crate::rig::{Relent, Target, alone, percentile, quick_policy, task};

const IDLE: usize = 2_000;
/// The door waits 30 s for a head; a busy machine may be later.
const CLOSED_WITHIN: Duration = Duration::from_secs(50);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_and_slow_connections_keep_nobody_out_and_are_closed() {
    let alone = alone().await;
    let (relent, target) = (Relent::start().await, Target::start().await);
    let client = relent.client();
    client.register(&quick_policy("quick", 4)).await;
    let before = relent.resident_bytes();
    let mut idle = Vec::with_capacity(IDLE);
    for _ in 0..IDLE {
        idle.push(TcpStream::connect(relent.address).await.unwrap());
    }
    let mut drips = tokio::task::JoinSet::new();
    for _ in 0..20 {
        drips.spawn(drip(TcpStream::connect(relent.address).await.unwrap()));
    }
    let mut took = Vec::new();
    for number in 0..100 {
        let asked = Instant::now();
        let client = relent.client();
        let id = client
            .create(&task(&target.url("/honest"), &format!("honest-{number}"), "quick"))
            .await;
        took.push(asked.elapsed().as_secs_f64() * 1_000.0);
        client.until_status(&id, "SUCCEEDED").await;
    }
    let worst = percentile(&mut took, 0.99);
    let grown = relent.resident_bytes().saturating_sub(before) >> 20;
    println!(
        "beside {IDLE} idle connections: answered within {worst:.1} ms (p99), {grown} MiB more"
    );
    assert!(worst < 1_000.0, "{took:?}");
    assert!(grown < 64, "{grown} MiB for {IDLE} idle connections");

    drop(alone);
    let closed = timeout(CLOSED_WITHIN, async {
        for stream in &mut idle {
            assert_eq!(
                stream.read(&mut [0; 512]).await.unwrap_or(0),
                0,
                "an idle connection got an answer"
            );
        }
        drips.join_all().await;
    });
    closed.await.expect("silent and slow connections are closed");
    assert_eq!(relent.client().get("/livez").await.status, 200);
}

/// Sends a head that never ends, until nobody reads it any more.
async fn drip(mut stream: TcpStream) {
    let mut every = interval(Duration::from_millis(200));
    if stream.write_all(b"GET /livez HTTP/1.1\r\nhost: h\r\n").await.is_err() {
        return;
    }
    loop {
        every.tick().await;
        let sent = stream.write_all(b"x-more: to come\r\n").await;
        let mut byte = [0; 64];
        let read = stream.try_read(&mut byte);
        if sent.is_err() || matches!(read, Ok(0)) {
            return;
        }
    }
}

#[tokio::test]
async fn a_body_that_does_not_come_stores_nothing() {
    let relent = Relent::start().await;
    let client = relent.client();
    let mut stream = TcpStream::connect(relent.address).await.unwrap();
    let head = "POST /retry-tasks HTTP/1.1\r\nhost: h\r\ncontent-type: application/json\r\n";
    stream
        .write_all(format!("{head}content-length: 500\r\n\r\n{{\"targetUrl\":").as_bytes())
        .await
        .unwrap();
    drop(stream);
    // And one whose length is a lie.
    let mut stream = TcpStream::connect(relent.address).await.unwrap();
    stream
        .write_all(format!("{head}content-length: 5\r\ncontent-length: 7\r\n\r\n{{}}").as_bytes())
        .await
        .unwrap();
    let mut answer = Vec::new();
    let read = timeout(crate::rig::SOON, stream.read_to_end(&mut answer)).await;
    assert!(read.is_ok(), "a request with two lengths is not answered with a closed connection");
    assert!(answer.starts_with(b"HTTP/1.1 400"), "{}", String::from_utf8_lossy(&answer));
    let tasks = client.get("/retry-tasks").await.expect(200);
    assert_eq!(tasks["items"], json!([]));
}
