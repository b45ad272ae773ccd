//! From a TOML document to a scenario, with everything that is wrong with it at once.

use relent_policy::{Document, Policy, PolicySpec, Rule, Timestamp, Waiver};

use super::fields::Fields;
use super::parts;
use super::problem::{BadScenario, ScenarioProblem};
use super::tree::{self, Node};
use super::{Clients, Lanes, Load, Network, Scenario, WhenRefused};
use crate::chance::Spread;

/// Reads the text of a file that a scenario names.
pub type ReadFile<'f> = dyn Fn(&str) -> Result<String, String> + 'f;

impl Scenario {
    /// Reads a scenario; `read_file` gives it the trace that it may name.
    ///
    /// ```
    /// use relent_sim::Scenario;
    ///
    /// let scenario = Scenario::parse(
    ///     r#"
    ///     name = "small"
    ///     horizon = "60s"
    ///     [clients]
    ///     load = "poisson"
    ///     per_second = 100
    ///     [[servers]]
    ///     workers = 20
    ///     service = "100ms"
    ///     "#,
    ///     &|_| Err("no files".into()),
    /// )?;
    /// assert_eq!(scenario.capacity(), Some(200.0));
    /// # Ok::<(), relent_sim::BadScenario>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it, by line, with the key and what is allowed.
    pub fn parse(text: &str, read_file: &ReadFile<'_>) -> Result<Scenario, BadScenario> {
        let (root, mut problems) = tree::parse(text);
        let unreadable = !problems.is_empty();
        let mut fields = Fields::of(&root, "");
        let scenario = scenario(&mut fields, read_file);
        let found = fields.finish();
        // What is missing from a file that could not be read to its end may well be there.
        problems.extend(found.into_iter().filter(|problem| !(unreadable && is_missing(problem))));
        problems.sort_by_key(|problem| problem.line);
        match scenario {
            Some(scenario) if problems.is_empty() => Ok(scenario),
            _ => Err(BadScenario { problems }),
        }
    }
}

fn is_missing(problem: &ScenarioProblem) -> bool {
    problem.what.starts_with("is missing")
}

const YEAR: u64 = 366 * 86_400 * super::SECOND;

fn scenario(fields: &mut Fields<'_>, read_file: &ReadFile<'_>) -> Option<Scenario> {
    let name = fields.text("name").map(str::to_owned);
    if name.is_none() && !fields.has("name") {
        fields.missing("name", "a short name, such as \"brown-out\"");
    }
    let about = fields.text("about").unwrap_or_default().trim().to_owned();
    let horizon = fields.time("horizon");
    if horizon.is_none() && !fields.has("horizon") {
        fields.missing("horizon", "how long to simulate, such as \"180s\"");
    }
    if horizon.is_some_and(|horizon| !(1..=YEAR).contains(&horizon)) {
        fields.bad("horizon", "more than nothing");
    }
    let warm_up = fields.time("warm_up").unwrap_or(0);
    if horizon.is_some_and(|horizon| warm_up >= horizon) {
        fields.bad("warm_up", "shorter than the horizon");
    }
    let clients = fields.table("clients", |inner| clients(inner, read_file));
    if clients.is_none() && !fields.has("clients") {
        fields.missing("clients", "a section [clients] with load = \"poisson\" or another");
    }
    let network = fields.table("network", network).unwrap_or(DIRECT);
    let servers = fields.tables("servers", |inner, _| Some(parts::server(inner)));
    if servers.is_empty() && !fields.has("servers") {
        fields.missing("servers", "at least one [[servers]]");
    }
    if servers.len() > 8 {
        fields.bad("servers", "at most 8 servers");
    }
    let faults = fields.tables("faults", |inner, _| parts::fault(inner, &servers));
    let expectations = fields.table("expect", parts::expectations).unwrap_or_default();
    let policies = fields.tables("policies", policy);
    let (clients, horizon) = (clients.flatten()?, horizon?);
    if servers.iter().any(|server| server.versioned) && clients.count > 60_000 {
        fields.problem(1, "clients.count", "must be at most 60000 with a versioned server".into());
    }
    if clients.lanes == Lanes::PerClient && clients.count > 1_000_000 {
        let what = "must be at most 1000000 with a lane for each client".into();
        fields.problem(1, "clients.count", what);
    }
    for name in &expectations.policies {
        if !policies.iter().any(|policy: &Policy| policy.id() == name) {
            let ids: Vec<&str> = policies.iter().map(Policy::id).collect();
            let what = format!("names {name:?}, which is none of {}", ids.join(", "));
            fields.problem(1, "expect.policies", what);
        }
    }
    Some(Scenario {
        name: name?,
        about,
        horizon,
        warm_up,
        clients,
        network,
        servers,
        faults,
        expectations,
        policies,
    })
}

const DIRECT: Network = Network { latency: Spread::Constant(0), loss: 0.0 };

fn network(fields: &mut Fields<'_>) -> Network {
    Network {
        latency: fields.spread("latency").unwrap_or(DIRECT.latency),
        loss: fields.number("loss", 0.0, 1.0).unwrap_or(0.0),
    }
}

