//! Servers on loopback that fail in one way each, and count who comes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

/// A server that does one thing with every connection. Dropping it ends it.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    connections: Arc<AtomicU32>,
    _accepting: JoinSet<()>,
}

impl Server {
    pub(crate) async fn start<F>(serve: impl Fn(TcpStream) -> F + Send + 'static) -> Server
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicU32::new(0));
        let counter = Arc::clone(&connections);
        let mut accepting = JoinSet::new();
        accepting.spawn(async move {
            let mut serving = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                counter.fetch_add(1, Ordering::Relaxed);
                serving.spawn(serve(stream));
            }
        });
        Server { address, connections, _accepting: accepting }
    }

    /// How many connections there were.
    pub(crate) fn connections(&self) -> u32 {
        self.connections.load(Ordering::Relaxed)
    }

    pub(crate) fn http(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// By name: that is what certificates are for. Clients resolve it to the address.
    pub(crate) fn https(&self) -> String {
        format!("https://localhost:{}/", self.address.port())
    }
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

/// Closes so that the peer gets a RST instead of a FIN.
pub(crate) async fn reset(stream: TcpStream) {
    stream.set_zero_linger().unwrap();
}

/// Holds the connection and says nothing.
pub(crate) async fn stall(stream: TcpStream) {
    std::future::pending::<()>().await;
    drop(stream);
}

/// Reads a request's head. What is unread when a socket closes makes a RST of its FIN.
pub(crate) async fn read_request(stream: &mut (impl AsyncRead + Unpin)) {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read_buf(&mut head).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
    }
}

/// Reads a TLS record: the ClientHello.
pub(crate) async fn read_hello(stream: &mut TcpStream) {
    let mut header = [0; 5];
    stream.read_exact(&mut header).await.unwrap();
    let length = u16::from_be_bytes([header[3], header[4]]);
    stream.read_exact(&mut vec![0; usize::from(length)]).await.unwrap();
}

/// Sends the last bytes, and waits until the peer has hung up: nothing of them gets lost.
pub(crate) async fn say_last(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), bytes: &[u8]) {
    let _ = stream.write_all(bytes).await;
    let _ = stream.shutdown().await;
    let _ = tokio::io::copy(stream, &mut tokio::io::sink()).await;
}

/// A server that reads the request and answers with these bytes, and then does the rest.
pub(crate) async fn answering<F>(
    answer: Vec<u8>,
    then: impl Fn(TcpStream) -> F + Clone + Send + Sync + 'static,
) -> Server
where
    F: Future<Output = ()> + Send + 'static,
{
    Server::start(move |mut stream| {
        let (answer, then) = (answer.clone(), then.clone());
        async move {
            read_request(&mut stream).await;
            stream.write_all(&answer).await.unwrap();
            then(stream).await;
        }
    })
    .await
}

/// A server that reads the ClientHello, answers with these bytes and hangs up.
pub(crate) async fn answering_hello(answer: Vec<u8>) -> Server {
    Server::start(move |mut stream| {
        let answer = answer.clone();
        async move {
            read_hello(&mut stream).await;
            say_last(&mut stream, &answer).await;
        }
    })
    .await
}

/// A TLS server that answers every request with 200, if it gets that far.
pub(crate) async fn tls(config: rustls::ServerConfig) -> Server {
    let acceptor = TlsAcceptor::from(Arc::new(config));
    Server::start(move |stream| {
        let acceptor = acceptor.clone();
        async move {
            match acceptor.accept(stream).into_fallible().await {
                Ok(mut stream) => {
                    read_request(&mut stream).await;
                    say_last(&mut stream, b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
                }
                // The alert is out; unread bytes must not turn the end into a RST that overtakes it.
                Err((_, mut stream)) => say_last(&mut stream, b"").await,
            }
        }
    })
    .await
}
