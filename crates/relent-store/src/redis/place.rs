//! Where Redis is, and how it is reached: one server or a Cluster, plain, through TLS or a socket.
//!
//! Connections are made here and not by the client library, so that TLS is the same as everywhere in
//! relent and nothing is retried behind anybody's back. REQ-S7.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use redis::{ConnectionAddr, IntoConnectionInfo, ProtocolVersion, RedisConnectionInfo};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;

use super::RedisOptions;
use crate::assurance::Finding;
use crate::trust::{BadTrust, client_config};

/// Why a Redis cannot be used as a store.
#[derive(Debug, thiserror::Error)]
pub enum RedisConnectError {
    /// The text is no address of a Redis.
    #[error(
        "`{0}` is no address of a Redis: expected redis://, rediss://, redis+cluster://, \
         rediss+cluster:// or redis+unix://"
    )]
    BadUrl(String),
    /// The prefix of the keys cannot be one.
    #[error("a prefix is 1 to 40 characters of a-z, 0-9, _ and -, got `{0}`")]
    BadPrefix(String),
    /// There cannot be so many shards.
    #[error("there are 1 to 256 shards, got {0}")]
    BadShards(u16),
    /// The file with certificates cannot be used.
    #[error("cannot use the certificates in `{}`", file.display())]
    Certificates {
        /// Which file.
        file: PathBuf,
        /// What is wrong with it.
        source: rustls::pki_types::pem::Error,
    },
    /// TLS cannot be set up.
    #[error("cannot set up TLS")]
    Tls(#[source] rustls::Error),
    /// The server cannot be reached, refuses, or lacks what is needed.
    #[error("Redis is not available: {0}")]
    Unavailable(String),
    /// It is set up so that acknowledged tasks may be lost.
    #[error("Redis is set up so that tasks may be lost: {}", list(.0))]
    Dangerous(Vec<Finding>),
    /// A part of the data is gone.
    #[error(
        "a part of the data under `{prefix}` is gone or another's ({what}); to go on without it, \
         accept the loss"
    )]
    Reset {
        /// Under which prefix.
        prefix: String,
        /// What was found.
        what: String,
    },
    /// The data is divided otherwise.
    #[error("the data under `{prefix}` is in {found} shards, and {asked} were asked for")]
    Shards {
        /// Under which prefix.
        prefix: String,
        /// How many there are.
        found: u16,
        /// How many were asked for.
        asked: u16,
    },
    /// A later version of relent has written the data.
    #[error("the data under `{prefix}` has version {found}, expected {known} or earlier")]
    Newer {
        /// Under which prefix.
        prefix: String,
        /// Its version.
        found: u32,
        /// The last version that this relent knows.
        known: u32,
    },
    /// The thread that carries the connections cannot be started.
    #[error("cannot start a thread")]
    Thread(#[source] std::io::Error),
}

impl From<BadTrust> for RedisConnectError {
    fn from(bad: BadTrust) -> RedisConnectError {
        match bad {
            BadTrust::Certificates { file, source } => {
                RedisConnectError::Certificates { file, source }
            }
            BadTrust::Tls(error) => RedisConnectError::Tls(error),
        }
    }
}

fn list(findings: &[Finding]) -> String {
    let findings: Vec<String> = findings.iter().map(Finding::to_string).collect();
    findings.join("; ")
}

/// One server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Address {
    Tcp(String, u16),
    Unix(PathBuf),
}

impl Address {
    /// As Redis writes it in a redirection: `host:port`. Without a host it is the one that was asked.
    pub(super) fn read(text: &str, asked: &Address) -> Option<Address> {
        let (host, port) = text.rsplit_once(':')?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let asked = match asked {
            Address::Tcp(host, _) => host,
            Address::Unix(_) => "127.0.0.1",
        };
        let host = if host.is_empty() { asked } else { host };
        Some(Address::Tcp(host.to_owned(), port.parse().ok()?))
    }

    /// Whether nothing leaves the machine.
    pub(super) fn is_local(&self) -> bool {
        match self {
            Address::Tcp(host, _) => {
                let is_loopback = |address: IpAddr| address.is_loopback();
                host == "localhost" || host.parse().is_ok_and(is_loopback)
            }
            Address::Unix(_) => true,
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(host, port) => write!(f, "{host}:{port}"),
            Address::Unix(path) => path.display().fmt(f),
        }
    }
}

/// Where Redis is.
pub(super) struct Place {
    pub(super) seeds: Vec<Address>,
    pub(super) is_cluster: bool,
    pub(super) settings: RedisConnectionInfo,
    pub(super) prefix: String,
    pub(super) connect_timeout: Duration,
    tls: Option<TlsConnector>,
}

/// What a connection is made of.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