fn clients(fields: &mut Fields<'_>, read_file: &ReadFile<'_>) -> Option<Clients> {
    #[derive(Clone, Copy, PartialEq)]
    enum Kind {
        Poisson,
        Constant,
        Trace,
        Closed,
    }
    let kinds = [
        ("poisson", Kind::Poisson),
        ("constant", Kind::Constant),
        ("trace", Kind::Trace),
        ("closed", Kind::Closed),
    ];
    let kind = fields.word("load", &kinds);
    if kind.is_none() && !fields.has("load") {
        fields.missing("load", "\"poisson\", \"constant\", \"trace\" or \"closed\"");
    }
    let per_second = fields.number("per_second", 1e-6, 1e9);
    let trace = fields.text("trace").map(str::to_owned);
    let think = fields.spread("think");
    let operations = fields.count("operations", 1, u32::MAX);
    let start_over = fields.time("start_over");
    let count = fields.count("count", 1, 20_000_000);
    let lanes =
        fields.word("lanes", &[("shared", Lanes::Shared), ("per-client", Lanes::PerClient)]);
    let refused = [("give-up", WhenRefused::GiveUp), ("hold", WhenRefused::Hold)];
    let when_refused = fields.word("when_refused", &refused);
    let deadline = fields.time("deadline");
    let until = fields.time("until");

    let rated = matches!(kind, Some(Kind::Poisson | Kind::Constant));
    let fits = [
        ("per_second", rated),
        ("trace", kind == Some(Kind::Trace)),
        ("think", kind == Some(Kind::Closed)),
        ("operations", kind == Some(Kind::Closed)),
        ("start_over", kind == Some(Kind::Closed)),
    ];
    for (name, fits) in fits {
        if kind.is_some() && !fits && fields.has(name) {
            fields.bad(name, "left out with this load");
        }
    }
    if rated && !fields.has("per_second") {
        fields.missing("per_second", "operations a second, such as 1000");
    }
    let load = match kind? {
        Kind::Poisson => Load::Poisson { per_second: per_second? },
        Kind::Constant => Load::Constant { per_second: per_second? },
        Kind::Trace => {
            let Some(path) = trace else {
                if !fields.has("trace") {
                    fields.missing("trace", "the CSV file with the arrivals, in seconds");
                }
                return None;
            };
            match read_file(&path).and_then(|text| parts::parse_trace(&text)) {
                Ok(at) => Load::Trace { at },
                Err(why) => {
                    fields.bad("trace", &format!("a CSV file with times in seconds ({why})"));
                    return None;
                }
            }
        }
        Kind::Closed => Load::Closed {
            think: think.unwrap_or(Spread::Constant(0)),
            operations,
            start_over: start_over.unwrap_or(0),
        },
    };
    Some(Clients {
        load,
        count: count.unwrap_or(1),
        lanes: lanes.unwrap_or(Lanes::Shared),
        deadline,
        when_refused: when_refused.unwrap_or(WhenRefused::GiveUp),
        until,
    })
}

/// A policy document, with its problems at its own lines.
fn policy<'n>(fields: &mut Fields<'n>, node: &'n Node) -> Option<Policy> {
    fields.take_all();
    match candidate(&node.document()) {
        Ok(policy) => Some(policy),
        Err(rejected) => {
            for problem in rejected.problems {
                let (key, line) = (fields.key(&problem.field), node.line_of(&problem.field));
                let what = match problem.expected.strip_prefix("a field of a policy; ") {
                    Some(meant) => format!("is not known; {meant}"),
                    None => format!("must be {}, got {}", problem.expected, problem.got),
                };
                fields.problem(line, &key, what);
            }
            None
        }
    }
}

/// A policy to be simulated: it may depart from the standard, because seeing what that does is what
/// a simulation is for. It still has to be one that can work. `budget = false` and `breaker = false`
/// do without them, since TOML cannot write `null`.
///
/// ```
/// let text = "policyId = 'hasty'\nbackoff = 'FIXED'\njitterType = 'NONE'\nbudget = false";
/// let policy = relent_sim::candidate(&toml::from_str(text)?)?;
/// assert!(policy.spec().budget.is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// Everything about it that could not work.
pub fn candidate(document: &Document) -> Result<Policy, relent_policy::Rejected> {
    let mut document = document.clone();
    if let Document::Map(entries) = &mut document {
        for (key, value) in entries {
            if matches!(key.as_str(), "budget" | "breaker") && *value == Document::Bool(false) {
                *value = Document::Null;
            }
        }
    }
    let mut spec = match PolicySpec::from_document(&document) {
        Ok(spec) => spec,
        Err(unreadable) => {
            // What could not be read is not all that may be wrong.
            let mut rejected = Policy::from_document(&document, Timestamp::ZERO)
                .map_or_else(|rejected| rejected, |_| unreadable);
            rejected.problems.retain(|problem| problem.rule.is_none());
            return Err(rejected);
        }
    };
    let broken: Vec<Rule> =
        spec.problems(Timestamp::ZERO).into_iter().filter_map(|problem| problem.rule).collect();
    let named = |rule: &Rule| spec.waivers.iter().any(|waiver| waiver.rule == *rule);
    let missing: Vec<Rule> =
        Rule::ALL.iter().copied().filter(|rule| broken.contains(rule) && !named(rule)).collect();
    if let Ok(expires) = "2099-12-31".parse::<relent_policy::Expiry>() {
        spec.waivers.extend(missing.into_iter().map(|rule| Waiver {
            rule,
            approver: "the simulator".to_owned(),
            reason: "to see what it does".to_owned(),
            expires: expires.clone(),
        }));
    }
    spec.build(Timestamp::ZERO)
}
