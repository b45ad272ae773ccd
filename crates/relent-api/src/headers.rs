//! The headers of a task: which may be given, how large, and which are never shown. REQ-P2, REQ-P4.
//!
//! How a request is framed is decided where it is sent, never by what a caller put into a task: a
//! second `Content-Length` or a `Connection` that names other headers is how requests are smuggled.
//! So those are refused at the door instead of dropped on the way.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::json::{self, Text, text_of};
use crate::limits::Limits;
use crate::problem::pointer;
use crate::report::{Report, Wrong};

/// What stands in place of a value that is not shown.
pub const REDACTED: &str = "[redacted]";

/// Set by the connection.
const FRAMING: [&str; 10] = [
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "keep-alive",
    "te",
    "trailer",
    "upgrade",
    "expect",
    "http2-settings",
];

/// Set by relent on every attempt.
const RESERVED: [&str; 3] = ["retry-attempt", "retry-max-attempts", "retry-previous-status"];

const SECRET: [&str; 4] = ["authorization", "cookie", "proxy-authorization", "x-api-key"];
const SECRET_PARTS: [&str; 6] = ["token", "secret", "password", "signature", "api-key", "apikey"];

/// A header's value as a document shows it: a text, or a list where it was given several times.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, serde::Deserialize)]
#[serde(untagged)]
pub enum HeaderText {
    /// Given once.
    One(String),
    /// Given several times.
    Many(Vec<String>),
}

/// The headers of a task as anybody may see them: values of those that carry secrets are hidden.
///
/// ```
/// use relent_api::{HeaderText, redacted_headers};
///
/// let headers = [
///     ("accept".to_owned(), "*/*".to_owned()),
///     ("authorization".to_owned(), "Bearer hunter2".to_owned()),
/// ];
/// let shown = redacted_headers(&headers);
/// assert_eq!(shown["accept"], HeaderText::One("*/*".into()));
/// assert_eq!(shown["authorization"], HeaderText::One("[redacted]".into()));
/// ```
pub fn redacted_headers(headers: &[(String, String)]) -> BTreeMap<String, HeaderText> {
    let mut shown = BTreeMap::new();
    for (name, value) in headers {
        let value = if is_secret(name) { REDACTED } else { value };
        let value = value.to_owned();
        match shown.get_mut(name) {
            None => {
                shown.insert(name.clone(), HeaderText::One(value));
            }
            Some(HeaderText::Many(values)) => values.push(value),
            Some(HeaderText::One(first)) => {
                let values = vec![std::mem::take(first), value];
                shown.insert(name.clone(), HeaderText::Many(values));
            }
        }
    }
    shown
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET.contains(&name.as_str()) || SECRET_PARTS.iter().any(|part| name.contains(part))
}

/// Headers as they came, one line for each value.
#[derive(Default)]
pub(crate) struct GivenHeaders<'j>(Vec<Given<'j>>);

struct Given<'j> {
    name: Cow<'j, str>,
    value: Cow<'j, str>,
    /// Whether the line before is of the same list.
    further: bool,
}

