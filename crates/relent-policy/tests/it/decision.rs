//! Properties of the decision over every policy and every input that can be built.

use std::time::Duration;

use proptest::prelude::*;
use relent_policy::{
    Backoff, Class, Decision, Expiry, Failure, FailureKind, Fault, Gates, GiveUpReason, Hint,
    History, Hop, Jitter, Lane, Outcome, Policy, PolicySpec, Ratio, Refusal, Repeatable, Rule,
    Timestamp, Turn, Ungated, WaitReason, Waiver, decide,
};

const BASE: Timestamp = Timestamp::from_secs(1_794_700_800);

fn millis() -> impl Strategy<Value = Duration> {
    (0..100_000_u64).prop_map(Duration::from_millis)
}

fn backoff() -> impl Strategy<Value = Backoff> {
    prop_oneof![
        (millis(), 1_000..100_000_u32).prop_map(|(initial, thousandths)| Backoff::Exponential {
            initial,
            multiplier: Ratio::from_thousandths(thousandths)
        }),
        millis().prop_map(|initial| Backoff::Linear { initial }),
        millis().prop_map(|delay| Backoff::Fixed { delay }),
        prop::collection::vec(millis(), 99).prop_map(Backoff::Schedule),
    ]
}

fn jitter() -> impl Strategy<Value = Jitter> {
    prop_oneof![
        Just(Jitter::Full),
        Just(Jitter::Decorrelated),
        Just(Jitter::Equal),
        Just(Jitter::Additive),
        (1..=1_000_u32).prop_map(|thousandths| Jitter::Proportional {
            ratio: Ratio::from_thousandths(thousandths)
        }),
        Just(Jitter::None),
    ]
}

fn waivers() -> Vec<Waiver> {
    let expires: Expiry = "2099-12-31".parse().unwrap();
    let waiver = |rule: &Rule| Waiver {
        rule: *rule,
        approver: "the tests".into(),
        reason: "to try every policy".into(),
        expires: expires.clone(),
    };
    Rule::ALL.iter().map(waiver).collect()
}

/// Any policy that can be built at all, with every rule waived.
fn policy() -> impl Strategy<Value = Policy> {
    let timing = (backoff(), jitter(), 1..=100_u32, 100_000..2_592_000_000_u64, 1..86_400_000_u64);
    (timing, any::<bool>(), 0..=1_000_u32).prop_filter_map(
        "a schedule has no use for this jitter",
        |((backoff, jitter, max_attempts, cap, total), honour, spread)| {
            let mut spec = PolicySpec {
                backoff,
                jitter,
                max_attempts,
                max_delay: Duration::from_millis(cap),
                total_budget: Duration::from_millis(total),
                attempt_timeout: Duration::from_millis(total.min(10_000)),
                connect_timeout: Duration::from_millis(total.min(3_000)),
                waivers: waivers(),
                ..PolicySpec::decision_matrix()
            };
            spec.retry_after.honour = honour;
            spec.retry_after.jitter_ratio = Ratio::from_thousandths(spread);
            spec.build(BASE).ok()
        },
    )
}

fn kind() -> impl Strategy<Value = FailureKind> {
    prop_oneof![
        any::<u16>().prop_map(FailureKind::Http),
        prop::sample::select(&[408, 429, 500, 502, 503, 504][..]).prop_map(FailureKind::Http),
        any::<u8>().prop_map(FailureKind::Grpc),
        prop::sample::select(Fault::ALL).prop_map(FailureKind::Fault),
        prop::sample::select(&[Class::Retryable, Class::Permanent, Class::Unknown][..])
            .prop_map(FailureKind::Judged),
    ]
}

fn hint() -> impl Strategy<Value = Hint> {
    prop_oneof![
        3 => Just(Hint::None),
        3 => millis().prop_map(Hint::RetryAfter),
        1 => any::<Duration>().prop_map(Hint::RetryAfter),
        1 => Just(Hint::Stop),
    ]
}

