//! One case of a `decide` suite: inputs in Rust, and how they and the decision look as JSON.

use std::time::Duration;

use anyhow::Result;
use relent_policy::{
    Decision, Expiry, FailureKind, Gates, Hint, History, Outcome, Policy, PolicySpec, Refusal,
    Repeatable, Rule, Timestamp, Waiver, decide,
};
use serde_json::{Map, Value, json};

/// When the tasks of the vectors were created: 1,000 s after the epoch.
pub(super) const CREATED: Timestamp = Timestamp::from_secs(1_000);

pub(super) struct Suite {
    policies: Map<String, Value>,
    cases: Vec<Value>,
}

#[derive(Clone)]
pub(super) struct Case {
    pub(super) history: History,
    pub(super) outcome: Outcome,
    pub(super) gates: FixedGates,
    pub(super) now: Timestamp,
    pub(super) roll: u64,
}

/// Gates that answer what the case says.
#[derive(Clone, Copy, Default)]
pub(super) struct FixedGates {
    pub(super) estimated_call: Duration,
    pub(super) refuse: Option<Refusal>,
}

impl Gates for FixedGates {
    fn estimated_call(&self) -> Duration {
        self.estimated_call
    }

    fn reserve_retry(&mut self, _now: Timestamp, _roll: u64) -> Result<(), Refusal> {
        self.refuse.map_or(Ok(()), Err)
    }
}

impl Case {
    /// A repeatable task whose `attempts`-th attempt fails so, half a second after its creation.
    pub(super) fn failing(kind: FailureKind, attempts: u32) -> Case {
        let mut history = History::start(CREATED, Repeatable::ByKey);
        for _ in 0..attempts {
            history = history.begin_attempt();
        }
        Case {
            history,
            outcome: kind.into(),
            gates: FixedGates::default(),
            now: CREATED + Duration::from_millis(500),
            roll: u64::MAX / 2,
        }
    }

    pub(super) fn roll(self, roll: u64) -> Case {
        Case { roll, ..self }
    }

    pub(super) fn after(self, elapsed: Duration) -> Case {
        Case { now: CREATED + elapsed, ..self }
    }

    pub(super) fn asked(self, wait: Duration) -> Case {
        Case { outcome: self.outcome.retry_after(wait), ..self }
    }
}

impl Suite {
    pub(super) fn new() -> Suite {
        Suite { policies: Map::new(), cases: Vec::new() }
    }

    /// Adds a case and returns what was decided, for cases that go on from it.
    pub(super) fn add(&mut self, name: &str, policy: &Policy, case: &Case) -> Result<Decision> {
        let document = serde_json::to_value(policy.spec())?;
        let known = self.policies.entry(policy.id()).or_insert_with(|| document.clone());
        anyhow::ensure!(*known == document, "two policies are called {}", policy.id());

        let mut gates = case.gates;
        let decision =
            decide(policy, &case.history, &case.outcome, &mut gates, case.now, case.roll);
        self.cases.push(json!({
            "name": name,
            "policy": policy.id(),
            "history": case.history,
            "outcome": outcome_json(&case.outcome),
            "gates": {
                "estimatedCallNs": nanos(case.gates.estimated_call),
                "refuse": case.gates.refuse.map(|refusal| refusal.to_string()),
            },
            "nowNs": case.now.as_nanos(),
            "roll": format!("{:#018x}", case.roll),
            "decision": decision_json(&decision, &case.history),
        }));
        Ok(decision)
    }

    pub(super) fn into_json(self) -> Value {
        json!({ "version": 1, "policies": self.policies, "cases": self.cases })
    }
}

/// A policy, with waivers for whatever it needs.
pub(super) fn waived(id: &str, spec: PolicySpec) -> Result<Policy> {
    let expires: Expiry = "2099-12-31".parse()?;
    let waiver = |rule: &Rule| Waiver {
        rule: *rule,
        approver: "the vectors".to_owned(),
        reason: "to have every kind".to_owned(),
        expires: expires.clone(),
    };
    let spec = PolicySpec { policy_id: id.to_owned(), ..spec };
    let broken: Vec<Rule> =
        spec.problems(Timestamp::ZERO).iter().filter_map(|problem| problem.rule).collect();
    let waivers = Rule::ALL.iter().filter(|rule| broken.contains(rule)).map(waiver).collect();
    Ok(PolicySpec { waivers, ..spec }.build(Timestamp::ZERO)?)
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn outcome_json(outcome: &Outcome) -> Value {
    match outcome {
        Outcome::Success => json!({ "success": true }),
        Outcome::Failure(failure) => {
            let name = failure.kind.to_string();
            match failure.hint {
                Hint::None => json!({ "failure": name }),
                Hint::RetryAfter(wait) => json!({ "failure": name, "retryAfterNs": nanos(wait) }),
                Hint::Stop => json!({ "failure": name, "stop": true }),
            }
        }
    }
}

fn decision_json(decision: &Decision, history: &History) -> Value {
    match decision {
        Decision::Done => json!({ "do": "done" }),
        Decision::RetryAt { at, because, charge } => json!({
            "do": "retry",
            "atNs": at.as_nanos(),
            "because": because.to_string(),
            "next": history.charged(*charge),
        }),
        Decision::GiveUp { because } => json!({ "do": "give_up", "because": because.name() }),
    }
}
