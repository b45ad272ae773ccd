//! Retries that know when to ease off.
//!
//! Make a [`Retrier`] for each dependency, once, and put your calls through it:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), relent::CallError<std::io::Error>> {
//! use relent::{Policy, Retrier};
//!
//! let payments = Retrier::new("payments", Policy::sync_api());
//! # async fn charge(_key: &str) -> std::io::Result<u32> { Ok(100) }
//!
//! // The attempt's key makes the call repeatable: the same UUID goes out on every attempt.
//! let charged = payments.call(async |attempt| charge(&attempt.key()).await).await?;
//! # assert_eq!(charged, 100);
//! # Ok(())
//! # }
//! ```
//!
//! What happens between the lines: exponential backoff with full jitter, a timeout for each attempt
//! and a deadline for all of them, `Retry-After` honoured, permanent failures not repeated, retries
//! held to 20 % of the dependency's traffic, and no call at all while its breaker is open. The policy
//! decides; [`relent_policy`] is the engine that a service and a simulator run as well.
//!
//! - [`Retrier::call`] for async code, [`Retrier::run`] for code that blocks,
//!   [`Operation::attempts`] for a loop of your own;
//! - [`CallError`] keeps the original error and says how often, how long and why;
//! - [`Classify`] teaches it your error types; those of well-known crates are behind features;
//! - [`hop`] keeps one retry layer per hop; [`observe`] tells what happens.

pub mod clock;
pub mod hop;
pub mod observe;

mod attempt;
mod call;
mod classify;
mod described;
mod drive;
mod error;
mod held;
mod judge;
mod key;
mod lane;
mod operation;
#[cfg(feature = "reqwest-middleware")]
pub mod reqwest_middleware;
mod retrier;
#[cfg(feature = "tower")]
pub mod tower;

pub use attempt::Attempt;
pub use error::{CallError, GaveUp, Refused, Report, TimedOut};
pub use hop::IDEMPOTENCY_KEY;
pub use judge::{Classify, Judge, permanent, retryable};
pub use key::CallKey;
pub use operation::{Attempts, Operation};
pub use relent_policy;
pub use relent_policy::{
    Class, Failure, FailureKind, Fault, GiveUpReason, Hop, IdempotencyKey, Outcome, Policy,
    PolicySpec, Refusal, Timestamp,
};
pub use retrier::{Builder, Retrier};

#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct ReadmeOfTheProject;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/guides/library.md")]
struct Guide;