impl<'j> GivenHeaders<'j> {
    /// Reads what can be read, and reports the rest.
    pub(crate) fn read(value: &'j RawValue, report: &mut Report) -> Option<GivenHeaders<'j>> {
        let entries = report.keep("/headers", json::entries(value))?;
        let mut given = GivenHeaders::default();
        for (name, value) in entries {
            match serde_json::from_str(value.get()) {
                Ok(values) => given.push(name, values),
                Err(_) => {
                    let at = pointer::field("/headers", &name);
                    report.at(&at, Wrong::new(json::kind(value), "a text, or a list of texts"));
                }
            }
        }
        Some(given)
    }

    fn push(&mut self, name: Cow<'j, str>, values: Values<'j>) {
        match values {
            Values::One(value) => self.0.push(Given { name, value, further: false }),
            Values::Many(values) => {
                for (index, Text(value)) in values.into_iter().enumerate() {
                    self.0.push(Given { name: name.clone(), value, further: index > 0 });
                }
            }
        }
    }

    /// The header lines, names in lower case; what is not allowed is reported.
    pub(crate) fn check(self, limits: &Limits, report: &mut Report) -> Vec<(String, String)> {
        let count = self.0.len();
        if count > limits.headers_max {
            let expected = format!("at most {} headers", limits.headers_max);
            report.at("/headers", Wrong::new(format!("{count} headers"), expected));
            return Vec::new();
        }
        let bytes: usize = self.0.iter().map(|line| line.name.len() + line.value.len()).sum();
        if bytes > limits.headers_bytes_max {
            let expected = format!("at most {} bytes in all", limits.headers_bytes_max);
            report.at("/headers", Wrong::new(format!("{bytes} bytes"), expected));
        }
        // One more may be added: the content type.
        let mut lines: Vec<(String, String)> = Vec::with_capacity(count + 1);
        for given in &self.0 {
            match check(given, &lines, limits) {
                Ok(line) => lines.push(line),
                Err(wrong) => report.at(&pointer::field("/headers", &given.name), wrong),
            }
        }
        lines
    }
}

fn check(
    Given { name, value, further }: &Given<'_>,
    known: &[(String, String)],
    limits: &Limits,
) -> Result<(String, String), Wrong> {
    let max = limits.header_name_bytes_max;
    if name.len() > max || name.is_empty() || !name.bytes().all(is_token) {
        let expected = format!("a name of 1 to {max} letters, digits and !#$%&'*+-.^_`|~");
        return Err(Wrong::new(format!("a name of {} bytes", name.len()), expected));
    }
    let name = name.to_ascii_lowercase();
    if let Some((expected, fix)) = refusal(&name) {
        return Err(Wrong::new(text_of(value.len()), expected).fix(fix));
    }
    if !further && known.iter().any(|(other, _)| *other == name) {
        return Err(Wrong::new("the same name again, upper and lower case aside", "given once")
            .fix("give several values as a list"));
    }
    let max = limits.header_value_bytes_max;
    if value.len() > max {
        return Err(Wrong::new(text_of(value.len()), format!("a text of at most {max} bytes")));
    }
    if !value.bytes().all(|byte| matches!(byte, b'\t' | b' '..=b'~')) {
        let expected = "visible ASCII, spaces and tabs";
        let got = format!("{} with other characters", text_of(value.len()));
        return Err(Wrong::new(got, expected));
    }
    Ok((name, value.as_ref().to_owned()))
}

/// Why a header may not be given, and what to do instead.
fn refusal(name: &str) -> Option<(&'static str, &'static str)> {
    if name == "idempotency-key" {
        let expected = "left out: the key of a task has a field of its own";
        return Some((expected, "use idempotencyKey"));
    }
    if RESERVED.contains(&name) {
        return Some(("left out: relent sets it on every attempt", "take it out"));
    }
    if FRAMING.contains(&name) || name.starts_with("proxy-") {
        return Some(("left out: it belongs to the connection, not to the request", "take it out"));
    }
    None
}

/// The characters of a header's name, RFC 9110's `tchar`.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// What one name was given.
enum Values<'j> {
    One(Cow<'j, str>),
    Many(Vec<Text<'j>>),
}

impl<'de: 'j, 'j> Deserialize<'de> for GivenHeaders<'j> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<GivenHeaders<'j>, D::Error> {
        deserializer.deserialize_map(GivenVisitor)
    }
}

struct GivenVisitor;

impl<'j> Visitor<'j> for GivenVisitor {
    type Value = GivenHeaders<'j>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of names and texts")
    }

    fn visit_map<A: MapAccess<'j>>(self, mut map: A) -> Result<GivenHeaders<'j>, A::Error> {
        let mut given = GivenHeaders::default();
        while let Some((Text(name), values)) = map.next_entry()? {
            given.push(name, values);
        }
        Ok(given)
    }
}

impl<'de: 'j, 'j> Deserialize<'de> for Values<'j> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Values<'j>, D::Error> {
        deserializer.deserialize_any(ValuesVisitor)
    }
}

struct ValuesVisitor;

impl<'j> Visitor<'j> for ValuesVisitor {
    type Value = Values<'j>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, or a list of texts")
    }

    fn visit_borrowed_str<E>(self, text: &'j str) -> Result<Values<'j>, E> {
        Ok(Values::One(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Values<'j>, E> {
        Ok(Values::One(Cow::Owned(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'j>>(self, mut seq: A) -> Result<Values<'j>, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = seq.next_element()? {
            values.push(value);
        }
        Ok(Values::Many(values))
    }
}

#[cfg(test)]
mod tests;
