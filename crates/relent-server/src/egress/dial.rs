//! Making a connection: resolve, vet, dial, shake hands. REQ-C3, REQ-L4, REQ-P3, REQ-P4.
//!
//! # Why this way
//!
//! A check of the URL proves nothing about where the packets go: a name can resolve to one address
//! when it is checked and to another when it is called. So the addresses are vetted that are dialled,
//! in between, with no second look-up; a literal address takes the same way. If one answer for a name
//! is forbidden, the name is refused as a whole: an honest name does not mix the two, and the one who
//! mixes them hopes to be lucky.
//!
//! Every phase has its own deadline and gives its own fault, so that nothing has to be guessed from
//! an error's text: one deadline for the name and TCP together, then as much again for TLS, both
//! within the attempt's.
//!
//! Addresses are dialled in the resolver's order, the next one when one has failed or has not
//! answered for a moment ("happy eyeballs" without its sorting, which the resolver has done).
//!
//! # What else was considered
//!
//! A resolver of our own would know the time that an answer holds. The system's knows `/etc/hosts`,
//! the search list and what else an administrator has set up, and is what the operator tests with.
//! It blocks a thread, which a timeout does not give back: so there are only so many at a time, and
//! who finds none free within the time has not been able to resolve.
//!
//! # What breaks it
//!
//! An egress proxy between here and the target makes the vetting meaningless: the proxy resolves for
//! itself. None is used, and the environment's is not read.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use hyper::client::conn::http1;
use hyper::rt::{Read, Write};
use hyper_util::rt::TokioIo;
use relent_policy::Fault;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::addresses::AddressRules;
use super::pool::Connection;
use super::target::{Host, Target};
use super::{EgressError, EgressRules, Phases, faults, later, tls};

/// How many addresses of a name are dialled.
const ADDRESSES_MAX: usize = 16;
/// When an address has not answered for this long, the next one is dialled as well.
const NEXT_AFTER: Duration = Duration::from_millis(250);
/// How many threads may wait for the system's resolver.
const LOOKUPS_MAX: usize = 64;
/// The least that hyper can do with.
const BUFFER_MIN: usize = 8_192;

pub(super) struct Dialer {
    addresses: AddressRules,
    dns_timeout: Duration,
    lookups: Arc<Semaphore>,
    tls: TlsConnector,
    http: http1::Builder,
}

/// Until when a connection is to be made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadlines {
    pub(super) connect_timeout: Duration,
    pub(super) attempt: Instant,
}

impl Deadlines {
    fn next_phase(self, now: Instant) -> Instant {
        later(now, self.connect_timeout).min(self.attempt)
    }
}

impl Dialer {
    pub(super) fn new(rules: &EgressRules) -> Result<Dialer, EgressError> {
        let config: ClientConfig = tls::config(&rules.extra_roots)?;
        let mut http = http1::Builder::new();
        http.max_buf_size(rules.response_head_max.max(BUFFER_MIN));
        http.max_header_size(rules.response_head_max);
        Ok(Dialer {
            addresses: rules.addresses.clone(),
            dns_timeout: rules.dns_timeout,
            lookups: Arc::new(Semaphore::new(LOOKUPS_MAX)),
            tls: Arc::new(config).into(),
            http,
        })
    }

    /// A new connection to the target.
    pub(super) async fn dial(
        &self,
        target: &Target,
        deadlines: Deadlines,
        phases: &mut Phases,
    ) -> Result<Connection, Fault> {
        let started_at = Instant::now();
        let connect_by = deadlines.next_phase(started_at);
        let addresses = match &target.host {
            Host::Address(address) => vec![*address],
            Host::Name(name) => {
                let dns_by = later(started_at, self.dns_timeout).min(connect_by);
                let addresses = timeout_at(dns_by, self.resolve(name)).await;
                phases.dns = Some(started_at.elapsed());
                addresses.map_err(|_| Fault::Dns)??
            }
        };
        let addresses = vet(&self.addresses, addresses)?;

        let dialled_at = Instant::now();
        let stream = timeout_at(connect_by, connect_first(&addresses, target.port)).await;
        phases.connect = Some(dialled_at.elapsed());
        let stream = stream.map_err(|_| Fault::ConnectTimeout)??;
        // Without it, a request in two writes waits for the peer's delayed acknowledgement.
        let _ = stream.set_nodelay(true);

        let Some(name) = &target.server_name else { return self.speak_http(stream).await };
        let greeted_at = Instant::now();
        let tls_by = deadlines.next_phase(greeted_at);
        let stream = timeout_at(tls_by, self.shake_hands(name, stream)).await;
        phases.tls = Some(greeted_at.elapsed());
        self.speak_http(stream.map_err(|_| Fault::TlsHandshakeTimeout)??).await
    }

