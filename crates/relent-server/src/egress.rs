//! One client for everything that leaves. REQ-C3, REQ-L4, REQ-A1, REQ-P2, REQ-P3, REQ-P4.
//!
//! [`Egress::send`] makes one attempt and says what it came to. It resolves, vets every address and
//! dials only vetted ones. It does not follow redirects, does not read the environment for proxies,
//! and sends a request once: a second time only when the first was provably not written, because a
//! connection out of the pool had ended. What fails, fails by phase, as a name out of a fixed list;
//! no error's text gets out of here.
//!
//! Whatever else opens a connection to an address out of a task is a mistake.

mod addresses;
mod dial;
mod exchange;
mod faults;
mod pool;
mod target;
mod tls;

use std::fmt;
use std::ops::ControlFlow;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use relent_policy::{Fault, IgnoredRetryAfter, Outcome};
use rustls::pki_types::CertificateDer;
use tokio::time::{Instant, Sleep};

pub use self::addresses::{AddressRules, Cidr, NotACidr, Profile};
use self::dial::{Deadlines, Dialer};
use self::exchange::{Body, Sent};
use self::pool::{Connection, Limits, Pool, Pooled};

/// The client. Clones share their connections.
///
/// ```no_run
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use relent_server::egress::{Egress, EgressRules, Outgoing};
///
/// let egress = Egress::new(EgressRules::default())?;
/// let answer = egress
///     .send(Outgoing {
///         method: http::Method::POST,
///         target: "https://example.com/orders".parse()?,
///         headers: http::HeaderMap::new(),
///         body: "{}".into(),
///         connect_timeout: Duration::from_secs(5),
///         attempt_timeout: Duration::from_secs(30),
///         preview_max: 4_096,
///     })
///     .await;
/// println!("{:?} after {:?}", answer.outcome, answer.phases.total);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Egress {
    shared: Arc<Shared>,
}

struct Shared {
    dialer: Dialer,
    pool: Arc<Pool>,
    response_read_max: usize,
}

/// What holds for everything that is sent.
///
/// # Default
///
/// Private addresses may be called; 256 idle connections for each of 10,000 targets, for 30 s each
/// and 60 s in all; 64 KiB of an answer's head and 16 KiB of its body are read; a name is resolved
/// within 5 s; no roots beyond the system's.
#[derive(Clone, Debug)]
pub struct EgressRules {
    /// Which addresses may be called.
    pub addresses: AddressRules,
    /// How many idle connections are kept for one target.
    pub idle_per_target_max: usize,
    /// How long a connection is kept that nobody uses.
    pub idle_for: Duration,
    /// How old a connection may get: then the name is resolved and vetted again.
    pub connection_age_max: Duration,
    /// For how many targets connections are kept.
    pub targets_max: usize,
    /// How much of an answer's body is read. The connection is closed when there is more.
    pub response_read_max: usize,
    /// How large an answer's head may be. Beyond, the answer is `http_parse`.
    pub response_head_max: usize,
    /// How long resolving a name may take, within the connect timeout.
    pub dns_timeout: Duration,
    /// Roots that are trusted besides the system's.
    pub extra_roots: Vec<CertificateDer<'static>>,
}

impl Default for EgressRules {
    fn default() -> EgressRules {
        EgressRules {
            addresses: AddressRules::default(),
            idle_per_target_max: 256,
            idle_for: Duration::from_secs(30),
            connection_age_max: Duration::from_secs(60),
            targets_max: 10_000,
            response_read_max: 16 * 1_024,
            response_head_max: 64 * 1_024,
            dns_timeout: Duration::from_secs(5),
            extra_roots: Vec::new(),
        }
    }
}

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum EgressError {
    /// A certificate that cannot be a root.
    #[error("an extra root certificate cannot be read")]
    Root(#[source] rustls::Error),
    /// TLS cannot be set up at all.
    #[error("TLS cannot be set up")]
    Tls(#[source] rustls::Error),
}

/// One request. `Host`, the body's length and everything else about the framing is added here, and
/// taken out of the headers where somebody else has put it in.
#[derive(Clone)]
pub struct Outgoing {
    /// The method.
    pub method: Method,
    /// `http://` or `https://`, with neither user nor password.
    pub target: Uri,
    /// The headers, sent as they are.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// For name and TCP together, and once more for the TLS handshake.
    pub connect_timeout: Duration,
    /// For everything.
    pub attempt_timeout: Duration,
    /// How much of the answer's body to keep.
    pub preview_max: usize,
}

/// What an attempt came to.
#[derive(Clone)]
pub struct Answer {
    /// What it came to, for the decision.
    pub outcome: Outcome,
    /// The answer's status, if there was an answer.
    pub status: Option<u16>,
    /// What the answer said about trying again.
    pub retry_after: RetryAfterSeen,
    /// The beginning of the answer's body, if there was one and it was wanted.
    pub preview: Option<Bytes>,
    /// Where the time went.
    pub phases: Phases,
}

/// What an answer said about trying again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RetryAfterSeen {
    /// Nothing.
    #[default]
    None,
    /// Not before this long from now.
    Honoured(Duration),
    /// Something that means nothing.
    Ignored(IgnoredRetryAfter),
}

/// Where an attempt's time went. A phase that was not entered has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Phases {
    /// Resolving the name.
    pub dns: Option<Duration>,
    /// TCP.
    pub connect: Option<Duration>,
    /// The TLS handshake.
    pub tls: Option<Duration>,
    /// From the request to the end of the answer's head.
    pub first_byte: Option<Duration>,
    /// Everything.
    pub total: Duration,
    /// Whether the connection was there already.
    pub reused: bool,
}

