//! `tonic::Status`: its code, its pushback, and the transport error behind it.
//! REQ-C2, REQ-C3, REQ-C6, REQ-P3.

use std::error::Error;
use std::{io, iter};

use relent_policy::{Failure, FailureKind, Fault, Hint, Timestamp};
use tonic::{Code, ConnectError, Status, TimeoutExpired};

use super::http::GRPC_PUSHBACK;
use crate::judge::Classify;

/// A status is its code, and waits as long as `grpc-retry-pushback-ms` says. One that the client has
/// made of a transport error is that error, which says more than `UNAVAILABLE`: whether the request
/// was sent, and whether it could go better next time. A certificate error could not.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), relent::CallError<tonic::Status>> {
/// use relent::{IDEMPOTENCY_KEY, Policy, Retrier};
/// use tonic::metadata::MetadataValue;
/// use tonic::{Request, Response, Status};
///
/// # #[derive(Clone)]
/// # struct Ledger;
/// # impl Ledger {
/// #     async fn charge(&mut self, _: Request<u32>) -> Result<Response<u32>, Status> {
/// #         Ok(Response::new(100))
/// #     }
/// # }
/// # let client = Ledger;
/// let ledger = Retrier::new("ledger", Policy::grpc_unary());
/// let charged = ledger
///     .call(async |attempt| {
///         let mut client = client.clone(); // generated clients are made to be cloned
///         let mut request = Request::new(100);
///         let key = MetadataValue::from(attempt.key());
///         request.metadata_mut().insert(IDEMPOTENCY_KEY, key);
///         client.charge(request).await
///     })
///     .await?;
/// # assert_eq!(charged.into_inner(), 100);
/// # Ok(())
/// # }
/// ```
impl Classify for Status {
    fn failure(&self, now: Timestamp) -> Failure {
        if let Some(fault) = self.source().and_then(|cause| fault_of(cause, self.code(), now)) {
            return FailureKind::Fault(fault).into();
        }
        // OK is no failure; a status that says so and comes as an error anyway is UNKNOWN.
        let code = u8::try_from(i32::from(self.code())).ok().filter(|code| *code != 0);
        let hint = self.metadata().get(GRPC_PUSHBACK).map_or(Hint::None, |value| {
            value.to_str().map_or(Hint::Stop, Hint::from_grpc_pushback)
        });
        Failure { kind: FailureKind::Grpc(code.unwrap_or(2)), hint }
    }
}

/// What the client made a status of, where that says more than the code does. Only a client's own
/// status has a cause: one from a server consists of what was on the wire.
fn fault_of(cause: &(dyn Error + 'static), code: Code, now: Timestamp) -> Option<Fault> {
    match code {
        // tonic's own timeout is CANCELLED, which from a server would be permanent.
        Code::Cancelled if has::<TimeoutExpired>(cause) => Some(Fault::ResponseTimeout),
        Code::Unavailable | Code::Unknown | Code::Internal => {
            by_chain(cause).or_else(|| by_io(cause, now))
        }
        _ => None,
    }
}

fn by_io(cause: &(dyn Error + 'static), now: Timestamp) -> Option<Fault> {
    let mut faults = causes(cause).filter_map(|cause| {
        match cause.downcast_ref::<io::Error>()?.failure(now).kind {
            FailureKind::Fault(fault) => Some(fault),
            _ => None,
        }
    });
    match faults.find(|fault| *fault != Fault::Unknown) {
        // Data that is wrong before a request was sent is that of the TLS handshake.
        Some(Fault::IoInvalid) if has::<ConnectError>(cause) => Some(Fault::TlsProtocol),
        fault => fault,
    }
}

#[cfg(any(feature = "hyper", feature = "reqwest"))]
fn by_chain(cause: &(dyn Error + 'static)) -> Option<Fault> {
    use super::chain::{self, Phase};
    let phase = if has::<ConnectError>(cause) { Phase::Connecting } else { Phase::Sent };
    chain::fault_of(cause, phase)
}

#[cfg(not(any(feature = "hyper", feature = "reqwest")))]
fn by_chain(_cause: &(dyn Error + 'static)) -> Option<Fault> {
    None
}

fn has<T: Error + 'static>(error: &(dyn Error + 'static)) -> bool {
    causes(error).any(<dyn Error>::is::<T>)
}

/// The error and what caused it, including what an `io::Error` wraps, which its `source` skips.
fn causes<'e>(error: &'e (dyn Error + 'static)) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    const DEPTH_MAX: usize = 32;
    iter::successors(Some(error), |error| {
        let error: &'e (dyn Error + 'static) = *error;
        match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(wrapped) => Some(wrapped),
            None => error.source(),
        }
    })
    .take(DEPTH_MAX)
}
