//! Reports: the same bytes for the same seed, and nothing that needs a script.

use relent_sim::{Plan, Scenario, Study};

use crate::{known, read};

fn small() -> Scenario {
    read(
        "name = 'small <&>'
        about = 'a < b'
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
        max_amplification = 0.5
        [[policies]]
        policyId = 'a'
        context = 'sync-api'
        attemptTimeoutMs = 1000
        budget = false
        breaker = false
        [[policies]]
        policyId = 'b'
        context = 'sync-api'
        attemptTimeoutMs = 1000",
    )
}

fn report(first_seed: u64, threads: usize) -> [String; 3] {
    let scenario = small();
    let plan = Plan { seeds: 3, first_seed, sweeps: true, threads };
    let study = Study::run(&scenario, &scenario.policies, plan, &|_, _| {});
    [study.html(), study.json(), study.csv()]
}

#[test]
fn the_same_seed_gives_the_same_bytes_on_any_number_of_threads() {
    let first = report(1, 1);
    assert_eq!(first, report(1, 3));
    assert_ne!(first, report(2, 1));
}

#[test]
fn a_page_is_whole_by_itself_and_needs_no_script() {
    let [html, ..] = report(1, 2);
    for foreign in ["<script", "http://", "https://", "<link", "<img", "@import", "url("] {
        let allowed = html.replace("http://www.w3.org/2000/svg", "");
        assert!(!allowed.contains(foreign), "{foreign}");
    }
    // Load and heat map of two policies, two pictures for both, what each recovers from.
    assert_eq!(html.matches("<svg").count(), 8);
    assert_eq!(html.matches("<title id=").count(), 8);
    assert!(html.contains("small &lt;&amp;&gt;") && !html.contains("a < b"));
    assert!(html.contains("Expectations that do not hold"));
    let mut ids: Vec<&str> =
        html.split(" id=\"").skip(1).filter_map(|it| it.split('"').next()).collect();
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count, "no id twice");
}

#[test]
fn json_has_the_figures_and_csv_a_line_for_each_second() {
    let [_, json, csv] = report(1, 2);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["policies"][1]["policyId"], "b");
    assert!(json["policies"][0]["figures"]["amplification"][0].as_f64().unwrap() > 1.0);
    assert_eq!(json["policies"][0]["recoversAt"].as_array().unwrap().len(), 40);
    assert_eq!(csv.lines().count(), 1 + 2 * 40);
}

#[test]
fn policies_meet_the_same_arrivals() {
    let scenario = known("brown-out");
    let begun = |id| -> Vec<u32> {
        crate::run(&scenario, id).buckets.iter().map(|bucket| bucket.operations).collect()
    };
    assert_eq!(begun("no-retries"), begun("sync-api"));
}

#[test]
fn nothing_happens_twice() {
    let scenario = known("failover-8s");
    for policy in &scenario.policies {
        let run = relent_sim::simulate(&scenario, policy, 3);
        assert!(run.succeeded + run.failed <= run.operations);
        let under_way = run.operations - run.succeeded - run.failed;
        assert!(under_way < 5_000, "{}: {under_way}", policy.id());
        let given_up: u64 = run.given_up.iter().map(|(_, count)| count).sum();
        assert_eq!(given_up, run.failed, "{}", policy.id());
        let sent: u64 = run.buckets.iter().map(|bucket| u64::from(bucket.sent())).sum();
        assert_eq!(sent, run.sent[0]);
        assert!(sent <= run.operations * u64::from(policy.max_attempts()));
    }
}