fn history() -> impl Strategy<Value = History> {
    let repeatable = prop::sample::select(
        &[Repeatable::No, Repeatable::ByMethod, Repeatable::ByKey, Repeatable::Declared][..],
    );
    let deadline = prop::option::of(any::<u64>().prop_map(Timestamp::from_nanos));
    (any::<u64>(), repeatable, deadline, 0..120_u32, any::<bool>()).prop_map(
        |(created, repeatable, deadline, attempts, above)| {
            let mut history = History::start(Timestamp::from_nanos(created), repeatable);
            if let Some(deadline) = deadline {
                history = history.with_deadline(deadline);
            }
            if above {
                history = history.with_hop(Hop::RetriedAbove);
            }
            (0..attempts).fold(history, |history, _| history.begin_attempt())
        },
    )
}

/// Gates that count how often they are asked.
struct Counting {
    estimated_call: Duration,
    refuse: Option<Refusal>,
    asked: u32,
}

impl Gates for Counting {
    fn estimated_call(&self) -> Duration {
        self.estimated_call
    }

    fn reserve_retry(&mut self, _now: Timestamp, _roll: u64) -> Result<(), Refusal> {
        self.asked += 1;
        self.refuse.map_or(Ok(()), Err)
    }
}

proptest! {
    #[test]
    fn a_retry_keeps_every_promise(
        policy in policy(),
        history in history(),
        kind in kind(),
        hint in hint(),
        estimated_call in any::<Duration>(),
        elapsed in any::<u64>(),
        roll in any::<u64>(),
    ) {
        let elapsed = Duration::from_nanos(elapsed % (nanos(policy.spec().total_budget) * 2));
        let now = history.created_at() + elapsed;
        let mut gates = Counting { estimated_call, refuse: None, asked: 0 };
        let outcome = Outcome::Failure(Failure { kind, hint });
        match decide(&policy, &history, &outcome, &mut gates, now, roll) {
            Decision::RetryAt { at, because, charge } => {
                let delay = at.saturating_since(now);
                prop_assert_eq!(gates.asked, 1);
                prop_assert!(at >= now);
                let call = estimated_call.min(policy.spec().attempt_timeout);
                prop_assert!(at + call <= policy.deadline_of(&history), "past the deadline");
                prop_assert!(history.attempts() < policy.max_attempts());
                prop_assert_ne!(policy.classify(kind), Class::Permanent);
                prop_assert_ne!(history.hop(), Hop::RetriedAbove);
                prop_assert_ne!(hint, Hint::Stop);
                if let (Hint::RetryAfter(asked), true) = (hint, policy.spec().retry_after.honour) {
                    prop_assert!(delay >= asked, "earlier than asked");
                    let spread = policy.spec().retry_after.jitter_max;
                    let longest = (asked + spread.min(asked)).max(policy.spec().max_delay);
                    prop_assert!(delay <= longest, "far later than asked");
                }
                if because == WaitReason::Backoff {
                    prop_assert!(delay <= policy.spec().max_delay, "above the cap");
                }
                prop_assert!(charge.backoff() <= policy.spec().max_delay);
                prop_assert_eq!(history.charged(charge).attempts(), history.attempts());
            }
            Decision::GiveUp { because } => {
                let asked = matches!(because, GiveUpReason::BudgetExhausted | GiveUpReason::BreakerOpen);
                prop_assert_eq!(gates.asked > 0, asked, "a retry was counted and not made");
            }
            Decision::Done => prop_assert!(false, "a failure is never done"),
        }
    }

    #[test]
    fn the_same_arguments_give_the_same_decision(
        policy in policy(), history in history(), kind in kind(), hint in hint(), roll in any::<u64>(),
    ) {
        let outcome = Outcome::Failure(Failure { kind, hint });
        let again = || decide(&policy, &history, &outcome, &mut Ungated, history.created_at(), roll);
        prop_assert_eq!(again(), again());
    }

    #[test]
    fn a_larger_roll_never_waits_less(
        policy in policy(), attempt in 1..100_u32, previous in millis(), rolls in any::<[u64; 2]>(),
    ) {
        let [low, high] = [rolls[0].min(rolls[1]), rolls[0].max(rolls[1])];
        prop_assert!(policy.delay(attempt, previous, low) <= policy.delay(attempt, previous, high));
    }

    #[test]
    fn no_life_is_longer_than_its_limits(policy in policy(), rolls in any::<[u64; 8]>()) {
        let (mut history, mut now) = (History::start(BASE, Repeatable::ByKey), BASE);
        for attempt in 1.. {
            history = history.begin_attempt();
            prop_assert!(attempt <= policy.max_attempts());
            prop_assert!(now <= policy.deadline_of(&history));
            let roll = rolls[attempt as usize % 8];
            match decide(&policy, &history, &Outcome::http(502), &mut Ungated, now, roll) {
                Decision::RetryAt { at, charge, .. } => {
                    (now, history) = (at, history.charged(charge));
                }
                _ => break,
            }
        }
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap()
}

#[test]
fn every_reason_to_stop_can_be_met() {
    let policy = Policy::sync_api();
    let start = |repeatable| History::start(BASE, repeatable).begin_attempt();
    let fine = start(Repeatable::ByKey);
    let tired = (0..4).fold(History::start(BASE, Repeatable::ByKey), |h, _| h.begin_attempt());
    let unavailable = Outcome::http(503);
    let stop = Outcome::Failure(Failure { kind: FailureKind::Grpc(14), hint: Hint::Stop });
    let dns = Outcome::from(Fault::Dns);
    let Decision::RetryAt { charge, .. } = decide(&policy, &fine, &dns, &mut Ungated, BASE, 0)
    else {
        panic!("a first DNS failure is retried");
    };
    let resolved_once = fine.charged(charge);
    let open = Some(Refusal::BreakerOpen { until: BASE });
    let cases = [
        (GiveUpReason::Permanent, fine, Outcome::http(404), None, 0),
        (GiveUpReason::UnsafeToRepeat, start(Repeatable::No), unavailable, None, 0),
        (GiveUpReason::RetriedAbove, fine.with_hop(Hop::RetriedAbove), unavailable, None, 0),
        (GiveUpReason::RefusedByServer, fine, stop, None, 0),
        (GiveUpReason::AttemptsExhausted, tired, unavailable, None, 0),
        (GiveUpReason::ClassLimit, resolved_once, dns, None, 0),
        (
            GiveUpReason::RetryAfterTooLong,
            fine,
            unavailable.retry_after(Duration::from_secs(31)),
            None,
            0,
        ),
        (GiveUpReason::DeadlineWouldPass, fine, unavailable, None, 30),
        (GiveUpReason::BreakerOpen, fine, unavailable, open, 0),
        (GiveUpReason::BudgetExhausted, fine, unavailable, Some(Refusal::Budget), 0),
        (GiveUpReason::LimitReached, fine, unavailable, Some(Refusal::Concurrency), 0),
    ];
    assert_eq!(cases.len(), GiveUpReason::ALL.len());
    for (because, history, outcome, refuse, secs) in cases {
        let mut gates = Counting { estimated_call: Duration::ZERO, refuse, asked: 0 };
        let now = BASE + Duration::from_secs(secs);
        let decision = decide(&policy, &history, &outcome, &mut gates, now, 0);
        assert_eq!(decision, Decision::GiveUp { because });
    }
}

#[test]
fn a_spent_budget_gives_the_error_back_and_the_breaker_follows() {
    let policy = Policy::sync_api();
    let mut lane = Lane::new(&policy);
    let history = History::start(BASE, Repeatable::ByMethod).begin_attempt();
    let mut reasons = Vec::new();
    for n in 0..40 {
        let now = BASE + Duration::from_millis(n);
        let Ok(pass) = lane.admit(Turn::First, now) else {
            reasons.push("held back".to_owned());
            continue;
        };
        let outcome = Outcome::http(503);
        lane.finish(pass, &outcome, now, 0);
        if let Decision::GiveUp { because } =
            decide(&policy, &history, &outcome, &mut lane.gates(), now, 0)
        {
            reasons.push(because.to_string());
        }
    }
    // Four retries come from the floor, until five failures in a row suspend it; the twentieth
    // failure opens the breaker.
    let count = |name: &str| reasons.iter().filter(|reason| *reason == name).count();
    assert_eq!(count("budget_exhausted"), 15);
    assert_eq!(count("breaker_open"), 1);
    assert_eq!(count("held back"), 20);
}
