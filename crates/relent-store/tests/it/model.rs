//! The same random operations on the model and on another store, and the same answers.
//!
//! Both read the same clock, so answers are compared to the nanosecond; only ids and tokens differ.
//! Leases that a restart ended are not used again: their owner died with it.
//! A failure shrinks to a short list of operations. `PROPTEST_CASES` says how many sequences are
//! run: three for each ten, 300 without it, 3,000 at most (a sequence is some sixty commits). REQ-S3, REQ-S4, REQ-S7.

mod names;
mod operation;
mod pair;
mod side;

use std::env;

use proptest::test_runner::{Config, TestRunner};

use self::pair::Pair;
use crate::backend::{Backend, Clock};
use crate::{postgres, redis};

fn sequences_to_run() -> u32 {
    let cases = env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    (cases.unwrap_or(1_000_u32) / 10 * 3).clamp(1, 3_000)
}

fn compare_with_the_model(other: fn(&Clock) -> Backend) {
    compare_sequences_with_the_model(sequences_to_run(), other);
}

fn compare_sequences_with_the_model(cases: u32, other: fn(&Clock) -> Backend) {
    let config = Config {
        cases,
        max_shrink_iters: 2_000,
        max_shrink_time: 60_000,
        failure_persistence: None,
        ..Config::default()
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let compared = TestRunner::new(config).run(&operation::sequences(), |operations| {
        runtime.block_on(async {
            let mut pair = Pair::new(other).await;
            for operation in &operations {
                pair.apply(operation).await;
                pair.expect_nobody_oversleeps().await;
            }
            pair.expect_the_same_everywhere().await;
        });
        Ok(())
    });
    if let Err(difference) = compared {
        panic!("{difference}");
    }
}

#[test]
fn the_embedded_store_does_what_the_model_does() {
    compare_with_the_model(Backend::sqlite);
}

#[test]
fn the_embedded_store_does_what_the_model_does_with_little_memory() {
    compare_with_the_model(Backend::sqlite_with_little_memory);
}

#[test]
fn the_store_on_postgres_does_what_the_model_does() {
    if postgres::is_there() {
        // Each has a schema and connections of its own, which take longer than the rest.
        compare_sequences_with_the_model(sequences_to_run().div_ceil(5), Backend::postgres);
    }
}

#[test]
fn the_store_on_redis_does_what_the_model_does() {
    if redis::is_there() {
        compare_sequences_with_the_model(sequences_to_run().div_ceil(3), Backend::redis);
    }
}

#[test]
fn the_store_on_a_redis_cluster_does_what_the_model_does() {
    if redis::is_there() {
        compare_sequences_with_the_model(sequences_to_run().div_ceil(5), Backend::redis_cluster);
    }
}
