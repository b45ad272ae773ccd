//! How much of anything a request may hold. REQ-P4.
//!
//! Every limit is checked before what it limits is copied. A limit on the whole request lets the
//! server stop reading; the others are checked here.

use std::time::Duration;

/// How much of anything a request may hold.
///
/// # Default
///
/// - a task's body: 1 MiB
/// - a task's headers: 64, a name 128 bytes, a value 8 KiB, all of them 16 KiB
/// - a URL: 2,048 bytes; a dependency's name: 128 characters
/// - a batch: 1,000 tasks; a request's document: 8 MiB; its nesting: 32 levels
/// - a first attempt: up to 30 days ahead
/// - a page: 50 items, 200 at most
///
/// ```
/// use relent_api::Limits;
///
/// let limits = Limits { batch_tasks_max: 100, ..Limits::default() };
/// assert_eq!(limits.body_bytes_max, 1 << 20);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// A task's body, decoded.
    pub body_bytes_max: usize,
    /// How many header lines a task has.
    pub headers_max: usize,
    /// The name of one header.
    pub header_name_bytes_max: usize,
    /// The value of one header.
    pub header_value_bytes_max: usize,
    /// All names and values of a task's headers together.
    pub headers_bytes_max: usize,
    /// A target, as it was given and as it is kept.
    pub url_bytes_max: usize,
    /// The name of a dependency.
    pub dependency_chars_max: usize,
    /// How many tasks a batch has.
    pub batch_tasks_max: usize,
    /// The whole document of a request.
    pub request_bytes_max: usize,
    /// How far ahead a first attempt may be scheduled.
    pub schedule_ahead_max: Duration,
    /// How many items a page holds if nothing is said.
    pub page_items_default: u32,
    /// How many items a page may hold.
    pub page_items_max: u32,
    /// How deep lists and objects may be nested.
    pub json_depth_max: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            body_bytes_max: 1 << 20,
            headers_max: 64,
            header_name_bytes_max: 128,
            header_value_bytes_max: 8 << 10,
            headers_bytes_max: 16 << 10,
            url_bytes_max: 2_048,
            dependency_chars_max: 128,
            batch_tasks_max: 1_000,
            request_bytes_max: 8 << 20,
            schedule_ahead_max: Duration::from_secs(30 * 86_400),
            page_items_default: 50,
            page_items_max: 200,
            json_depth_max: 32,
        }
    }
}
