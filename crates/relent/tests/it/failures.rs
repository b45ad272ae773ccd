//! Every way a network call can fail, on real sockets: what it is called, whether it is tried again,
//! and how often the server saw it. REQ-C3, REQ-C4, REQ-C6, REQ-P3.
//!
//! One test per way, by the layer it comes from. Each asserts how every attempt was classified, why
//! there was no further one, and how many connections the server counted.

mod certificates;
mod http;
mod http2;
mod hyper;
mod servers;
mod tcp;
mod tls;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, Once};
use std::time::Duration;

use relent::observe::{AttemptEvent, Observer};
use relent::relent_policy::{Backoff, Ratio};
use relent::{
    CallError, Class, Classify, FailureKind, Fault, GiveUpReason, Judge, PolicySpec, Retrier,
    Timestamp,
};
use reqwest::ClientBuilder;

use self::servers::Server;

/// What a call came to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// How each attempt failed.
    attempts: Vec<FailureKind>,
    because: Option<GiveUpReason>,
}

/// A call that failed in this way as often as the policy allows.
fn always(fault: Fault) -> Seen {
    assert_eq!(fault.class(), Class::Retryable);
    let kind = FailureKind::Fault(fault);
    Seen { attempts: vec![kind; 4], because: Some(GiveUpReason::AttemptsExhausted) }
}

/// A call that failed in this way and was not made again.
fn once(fault: Fault) -> Seen {
    once_of(FailureKind::Fault(fault))
}

fn once_of(kind: FailureKind) -> Seen {
    assert_eq!(Class::of(kind), Class::Permanent);
    Seen { attempts: vec![kind], because: Some(GiveUpReason::Permanent) }
}

/// A call that failed in this way twice, where the policy would allow four attempts.
fn twice(fault: Fault, because: GiveUpReason) -> Seen {
    Seen { attempts: vec![FailureKind::Fault(fault); 2], because: Some(because) }
}

/// Remembers how attempts fail.
#[derive(Clone, Default)]
struct Witness(Arc<Mutex<Vec<FailureKind>>>);

impl Observer for Witness {
    fn attempt(&self, event: &AttemptEvent<'_>) {
        self.0.lock().unwrap().extend(event.failure);
    }
}

/// Makes a call that may be repeated, four times at most with waits of some milliseconds.
async fn observe<T, E>(operation: impl AsyncFn() -> Result<T, E>) -> Seen
where
    E: Classify,
    Result<T, E>: Judge,
{
    let spec = PolicySpec {
        backoff: Backoff::Exponential {
            initial: Duration::from_millis(10),
            multiplier: Ratio::from_thousandths(2_000),
        },
        ..PolicySpec::sync_api()
    };
    let witness = Witness::default();
    let policy = spec.build(Timestamp::ZERO).unwrap();
    let retrier = Retrier::builder("peer").policy(policy).observer(witness.clone()).build();
    let result = retrier.repeatable().call(async |_| operation().await).await;
    let because = result.as_ref().err().and_then(CallError::because);
    let attempts = witness.0.lock().unwrap().clone();
    if let Some(original) = result.as_ref().err().and_then(CallError::original) {
        let kind = original.failure(Timestamp::ZERO).kind;
        assert_eq!(Some(&kind), attempts.last(), "the error says what was observed");
    }
    Seen { attempts, because }
}

/// GET, and the whole body.
async fn get(client: &reqwest::Client, url: &str) -> Seen {
    observe(async || client.get(url).send().await?.bytes().await).await
}

/// A client as the documentation wants it, with time enough for a slow machine.
fn client() -> ClientBuilder {
    install_ring();
    reqwest::Client::builder()
        .retry(reqwest::retry::never())
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .tls_certs_only([])
        .connect_timeout(Duration::from_secs(5))
        .timeout(Duration::from_secs(8))
}

fn install_ring() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}

/// A client that finds the server by the name that its certificate is for.
fn client_of(address: SocketAddr) -> ClientBuilder {
    client().resolve("localhost", address)
}

/// Asserts what a GET comes to, and that each attempt was a connection of its own.
async fn assert_get(client: ClientBuilder, url: &str, server: &Server, expected: Seen) {
    let seen = get(&client.build().unwrap(), url).await;
    assert_eq!(seen, expected);
    assert_eq!(server.connections() as usize, expected.attempts.len(), "connections");
}