impl Egress {
    /// A client for these rules. Reads the system's root certificates.
    ///
    /// # Errors
    ///
    /// When a root certificate cannot be read.
    pub fn new(rules: EgressRules) -> Result<Egress, EgressError> {
        let limits = Limits {
            idle_per_target_max: rules.idle_per_target_max,
            idle_for: rules.idle_for,
            connection_age_max: rules.connection_age_max,
            targets_max: rules.targets_max,
        };
        let shared = Shared {
            dialer: Dialer::new(&rules)?,
            pool: Arc::new(Pool::new(limits)),
            response_read_max: rules.response_read_max,
        };
        Ok(Egress { shared: Arc::new(shared) })
    }

    /// Makes one attempt. Dropped before it is done, it closes its connection.
    pub async fn send(&self, outgoing: Outgoing) -> Answer {
        let started_at = Instant::now();
        let mut phases = Phases::default();
        let answer = self.shared.attempt(outgoing, started_at, &mut phases).await;
        phases.total = started_at.elapsed();
        match answer {
            Ok(answer) => Answer { phases, ..answer },
            Err(fault) => Answer { phases, ..Answer::without_call(fault.into()) },
        }
    }
}

/// One attempt on its way.
struct Underway<'a> {
    target: &'a Pooled,
    deadlines: Deadlines,
    expired: Pin<&'a mut Sleep>,
    phases: &'a mut Phases,
}

type Answered = (Connection, Response<Incoming>);

impl Shared {
    async fn attempt(
        &self,
        outgoing: Outgoing,
        started_at: Instant,
        phases: &mut Phases,
    ) -> Result<Answer, Fault> {
        let Outgoing { method, target: uri, headers, body, connect_timeout, .. } = outgoing;
        let target = self.pool.target(&uri)?;
        let request = target::request(&target, method, uri, headers, body)?;
        let attempt = later(started_at, outgoing.attempt_timeout);
        let deadlines = Deadlines { connect_timeout, attempt };
        let expired = pin!(tokio::time::sleep_until(attempt));
        let mut underway = Underway { target: &target, deadlines, expired, phases };

        let (connection, response) = match self.send_idle(request, &mut underway).await? {
            ControlFlow::Break(answered) => answered,
            // Boxed: it is the larger half of this future, and the rarer.
            ControlFlow::Continue(request) => {
                Box::pin(self.send_fresh(request, &mut underway)).await?
            }
        };

        let status = response.status().as_u16();
        let (outcome, retry_after) = exchange::judge(status, response.headers());
        let (read_max, preview_max) = (self.response_read_max, outgoing.preview_max);
        let reading =
            exchange::read_body(response.into_body(), read_max, preview_max, underway.expired);
        let Body { preview, is_whole } = reading.await;
        if is_whole {
            self.pool.keep(&target, connection, Instant::now());
        }
        Ok(Answer { outcome, status: Some(status), retry_after, preview, phases: *phases })
    }

    /// Sends on an idle connection; goes on with the request if there is none that takes it. Where
    /// one has ended the others likely have too, so no second one is tried.
    async fn send_idle(
        &self,
        request: Request<Full<Bytes>>,
        underway: &mut Underway<'_>,
    ) -> Result<ControlFlow<Answered, Request<Full<Bytes>>>, Fault> {
        let now = Instant::now();
        let Some(idle) = self.pool.take(underway.target, now) else {
            return Ok(ControlFlow::Continue(request));
        };
        let Some(mut connection) = idle.becomes_ready(now).await else {
            return Ok(ControlFlow::Continue(request));
        };
        match exchange::exchange(&mut connection, request, underway.expired.as_mut()).await {
            Sent::Answered(response) => {
                underway.phases.reused = true;
                underway.phases.first_byte = Some(now.elapsed());
                Ok(ControlFlow::Break((connection, response)))
            }
            Sent::Unwritten(request) => Ok(ControlFlow::Continue(request)),
            Sent::Failed(fault) => {
                underway.phases.reused = true;
                Err(fault)
            }
        }
    }

    async fn send_fresh(
        &self,
        request: Request<Full<Bytes>>,
        underway: &mut Underway<'_>,
    ) -> Result<Answered, Fault> {
        let dialling = self.dialer.dial(underway.target, underway.deadlines, underway.phases);
        let mut connection = dialling.await?;
        let sent_at = Instant::now();
        match exchange::exchange(&mut connection, request, underway.expired.as_mut()).await {
            Sent::Answered(response) => {
                underway.phases.first_byte = Some(sent_at.elapsed());
                Ok((connection, response))
            }
            Sent::Unwritten(_) => {
                Err(exchange::why_unwritten(connection, underway.expired.as_mut()).await)
            }
            Sent::Failed(fault) => Err(fault),
        }
    }
}

impl Answer {
    /// What an attempt comes to that could not be made at all.
    pub fn without_call(outcome: Outcome) -> Answer {
        let (retry_after, phases) = (RetryAfterSeen::None, Phases::default());
        Answer { outcome, status: None, retry_after, preview: None, phases }
    }
}

/// A time that does not overflow: far enough away to be never.
fn later(from: Instant, by: Duration) -> Instant {
    const YEAR: Duration = Duration::from_secs(365 * 24 * 3_600);
    from + by.min(YEAR)
}

/// Without the connections, which say nothing.
impl fmt::Debug for Egress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Egress").finish_non_exhaustive()
    }
}

/// Without headers, path and body, which may hold secrets.
impl fmt::Debug for Outgoing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outgoing")
            .field("method", &self.method)
            .field("host", &self.target.host())
            .field("body_bytes", &self.body.len())
            .finish_non_exhaustive()
    }
}

/// Without the body, which may hold secrets.
impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer")
            .field("outcome", &self.outcome)
            .field("retry_after", &self.retry_after)
            .field("phases", &self.phases)
            .finish_non_exhaustive()
    }
}
