//! `relent sim` and `relent drill`: scenarios, reports, expectations, and a real outage. REQ-X1,
//! REQ-X2.

use std::fs;

use super::{assert_golden, file, run, run_on};
use crate::rig::{Relent, Target, ok, quick_policy};

const SMALL: &str = "
name = 'small'
horizon = '40s'

[clients]
load = 'poisson'
per_second = 40

[[servers]]
workers = 5
service = { exponential = '100ms' }

[[faults]]
kind = 'outage'
from = '10s'
to = '15s'

[expect]
max_amplification = 1.3

[[policies]]
policyId = 'hasty'
context = 'sync-api'
attemptTimeoutMs = 1000
backoff = 'FIXED'
initialDelayMs = 100
jitterType = 'NONE'
budget = false
breaker = false

[[policies]]
policyId = 'careful'
context = 'sync-api'
attemptTimeoutMs = 1000
";

#[tokio::test]
async fn a_scenario_is_run_and_shown_side_by_side() {
    let directory = tempfile::tempdir().unwrap();
    let scenario = file(&directory, "small.toml", SMALL);
    let page = directory.path().join("report.html");
    let out = page.to_str().unwrap();
    let ran = run(&["sim", "run", &scenario, "--seeds", "3", "--out", out]).await.exit(0);
    assert_golden("sim-run.txt", &ran.stdout);
    assert!(ran.stderr.contains("wrote "), "{ran:?}");
    assert!(fs::read_to_string(&page).unwrap().ends_with("</html>\n"));

    let json = run(&["sim", "run", &scenario, "--seeds", "2", "--json"]).await.exit(0).json();
    assert_eq!(json["policies"][1]["policyId"], "careful");
    let csv = run(&["sim", "run", &scenario, "--seeds", "2", "--csv"]).await.exit(0).stdout;
    assert_eq!(csv.lines().count(), 1 + 2 * 40);
}

#[tokio::test]
async fn an_expectation_that_does_not_hold_ends_with_1() {
    let directory = tempfile::tempdir().unwrap();
    let scenario = file(&directory, "small.toml", SMALL);
    let ran = run(&["sim", "check", &scenario, "--seeds", "2"]).await.exit(1);
    let ran = ran.says("broken small: 1 of 2 expectations broken");
    ran.says("hasty: max_amplification = 1.3, found ");
    let careful = file(&directory, "careful.toml", "policyId = 'c'\ncontext = 'sync-api'");
    let arguments = ["sim", "check", &scenario, "--policy", &careful, "--seeds", "1"];
    run(&arguments).await.exit(0).says("ok small: 1 expectation holds");
    let json = run(&["sim", "check", "standard-1000rps", "--seeds", "1", "--json"]).await.exit(0);
    assert_eq!(json.json()[0]["ok"], true);
}

#[tokio::test]
async fn what_is_wrong_with_a_scenario_is_told_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let text = SMALL.replace("poisson", "pison").replace("workers", "wokers");
    let scenario = file(&directory, "bad.toml", &text);
    let ran = run(&["sim", "run", &scenario]).await.exit(2);
    let ran = ran.says("bad.toml: the scenario has 2 problems");
    let ran = ran.says("line 6: clients.load must be one of \"poisson\"");
    ran.says("line 10: servers[0].wokers is not known; did you mean `workers`?");
    run(&["sim", "run", "aws-oc"]).await.exit(2).says("did you mean `aws-occ`?");
    let ran = run(&["sim", "run", "aws-occ", "--clients", "70000"]).await.exit(2);
    ran.says("--clients must be at most 60000");
    run(&["sim", "run", "herd", "--policy", "nobody"]).await.exit(2).says("no built-in policy");
}

#[tokio::test]
async fn scenarios_come_with_it() {
    let json = run(&["sim", "list", "--json"]).await.exit(0).json();
    assert_eq!(json.as_array().unwrap().len(), 10);
    assert_golden("sim-list.txt", &run(&["sim", "list"]).await.exit(0).stdout);
    run(&["sim", "show", "herd"]).await.exit(0).says("name = \"herd\"");
}

#[tokio::test]
async fn recorded_arrivals_go_through_other_policies() {
    let directory = tempfile::tempdir().unwrap();
    let scenario = file(&directory, "small.toml", SMALL);
    let times: String =
        (0..1_200).map(|n| format!("{}\n", 1_000.0 + f64::from(n) / 40.0)).collect();
    let trace = file(&directory, "trace.csv", &format!("seconds\n{times}"));
    let arguments = ["sim", "replay", &trace, "--in", &scenario, "--seeds", "1"];
    let ran = run(&arguments).await.exit(0).says("1,200 recorded operations");
    ran.says("against hasty:\n careful: calls -");
    run(&["sim", "replay", &scenario, "--in", &scenario]).await.exit(2).says("is no trace");
}

#[tokio::test]
async fn the_tasks_of_a_running_server_are_arrivals_too() {
    let (relent, target) =
        (Relent::start_with(&["--store", "memory:"]).await, Target::start().await);
    relent.client().register(&quick_policy("quick", 3)).await;
    target.on("/orders", [ok()]);
    let url = target.url("/orders");
    for _ in 0..3 {
        let arguments = ["task", "create", &url, "--policy", "quick", "--wait"];
        run_on(&relent, &arguments).await.exit(0);
    }
    let directory = tempfile::tempdir().unwrap();
    let scenario = file(&directory, "small.toml", SMALL);
    let arguments = ["sim", "replay", "--tasks", "--in", &scenario, "--seeds", "1"];
    run_on(&relent, &arguments).await.exit(0).says("3 recorded operations");
    let nobody = [&arguments[..], &["--dependency", "nobody"]].concat();
    run_on(&relent, &nobody).await.exit(2).says("the server has no such tasks");
}

#[tokio::test]
async fn an_outage_of_a_real_target_ends_as_the_simulator_says_and_without_a_storm() {
    let directory = tempfile::tempdir().unwrap();
    let policy = file(
        &directory,
        "drilled.toml",
        "policyId = 'drilled'\ncontext = 'async-event'\ninitialDelayMs = 100
        breaker = { coolDownMs = 300, coolDownMaxMs = 300, rampMs = 500 }",
    );
    let times = ["--rate", "50", "--before", "2s", "--down", "2s", "--after", "2s"];
    let arguments = [&["drill", "--json", "--policy", &policy][..], &times].concat();
    let drill = run(&arguments).await.exit(0).json();
    let figure = |of: &str, name: &str| drill[of][name].as_f64().unwrap();
    for of in ["measured", "predicted"] {
        assert_eq!((figure(of, "tasks"), figure(of, "succeeded")), (300.0, 300.0), "{drill}");
        // No task is tried again and again while the target is down.
        assert!(figure(of, "callsWhileDown") <= 130.0, "{drill}");
    }
    let (measured, predicted) = (figure("measured", "calls"), figure("predicted", "calls"));
    assert!((measured / predicted - 1.0).abs() < 0.1, "{drill}");
}
