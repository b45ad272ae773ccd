//! Each part of the world does what it says.

use relent_sim::{Recovery, Run, Scenario, simulate};

use crate::{assert_near, policy, read};

const ONCE: &str = "
    policyId = 'once'
    context = 'sync-api'
    maxAttempts = 1
    attemptTimeoutMs = 1000
    budget = false
    breaker = false
    concurrency = { inFlightMax = 1000000, retriesInFlightMax = 1000000 }
";

fn once(scenario: &Scenario) -> Run {
    simulate(scenario, &policy(ONCE), 1)
}

/// 100 operations a second for a minute, and what else is said.
fn open(rest: &str) -> Scenario {
    read(&format!(
        "name = 'open'
        horizon = '60s'
        [clients]
        load = 'poisson'
        per_second = 100
        count = 10
        {rest}"
    ))
}

#[test]
fn a_closed_loop_waits_for_its_answers() {
    let scenario = read(
        "name = 'closed'
        horizon = '100s'
        [clients]
        load = 'closed'
        count = 20
        think = '900ms'
        start_over = '1s'
        [[servers]]
        service = '100ms'",
    );
    let run = once(&scenario);
    assert_near(run.operations as f64, 20.0 * 100.0, 0.02, "one operation a second each");
    assert_eq!(run.failed, 0);
}

#[test]
fn a_closed_loop_ends_after_its_operations() {
    let scenario = read(
        "name = 'closed'
        horizon = '100s'
        [clients]
        load = 'closed'
        count = 20
        operations = 3
        [[servers]]
        service = '100ms'",
    );
    let run = once(&scenario);
    assert_eq!((run.operations, run.last_end_at), (60, 300_000_000));
}

#[test]
fn recorded_arrivals_come_from_a_file() {
    let text = "name = 'trace'
        horizon = '10s'
        [clients]
        load = 'trace'
        trace = 'arrivals.csv'
        [[servers]]";
    let file = |path: &str| {
        assert_eq!(path, "arrivals.csv");
        Ok("seconds\n0.5\n0.5\n7\n12\n".to_owned())
    };
    let run = once(&Scenario::parse(text, &file).unwrap());
    let begun: Vec<u32> = run.buckets.iter().map(|bucket| bucket.operations).collect();
    assert_eq!(begun[..8], [2, 0, 0, 0, 0, 0, 0, 1]);
    assert_eq!(run.operations, 3);
}

#[test]
fn lost_messages_are_waited_for_in_vain() {
    let run = once(&open("[network]\nlatency = '5ms'\nloss = 0.1\n[[servers]]"));
    // Lost on the way there, or on the way back.
    assert_near(1.0 - run.success_ratio, 0.19, 0.1, "lost");
    assert!(run.completions.quantile(0.99).unwrap() < 11e6);
}

#[test]
fn a_full_queue_refuses_at_once() {
    let server = "[[servers]]\nworkers = 5\nservice = '100ms'\nqueue_max = 10";
    let run = once(&open(server));
    assert_near(run.success_ratio, 0.5, 0.05, "half the capacity");
    assert_eq!(run.queue_max, 10);
    // Ten in front of it, five at a time, then its own turn.
    assert!(run.completions.quantile(1.0).unwrap() < 0.32e9);
}

#[test]
fn the_last_in_line_is_served_first_if_so_wished() {
    let overload = "[[servers]]\nworkers = 9\nservice = '100ms'\norder = ";
    let fifo = once(&open(&format!("{overload}'fifo'")));
    let lifo = once(&open(&format!("{overload}'lifo'")));
    assert!(lifo.success_ratio > 0.8 && fifo.success_ratio < 0.4, "{}", fifo.success_ratio);
}

#[test]
fn calls_of_callers_who_left_are_skipped_if_so_wished() {
    let server = "[[servers]]\nworkers = 9\nservice = '100ms'\norder = 'lifo'\ndrop_expired = ";
    let (served, skipped) =
        (once(&open(&format!("{server}false"))), once(&open(&format!("{server}true"))));
    assert!(skipped.wasted_ratio < 0.05, "{}", skipped.wasted_ratio);
    assert!(served.queue_max >= skipped.queue_max && served.wasted_ratio >= skipped.wasted_ratio);
}

/// First come, first served: each call that is taken has waited as long as it could, and its caller
/// leaves while it is being served.
#[test]
fn skipping_callers_who_left_does_not_help_those_about_to_leave() {
    let server = "[[servers]]\nworkers = 9\nservice = '100ms'\ndrop_expired = true";
    let run = once(&open(server));
    assert!(run.wasted_ratio > 0.3, "{}", run.wasted_ratio);
}

#[test]
fn slow_failures_cost_workers_and_fast_ones_do_not() {
    let errors = "[[faults]]\nkind = 'errors'\nratio = 0.5\nfrom = '0s'\nto = '60s'";
    let server = |how: &str| {
        format!("[[servers]]\nworkers = 8\nservice = '100ms'\nfailure = '{how}'\n{errors}")
    };
    let (fast, slow) = (once(&open(&server("fast"))), once(&open(&server("slow"))));
    assert_near(fast.success_ratio, 0.5, 0.05, "only the errors fail");
    assert!(slow.success_ratio < 0.2, "overloaded: {}", slow.success_ratio);
}

