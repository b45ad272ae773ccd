//! The documents that cross the wire: JSON in, validated types out; problem documents.
//!
//! Nothing here does I/O, waits, stores or reads a clock. What a caller sends is read into a type
//! that can only hold what is allowed, or refused with a [`Problem`] that names every place that is
//! wrong. JSON is camelCase; times are integer milliseconds since the epoch in fields that end in
//! `At`, durations integers in fields that end in `Ms`. REQ-S1, REQ-S2.
//!
//! What comes in:
//!
//! - [`NewTask`], [`parse_batch`], [`parse_lines`]: tasks;
//! - [`parse_policy`], [`LaneLimits`], [`RedriveRequest`]: what people set and ask for;
//! - [`TaskQuery`], [`PageQuery`], [`PolicyQuery`], [`Include`]: query strings;
//! - [`Limits`]: how much of anything there may be.
//!
//! What goes out:
//!
//! - [`Problem`] and [`Code`]: how a request is refused;
//! - [`TaskDocument`], [`AttemptDocument`], [`LaneDocument`], [`PolicyDocument`], [`EventDocument`], in
//!   a [`Page`] where there are many;
//! - [`OPENAPI`]: all of it, described.

mod attempt;
mod batch;
mod dead_letter;
mod error_message;
mod event;
#[cfg(test)]
mod examples;
mod fields;
mod filter;
mod headers;
mod json;
mod lane;
mod limits;
mod method;
mod names;
mod openapi;
mod page;
mod parameters;
mod policy_document;
mod problem;
mod redrive;
mod report;
mod target;
mod task;
mod task_document;
mod time;

pub use attempt::{AttemptDocument, Decided, EffectName, PhaseDocument, roll_text};
pub use batch::{BatchDocument, parse_batch, parse_lines};
pub use dead_letter::{DeadLetterDocument, PurgeReport};
pub use error_message::error_message;
pub use event::{EventDocument, EventKind};
pub use filter::{Include, PageQuery, TaskFilter, TaskQuery};
pub use headers::{HeaderText, REDACTED, redacted_headers};
pub use lane::{BreakerDocument, BreakerName, BudgetDocument, LaneDocument, LaneLimits, RulesFrom};
pub use limits::Limits;
pub use method::Method;
pub use names::UnknownName;
pub use openapi::OPENAPI;
pub use page::Page;
pub use policy_document::{PolicyDocument, PolicyQuery, WaivedDocument, parse_policy};
pub use problem::{Code, FieldError, Place, Problem};
pub use redrive::{RedriveReport, RedriveRequest, Selection};
pub use target::Target;
pub use task::{DEFAULT_POLICY_ID, First, NewTask};
pub use task_document::{CreatedDocument, Payload, Status, TaskDocument, WaitingReason};
