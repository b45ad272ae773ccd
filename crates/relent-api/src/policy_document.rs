//! A policy as it is told and as it is registered. REQ-S1, REQ-S2, REQ-E1.
//!
//! What is told can be sent back: the fields that only the service sets are passed over.

use relent_policy::{Document, Policy, PolicySpec, Timestamp, Waived};
use serde::{Deserialize, Serialize};

use crate::json;
use crate::limits::Limits;
use crate::parameters::{self, Parameters};
use crate::problem::Problem;
use crate::report::{Report, Wrong};

/// A policy, one version of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyDocument {
    /// Which version: 1, and one more each time the policy is changed.
    pub version: u32,
    /// When this version was registered; 0 for what comes with relent.
    pub created_at: u64,
    /// Whether it comes with relent.
    pub built_in: bool,
    /// Where it departs from the standard, and what allows that.
    #[serde(default)]
    pub waived: Vec<WaivedDocument>,
    /// What it says, field by field.
    #[serde(flatten)]
    pub policy: PolicySpec,
}

/// The query of one policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PolicyQuery {
    /// Which version, if not the latest.
    pub version: Option<u32>,
}

/// A departure from the standard and the waiver that allows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WaivedDocument {
    /// Where in the policy.
    pub pointer: String,
    /// The rule it departs from.
    pub rule: String,
    /// What the rule asks for.
    pub expected: String,
    /// What the policy has.
    pub got: String,
    /// Who allowed it.
    pub approver: String,
    /// Why.
    pub reason: String,
    /// The last day it holds.
    pub expires: String,
}

impl PolicyDocument {
    /// A version of a policy, as it is told now.
    pub fn new(
        policy: &Policy,
        version: u32,
        created_at: Timestamp,
        built_in: bool,
        now: Timestamp,
    ) -> PolicyDocument {
        PolicyDocument {
            version,
            created_at: created_at.as_millis(),
            built_in,
            waived: policy.waived(now).iter().map(WaivedDocument::from).collect(),
            policy: policy.spec().clone(),
        }
    }
}

impl PolicyQuery {
    /// Reads `version`.
    ///
    /// # Errors
    ///
    /// When it is no version, or there are other parameters.
    pub fn parse(query: &str) -> Result<PolicyQuery, Problem> {
        let mut parameters = Parameters::of(query);
        let version = parameters.read("version", |text| parameters::number(text, 1, u32::MAX));
        parameters.finish(PolicyQuery { version })
    }
}

impl From<&Waived> for WaivedDocument {
    fn from(Waived { problem, waiver }: &Waived) -> WaivedDocument {
        WaivedDocument {
            pointer: crate::problem::pointer::of_path(&problem.field),
            rule: waiver.rule.id().to_owned(),
            expected: problem.expected.clone(),
            got: problem.got.clone(),
            approver: waiver.approver.clone(),
            reason: waiver.reason.clone(),
            expires: waiver.expires.to_string(),
        }
    }
}

/// What only the service sets.
const SET_BY_THE_SERVICE: [&str; 4] = ["version", "createdAt", "builtIn", "waived"];

/// Reads and checks a policy. `path_id` is the id in the request's path, if there is one; the
/// document may then leave it out, and may not name another.
///
/// ```
/// use relent_api::{Limits, parse_policy};
/// use relent_policy::Timestamp;
///
/// let json = br#"{"context": "webhook", "maxAttempts": 5}"#;
/// let policy = parse_policy(json, Some("orders"), &Limits::default(), Timestamp::ZERO)?;
/// assert_eq!(policy.id(), "orders");
/// # Ok::<(), relent_api::Problem>(())
/// ```
///
/// # Errors
///
/// Everything that is wrong with it: what cannot be read, what cannot work, and what departs from
/// the standard without a waiver.
pub fn parse_policy(
    json: &[u8],
    path_id: Option<&str>,
    limits: &Limits,
    now: Timestamp,
) -> Result<Policy, Problem> {
    let value = json::tree(json::text(json, limits)?, limits)?;
    let mut document: Document =
        serde_json::from_str(value.get()).map_err(|error| json::malformed(&error))?;
    if let Document::Map(entries) = &mut document {
        entries.retain(|(name, _)| !SET_BY_THE_SERVICE.contains(&name.as_str()));
        if let Some(id) = path_id {
            name_it(entries, id)?;
        }
    }
    Ok(Policy::from_document(&document, now)?)
}