    async fn resolve(&self, name: &str) -> Result<Vec<IpAddr>, Fault> {
        let name = name.to_owned();
        let lookups = Arc::clone(&self.lookups);
        let permit = lookups.acquire_owned().await.map_err(|_| Fault::Dns)?;
        let lookup = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            let addresses = (name.as_str(), 0).to_socket_addrs()?;
            Ok::<Vec<IpAddr>, io::Error>(addresses.map(|address| address.ip()).collect())
        });
        lookup.await.map_err(|_| Fault::Dns)?.map_err(|_| Fault::Dns)
    }

    async fn shake_hands(
        &self,
        name: &ServerName<'static>,
        stream: TcpStream,
    ) -> Result<TlsStream<TcpStream>, Fault> {
        let handshake = self.tls.connect(name.clone(), stream);
        handshake.await.map_err(|error| faults::of_handshake(&error))
    }

    async fn speak_http<S>(&self, stream: S) -> Result<Connection, Fault>
    where
        TokioIo<S>: Read + Write + Unpin + Send + 'static,
    {
        // Nothing is said here: HTTP/1 begins with the request.
        let spoken = self.http.handshake(TokioIo::new(stream)).await;
        let (sender, connection) = spoken.map_err(|error| faults::of_unsent(Some(&error)))?;
        Ok(Connection::new(sender, tokio::spawn(connection)))
    }
}

/// The addresses to dial, if every single one may be called.
fn vet(rules: &AddressRules, mut addresses: Vec<IpAddr>) -> Result<Vec<IpAddr>, Fault> {
    if addresses.is_empty() {
        return Err(Fault::Dns);
    }
    if !addresses.iter().all(|address| rules.allows(*address)) {
        return Err(Fault::Blocked);
    }
    addresses.truncate(ADDRESSES_MAX);
    Ok(addresses)
}

/// The first connection that comes about.
async fn connect_first(addresses: &[IpAddr], port: u16) -> Result<TcpStream, Fault> {
    if let [address] = addresses {
        let connected = TcpStream::connect(SocketAddr::new(*address, port)).await;
        return connected.map_err(|error| faults::of_connect(&error));
    }
    let mut waiting = addresses.iter();
    let mut dialling = JoinSet::new();
    let mut worst = Fault::ConnectUnreachable;
    loop {
        if let Some(address) = waiting.next() {
            dialling.spawn(TcpStream::connect(SocketAddr::new(*address, port)));
        }
        let failed = tokio::select! {
            biased;
            joined = dialling.join_next() => match joined {
                Some(Ok(Ok(stream))) => return Ok(stream),
                Some(Ok(Err(error))) => faults::of_connect(&error),
                Some(Err(_)) => continue,
                None => return Err(worst),
            },
            () = tokio::time::sleep(NEXT_AFTER), if !waiting.as_slice().is_empty() => continue,
        };
        // A machine without IPv6 cannot reach half of the addresses: the other half knows more.
        if failed != Fault::ConnectUnreachable {
            worst = failed;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use tokio::net::TcpListener;

    const HOME: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
    const METADATA: IpAddr = IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254));

    #[test]
    fn one_forbidden_answer_refuses_the_name() {
        let rules = AddressRules::default();
        assert_eq!(vet(&rules, vec![HOME, METADATA]), Err(Fault::Blocked));
        assert_eq!(vet(&rules, vec![HOME; 17]), Ok(vec![HOME; ADDRESSES_MAX]));
        let late = [vec![HOME; 17], vec![METADATA]].concat();
        assert_eq!(vet(&rules, late), Err(Fault::Blocked), "also beyond those that are dialled");
    }

    #[test]
    fn a_name_without_addresses_is_dns() {
        assert_eq!(vet(&AddressRules::default(), Vec::new()), Err(Fault::Dns));
    }

    #[tokio::test]
    async fn the_next_address_is_dialled_when_one_fails() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let elsewhere = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
        let stream = connect_first(&[elsewhere, HOME], port).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap().ip(), HOME);
        drop(listener);
        let refused = connect_first(&[elsewhere, HOME], port).await.unwrap_err();
        assert_eq!(refused, Fault::ConnectRefused);
    }
}
