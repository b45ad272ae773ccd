//! A decision, and everything a lane does around it, allocates nothing.

use allocation_counter::measure;
use relent_policy::{
    Decision, History, Lane, Outcome, Policy, Repeatable, Timestamp, Turn, decide, roll,
};

#[test]
fn deciding_allocates_nothing() {
    for policy in [Policy::sync_api(), Policy::webhook(), Policy::decision_matrix()] {
        let mut lane = Lane::new(&policy);
        let mut decided = [0_u32; 3];
        let info = measure(|| {
            for task in 0..1_000 {
                let mut now = Timestamp::from_millis(task * 7);
                let mut history = History::start(now, Repeatable::ByKey);
                loop {
                    history = history.begin_attempt();
                    let Ok(pass) = lane.admit(Turn::of_attempt(history.attempts()), now) else {
                        break;
                    };
                    let outcome =
                        Outcome::http([200, 503, 404][usize::try_from(task % 3).unwrap()]);
                    let roll = roll::for_attempt(1, task, history.attempts());
                    lane.finish(pass, &outcome, now, roll);
                    match decide(&policy, &history, &outcome, &mut lane.gates(), now, roll) {
                        Decision::Done => decided[0] += 1,
                        Decision::GiveUp { .. } => decided[1] += 1,
                        Decision::RetryAt { at, charge, .. } => {
                            decided[2] += 1;
                            (now, history) = (at, history.charged(charge));
                            continue;
                        }
                    }
                    break;
                }
            }
        });
        assert_eq!(info.count_total, 0, "{}", policy.id());
        assert!(decided.iter().all(|count| *count > 0), "{decided:?}");
    }
}

#[test]
fn the_counter_counts() {
    assert_eq!(measure(|| drop(std::hint::black_box(vec![1_u8]))).count_total, 1);
}