fn name_it(entries: &mut Vec<(String, Document)>, id: &str) -> Result<(), Problem> {
    match entries.iter().find(|(name, _)| name == "policyId") {
        None => entries.push(("policyId".to_owned(), Document::Text(id.to_owned()))),
        Some((_, Document::Text(given))) if given != id => {
            let mut report = Report::default();
            let expected = format!("{id:?}, as in the path, or left out");
            report.at("/policyId", Wrong::new(format!("{given:?}"), expected));
            return Err(report.into_problem());
        }
        Some(_) => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::examples;
    use crate::problem::Code;

    fn parse(json: &str, path_id: Option<&str>) -> Result<Policy, Problem> {
        parse_policy(json.as_bytes(), path_id, &Limits::default(), Timestamp::ZERO)
    }

    #[test]
    fn what_is_told_can_be_sent_back() {
        for preset in PolicySpec::presets() {
            let policy = PolicySpec { policy_id: "mine".to_owned(), ..preset };
            let view = PolicyDocument { policy, ..examples::policy() };
            let json = serde_json::to_string(&view).unwrap();
            let read: PolicyDocument = serde_json::from_str(&json).unwrap();
            assert_eq!(read, view);
            assert_eq!(parse(&json, Some("mine")).unwrap().spec(), &view.policy);
        }
    }

    #[test]
    fn the_id_comes_from_the_path_or_agrees_with_it() {
        assert_eq!(parse(r#"{"policyId": "a"}"#, None).unwrap().id(), "a");
        assert_eq!(parse("{}", Some("a")).unwrap().id(), "a");
        assert_eq!(parse(r#"{"policyId": "a"}"#, Some("a")).unwrap().id(), "a");
        let problem = parse(r#"{"policyId": "b"}"#, Some("a")).unwrap_err();
        assert_eq!(problem.code, Code::InvalidRequest);
        assert_eq!(parse("{}", None).unwrap_err().code, Code::PolicyRejected);
    }

    #[test]
    fn what_is_no_policy_is_refused() {
        let deep = "[".repeat(5_000) + &"]".repeat(5_000);
        for (json, code) in [
            ("", Code::MalformedJson),
            ("{", Code::MalformedJson),
            (deep.as_str(), Code::MalformedJson),
            (r#"{"a": "\ud800"}"#, Code::MalformedJson),
            ("[]", Code::PolicyRejected),
            (r#"{"policyId": "a", "maxAttempts": 99}"#, Code::PolicyRejected),
        ] {
            assert_eq!(parse(json, None).unwrap_err().code, code, "{json}");
        }
    }

    #[test]
    fn a_departure_is_shown_with_its_waiver() {
        let json = r#"{"policyId": "a", "context": "sync-api", "totalBudgetMs": 30000,
            "maxAttempts": 8, "waivers": [{"rule": "R-2", "approver": "board", "reason": "slow",
            "expires": "2999-01-01"}]}"#;
        let policy = parse(json, None).unwrap();
        let at = Timestamp::from_millis(5);
        let document = PolicyDocument::new(&policy, 1, at, false, Timestamp::ZERO);
        let waived = &document.waived[0];
        assert_eq!(waived.pointer, "/maxAttempts");
        assert_eq!((waived.rule.as_str(), waived.approver.as_str()), ("R-2", "board"));
    }

    #[test]
    fn a_version_may_be_asked_for() {
        assert_eq!(PolicyQuery::parse(""), Ok(PolicyQuery { version: None }));
        assert_eq!(PolicyQuery::parse("version=3"), Ok(PolicyQuery { version: Some(3) }));
        for query in ["version=0", "version=x", "version=1&version=2", "v=1"] {
            assert!(PolicyQuery::parse(query).is_err(), "{query}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(json: Vec<u8>) {
            let _ = parse_policy(&json, Some("a"), &Limits::default(), Timestamp::ZERO);
        }
    }
}
