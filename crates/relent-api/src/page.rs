//! A list, a page at a time. REQ-S2.

use serde::{Deserialize, Serialize};

/// Some items of a list, and where the next ones are.
///
/// ```
/// use relent_api::Page;
///
/// let page = Page { items: vec![1, 2], next_cursor: None };
/// assert_eq!(serde_json::to_string(&page)?, r#"{"items":[1,2],"nextCursor":null}"#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Page<T> {
    /// What is on this page.
    pub items: Vec<T>,
    /// What to send as `cursor` for the next page; null on the last.
    pub next_cursor: Option<String>,
}
