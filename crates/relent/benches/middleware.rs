//! What a retrying middleware adds to a request of reqwest's: ours and reqwest-retry, in the same run.
//!
//! `cargo bench -p relent --features reqwest-middleware --bench middleware`. The last middleware
//! answers by itself, so that no network is timed; what a client costs without any retrying stands
//! beside the two.

use std::pin::Pin;

use divan::{AllocProfiler, Bencher};
use relent::Policy;
use relent::reqwest_middleware::RetryMiddleware;
use reqwest::{Client, Request, Response};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Middleware, Next, Result};
use reqwest_retry::RetryTransientMiddleware;
use reqwest_retry::policies::ExponentialBackoff;
use tokio::runtime::{Builder, Runtime};

#[global_allocator]
static ALLOC: AllocProfiler = AllocProfiler::system();

fn main() {
    // Nothing is encrypted here, but reqwest makes no client without it.
    let provider = rustls::crypto::ring::default_provider();
    provider.install_default().expect("the first provider");
    divan::main();
}

/// Stands where the network would.
struct AlwaysOk;

impl Middleware for AlwaysOk {
    // What `async_trait` makes of `async fn handle`.
    fn handle<'m, 'e, 'n, 'f>(
        &'m self,
        _request: Request,
        _extensions: &'e mut http::Extensions,
        _next: Next<'n>,
    ) -> Pin<Box<dyn Future<Output = Result<Response>> + Send + 'f>>
    where
        Self: 'f,
        'm: 'f,
        'e: 'f,
        'n: 'f,
    {
        Box::pin(async { Ok(Response::from(http::Response::new(""))) })
    }
}

fn clients() -> ClientBuilder {
    ClientBuilder::new(Client::new())
}

fn bench(bencher: Bencher, client: ClientBuilder) {
    let client: ClientWithMiddleware = client.with(AlwaysOk).build();
    let runtime: Runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let request = client.get("http://localhost/").build().expect("a request");
    let call = || {
        let request = request.try_clone().expect("a request without a body");
        let answer = runtime.block_on(client.execute(request)).expect("an answer");
        assert_eq!(answer.status(), 200);
    };
    // The first samples decide how many calls divan times at once; they are to be ordinary ones.
    (0..1_000).for_each(|_| call());
    bencher.bench_local(call);
}

#[divan::bench]
fn no_retrying(bencher: Bencher) {
    bench(bencher, clients());
}

#[divan::bench]
fn relent_budget_deadline_breaker(bencher: Bencher) {
    let retrier = relent::Retrier::new("bench", Policy::sync_api());
    bench(bencher, clients().with(RetryMiddleware::new(retrier)));
}

#[divan::bench]
fn reqwest_retry(bencher: Bencher) {
    let policy = ExponentialBackoff::builder().build_with_max_retries(3);
    bench(bencher, clients().with(RetryTransientMiddleware::new_with_policy(policy)));
}
