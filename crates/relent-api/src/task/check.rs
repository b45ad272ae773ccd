//! What a task may say. One pass over everything, so that all problems are told at once.

use std::borrow::Cow;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use bytes::Bytes;
use relent_policy::{BadIdempotencyKey, IdempotencyKey, Timestamp};
use serde_json::value::RawValue;

use super::given::Given;
use super::{DEFAULT_POLICY_ID, First, NewTask};
use crate::json::{self, Text, text_of};
use crate::limits::Limits;
use crate::method::Method;
use crate::problem::{Code, Place};
use crate::report::{Report, Wrong};
use crate::target::Target;
use crate::time::Time;

const POLICY_ID_CHARS_MAX: usize = 64;
const CORRELATION_ID_CHARS_MAX: usize = 128;
const KEY_HEADER: &str = "Idempotency-Key";

/// The task, if nothing about it is wrong; otherwise `None`, or a task that nobody may use, and
/// what is wrong in the report.
pub(crate) fn check(
    given: Given<'_>,
    header_key: Option<&str>,
    limits: &Limits,
    now: Timestamp,
    report: &mut Report,
) -> Option<NewTask> {
    let target = target(given.target_url, limits, report);
    let method = method(given.method, report);
    let mut headers = given.headers.map_or_else(Vec::new, |it| it.check(limits, report));
    let body = body(given.body, given.body_base64, method, limits, report);
    if body.is_json && !headers.iter().any(|(name, _)| name == "content-type") {
        headers.push(("content-type".to_owned(), "application/json".to_owned()));
    }
    let key = key(given.idempotency_key, header_key, method, report);
    let policy_id = match given.policy_id {
        Some(Text(id)) => report.keep("/policyId", policy_id(&id)),
        None => Some(DEFAULT_POLICY_ID.to_owned()),
    };
    let dependency = given.dependency.and_then(|Text(name)| {
        report.keep("/dependency", visible(name, limits.dependency_chars_max))
    });
    let correlation_id = given
        .correlation_id
        .and_then(|Text(id)| report.keep("/correlationId", visible(id, CORRELATION_ID_CHARS_MAX)));
    let first = first(given.delay_ms, given.not_before, limits, now, report);
    Some(NewTask {
        target: target?,
        method: method?,
        headers,
        body: body.bytes,
        key,
        policy_id: policy_id?,
        dependency,
        correlation_id,
        first,
    })
}

fn target(given: Option<Text<'_>>, limits: &Limits, report: &mut Report) -> Option<Target> {
    match given {
        Some(Text(text)) => report.keep("/targetUrl", Target::read(&text, limits)),
        None if report.has("/targetUrl") => None,
        None => {
            report.at("/targetUrl", Wrong::new("nothing", "the URL to call"));
            None
        }
    }
}

fn method(given: Option<Text<'_>>, report: &mut Report) -> Option<Method> {
    let Some(Text(text)) = given else {
        return (!report.has("/method")).then_some(Method::Post);
    };
    let method = text.parse::<Method>();
    let method = method.map_err(|unknown| Wrong::new(format!("{text:?}"), unknown.to_string()));
    report.keep("/method", method)
}

#[derive(Default)]
struct Body {
    bytes: Bytes,
    is_json: bool,
}

fn body(
    given: Option<&RawValue>,
    base64: Option<Text<'_>>,
    method: Option<Method>,
    limits: &Limits,
    report: &mut Report,
) -> Body {
    let at = if given.is_some() { "/body" } else { "/bodyBase64" };
    let body = match (given, base64) {
        (None, None) => return Body::default(),
        (Some(_), Some(_)) => {
            let wrong = Wrong::new("both", "left out when body is given");
            report.at("/bodyBase64", wrong.fix("give body or bodyBase64"));
            return Body::default();
        }
        (Some(value), None) => plain_body(value, limits),
        (None, Some(Text(text))) => decoded_body(&text, limits),
    };
    let body = report.keep(at, body).unwrap_or_default();
    match method {
        Some(method) if !method.takes_body() && !body.bytes.is_empty() => {
            let got = format!("{} bytes", body.bytes.len());
            report.at(at, Wrong::new(got, format!("left out with {method}")));
        }
        _ => {}
    }
    body
}

fn plain_body(value: &RawValue, limits: &Limits) -> Result<Body, Wrong> {
    let json = value.get();
    if json.starts_with('"') {
        let Ok(Text(text)) = serde_json::from_str(json) else {
            return Err(Wrong::new(json::kind(value), "a text that is Unicode"));
        };
        check_size(text.len(), limits)?;
        let bytes = match text {
            Cow::Borrowed(text) => Bytes::copy_from_slice(text.as_bytes()),
            Cow::Owned(text) => Bytes::from(text),
        };
        return Ok(Body { bytes, is_json: false });
    }
    check_size(json.len(), limits)?;
    if json::is_deeper(json, limits.json_depth_max) {
        let expected = format!("lists and objects nested at most {} deep", limits.json_depth_max);
        return Err(Wrong::new("deeper ones", expected).fix("give the body as a text"));
    }
    Ok(Body { bytes: Bytes::copy_from_slice(json.as_bytes()), is_json: true })
}

