//! Servers on loopback that behave in one way each, and remember who came and what was asked.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::within;

pub(crate) const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// A server that does one thing with every connection. Dropping it ends it.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    seen: Arc<Seen>,
    _accepting: JoinSet<()>,
}

#[derive(Default)]
struct Seen {
    requests: Mutex<Vec<String>>,
    accepted: watch::Sender<u32>,
    ended: watch::Sender<u32>,
}

/// A connection as a server has it.
pub(crate) struct Peer<S = TcpStream> {
    pub(crate) stream: S,
    seen: Arc<Seen>,
}

impl Server {
    pub(crate) async fn start<F>(serve: impl Fn(Peer) -> F + Send + 'static) -> Server
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Seen::default());
        let seer = Arc::clone(&seen);
        let mut accepting = JoinSet::new();
        accepting.spawn(async move {
            let mut serving = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                seer.accepted.send_modify(|count| *count += 1);
                let served = serve(Peer { stream, seen: Arc::clone(&seer) });
                let seen = Arc::clone(&seer);
                serving.spawn(async move {
                    served.await;
                    seen.ended.send_modify(|count| *count += 1);
                });
            }
        });
        Server { address, seen, _accepting: accepting }
    }

    /// How many connections there were.
    pub(crate) fn connections(&self) -> u32 {
        *self.seen.accepted.borrow()
    }

    /// The requests that were read, each with its body.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.seen.requests.lock().unwrap().clone()
    }

    /// Waits until this many connections are over.
    pub(crate) async fn until_ended(&self, connections: u32) {
        let mut ended = self.seen.ended.subscribe();
        within(ended.wait_for(|count| *count >= connections)).await.unwrap();
    }

    pub(crate) fn http(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// By name: that is what certificates are for.
    pub(crate) fn https(&self) -> String {
        format!("https://localhost:{}/", self.address.port())
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Peer<S> {
    /// Reads a request and its body, if there is one more.
    pub(crate) async fn read_request(&mut self) -> Option<()> {
        let mut bytes = Vec::new();
        let head = loop {
            if let Some(end) = bytes.windows(4).position(|end| end == b"\r\n\r\n") {
                break end + 4;
            }
            self.read_some(&mut bytes).await?;
        };
        let text = String::from_utf8(bytes[..head].to_vec()).unwrap();
        let length = text.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.map_or(0, |length| length.parse().unwrap());
        while bytes.len() < head + length {
            self.read_some(&mut bytes).await?;
        }
        let text = String::from_utf8(bytes).unwrap();
        self.seen.requests.lock().unwrap().push(text);
        Some(())
    }

    async fn read_some(&mut self, bytes: &mut Vec<u8>) -> Option<()> {
        self.stream.read_buf(bytes).await.ok().filter(|read| *read > 0).map(|_| ())
    }

    pub(crate) async fn write(&mut self, bytes: &[u8]) -> Option<()> {
        self.stream.write_all(bytes).await.ok()
    }

    /// Answers every request, until the client hangs up.
    pub(crate) async fn answer_all(&mut self, answer: &[u8]) {
        while self.read_request().await.is_some() && self.write(answer).await.is_some() {}
    }

    /// Says the last bytes, and waits until the client has hung up: nothing of them gets lost.
    pub(crate) async fn say_last(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes).await;
        let _ = self.stream.shutdown().await;
        self.until_closed().await;
    }

    /// Holds the connection until the client hangs up.
    pub(crate) async fn until_closed(&mut self) {
        let _ = tokio::io::copy(&mut self.stream, &mut tokio::io::sink()).await;
    }
}

impl Peer {
    /// Closes so that the client gets a RST instead of a FIN.
    pub(crate) fn reset(self) {
        self.stream.set_zero_linger().unwrap();
    }

    /// Reads a TLS record: the ClientHello.
    pub(crate) async fn read_hello(&mut self) {
        let mut header = [0; 5];
        self.stream.read_exact(&mut header).await.unwrap();
        let length = u16::from_be_bytes([header[3], header[4]]);
        self.stream.read_exact(&mut vec![0; usize::from(length)]).await.unwrap();
    }
}

/// A server that answers every request with these bytes and keeps its connections.
pub(crate) async fn answering(answer: impl Into<Vec<u8>>) -> Server {
    let answer = answer.into();
    Server::start(move |mut peer| {
        let answer = answer.clone();
        async move { peer.answer_all(&answer).await }
    })
    .await
}

/// A server that answers the first request of each connection with these bytes, and does the rest.
pub(crate) async fn answering_then<F>(
    answer: impl Into<Vec<u8>>,
    then: impl Fn(Peer) -> F + Clone + Send + Sync + 'static,
) -> Server
where
    F: Future<Output = ()> + Send + 'static,
{
    let answer = answer.into();
    Server::start(move |mut peer| {
        let (answer, then) = (answer.clone(), then.clone());
        async move {
            if peer.read_request().await.is_some() && peer.write(&answer).await.is_some() {
                then(peer).await;
            }
        }
    })
    .await
}

/// A server that reads the ClientHello, answers with these bytes and hangs up.
pub(crate) async fn answering_hello(answer: Vec<u8>) -> Server {
    Server::start(move |mut peer| {
        let answer = answer.clone();
        async move {
            peer.read_hello().await;
            peer.say_last(&answer).await;
        }
    })
    .await
}

/// A TLS server that answers every request with 200, if it gets that far.
pub(crate) async fn tls(config: rustls::ServerConfig) -> Server {
    let acceptor = TlsAcceptor::from(Arc::new(config));
    Server::start(move |Peer { stream, seen }| {
        let acceptor = acceptor.clone();
        async move {
            match acceptor.accept(stream).into_fallible().await {
                Ok(stream) => Peer { stream, seen }.answer_all(OK).await,
                // The alert is out; unread bytes must not turn the end into a RST that overtakes it.
                Err((_, stream)) => Peer { stream, seen }.say_last(b"").await,
            }
        }
    })
    .await
}

/// An address that nobody listens on.
pub(crate) async fn closed_port() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap()
}

/// A listener that accepts nobody and whose queue is full, so that the kernel drops every further
/// SYN: connecting takes until somebody loses patience. What fills the queue is kept with it.
pub(crate) struct FullQueue {
    pub(crate) address: SocketAddr,
    _listener: TcpListener,
    _waiting: Vec<TcpStream>,
}

impl FullQueue {
    pub(crate) async fn start() -> FullQueue {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = socket.listen(0).unwrap();
        let address = listener.local_addr().unwrap();
        let mut waiting = Vec::new();
        // A queue for none takes one, or a few elsewhere; the first that does not get in proves
        // that it is full.
        for _ in 0..64 {
            let connecting = TcpStream::connect(address);
            match tokio::time::timeout(std::time::Duration::from_millis(100), connecting).await {
                Ok(stream) => waiting.push(stream.unwrap()),
                Err(_) => return FullQueue { address, _listener: listener, _waiting: waiting },
            }
        }
        panic!("a queue for none took {}", waiting.len());
    }
}
