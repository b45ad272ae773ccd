//! JSON as it came: texts borrowed where they can be, values kept as they were written, and what
//! may be told of a value that is wrong. REQ-P2, REQ-P4.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::limits::Limits;
use crate::problem::{Code, Problem, shown};
use crate::report::Wrong;

/// A text, borrowed from the document unless it has escapes. (A `Cow` behind an `Option` would
/// always be copied.)
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(transparent)]
pub(crate) struct Text<'j>(#[serde(borrow)] pub(crate) Cow<'j, str>);

/// An object's entries in the order they came, repeated ones included.
#[derive(Debug)]
struct Entries<'j>(Vec<(Cow<'j, str>, &'j RawValue)>);

impl<'de: 'j, 'j> Deserialize<'de> for Entries<'j> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Entries<'j>, D::Error> {
        deserializer.deserialize_map(EntriesVisitor)
    }
}

struct EntriesVisitor;

impl<'j> Visitor<'j> for EntriesVisitor {
    type Value = Entries<'j>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'j>>(self, mut map: A) -> Result<Entries<'j>, A::Error> {
        let mut entries = Vec::new();
        while let Some((Text(name), value)) = map.next_entry()? {
            entries.push((name, value));
        }
        Ok(Entries(entries))
    }
}

/// An object that becomes a `T`. (A derived reader would take a list of its fields as well.)
#[derive(Debug)]
pub(crate) struct Object<T>(pub(crate) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Object<T>, D::Error> {
        deserializer.deserialize_map(ObjectVisitor(PhantomData)).map(Object)
    }
}

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map))
    }
}

/// The entries of an object.
pub(crate) fn entries(value: &RawValue) -> Result<Vec<(Cow<'_, str>, &RawValue)>, Wrong> {
    match serde_json::from_str(value.get()) {
        Ok(Entries(entries)) => Ok(entries),
        Err(_) if value.get().starts_with('{') => {
            Err(Wrong::new("an object with a name that is not Unicode", "an object"))
        }
        Err(_) => Err(Wrong::new(kind(value), "an object")),
    }
}

/// The document as text, if it is not too large.
pub(crate) fn text<'j>(json: &'j [u8], limits: &Limits) -> Result<&'j str, Problem> {
    if json.len() > limits.request_bytes_max {
        let (got, max) = (json.len(), limits.request_bytes_max);
        let detail = format!("the document must have at most {max} bytes, got {got}");
        return Err(Problem::new(Code::PayloadTooLarge, detail));
    }
    std::str::from_utf8(json).map_err(|error| {
        let at = error.valid_up_to();
        Problem::new(Code::MalformedJson, format!("the document is not UTF-8: byte {at} is not"))
    })
}

/// The document as one value; what is not JSON ends here. However deep it is, nothing follows it.
pub(crate) fn value(text: &str) -> Result<&RawValue, Problem> {
    serde_json::from_str(text).map_err(|error| malformed(&error))
}

/// The same for a value that is going to be read as a tree.
pub(crate) fn tree<'j>(text: &'j str, limits: &Limits) -> Result<&'j RawValue, Problem> {
    let value = value(text)?;
    let max = limits.json_depth_max;
    if is_deeper(value.get(), max) {
        let detail = format!("lists and objects must be nested at most {max} deep");
        return Err(Problem::new(Code::MalformedJson, detail));
    }
    Ok(value)
}

/// What a reader of raw values says about syntax; it never holds a piece of the document.
pub(crate) fn malformed(error: &serde_json::Error) -> Problem {
    Problem::new(Code::MalformedJson, format!("the document is not JSON: {error}"))
}

/// Whether lists and objects are nested deeper than this in a text that is JSON.
pub(crate) fn is_deeper(json: &str, max: usize) -> bool {
    // Most documents have fewer brackets than they may have levels, and counting is quick.
    let opening = json.bytes().filter(|byte| matches!(byte, b'[' | b'{')).count();
    opening > max && depth(json) > max
}

fn depth(json: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0_usize);
    let (mut in_text, mut escaped) = (false, false);
    for byte in json.bytes() {
        if in_text {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_text = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => in_text = true,
            b'[' | b'{' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

pub(crate) fn is_null(value: &RawValue) -> bool {
    value.get() == "null"
}

/// A value as a message may show it: itself when it is short and plain.
pub(crate) fn told(value: &RawValue) -> String {
    match value.get().as_bytes().first() {
        Some(b'[' | b'{') => kind(value),
        _ => shown(value.get()),
    }
}

/// A value that no message may show: its kind and its length.
pub(crate) fn kind(value: &RawValue) -> String {
    let json = value.get();
    match json.as_bytes().first() {
        Some(b'"') => text_of(json.len().saturating_sub(2)),
        Some(b'[') => "a list".to_owned(),
        Some(b'{') => "an object".to_owned(),
        Some(b't' | b'f') => "true or false".to_owned(),
        Some(b'n') | None => "null".to_owned(),
        Some(_) => "a number".to_owned(),
    }
}

/// A text that no message may show.
pub(crate) fn text_of(bytes: usize) -> String {
    format!("a text of {bytes} bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_counts_brackets_outside_texts() {
        for (json, expected) in
            [("1", 0), ("[]", 1), (r#"{"a":[{}]}"#, 3), (r#"["[[[\"[["]"#, 1), (r#"[[],[]]"#, 2)]
        {
            assert_eq!(depth(json), expected, "{json}");
        }
    }

    #[test]
    fn deep_trees_are_refused_however_deep() {
        let deep = "[".repeat(100_000) + &"]".repeat(100_000);
        assert!(value(&deep).is_ok());
        let problem = tree(&deep, &Limits::default()).unwrap_err();
        assert_eq!(problem.code, Code::MalformedJson);
    }

    #[test]
    fn texts_without_escapes_are_borrowed() {
        let Text(text) = serde_json::from_str(r#""plain""#).unwrap();
        assert!(matches!(text, Cow::Borrowed("plain")));
        let Text(text) = serde_json::from_str(r#""a\nb""#).unwrap();
        assert_eq!(text, "a\nb");
    }
}
