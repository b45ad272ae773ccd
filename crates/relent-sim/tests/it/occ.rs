//! The published simulator of exponential backoff and jitter, met row by row. REQ-X1.
//!
//! The numbers are those of that simulator itself, run unmodified: milliseconds until the last
//! client is through, and writes, as means of 100 runs.

use relent_sim::PolicyResult;

use crate::{known, study};

const POLICIES: [&str; 5] = ["none", "exponential", "equal", "full", "decorrelated"];

/// Clients, and for each policy the time and the calls.
const PUBLISHED: [(u32, [(f64, f64); 5]); 5] = [
    (10, [(374.0, 50.0), (3_485.0, 50.0), (723.0, 42.0), (462.0, 39.0), (442.0, 37.0)]),
    (
        50,
        [(1_136.0, 689.0), (36_277.0, 621.0), (4_103.0, 345.0), (2_838.0, 333.0), (2_215.0, 375.0)],
    ),
    (
        100,
        [
            (2_025.0, 2_420.0),
            (63_290.0, 1_848.0),
            (6_574.0, 812.0),
            (4_892.0, 795.0),
            (4_677.0, 997.0),
        ],
    ),
    (
        150,
        [
            (2_875.0, 5_146.0),
            (85_586.0, 3_538.0),
            (8_317.0, 1_323.0),
            (6_358.0, 1_317.0),
            (6_539.0, 1_763.0),
        ],
    ),
    (
        190,
        [
            (3_540.0, 8_004.0),
            (101_356.0, 5_165.0),
            (9_311.0, 1_758.0),
            (7_502.0, 1_773.0),
            (7_854.0, 2_428.0),
        ],
    ),
];

/// A second set of the same simulator at 100 clients, with its standard errors of the time.
const WITH_ERRORS: [(f64, f64, f64); 5] = [
    (2_032.0, 3.0, 2_426.0),
    (63_719.0, 285.0, 1_854.0),
    (6_595.0, 45.0, 812.9),
    (4_865.0, 37.0, 796.0),
    (4_585.0, 53.0, 1_003.0),
];

const SEEDS: u64 = 100;

fn assert_met(result: &PolicyResult, clients: u32, published: (f64, Option<f64>, f64)) {
    let (millis, error, calls) = published;
    let id = result.policy.id();
    let time = result.figure(|run| run.last_end_at as f64 / 1e6);
    // Where the published error is not known, a hundred of their runs err like a hundred of ours.
    let error = error.unwrap_or(time.error).hypot(time.error);
    let allowed = 3.0 * error + 0.02 * millis;
    assert!(
        (time.mean - millis).abs() <= allowed,
        "{id}, {clients} clients: {millis} ms within {allowed:.0}, found {time:?}"
    );
    let made = result.figure(|run| run.sent[0] as f64);
    // Published as whole numbers.
    let allowed = 0.02 * calls + 0.5;
    assert!(
        (made.mean - calls).abs() <= allowed,
        "{id}, {clients} clients: {calls} calls within {allowed:.1}, found {made:?}"
    );
    assert!(result.runs.iter().all(|run| run.succeeded == u64::from(clients)), "{id}");
}

#[test]
fn calls_and_times_are_those_of_the_published_simulator() {
    let mut scenario = known("aws-occ");
    for (clients, rows) in PUBLISHED {
        scenario.clients.count = clients;
        let study = study(&scenario, SEEDS);
        for (number, result) in study.results.iter().enumerate() {
            assert_eq!(result.policy.id(), POLICIES[number]);
            let (millis, calls) = rows[number];
            assert_met(result, clients, (millis, None, calls));
            if clients == 100 {
                let (millis, error, calls) = WITH_ERRORS[number];
                assert_met(result, clients, (millis, Some(error), calls));
            }
        }
    }
}
