//! A lane as it is told, and the limits that people may set on one. REQ-L6, REQ-G3, REQ-K1.

use relent_policy::BreakerState;
use serde::{Deserialize, Serialize};

use crate::fields::Fields;
use crate::limits::Limits;
use crate::names::named;
use crate::problem::Problem;
use crate::report::{Report, Wrong};
use crate::task_document::WaitingReason;

/// The most that any limit of a lane can be, as in policies.
const LIMIT_MAX: u32 = 1_000_000;

named! {
    /// What a breaker looks like from outside.
    BreakerName, "a breaker's state" {
        Closed "closed" "Calls go through, all of them or the ramp's share."
        Open "open" "No call goes through."
        HalfOpen "half_open" "One probe may go through."
    }
}

impl From<BreakerState> for BreakerName {
    fn from(state: BreakerState) -> BreakerName {
        match state {
            BreakerState::Closed => BreakerName::Closed,
            BreakerState::Open => BreakerName::Open,
            BreakerState::HalfOpen => BreakerName::HalfOpen,
        }
    }
}

/// One lane: a tenant's traffic to one dependency.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LaneDocument {
    /// Its name.
    pub lane_id: String,
    /// What it calls.
    pub dependency: String,
    /// Whether somebody paused it.
    pub paused: bool,
    /// What holds all of its tasks back, if anything does.
    pub blocked_by: Option<WaitingReason>,
    /// Until when, if that is known.
    pub blocked_until: Option<u64>,
    /// Attempts in flight, retries included.
    pub in_flight: u32,
    /// Retries in flight.
    pub retries_in_flight: u32,
    /// How many tasks wait for their first attempt.
    pub waiting_first: u64,
    /// How many tasks wait for a retry.
    pub waiting_retries: u64,
    /// How many of its tasks are dead letters.
    pub dead_letters: u64,
    /// Its retry budget; null if its policy sets none.
    pub budget: Option<BudgetDocument>,
    /// Its breaker; null if its policy sets none.
    pub breaker: Option<BreakerDocument>,
    /// How much at once and how fast.
    pub limits: LaneLimits,
    /// The policy whose budget, breaker and limits it has.
    pub rules_from: Option<RulesFrom>,
}

/// How a lane's retry budget stands.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BudgetDocument {
    /// How much of it is used, 0.0 to 1.0.
    pub utilization_ratio: f64,
}

/// How a lane's breaker stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BreakerDocument {
    /// Whether calls go through.
    pub state: BreakerName,
    /// When it may let a probe through, while it is open and that is known.
    pub until: Option<u64>,
}

/// A policy and its version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RulesFrom {
    /// The policy.
    pub policy_id: String,
    /// Its version.
    pub version: u32,
}

/// The limits of a lane. Where somebody sets them, what is left out stays with the policy; where
/// they are told, what is left out does not limit.
///
/// ```
/// use relent_api::{LaneLimits, Limits};
///
/// let limits = LaneLimits::parse(br#"{"ratePerSecond": 50}"#, &Limits::default())?;
/// assert_eq!(limits.rate_per_second, Some(50));
/// assert_eq!(limits.in_flight_max, None);
/// # Ok::<(), relent_api::Problem>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LaneLimits {
    /// Attempts in flight, retries included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_flight_max: Option<u32>,
    /// Retries in flight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries_in_flight_max: Option<u32>,
    /// Attempts started in a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_per_second: Option<u32>,
}

impl BreakerDocument {
    /// A breaker in this state, until nobody says when.
    pub fn new(state: BreakerState) -> BreakerDocument {
        BreakerDocument { state: state.into(), until: None }
    }
}

impl LaneLimits {
    /// Reads the document of `PUT /lanes/{laneId}/limits`.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it.
    pub fn parse(json: &[u8], limits: &Limits) -> Result<LaneLimits, Problem> {
        let mut fields = Fields::of_document(json, limits)?;
        let mut report = Report::default();
        let mut number = |name| fields.number(name, 1, LIMIT_MAX, &mut report);
        let lane = LaneLimits {
            in_flight_max: number("inFlightMax"),
            retries_in_flight_max: number("retriesInFlightMax"),
            rate_per_second: number("ratePerSecond"),
        };
        if let (Some(all), Some(retries)) = (lane.in_flight_max, lane.retries_in_flight_max)
            && retries > all
        {
            let expected = format!("at most inFlightMax, which is {all}");
            report.at("/retriesInFlightMax", Wrong::new(retries.to_string(), expected));
        }
        fields.finish("a lane's limits", &mut report);
        report.finish(Some(lane))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples;

    #[test]
    fn a_lane_survives_the_wire_and_tells_what_is_not_there() {
        let mut lane = examples::lane();
        let json = serde_json::to_string(&lane).unwrap();
        assert_eq!(serde_json::from_str::<LaneDocument>(&json).unwrap(), lane);
        lane.blocked_by = None;
        assert!(serde_json::to_value(&lane).unwrap()["blockedBy"].is_null());
    }

    #[test]
    fn limits_out_of_range_are_told() {
        let cases = [
            (r#"{"inFlightMax": 0}"#, "1 to 1000000"),
            (r#"{"retriesInFlightMax": 1000001}"#, "1 to 1000000"),
            (r#"{"ratePerSecond": "fast"}"#, "1 to 1000000"),
            (r#"{"ratePerSecond": 1.5}"#, "1 to 1000000"),
            (r#"{"inFlightMax": 5, "retriesInFlightMax": 6}"#, "at most inFlightMax, which is 5"),
            (r#"{"inflightmax": 5}"#, "did you mean inFlightMax?"),
            ("[]", "an object"),
        ];
        for (json, expected) in cases {
            let problem = LaneLimits::parse(json.as_bytes(), &Limits::default()).unwrap_err();
            assert!(problem.errors[0].expected.contains(expected), "{json}: {problem}");
        }
        let none = LaneLimits::parse(br#"{"inFlightMax": null}"#, &Limits::default());
        assert_eq!(none, Ok(LaneLimits::default()));
    }
}
