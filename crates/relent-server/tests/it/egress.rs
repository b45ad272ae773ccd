//! Everything that leaves, on real sockets: every way a target can behave, and what it is called.
//! REQ-C3, REQ-L4, REQ-A1, REQ-P2, REQ-P3, REQ-P4.

mod bodies;
mod certificates;
mod http;
mod pool;
mod servers;
mod tcp;
mod tls;
mod wire;

use std::time::Duration;

use ::http::{HeaderMap, Method};
use bytes::Bytes;
use relent_policy::{FailureKind, Fault, Outcome};
use relent_server::egress::{Answer, Egress, EgressRules, Outgoing};

/// Long enough for a slow machine; nothing here waits that long unless it is broken.
const PATIENCE: Duration = Duration::from_secs(20);
/// An attempt's time where it is meant to run out.
const SHORT: Duration = Duration::from_millis(200);

fn egress() -> Egress {
    egress_with(EgressRules::default())
}

fn egress_with(rules: EgressRules) -> Egress {
    Egress::new(rules).unwrap()
}

fn get(url: &str) -> Outgoing {
    Outgoing {
        method: Method::GET,
        target: url.parse().unwrap(),
        headers: HeaderMap::new(),
        body: Bytes::new(),
        connect_timeout: Duration::from_secs(8),
        attempt_timeout: Duration::from_secs(10),
        preview_max: 1_024,
    }
}

fn post(url: &str, body: impl Into<Bytes>) -> Outgoing {
    Outgoing { method: Method::POST, body: body.into(), ..get(url) }
}

async fn send(egress: &Egress, outgoing: Outgoing) -> Answer {
    within(egress.send(outgoing)).await
}

/// Every wait has an end.
async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("it comes in time")
}

/// The fault that an attempt came to.
#[track_caller]
fn fault(answer: &Answer) -> Fault {
    assert_eq!(answer.status, None, "{answer:?}");
    match answer.outcome {
        Outcome::Failure(failure) => match failure.kind {
            FailureKind::Fault(fault) => fault,
            kind => panic!("expected a fault, got: {kind}"),
        },
        Outcome::Success => panic!("expected a fault, got: success"),
    }
}
