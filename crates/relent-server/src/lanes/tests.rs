//! What a lane lets through, and when it is held.

use relent_policy::Fault;

use super::*;

const NOW: Timestamp = Timestamp::from_secs(1);

fn lane() -> Lane {
    let record = LaneRecord {
        id: LaneId::from_u32(1),
        tenant: TenantId::default_tenant(),
        dependency: "orders".to_owned(),
        policy: PolicyKey::from_u32(1),
        settings: LaneSettings::default(),
        budget: None,
        breaker: None,
        breaker_revision: 0,
    };
    Lane::new(record, &Policy::webhook(), Some(Share::WHOLE), None)
}

/// How many first attempts a trial lets through.
fn let_through(lane: &Lane) -> u32 {
    let mut gates = lane.trial().unwrap().gates;
    (0..).take_while(|_| gates.admit(Turn::First, NOW).is_ok()).count().try_into().unwrap()
}

fn finish_one(lane: &Lane, outcome: &Outcome) {
    let pass = lane.start(Turn::First, NOW, 0);
    lane.finish(pass, outcome, NOW, 0);
}

#[test]
fn a_lane_earns_its_places_by_answers_and_loses_them_by_failures() {
    let lane = lane();
    assert_eq!(let_through(&lane), UNPROVEN_MAX);
    for _ in 0..5 {
        finish_one(&lane, &Outcome::Success);
    }
    assert_eq!(let_through(&lane), UNPROVEN_MAX + 5);
    finish_one(&lane, &Outcome::from(Fault::ConnectTimeout));
    assert_eq!(let_through(&lane), UNPROVEN_MAX + 4);
}

#[test]
fn a_lane_never_has_more_places_than_its_policy_gives() {
    let lane = lane();
    let max = lane.view(NOW).limits.in_flight_max;
    for _ in 0..2 * max {
        finish_one(&lane, &Outcome::Success);
    }
    assert_eq!(let_through(&lane), max);
}

#[test]
fn a_line_is_not_held_when_an_attempt_has_ended_since_it_was_asked() {
    let lane = lane();
    let seen = lane.trial().unwrap().seen;
    finish_one(&lane, &Outcome::Success);
    let refusal = Some(Refusal::Concurrency);
    assert_eq!(lane.hold(Turn::First, refusal, seen, NOW, 0).until, NOW);
    assert!(!lane.is_held());

    let seen = lane.trial().unwrap().seen;
    assert_eq!(lane.hold(Turn::First, refusal, seen, NOW, 0).until, Timestamp::MAX);
    assert!(lane.is_held());
}
