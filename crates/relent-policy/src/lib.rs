//! Whether and when to try again.
//!
//! `relent-policy` is the decision engine of relent. It is a pure function and the state it needs:
//! no clock, no random generator, no I/O, no async, no log, `no_std` with `alloc`. Time and chance
//! are arguments, so the library, the service, the simulator and the lint all mean the same thing by
//! a policy, and every decision can be replayed.
//!
//! ```
//! use relent_policy::{Decision, History, Lane, Outcome, Policy, Repeatable, Timestamp, Turn};
//! use relent_policy::{decide, roll};
//!
//! let policy = Policy::sync_api(); // 3 retries in 30 s, 1 s doubling to 30 s, full jitter
//! let mut lane = Lane::new(&policy); // this dependency's budget, breaker and limits
//! let mut history = History::start(Timestamp::from_secs(100), Repeatable::ByMethod);
//! let mut now = Timestamp::from_secs(100);
//!
//! for answer in [503, 503, 200] {
//!     history = history.begin_attempt();
//!     let pass = lane.admit(Turn::of_attempt(history.attempts()), now)?;
//!     let outcome = Outcome::http(answer); // the caller's own attempt goes here
//!     let roll = roll::for_attempt(42, 7, history.attempts());
//!     lane.finish(pass, &outcome, now, roll);
//!     match decide(&policy, &history, &outcome, &mut lane.gates(), now, roll) {
//!         Decision::Done => assert_eq!(history.attempts(), 3),
//!         Decision::RetryAt { at, charge, .. } => {
//!             history = history.charged(charge);
//!             now = at; // … and sleeps until then
//!         }
//!         Decision::GiveUp { because } => panic!("{because}"),
//!     }
//! }
//! # Ok::<(), relent_policy::Refusal>(())
//! ```
//!
//! Where to look:
//!
//! - [`decide`]: the one decision, in one order, with a reason for every stop;
//! - [`PolicySpec`] and [`Policy`]: what is written and what was meant; [`Standard`] stands between;
//! - [`Lane`]: a dependency's [`Budget`], [`Breaker`] and limits;
//! - [`Outcome`], [`Class`], [`Health`]: what came back and what it means;
//! - [`roll`]: how chance comes in.
#![cfg_attr(
    feature = "serde",
    doc = "\nWith the `serde` feature, [`Document`] reads policies from JSON, TOML and the like."
)]
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod backoff;
mod breaker;
mod budget;
mod calendar;
mod call_time;
mod classify;
mod decide;
#[cfg(feature = "serde")]
mod document;
mod failure;
mod fault;
mod flow;
mod history;
mod idempotency;
mod jitter;
mod lane;
mod membership;
mod policy;
mod problem;
mod ratio;
mod retry_after;
pub mod roll;
mod share;
#[cfg(feature = "serde")]
mod snapshot;
mod standard;
mod time;
mod window;

pub use backoff::Backoff;
pub use breaker::{Admission, Breaker, BreakerMark, BreakerOpen, BreakerRules, BreakerState};
pub use budget::{Budget, BudgetExhausted, BudgetRules, Withdrawal};
pub use classify::{Class, Health};
pub use decide::{Decision, Gates, GiveUpReason, Ungated, WaitReason, decide};
pub use failure::{Failure, FailureKind, Hint, Outcome, UnknownFailureName};
pub use fault::{Effect, Fault};
pub use flow::{ConcurrencyLimits, Turn};
pub use history::{Charge, History, Hop};
pub use idempotency::{BadIdempotencyKey, IdempotencyKey, Repeatable};
pub use jitter::Jitter;
pub use lane::{Lane, LaneGates, Leeway, Pass, Refusal, Reservation};
pub use membership::{Heard, Membership};
pub use policy::{ClassLimit, Context, Policy, PolicySpec, RetryAfterRules, UnknownContext};
pub use problem::{Problem, Rejected};
pub use ratio::{NotARatio, Ratio};
pub use retry_after::{IgnoredRetryAfter, read_retry_after};
pub use share::Share;
pub use standard::{BadExpiry, Conformance, Expiry, Rule, Standard, UnknownRule, Waived, Waiver};
pub use time::Timestamp;

#[cfg(feature = "serde")]
pub use breaker::BreakerSnapshot;
#[cfg(feature = "serde")]
pub use budget::BudgetSnapshot;
#[cfg(feature = "serde")]
pub use document::Document;
#[cfg(feature = "serde")]
pub use snapshot::UnknownVersion;
