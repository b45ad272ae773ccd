//! A reqwest client whose server answers 503, 503 and then 200.
//!
//! `cargo run -p relent --example reqwest_client --features reqwest`

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use axum::Router;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use relent::observe::{AttemptEvent, Observer};
use relent::{IDEMPOTENCY_KEY, Policy, Retrier};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = serve_payments().await?;
    let client = client()?;
    let payments = Retrier::builder("payments").policy(Policy::sync_api()).observer(Print).build();

    // A response with a failing status is an `Ok` for reqwest; relent looks at the status.
    let response = payments
        .call(async |attempt| {
            client
                .post(&url)
                .header(IDEMPOTENCY_KEY, attempt.key())
                .timeout(attempt.timeout())
                .body("100 EUR")
                .send()
                .await
        })
        .await?;
    println!("{}: {}", response.status(), response.text().await?);

    // Without a key a POST is sent once: nobody knows whether the first one was carried out.
    let response = payments.call(async |_| client.post(&url).body("100 EUR").send().await).await?;
    println!("without a key: {}, and no second attempt", response.status());
    Ok(())
}

/// Says what happens; a service would use the features `tracing` and `metrics`.
struct Print;

impl Observer for Print {
    fn attempt(&self, event: &AttemptEvent<'_>) {
        let outcome = event.failure.map_or("success".to_owned(), |failure| failure.to_string());
        match event.wait {
            Some(wait) => println!("attempt {}: {outcome}, again in {wait:.2?}", event.attempt),
            None => println!("attempt {}: {outcome}", event.attempt),
        }
    }
}

/// One retry layer per hop: reqwest's own is switched off.
fn client() -> Result<reqwest::Client, reqwest::Error> {
    // This workspace builds reqwest without a default TLS provider; your client may not need this.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().retry(reqwest::retry::never()).no_proxy().build()
}

/// A server on a free port that is unavailable twice, takes a payment, and is unavailable again.
async fn serve_payments() -> Result<String, Box<dyn Error>> {
    let requests = Arc::new(AtomicU32::new(0));
    let pay = async move |headers: HeaderMap| match requests.fetch_add(1, Ordering::Relaxed) {
        2 => {
            let key = headers.get(IDEMPOTENCY_KEY).and_then(|key| key.to_str().ok());
            (StatusCode::OK, format!("paid once, under key {}", key.unwrap_or("none")))
        }
        _ => (StatusCode::SERVICE_UNAVAILABLE, "try again".to_owned()),
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/payments", listener.local_addr()?);
    let app = Router::new().route("/payments", post(pay));
    tokio::spawn(async move { axum::serve(listener, app).await });
    Ok(url)
}
