//! One retry layer per hop: services in a row.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::{Method, Request, StatusCode};
use relent::tower::{HopLayer, RetryLayer};
use relent::{Hop, PolicySpec, Retrier, Timestamp};
use tower::{Layer, Service, ServiceExt, service_fn};

use super::script::{Line, Script};
use super::{get, in_time, quick, request, serve};

/// Three attempts, whatever came before.
fn three() -> RetryLayer {
    let spec = PolicySpec { max_attempts: 3, ..PolicySpec::sync_api() };
    let policy = spec.build(Timestamp::ZERO).unwrap();
    RetryLayer::new(Retrier::builder("next").policy(policy).ungated().build())
}

#[tokio::test(start_paused = true)]
async fn of_two_services_in_a_row_only_the_first_repeats_its_retries() {
    let stock = Script::new(&[Line::Status(503)]);
    let inner = three().layer(stock.clone());
    let shop = HopLayer.layer(service_fn(move |_request: Request<&'static str>| {
        let mut inner = inner.clone();
        async move { inner.ready().await?.call(request(Method::GET)).await }
    }));
    let shop = shop.map_err(|error: relent::CallError<std::io::Error>| {
        error.into_original().unwrap_or_else(|| std::io::ErrorKind::Other.into())
    });
    let response = three().layer(shop).oneshot(request(Method::GET)).await.unwrap();
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    // The first request is no retry yet and is tried three times; the two retries of it once each.
    assert_eq!(stock.header("retry-attempt"), ["1", "2", "3", "1", "1"]);
    assert_eq!(stock.header("retry-max-attempts"), ["3", "3", "3", "1", "1"]);
}

#[tokio::test(start_paused = true)]
async fn a_proxy_sends_what_is_a_retry_already_once() {
    let stock = Script::new(&[Line::Status(503)]);
    let proxy = HopLayer.layer(three().layer(stock.clone()));
    for (name, value) in [
        ("retry-attempt", "2"),
        ("x-envoy-attempt-count", "2"),
        ("grpc-previous-rpc-attempts", "1"),
    ] {
        let before = stock.calls();
        let mut request = request(Method::GET);
        request.headers_mut().insert(name, value.parse().unwrap());
        proxy.clone().oneshot(request).await.unwrap();
        assert_eq!(stock.calls() - before, 1, "{name}");
    }
    proxy.oneshot(request(Method::GET)).await.unwrap();
    assert_eq!(stock.calls(), 3 + 3);
}

#[tokio::test(start_paused = true)]
async fn a_request_can_say_itself_whether_it_is_retried_above() {
    let stock = Script::new(&[Line::Status(503)]);
    let service = three().layer(stock.clone());
    let mut once = request(Method::GET);
    once.extensions_mut().insert(Hop::RetriedAbove);
    service.clone().oneshot(once).await.unwrap();
    assert_eq!(stock.calls(), 1);

    let mut anyway = request(Method::GET);
    anyway.extensions_mut().insert(Hop::Retries);
    relent::hop::within(Hop::RetriedAbove, service.oneshot(anyway)).await.unwrap();
    assert_eq!(stock.calls(), 1 + 3);
}

#[tokio::test]
async fn over_real_connections_it_is_the_same() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let stock = serve(axum::Router::new().fallback(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        std::future::ready(StatusCode::SERVICE_UNAVAILABLE)
    }))
    .await;
    let inner = quick();
    let shop = serve(
        axum::Router::new()
            .fallback(move || {
                let inner = inner.clone();
                async move { inner.oneshot(get(stock)).await.unwrap().status() }
            })
            .layer(HopLayer),
    )
    .await;
    let response = in_time(quick().oneshot(get(shop))).await.unwrap();
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(calls.load(Ordering::Relaxed), 4 + 3, "and not 16");
}