/// Padding may be left out, as many encoders do.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

fn decoded_body(text: &str, limits: &Limits) -> Result<Body, Wrong> {
    // Nothing that is too large is decoded first.
    check_size((text.len() / 4).saturating_mul(3).saturating_sub(2), limits)?;
    let Ok(bytes) = BASE64.decode(text) else {
        return Err(Wrong::new(text_of(text.len()), "a text in base64 (A-Z a-z 0-9 + /)"));
    };
    check_size(bytes.len(), limits)?;
    Ok(Body { bytes: bytes.into(), is_json: false })
}

fn check_size(bytes: usize, limits: &Limits) -> Result<(), Wrong> {
    let max = limits.body_bytes_max;
    if bytes <= max {
        return Ok(());
    }
    let wrong = Wrong::new(format!("{bytes} bytes"), format!("a body of at most {max} bytes"));
    Err(wrong.code(Code::PayloadTooLarge))
}

fn key(
    given: Option<Text<'_>>,
    header: Option<&str>,
    method: Option<Method>,
    report: &mut Report,
) -> Option<IdempotencyKey> {
    let at = "/idempotencyKey";
    let (is_given, is_sent) = (given.is_some() || report.has(at), header.is_some());
    let given = given
        .and_then(|Text(text)| report.keep(at, IdempotencyKey::try_new(&text).map_err(bad_key)));
    let sent = header.and_then(|text| match IdempotencyKey::try_new(text.trim()) {
        Ok(key) => Some(key),
        Err(bad) => {
            report.add(Place::Header(KEY_HEADER.to_owned()), bad_key(bad));
            None
        }
    });
    match (given, sent) {
        (Some(given), Some(sent)) if given != sent => {
            let expected = "the same key as in the Idempotency-Key header, or left out";
            report.at(at, Wrong::new("another key", expected));
            None
        }
        (Some(key), _) | (None, Some(key)) => Some(key),
        (None, None) => {
            let needed = method.is_some_and(Method::needs_key);
            if needed && !is_given && !is_sent {
                report.at(at, missing_key());
            }
            None
        }
    }
}

fn missing_key() -> Wrong {
    Wrong::new("nothing", "given with POST and PATCH")
        .code(Code::MissingIdempotencyKey)
        .fix("set idempotencyKey or the Idempotency-Key header to something unique, such as a UUID")
}

fn bad_key(bad: BadIdempotencyKey) -> Wrong {
    let got = match bad {
        BadIdempotencyKey::Empty => "an empty text".to_owned(),
        BadIdempotencyKey::TooLong { length } => format!("{length} characters"),
        BadIdempotencyKey::BadCharacter { character } => format!("{character:?} in it"),
    };
    Wrong::new(got, "1 to 64 characters from A-Z a-z 0-9 _ - . :")
}

/// What may be a key.
pub(crate) fn key_of(text: &str) -> Result<IdempotencyKey, Wrong> {
    IdempotencyKey::try_new(text).map_err(bad_key)
}

/// What may be the id of a policy.
pub(crate) fn policy_id(id: &str) -> Result<String, Wrong> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    if id.is_empty() || id.len() > POLICY_ID_CHARS_MAX || !id.bytes().all(allowed) {
        let expected = "the id of a policy: 1 to 64 characters from A-Z a-z 0-9 _ - .";
        return Err(Wrong::new(format!("{id:?}"), expected));
    }
    Ok(id.to_owned())
}

/// A text that labels, logs and headers carry unchanged.
pub(crate) fn visible(text: Cow<'_, str>, max: usize) -> Result<String, Wrong> {
    if text.is_empty() || text.len() > max || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        let expected = format!("1 to {max} visible ASCII characters, without spaces");
        return Err(Wrong::new(format!("{text:?}"), expected));
    }
    Ok(text.into_owned())
}

fn first(
    delay_ms: Option<u64>,
    not_before: Option<Time>,
    limits: &Limits,
    now: Timestamp,
    report: &mut Report,
) -> First {
    let ahead = limits.schedule_ahead_max;
    let days = ahead.as_secs() / 86_400;
    match (delay_ms, not_before) {
        (None, None) | (Some(0), None) => First::Now,
        (Some(_), Some(_)) => {
            let wrong = Wrong::new("both", "left out when delayMs is given");
            report.at("/notBefore", wrong.fix("give delayMs or notBefore"));
            First::Now
        }
        (Some(millis), None) => {
            let delay = Duration::from_millis(millis);
            if delay > ahead {
                let expected = format!("at most {} ({days} days)", ahead.as_millis());
                report.at("/delayMs", Wrong::new(millis.to_string(), expected));
            }
            First::After(delay)
        }
        (None, Some(Time(time))) => {
            if time > now + ahead {
                let expected = format!("at most {days} days from now");
                report.at("/notBefore", Wrong::new(time.as_millis().to_string(), expected));
            }
            First::NotBefore(time)
        }
    }
}