impl Place {
    pub(super) fn new(url: &str, options: &RedisOptions) -> Result<Place, RedisConnectError> {
        let prefix = options.prefix.clone();
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-".contains(c);
        if prefix.is_empty() || prefix.len() > 40 || !prefix.chars().all(allowed) {
            return Err(RedisConnectError::BadPrefix(prefix));
        }
        let bad = || RedisConnectError::BadUrl(without_secrets(url));
        let (scheme, rest) = url.split_once("://").ok_or_else(bad)?;
        let (is_cluster, is_tls) = match scheme {
            "redis" | "valkey" | "unix" | "redis+unix" | "valkey+unix" => (false, false),
            "rediss" | "valkeys" => (false, true),
            "redis+cluster" | "valkey+cluster" => (true, false),
            "rediss+cluster" | "valkeys+cluster" => (true, true),
            _ => return Err(bad()),
        };
        let is_unix = scheme.ends_with("unix");
        let (user, hosts) = match rest.rsplit_once('@') {
            Some((user, hosts)) if !is_unix => (format!("{user}@"), hosts),
            _ => (String::new(), rest),
        };
        let urls: Vec<String> = match (is_unix, is_cluster) {
            (true, _) => vec![format!("redis+unix://{rest}")],
            (_, false) => vec![format!("redis://{rest}")],
            (_, true) => hosts.split(',').map(|host| format!("redis://{user}{host}")).collect(),
        };
        let (mut seeds, mut settings) = (Vec::new(), RedisConnectionInfo::default());
        for url in urls {
            let info = (&url[..]).into_connection_info().map_err(|_| bad())?;
            settings = info.redis_settings().clone();
            seeds.push(match info.addr() {
                ConnectionAddr::Tcp(host, port) => Address::Tcp(host.clone(), *port),
                ConnectionAddr::Unix(path) => Address::Unix(path.clone()),
                _ => return Err(bad()),
            });
        }
        if is_cluster && settings.db() != 0 {
            return Err(bad());
        }
        let settings = settings.set_skip_set_lib_name();
        let roots = options.root_certificates.as_deref();
        let tls = is_tls.then(|| client_config(roots)).transpose()?;
        let tls = tls.map(|config| TlsConnector::from(Arc::new(config)));
        Ok(Place { seeds, is_cluster, settings, prefix, connect_timeout: CONNECT_TIMEOUT, tls })
    }

    /// The same for whoever listens, which needs a later protocol.
    pub(super) fn listening(place: &Place) -> Place {
        let settings = place.settings.clone().set_protocol(ProtocolVersion::RESP3);
        Place {
            seeds: place.seeds.clone(),
            is_cluster: place.is_cluster,
            settings,
            prefix: place.prefix.clone(),
            connect_timeout: place.connect_timeout,
            tls: place.tls.clone(),
        }
    }

    pub(super) fn is_encrypted(&self) -> bool {
        self.tls.is_some()
    }

    /// What keys of a shard begin with; what is between the braces decides about the server.
    pub(super) fn base(&self, shard: usize) -> String {
        format!("{{{}:{shard}}}:", self.prefix)
    }

    /// Where nodes tell each other what became due.
    pub(super) fn channel(&self) -> String {
        format!("{}:due", self.prefix)
    }

    pub(super) async fn connect(&self, address: &Address) -> std::io::Result<Box<dyn Stream>> {
        let (host, port) = match address {
            Address::Unix(path) => return Ok(Box::new(UnixStream::connect(path).await?)),
            Address::Tcp(host, port) => (host, *port),
        };
        let stream = TcpStream::connect((&host[..], port)).await?;
        stream.set_nodelay(true)?;
        let Some(tls) = &self.tls else { return Ok(Box::new(stream)) };
        let name = ServerName::try_from(host.clone());
        let name = name.map_err(|_| std::io::Error::other(format!("`{host}` is no name")))?;
        Ok(Box::new(tls.connect(name, stream).await?))
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

fn without_secrets(url: &str) -> String {
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, rest))) => format!("{scheme}://…@{rest}"),
        _ => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(url: &str) -> Result<Place, RedisConnectError> {
        Place::new(url, &RedisOptions::default())
    }

    #[test]
    fn every_kind_of_address_is_read() {
        let one = place("redis://me:secret@10.0.0.1:7000/3").unwrap();
        assert_eq!(one.seeds, [Address::Tcp("10.0.0.1".to_owned(), 7000)]);
        assert_eq!((one.settings.db(), one.settings.username()), (3, Some("me")));
        assert!(!one.is_cluster && one.tls.is_none());
        assert!(place("rediss://cache.example.com").unwrap().tls.is_some());
        let many = place("redis+cluster://:secret@a:1,b:2,c:3").unwrap();
        assert_eq!(many.seeds.len(), 3);
        assert_eq!(many.settings.password(), Some("secret"));
        assert!(many.is_cluster);
        let socket = place("redis+unix:///run/redis.sock").unwrap();
        assert_eq!(socket.seeds, [Address::Unix("/run/redis.sock".into())]);
        for bad in ["", "redis", "http://a", "redis+cluster://a/1", "redis://"] {
            assert!(matches!(place(bad), Err(RedisConnectError::BadUrl(_))), "{bad}");
        }
    }

    #[test]
    fn an_error_has_no_password_in_it() {
        let error = place("http://me:secret@a").unwrap_err();
        assert!(!error.to_string().contains("secret"), "{error}");
    }

    #[test]
    fn a_prefix_is_a_plain_name() {
        let named = |prefix: &str| {
            let options = RedisOptions { prefix: prefix.to_owned(), ..RedisOptions::default() };
            Place::new("redis://a", &options)
        };
        assert!(named("relent-2").is_ok());
        for bad in ["", "a b", "A", "a{b}", &"a".repeat(41)] {
            assert!(matches!(named(bad), Err(RedisConnectError::BadPrefix(_))), "{bad}");
        }
    }

    #[test]
    fn a_redirection_names_a_server() {
        let asked = Address::Tcp("10.0.0.1".to_owned(), 1);
        assert_eq!(Address::read("b:7001", &asked), Some(Address::Tcp("b".to_owned(), 7001)));
        assert_eq!(Address::read(":2", &asked), Some(Address::Tcp("10.0.0.1".to_owned(), 2)));
        assert_eq!(Address::read("nowhere", &asked), None);
    }

    #[test]
    fn it_is_known_what_leaves_the_machine() {
        let at = |url: &str| place(url).unwrap().seeds[0].is_local();
        assert!(at("redis://127.0.0.1") && at("redis://localhost:7000") && at("redis+unix:///a"));
        assert!(!at("redis://10.0.0.1") && !at("redis://cache.example.com"));
    }
}
