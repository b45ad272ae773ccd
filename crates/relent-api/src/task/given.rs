//! A task's document as it was given, before anybody has checked what it says.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::fields::Fields;
use crate::headers::GivenHeaders;
use crate::json::Text;
use crate::report::Report;
use crate::time::{A_TIME, Time};

/// Null means the same as nothing, everywhere.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Given<'j> {
    #[serde(borrow)]
    pub(super) target_url: Option<Text<'j>>,
    #[serde(borrow)]
    pub(super) method: Option<Text<'j>>,
    #[serde(borrow)]
    pub(super) headers: Option<GivenHeaders<'j>>,
    #[serde(borrow)]
    pub(super) body: Option<&'j RawValue>,
    #[serde(borrow)]
    pub(super) body_base64: Option<Text<'j>>,
    #[serde(borrow)]
    pub(super) idempotency_key: Option<Text<'j>>,
    #[serde(borrow)]
    pub(super) policy_id: Option<Text<'j>>,
    #[serde(borrow)]
    pub(super) dependency: Option<Text<'j>>,
    #[serde(borrow)]
    pub(super) correlation_id: Option<Text<'j>>,
    pub(super) delay_ms: Option<u64>,
    pub(super) not_before: Option<Time>,
}

pub(super) const A_DELAY: &str = "a whole number of milliseconds, 0 or more";

/// Reads field by field what the derived reader would not take, and reports what is wrong.
pub(crate) fn read_all<'j>(value: &'j RawValue, report: &mut Report) -> Option<Given<'j>> {
    let mut fields = Fields::of(value, "", report)?;
    let given = Given {
        // A target may hold credentials.
        target_url: fields.read_hidden("targetUrl", "a URL", report),
        method: fields.read("method", "a method, such as POST", report),
        headers: fields.get("headers").and_then(|value| GivenHeaders::read(value, report)),
        body: fields.get("body"),
        body_base64: fields.read_hidden("bodyBase64", "a text in base64", report),
        idempotency_key: fields.read("idempotencyKey", "a text", report),
        policy_id: fields.read("policyId", "the id of a policy", report),
        dependency: fields.read("dependency", "a name", report),
        correlation_id: fields.read("correlationId", "a text", report),
        delay_ms: fields.read("delayMs", A_DELAY, report),
        not_before: fields.read("notBefore", A_TIME, report),
    };
    fields.finish("a task", report);
    Some(given)
}
