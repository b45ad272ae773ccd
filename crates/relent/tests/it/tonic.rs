//! gRPC: the meaning of every status, pushback, and responses without a body through the layer.

use std::error::Error;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

use http::{Method, StatusCode};
use relent::relent_policy::{Effect, Hint};
use relent::tower::RetryLayer;
use relent::{
    Class, Classify, Failure, FailureKind, Fault, GiveUpReason, IDEMPOTENCY_KEY, Policy, Retrier,
    Timestamp,
};
use tokio::time::Instant;
use tonic::metadata::MetadataValue;
use tonic::{Code, ConnectError, Status, TimeoutExpired};
use tower::{Layer, ServiceExt};

use crate::tower::script::{Line, Script};
use crate::tower::{request, retrier};

const PUSHBACK: &str = "grpc-retry-pushback-ms";

fn pushed_back(value: &'static str) -> Status {
    let mut status = Status::unavailable("busy");
    status.metadata_mut().insert(PUSHBACK, MetadataValue::from_static(value));
    status
}

#[test]
fn every_code_has_its_class() {
    use Class::{Permanent, Retryable, Unknown};
    let classes = [
        (Code::Cancelled, Permanent),
        (Code::Unknown, Unknown),
        (Code::InvalidArgument, Permanent),
        (Code::DeadlineExceeded, Retryable),
        (Code::NotFound, Permanent),
        (Code::AlreadyExists, Permanent),
        (Code::PermissionDenied, Permanent),
        (Code::ResourceExhausted, Retryable),
        (Code::FailedPrecondition, Permanent),
        (Code::Aborted, Retryable),
        (Code::OutOfRange, Permanent),
        (Code::Unimplemented, Permanent),
        (Code::Internal, Unknown),
        (Code::Unavailable, Retryable),
        (Code::DataLoss, Permanent),
        (Code::Unauthenticated, Permanent),
    ];
    for (number, (code, class)) in (1..).zip(classes) {
        let failure = Status::new(code, "what the server wrote").failure(Timestamp::ZERO);
        assert_eq!(failure, Failure::from(FailureKind::Grpc(number)), "{code:?}");
        assert_eq!(Class::of(failure.kind), class, "{code:?}");
    }
    let ok = Status::ok("an error all the same").failure(Timestamp::ZERO);
    assert_eq!(ok.kind, FailureKind::Grpc(2));
}

/// The failure that a status is which the client has made of this error.
fn made_of(error: impl Error + Send + Sync + 'static, code: Code) -> FailureKind {
    let mut status = Status::new(code, "transport error");
    status.set_source(Arc::new(error));
    status.failure(Timestamp::ZERO).kind
}

#[test]
fn a_status_that_the_client_made_of_an_io_error_is_that_error() {
    let io = |kind: ErrorKind, code| made_of(io::Error::other(io::Error::from(kind)), code);
    let fault = FailureKind::Fault;
    assert_eq!(io(ErrorKind::ConnectionRefused, Code::Unavailable), fault(Fault::ConnectRefused));
    assert_eq!(io(ErrorKind::ConnectionReset, Code::Unknown), fault(Fault::Reset));
    assert_eq!(io(ErrorKind::OutOfMemory, Code::Unavailable), FailureKind::Grpc(14));
    assert_eq!(io(ErrorKind::ConnectionReset, Code::Aborted), FailureKind::Grpc(10));
    let timeout = made_of(TimeoutExpired(()), Code::Cancelled);
    assert_eq!(timeout, fault(Fault::ResponseTimeout), "tonic calls its own timeout cancelled");
}

#[test]
fn a_certificate_error_is_permanent_although_it_comes_as_unavailable() {
    let expired = rustls::Error::InvalidCertificate(rustls::CertificateError::Expired);
    let error = ConnectError(io::Error::new(ErrorKind::InvalidData, expired).into());
    let kind = made_of(error, Code::Unavailable);
    assert_eq!(Class::of(kind), Class::Permanent, "{kind}");
    assert_eq!(kind.effect(), Effect::NotSent);
}

