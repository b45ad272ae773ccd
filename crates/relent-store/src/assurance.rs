//! What a store guarantees as it is set up, and what it does not.
//!
//! A store is asked about itself and answers with [`Finding`]s: what was looked at, what was found,
//! what that means, and what to do about it. Beside them stands what it all comes to: which of its
//! acknowledged tasks a store still has after each kind of trouble. Each backend has an `examine` that
//! looks from outside, without opening the store: what is wrong may be what keeps it from being
//! opened. Nothing is changed by looking. REQ-S4, REQ-S7.

use std::fmt;

use serde::Serialize;

/// What a store guarantees as it is set up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Assurance {
    /// Which kind of store: `sqlite`, `postgres`, …
    pub store: &'static str,
    /// What was looked at, in an order for people.
    pub findings: Vec<Finding>,
    /// What an acknowledged task survives.
    pub survives: Survival,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// What was looked at, as its own documentation names it: `fsync`, `appendonly`.
    pub name: &'static str,
    /// What was found.
    pub found: String,
    /// What that means for tasks.
    pub meaning: String,
    /// How bad it is.
    pub severity: Severity,
    /// What to do about it, if anything is to be done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub way_out: Option<String>,
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// As it should be.
    Good,
    /// It works, and somebody should know.
    Caution,
    /// Acknowledged tasks may be lost, or nothing works at all.
    Danger,
}

/// Whether an acknowledged task is still there after each kind of trouble.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Survival {
    /// A node of relent is killed.
    pub our_crash: Survives,
    /// The process of the store is killed.
    pub store_crash: Survives,
    /// The machine of the store loses its power.
    pub power_loss: Survives,
    /// The store goes on on another machine, or from another disk.
    pub failover: Survives,
}

/// Whether an acknowledged task is still there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "answer", content = "what")]
pub enum Survives {
    /// Every one.
    Yes,
    /// None need be, and why.
    No(String),
    /// All but some, and which: `the last second`.
    MayLose(String),
}

impl Assurance {
    /// The worst of what was found.
    pub fn severity(&self) -> Severity {
        self.findings.iter().map(|finding| finding.severity).max().unwrap_or(Severity::Good)
    }

    /// What must not be relied upon as it is.
    pub fn dangers(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.severity == Severity::Danger)
    }
}

impl Finding {
    /// Whether others can read along on the way to a server.
    pub(crate) fn tls(encrypted: bool, local: bool, way_out: &str) -> Finding {
        match (encrypted, local) {
            (true, _) => Finding::good("TLS", "on", "the server's certificate was verified"),
            (false, true) => Finding::good("TLS", "off", "nothing leaves this machine"),
            (false, false) => {
                let meaning = "tasks and the password can be read on the way";
                Finding::caution("TLS", "off", meaning, way_out)
            }
        }
    }

    /// Something that is as it should be.
    pub fn good(
        name: &'static str,
        found: impl Into<String>,
        meaning: impl Into<String>,
    ) -> Finding {
        let (found, meaning) = (found.into(), meaning.into());
        Finding { name, found, meaning, severity: Severity::Good, way_out: None }
    }

    /// Something that somebody should know, and what to do about it.
    pub fn caution(
        name: &'static str,
        found: impl Into<String>,
        meaning: impl Into<String>,
        way_out: impl Into<String>,
    ) -> Finding {
        let way_out = Some(way_out.into());
        Finding { severity: Severity::Caution, way_out, ..Finding::good(name, found, meaning) }
    }

    /// Something that must not be relied upon, and the way out.
    pub fn danger(
        name: &'static str,
        found: impl Into<String>,
        meaning: impl Into<String>,
        way_out: impl Into<String>,
    ) -> Finding {
        let way_out = Some(way_out.into());
        Finding { severity: Severity::Danger, way_out, ..Finding::good(name, found, meaning) }
    }
}

impl Survival {
    /// Each kind of trouble with its answer.
    pub fn rows(&self) -> [(&'static str, &Survives); 4] {
        [
            ("crash of relent", &self.our_crash),
            ("crash of the store", &self.store_crash),
            ("power loss", &self.power_loss),
            ("failover", &self.failover),
        ]
    }
}

impl Severity {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Severity::Good => "good",
            Severity::Caution => "caution",
            Severity::Danger => "danger",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Display for Survives {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Survives::Yes => f.write_str("yes"),
            Survives::No(why) => write!(f, "no: {why}"),
            Survives::MayLose(what) => write!(f, "may lose {what}"),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {}: {}", self.name, self.found, self.meaning)?;
        match &self.way_out {
            Some(way_out) => write!(f, "; {way_out}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_finding_counts() {
        let good = Finding::good("fsync", "on", "commits are flushed");
        let danger = Finding::danger("fsync", "off", "a crash loses tasks", "set fsync = on");
        let survives = Survival {
            our_crash: Survives::Yes,
            store_crash: Survives::Yes,
            power_loss: Survives::MayLose("the last second".to_owned()),
            failover: Survives::No("there is no other copy".to_owned()),
        };
        let findings = vec![good.clone(), danger.clone(), good];
        let assurance = Assurance { store: "postgres", findings, survives };
        assert_eq!(assurance.severity(), Severity::Danger);
        assert_eq!(assurance.dangers().collect::<Vec<_>>(), [&danger]);
        assert_eq!(danger.to_string(), "fsync is off: a crash loses tasks; set fsync = on");
        let rows = assurance.survives.rows().map(|(_, survives)| survives.to_string());
        assert_eq!(rows, ["yes", "yes", "may lose the last second", "no: there is no other copy"]);
    }
}
