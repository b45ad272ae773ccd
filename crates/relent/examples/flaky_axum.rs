//! An axum service in front of a flaky dependency, and what its callers see.
//!
//! `cargo run -p relent --example flaky_axum --features reqwest`
//!
//! The service answers `GET /stock/{item}` by asking a warehouse that fails two times in three. The
//! example starts both on free ports, sends some requests, prints the answers and ends.

use std::error::Error;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::get;
use relent::relent_policy::{Backoff, Ratio};
use relent::{CallError, PolicySpec, Retrier, Timestamp, hop};

/// One retrier for the dependency: all requests share its budget and its breaker.
static WAREHOUSE: LazyLock<Retrier> = LazyLock::new(|| {
    let quick = PolicySpec {
        backoff: Backoff::Exponential {
            initial: Duration::from_millis(100),
            multiplier: Ratio::from_thousandths(2_000),
        },
        ..PolicySpec::sync_api()
    };
    let policy = quick.build(Timestamp::ZERO).expect("it conforms to the standard");
    Retrier::builder("warehouse").policy(policy).service("shop").repeatable().build()
});

#[derive(Clone)]
struct Shop {
    client: reqwest::Client,
    warehouse: String,
}

/// The handler: what cannot be had becomes 502 or 503, with the reason.
async fn stock(
    State(shop): State<Shop>,
    Path(item): Path<String>,
    headers: HeaderMap,
) -> (StatusCode, String) {
    // A caller that is itself retrying will come again: then this hop does not retry as well.
    let above = hop::of_request(|name| headers.get(name).and_then(|value| value.to_str().ok()));
    let url = format!("{}/{item}", shop.warehouse);
    let asked = hop::within(above, WAREHOUSE.call(async |_| shop.client.get(&url).send().await));
    match asked.await {
        Ok(response) if response.status().is_success() => {
            (StatusCode::OK, response.text().await.unwrap_or_default())
        }
        Ok(response) => (StatusCode::BAD_GATEWAY, format!("the warehouse: {}", response.status())),
        Err(CallError::Refused(refused)) => {
            (StatusCode::SERVICE_UNAVAILABLE, refused.refusal.to_string())
        }
        Err(error) => (StatusCode::BAD_GATEWAY, error.to_string()),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let asked = Arc::new(AtomicU32::new(0));
    let warehouse = {
        let asked = Arc::clone(&asked);
        let level =
            async move |Path(item): Path<String>| match asked.fetch_add(1, Ordering::Relaxed) % 3 {
                2 => (StatusCode::OK, format!("12 of {item}")),
                _ => (StatusCode::SERVICE_UNAVAILABLE, "busy".to_owned()),
            };
        serve(Router::new().route("/{item}", get(level))).await?
    };
    // This workspace builds reqwest without a default TLS provider; your client may not need this.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().retry(reqwest::retry::never()).no_proxy().build()?;
    let state = Shop { client: client.clone(), warehouse };
    let shop = serve(Router::new().route("/stock/{item}", get(stock)).with_state(state)).await?;

    for item in ["apples", "pears", "plums"] {
        ask(client.get(format!("{shop}/stock/{item}")), item, &asked).await?;
    }
    let retried = client.get(format!("{shop}/stock/figs")).header(hop::RETRY_ATTEMPT, "2");
    ask(retried, "figs, for a caller that is retrying", &asked).await?;
    println!("retry budget spent: {:.0} %", WAREHOUSE.budget_utilization_ratio() * 100.0);
    Ok(())
}

async fn ask(
    request: reqwest::RequestBuilder,
    what: &str,
    asked: &AtomicU32,
) -> Result<(), reqwest::Error> {
    let (started, before) = (Instant::now(), asked.load(Ordering::Relaxed));
    let response = request.send().await?;
    let (status, took) = (response.status(), started.elapsed());
    let requests = asked.load(Ordering::Relaxed) - before;
    println!("{what}: {status} {:?}, {requests} requests, {took:.0?}", response.text().await?);
    Ok(())
}

/// Serves an app on a free port, and says where.
async fn serve(app: Router) -> std::io::Result<String> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move { axum::serve(listener, app).await });
    Ok(format!("http://{address}"))
}