#[tokio::test(start_paused = true)]
async fn a_call_sees_every_status_and_sends_one_key_as_metadata() {
    let retrier = Retrier::builder("ledger").policy(Policy::grpc_unary()).seed(7).build();
    let keys = std::cell::RefCell::new(Vec::new());
    let result = retrier
        .call(async |attempt| {
            let mut request = tonic::Request::new(());
            let key = MetadataValue::from(attempt.key());
            request.metadata_mut().insert(IDEMPOTENCY_KEY, key);
            keys.borrow_mut().push(request.metadata().get(IDEMPOTENCY_KEY).unwrap().clone());
            match attempt.number() {
                1 => Err(Status::unavailable("busy")),
                2 => Err(Status::aborted("lost a race")),
                _ => Ok(tonic::Response::new(12)),
            }
        })
        .await;
    assert_eq!(result.unwrap().into_inner(), 12);
    let keys = keys.into_inner();
    assert_eq!(keys.len(), 3);
    assert!(keys.iter().all(|key| *key == keys[0]));
}

#[tokio::test(start_paused = true)]
async fn a_pushback_is_waited_for_and_a_negative_one_stops() {
    let hint = |value| pushed_back(value).failure(Timestamp::ZERO).hint;
    assert_eq!(hint("250"), Hint::RetryAfter(Duration::from_millis(250)));
    assert_eq!(hint("-1"), Hint::Stop);

    let started = Instant::now();
    let mut statuses = [pushed_back("9000")].into_iter();
    let result = retrier()
        .repeatable()
        .call(|_| std::future::ready(statuses.next().map_or(Ok(()), Err)))
        .await;
    assert!(result.is_ok());
    assert!((9_000..=13_500).contains(&started.elapsed().as_millis()), "{:?}", started.elapsed());

    let failed = retrier().repeatable().call(async |_| Err::<(), _>(pushed_back("-1"))).await;
    let failed = failed.unwrap_err();
    assert_eq!(failed.because(), Some(GiveUpReason::RefusedByServer));
    assert_eq!(failed.report().attempts, 1);
}

async fn through_the_layer(script: &Script) -> http::Response<Option<&'static str>> {
    let mut request = request(Method::POST);
    let headers = request.headers_mut();
    headers.insert("content-type", "application/grpc".parse().unwrap());
    headers.insert(IDEMPOTENCY_KEY, "order-17".parse().unwrap());
    let service = RetryLayer::new(retrier()).layer(script.clone());
    service.oneshot(request).await.unwrap().map(relent::tower::ResponseBody::into_inner)
}

#[tokio::test(start_paused = true)]
async fn a_response_without_a_body_is_judged_by_its_grpc_status() {
    let script = Script::new(&[
        Line::Head(200, &[("grpc-status", "14")]),
        Line::Head(200, &[("grpc-status", "8"), (PUSHBACK, "250")]),
        Line::Head(200, &[("content-type", "application/grpc")]),
    ]);
    let response = through_the_layer(&script).await;
    assert!(response.headers().get("grpc-status").is_none(), "the third");
    assert_eq!(script.header("grpc-previous-rpc-attempts"), ["1", "2"]);
    assert_eq!(script.header(IDEMPOTENCY_KEY), ["order-17"; 3]);
}

#[tokio::test(start_paused = true)]
async fn a_permanent_status_or_a_negative_pushback_comes_back_at_once() {
    for line in [
        &[Line::Head(200, &[("grpc-status", "3")])],
        &[Line::Head(200, &[("grpc-status", "14"), (PUSHBACK, "-1")])],
    ] {
        let script = Script::new(line);
        let response = through_the_layer(&script).await;
        assert_eq!((response.status(), script.calls()), (StatusCode::OK, 1));
        assert_eq!(response.into_body(), Some("theirs"));
    }
}
