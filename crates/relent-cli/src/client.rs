//! Talking to a running server: one connection a request, every wait with an end.
//!
//! A refusal comes back as the server's [`Problem`]; a server that cannot be reached as
//! [`Unreachable`], which knows what to try.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail, ensure};
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use relent_api::Problem;
use rustls::pki_types::ServerName;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use url::{Host, Url};

const CONNECT_WITHIN: Duration = Duration::from_secs(5);
const ANSWER_WITHIN: Duration = Duration::from_secs(60);
const ANSWER_BYTES_MAX: usize = 256 << 20;

/// Which server.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Remote {
    /// The server
    #[arg(
        long,
        env = "RELENT_URL",
        hide_env_values = true,
        default_value = "http://127.0.0.1:8717"
    )]
    url: String,
}

impl Remote {
    pub(crate) fn client(&self) -> anyhow::Result<Client> {
        Client::new(&self.url)
    }
}

/// Runs a command that talks to a server.
pub(crate) fn block_on<T>(command: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("cannot start")?.block_on(command)
}

/// A server that can be asked.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    base: Url,
}

/// What the server said to a request that it did.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) text: String,
}

impl Answer {
    /// The document in it.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> anyhow::Result<T> {
        serde_json::from_str(&self.text).context("the server's answer is not what was expected")
    }
}

/// What is sent with a request.
#[derive(Clone, Debug)]
pub(crate) enum Body {
    None,
    Json(Bytes),
    Lines(Bytes),
}

impl Client {
    pub(crate) fn new(text: &str) -> anyhow::Result<Client> {
        let mut base =
            Url::parse(text).with_context(|| format!("{text:?} is no URL of a server"))?;
        let scheme = base.scheme();
        ensure!(
            scheme == "http" || scheme == "https",
            "expected http:// or https://, got {scheme}:"
        );
        ensure!(base.host().is_some(), "expected a URL with a host, got {text:?}");
        ensure!(
            base.password().is_none() && base.username().is_empty(),
            "expected a URL without a user"
        );
        base.set_query(None);
        base.set_fragment(None);
        Ok(Client { base })
    }

    /// The address of a resource.
    fn at(&self, path: &[&str], query: &[(&str, String)]) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        url
    }

    pub(crate) async fn get(
        &self,
        path: &[&str],
        query: &[(&str, String)],
    ) -> anyhow::Result<Answer> {
        self.send(Method::GET, path, query, Body::None).await
    }

    /// Sends a request and reads the answer; a refusal is an error.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &[&str],
        query: &[(&str, String)],
        body: Body,
    ) -> anyhow::Result<Answer> {
        let exchange = async {
            let response = self.open(method, path, query, body).await?;
            let status = response.status();
            let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
            let body = body.map_err(|error| anyhow!("the answer broke off: {error}"))?.to_bytes();
            let text = String::from_utf8(body.into()).context("the server's answer is not text")?;
            anyhow::Ok(Answer { status, text })
        };
        let answer = timeout(ANSWER_WITHIN, exchange).await;
        let answer = answer.map_err(|_| self.unreachable("no answer within 60 s"))??;
        if answer.status.is_success() {
            return Ok(answer);
        }
        match serde_json::from_str::<Problem>(&answer.text) {
            Ok(problem) => Err(problem.into()),
            Err(_) => {
                bail!("{} answered {}, which is not how relent answers", self.base, answer.status)
            }
        }
    }

    async fn open(
        &self,
        method: Method,
        path: &[&str],
        query: &[(&str, String)],
        body: Body,
    ) -> anyhow::Result<Response<Incoming>> {
        let url = self.at(path, query);
        let stream = timeout(CONNECT_WITHIN, self.connect()).await;
        let stream = stream.map_err(|_| self.unreachable("no connection within 5 s"))??;
        let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = handshake.map_err(|error| self.unreachable(error))?;
        tokio::spawn(connection);

        let target = &url[url::Position::BeforePath..url::Position::AfterQuery];
        let host = &url[url::Position::BeforeHost..url::Position::AfterPort];
        let mut request = Request::builder()
            .method(method)
            .uri(target)
            .header(header::HOST, host)
            .header(header::USER_AGENT, concat!("relent-cli/", env!("CARGO_PKG_VERSION")));
        let body = match body {
            Body::None => Bytes::new(),
            Body::Json(json) => {
                request = request.header(header::CONTENT_TYPE, "application/json");
                json
            }
            Body::Lines(lines) => {
                request = request.header(header::CONTENT_TYPE, "application/x-ndjson");
                lines
            }
        };
        let request = request.body(Full::new(body)).context("the request cannot be sent")?;
        sender.send_request(request).await.map_err(|error| self.unreachable(error).into())
    }

    async fn connect(&self) -> anyhow::Result<Pin<Box<dyn Stream>>> {
        let port = self.base.port_or_known_default().unwrap_or(80);
        let host = self.base.host().context("a server has a host")?;
        let tcp = match &host {
            Host::Domain(name) => TcpStream::connect((*name, port)).await,
            Host::Ipv4(address) => TcpStream::connect((*address, port)).await,
            Host::Ipv6(address) => TcpStream::connect((*address, port)).await,
        };
        let tcp = tcp.map_err(|error| self.unreachable(error))?;
        tcp.set_nodelay(true)?;
        if self.base.scheme() == "http" {
            return Ok(Box::pin(tcp));
        }
        let name = host.to_string();
        let name = ServerName::try_from(name.trim_matches(['[', ']']).to_owned())?;
        let stream = tls()?.connect(name, tcp).await.map_err(|error| self.unreachable(error))?;
        Ok(Box::pin(stream))
    }

    fn unreachable(&self, reason: impl fmt::Display) -> Unreachable {
        Unreachable { url: self.base.to_string(), reason: reason.to_string() }
    }
}

/// What a connection is made of.
trait Stream: AsyncRead + AsyncWrite + Send {}
impl<T: AsyncRead + AsyncWrite + Send> Stream for T {}

/// Trusts what this machine trusts, or Mozilla's list where it has none.
fn tls() -> anyhow::Result<tokio_rustls::TlsConnector> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config).into())
}

/// The server did not answer.
#[derive(Debug)]
pub(crate) struct Unreachable {
    url: String,
    reason: String,
}

impl Unreachable {
    pub(crate) fn hint(&self) -> &'static str {
        "start a server with `relent serve`, or name another one with --url or RELENT_URL"
    }
}

impl fmt::Display for Unreachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot reach {}: {}", self.url, self.reason)
    }
}

impl std::error::Error for Unreachable {}
