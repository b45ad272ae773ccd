//! Whatever the scenario: nothing panics, nothing is counted twice, and limits are kept.

use proptest::prelude::*;
use relent_sim::{Scenario, simulate};

use crate::{policy, read};

const LOADS: [&str; 4] = [
    "load = 'poisson'\nper_second = 50\ncount = 7",
    "load = 'constant'\nper_second = 30\nwhen_refused = 'hold'",
    "load = 'closed'\ncount = 40\nthink = { lognormal = '200ms', sigma = 5.0 }",
    "load = 'closed'\ncount = 60\noperations = 2\nwhen_refused = 'hold'\ndeadline = '9s'",
];
const NETWORKS: [&str; 3] = [
    "",
    "[network]\nlatency = { normal = '10ms', deviation = '9ms' }\nloss = 0.2",
    "[network]\nlatency = { lognormal = '5ms', sigma = 5.0 }",
];
const SERVERS: [&str; 5] = [
    "[[servers]]\nworkers = 4\nservice = '100ms'",
    "[[servers]]\nworkers = 3\nservice = { exponential = '90ms' }\nqueue_max = 5\norder = 'lifo'",
    "[[servers]]\nname = 'a'\nworkers = 9\n[[servers]]\nname = 'b'\nworkers = 2\nservice = '80ms'",
    "[[servers]]\nversioned = true\nretry_after = '2s'",
    "[[servers]]\nworkers = 2\nservice = '70ms'\ndrop_expired = true\nfailure = 'slow'",
];
const FAULTS: [&str; 7] = [
    "kind = 'outage'\nhow = 'hang'",
    "kind = 'outage'\nhow = 'refuse'",
    "kind = 'outage'\nhow = 'drop'",
    "kind = 'brown-out'\ncapacity = 0.0\nramp = '3s'",
    "kind = 'errors'\nratio = 0.5\npick = 'clients'\nstatus = 429",
    "kind = 'latency'\nfactor = 50\nextra = '1s'\nramp = '2s'",
    "kind = 'rate-limit'\nper_second = 0.000001\nburst = 1000000",
];
const POLICIES: [&str; 5] = [
    "context = 'sync-api'",
    "context = 'sync-api'\nbudget = false\nbreaker = false\ninitialDelayMs = 0\nmaxDelayMs = 0",
    "context = 'webhook'",
    "context = 'async-event'\nattemptTimeoutMs = 500\nconcurrency = { inFlightMax = 3 }",
    "context = 'sync-api'\nmaxAttempts = 2\nattemptTimeoutMs = 300\nconcurrency = { ratePerSecond = 20 }",
];

fn scenario(load: usize, network: usize, server: usize, fault: usize) -> Scenario {
    let (load, network) = (LOADS[load], NETWORKS[network]);
    let (server, fault) = (SERVERS[server], FAULTS[fault]);
    read(&format!(
        "name = 'any'\nhorizon = '30s'\n[clients]\n{load}\n{network}\n{server}\n[[faults]]\n{fault}\n\
         from = '5s'\nto = '12s'"
    ))
}

proptest! {
    #[test]
    fn what_begins_ends_at_most_once(
        load in 0..LOADS.len(),
        network in 0..NETWORKS.len(),
        server in 0..SERVERS.len(),
        fault in 0..FAULTS.len(),
        chosen in 0..POLICIES.len(),
        seed in any::<u64>(),
    ) {
        let scenario = scenario(load, network, server, fault);
        let policy = policy(&format!("policyId = 'any'\n{}", POLICIES[chosen]));
        let run = simulate(&scenario, &policy, seed);
        prop_assert!(run.operations > 0);
        prop_assert!(run.succeeded + run.failed <= run.operations);
        let most = run.operations * u64::from(policy.max_attempts());
        prop_assert!(run.sent[0] <= most, "{} calls for {} operations", run.sent[0], run.operations);
        let in_buckets: u64 = run.buckets.iter().map(|bucket| u64::from(bucket.sent())).sum();
        prop_assert_eq!(in_buckets, run.sent[0]);
        let given_up: u64 = run.given_up.iter().map(|(_, count)| count).sum();
        prop_assert_eq!(given_up, run.failed);
        prop_assert_eq!(run.completions.total(), run.succeeded);
        prop_assert!((0.0..=1.0).contains(&run.wasted_ratio));
        prop_assert!(run.simulated <= scenario.horizon);
        prop_assert_eq!(&run, &simulate(&scenario, &policy, seed));
    }
}
