//! The documents that cross the wire: JSON in, validated types out; problem documents.
//!
//! Nothing here does I/O, waits, stores or reads a clock. What a caller sends is read into a type
//! that can only hold what is allowed, or refused with a [`Problem`] that names every place that is
//! wrong. JSON is camelCase; times are integer milliseconds since the epoch in fields that end in
//! `At`, durations integers in fields that end in `Ms`. REQ-S1, REQ-S2.
//!
//! - [`NewTask`]: what may be asked for;
//! - [`Problem`] and [`Code`]: how a request is refused;
//! - [`Limits`]: how much of anything there may be.

mod fields;
mod headers;
mod json;
mod limits;
mod method;
mod names;
mod problem;
mod report;
mod target;
mod task;
mod task_document;
mod wire_time;

pub use headers::{HeaderText, REDACTED, redacted_headers};
pub use limits::Limits;
pub use method::Method;
pub use names::UnknownName;
pub use problem::{Code, FieldError, Place, Problem};
pub use target::Target;
pub use task::{DEFAULT_POLICY_ID, First, NewTask};
pub use task_document::{Payload, Status, TaskDocument, TaskReceipt, WaitingReason};
