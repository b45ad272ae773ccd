//! Policy documents: from JSON (or TOML, YAML, …) to a policy and back. REQ-S1, REQ-E1.
//!
//! A derived reader stops at the first thing it dislikes. Here a document is read in two steps:
//! first into a loose tree that any format can fill, then field by field, collecting problems. So
//! whoever sends a bad policy learns of every unknown name, wrong type, impossible number and broken
//! rule in one answer.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use crate::policy::{Policy, PolicySpec};
use crate::problem::Rejected;
use crate::time::Timestamp;

mod fields;
mod names;
mod read;
mod write;

/// A document of any shape, on its way to becoming a policy.
///
/// ```
/// use relent_policy::{Document, Policy, Timestamp};
///
/// let document: Document = serde_json::from_str(
///     r#"{"policyId": "orders", "maxAttempts": 4, "jitterType": "FULL", "totalBudgetMs": 60000}"#,
/// )?;
/// let policy = Policy::from_document(&document, Timestamp::ZERO)?;
/// assert_eq!(policy.id(), "orders");
///
/// let document: Document = serde_json::from_str(
///     r#"{"policyId": "orders", "maxAttemps": 4, "jitterType": "SOME", "multiplier": -1}"#,
/// )?;
/// let rejected = Policy::from_document(&document, Timestamp::ZERO).unwrap_err();
/// let fields: Vec<_> = rejected.problems.iter().map(|problem| problem.field.as_str()).collect();
/// assert_eq!(fields, ["multiplier", "jitterType", "maxAttemps"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Document {
    /// Nothing.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Integer(i128),
    /// Any other number.
    Number(f64),
    /// A text.
    Text(String),
    /// A list.
    List(Vec<Document>),
    /// An object, with its entries as they came.
    Map(Vec<(String, Document)>),
}

impl Policy {
    /// Reads, checks and builds a policy.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with the document, in the order of a policy's fields: what could not
    /// be read, what could not work, and what departs from the standard without a waiver.
    pub fn from_document(document: &Document, now: Timestamp) -> Result<Policy, Rejected> {
        let (spec, mut problems) = read::spec(document);
        let unreadable = problems.len();
        for problem in spec.problems(now) {
            // A field that could not be read holds its default, which is not what was sent.
            if !problems[..unreadable].iter().any(|read| read.field == problem.field) {
                problems.push(problem);
            }
        }
        if problems.is_empty() {
            return spec.build(now);
        }
        Err(Rejected { policy_id: spec.policy_id, problems })
    }
}

impl PolicySpec {
    /// Reads a policy without checking what it says.
    ///
    /// ```
    /// use relent_policy::{Document, PolicySpec};
    ///
    /// let document: Document = serde_json::from_str(r#"{"policyId": "a", "maxAttempts": 900}"#)?;
    /// assert_eq!(PolicySpec::from_document(&document)?.max_attempts, 900);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Every field that could not be read.
    pub fn from_document(document: &Document) -> Result<PolicySpec, Rejected> {
        let (spec, problems) = read::spec(document);
        if problems.is_empty() {
            return Ok(spec);
        }
        Err(Rejected { policy_id: spec.policy_id, problems })
    }
}

impl<'de> Deserialize<'de> for PolicySpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<PolicySpec, D::Error> {
        let document = Document::deserialize(deserializer)?;
        PolicySpec::from_document(&document).map_err(de::Error::custom)
    }
}

impl fmt::Display for Document {
    /// The value as JSON would write it, its inside left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Document::Null => f.write_str("null"),
            Document::Bool(value) => write!(f, "{value}"),
            Document::Integer(value) => write!(f, "{value}"),
            Document::Number(value) => write!(f, "{value}"),
            Document::Text(value) => write!(f, "{value:?}"),
            Document::List(items) => write!(f, "a list of {}", items.len()),
            Document::Map(entries) => write!(f, "an object with {} fields", entries.len()),
        }
    }
}

impl<'de> Deserialize<'de> for Document {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Document, D::Error> {
        deserializer.deserialize_any(AnyDocument)
    }
}

struct AnyDocument;

impl<'de> Visitor<'de> for AnyDocument {
    type Value = Document;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a policy document")
    }

    fn visit_unit<E>(self) -> Result<Document, E> {
        Ok(Document::Null)
    }

    fn visit_none<E>(self) -> Result<Document, E> {
        Ok(Document::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Document, D::Error> {
        Document::deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Document, E> {
        Ok(Document::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Document, E> {
        Ok(Document::Integer(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Document, E> {
        Ok(Document::Integer(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Document, E> {
        Ok(Document::Number(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Document, E> {
        Ok(Document::Text(value.to_string()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Document, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Document::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Document, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Document::Map(entries))
    }
}

#[cfg(test)]
mod tests;
