//! A network that can be broken: bytes go through it to the store, until a test says otherwise.
//!
//! One for each node, so that one node can be cut off alone. A fault begins and ends for all
//! connections at once, those that are there and those that come.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// What is wrong with the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Nothing,
    /// Connections are closed, and new ones as soon as they are made.
    Cut,
    /// The same, by a reset.
    Reset,
    /// Nothing moves; what was sent arrives when it is over. A route that comes back.
    Stall,
    /// Bytes are taken and lost, and so the connection is of no use ever after. A firewall that has
    /// forgotten its connections.
    BlackHole,
    /// This long for each piece of 1,000 bytes.
    Slow(Duration),
}

const PIECE: usize = 1_000;
/// After an error of `accept`, such as too many open files.
const PAUSE: Duration = Duration::from_millis(20);

/// A way to the store. Dropping it cuts it.
#[derive(Debug)]
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    fault: watch::Sender<Fault>,
    _accepting: JoinSet<Infallible>,
}

impl Proxy {
    /// To the socket of a server.
    pub(crate) async fn to(upstream: PathBuf) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (fault, seen) = watch::channel(Fault::Nothing);
        let mut accepting = JoinSet::new();
        accepting.spawn(accept(listener, upstream, seen));
        Proxy { address, fault, _accepting: accepting }
    }

    pub(crate) fn set(&self, fault: Fault) {
        self.fault.send_replace(fault);
    }
}

async fn accept(
    listener: TcpListener,
    upstream: PathBuf,
    fault: watch::Receiver<Fault>,
) -> Infallible {
    let mut connections = JoinSet::new();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                connections.spawn(carry(stream, upstream.clone(), fault.clone()));
            }
            Err(_) => sleep(PAUSE).await,
        }
        while connections.try_join_next().is_some() {}
    }
}

async fn carry(mut down: TcpStream, upstream: PathBuf, mut fault: watch::Receiver<Fault>) {
    let at_first = *fault.borrow_and_update();
    let ended = match at_first {
        Fault::Cut | Fault::Reset => at_first,
        _ => join(&mut down, UnixStream::connect(upstream).await, fault).await,
    };
    if ended == Fault::Reset {
        // The peer may have gone already.
        let _ = down.set_zero_linger();
    }
}

/// Carries both ways until either side hangs up or the fault says so; what it was.
async fn join(
    down: &mut TcpStream,
    up: io::Result<UnixStream>,
    fault: watch::Receiver<Fault>,
) -> Fault {
    let Ok(mut up) = up else { return Fault::Cut };
    let (mut from_down, mut to_down) = down.split();
    let (mut from_up, mut to_up) = up.split();
    tokio::select! {
        ended = pump(&mut from_down, &mut to_up, fault.clone()) => ended,
        ended = pump(&mut from_up, &mut to_down, fault.clone()) => ended,
    }
}

async fn pump(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    mut fault: watch::Receiver<Fault>,
) -> Fault {
    let mut buffer = vec![0; 64 << 10];
    let mut is_lost = false;
    loop {
        let now = *fault.borrow_and_update();
        is_lost |= now == Fault::BlackHole;
        match now {
            Fault::Cut | Fault::Reset => return now,
            Fault::Stall => {
                if fault.changed().await.is_err() {
                    return Fault::Cut;
                }
                continue;
            }
            Fault::Nothing | Fault::BlackHole | Fault::Slow(_) => {}
        }
        let read = tokio::select! {
            biased;
            changed = fault.changed() => match changed {
                Ok(()) => continue,
                Err(_) => return Fault::Cut,
            },
            read = from.read(&mut buffer) => read,
        };
        let Ok(count @ 1..) = read else { return Fault::Cut };
        for piece in buffer[..count].chunks(PIECE) {
            let now = *fault.borrow();
            if let Fault::Slow(wait) = now {
                sleep(wait).await;
            }
            if !is_lost && to.write_all(piece).await.is_err() {
                return Fault::Cut;
            }
        }
    }
}