#[test]
fn errors_that_stick_to_clients_hit_the_same_ones() {
    let scenario = open(
        "lanes = 'per-client'
        [[servers]]
        [[faults]]
        kind = 'errors'
        ratio = 0.3
        pick = 'clients'
        from = '0s'
        to = '60s'",
    );
    let retrying = policy(&ONCE.replace("maxAttempts = 1", "maxAttempts = 4"));
    let run = simulate(&scenario, &retrying, 1);
    // Retries do not help them: whole clients fail, each with a tenth of the operations.
    let tenths = (1.0 - run.success_ratio) * 10.0;
    assert!((tenths - tenths.round()).abs() < 0.4, "{tenths}");
    assert!(tenths.round() >= 1.0 && tenths.round() <= 6.0, "{tenths}");
}

#[test]
fn a_slower_server_takes_longer() {
    let slow = "[[servers]]\nservice = '10ms'\n[[faults]]\nkind = 'latency'\nfactor = 3.0
        extra = '20ms'\nfrom = '0s'\nto = '60s'";
    let run = once(&open(slow));
    assert_near(run.completions.quantile(0.5).unwrap(), 50e6, 0.02, "3 x 10 ms + 20 ms");
}

#[test]
fn a_rate_limit_lets_its_rate_through_and_says_when_to_return() {
    let limited = "[[servers]]\nretry_after = '5s'\n[[faults]]\nkind = 'rate-limit'
        per_second = 60\nburst = 5\nfrom = '0s'\nto = '60s'";
    let run = once(&open(limited));
    assert_near(run.success_ratio, 0.6, 0.03, "60 of 100");
    let retrying = policy(&ONCE.replace("maxAttempts = 1", "maxAttempts = 2"));
    let run = simulate(&open(limited), &retrying, 1);
    let early = run.buckets[..5].iter().map(relent_sim::Bucket::retries).sum::<u32>();
    assert_eq!(early, 0, "nobody returns before 5 s");
    assert!(run.buckets[5..12].iter().map(relent_sim::Bucket::retries).sum::<u32>() > 0);
}

#[test]
fn faults_set_in_and_ease_off_along_their_ramp() {
    let ramped = "[[servers]]\n[[faults]]\nkind = 'errors'\nratio = 1.0\nramp = '10s'
        from = '10s'\nto = '30s'";
    let run = once(&open(ramped));
    let failed = |second: usize| {
        let bucket = run.buckets[second];
        f64::from(bucket.failed) / f64::from(bucket.failed + bucket.succeeded)
    };
    assert_eq!((failed(9), failed(25), failed(45)), (0.0, 1.0, 0.0));
    assert!((failed(15) - 0.55).abs() < 0.2 && (failed(35) - 0.45).abs() < 0.2);
}

#[test]
fn callers_keep_their_own_deadline() {
    let mut scenario = open("deadline = '300ms'\n[[servers]]\nservice = '400ms'");
    assert!(once(&scenario).succeeded == 0);
    scenario.clients.deadline = Some(500_000_000);
    assert_eq!(once(&scenario).failed, 0);
}

#[test]
fn a_shared_breaker_sees_more_than_one_for_each_client() {
    let down = "[[servers]]\n[[faults]]\nkind = 'outage'\nhow = 'refuse'
        from = '10s'\nto = '40s'";
    let text = |lanes: &str| {
        let mut scenario = open(&format!("lanes = '{lanes}'\n{down}"));
        scenario.clients.count = 200;
        scenario
    };
    let guarded = policy("policyId = 'guarded'\ncontext = 'sync-api'\nmaxAttempts = 1");
    let calls = |lanes: &str| {
        let run = simulate(&text(lanes), &guarded, 1);
        run.buckets[16..40].iter().map(relent_sim::Bucket::sent).sum::<u32>()
    };
    let (shared, each) = (calls("shared"), calls("per-client"));
    assert!(shared < 50 && each > 10 * shared, "{shared} against {each}");
}

#[test]
fn a_service_holds_what_it_may_not_send() {
    let down = "when_refused = 'hold'\n[network]\nlatency = '1ms'\n[[servers]]\n[[faults]]
        kind = 'outage'\nhow = 'refuse'\nfrom = '10s'\nto = '20s'";
    let durable = policy("policyId = 'durable'\ncontext = 'async-event'");
    let run = simulate(&open(down), &durable, 1);
    assert_eq!(run.failed, 0);
    assert!(run.amplification < 1.1, "{}", run.amplification);
    assert!(matches!(run.recovery, Recovery::After(_)));
}

#[test]
fn a_chain_multiplies_attempts_unless_it_is_told() {
    let scenario = crate::known("nested-3x3");
    let run = crate::run(&scenario, "three-attempts");
    assert_near(run.amplification, 27.0, 0.01, "3 x 3 x 3");
    let mut told = scenario;
    told.servers.iter_mut().for_each(|server| server.told = true);
    let run = crate::run(&told, "three-attempts");
    assert_near(run.amplification, 3.0, 0.01, "only the clients retry");
}
