//! Clusters in virtual time: nodes that join, die, beat late and lose answers, on one store.

use std::collections::HashMap;

use proptest::prelude::*;
use relent_policy::{
    Admission, BreakerRules, BudgetRules, Health, Membership, Outcome, Pass, PolicySpec, Refusal,
};
use relent_store::{LaneRecord, PolicyKey, TenantId};

use super::*;
use crate::lanes::Trial;

/// When a node that was not heard of is forgotten, in milliseconds, as every store has it.
const FORGOTTEN_AFTER: u64 = 2_000;
const STEP: usize = 10;

/// Chance, out of one number.
struct Dice(u64);

impl Dice {
    fn up_to(&mut self, most: u64) -> u64 {
        // A splitmix step.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % (most + 1)
    }

    fn one_in(&mut self, many: u64) -> bool {
        self.up_to(many - 1) == 0
    }
}

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn lane(spec: &PolicySpec) -> (LaneBook, Arc<Lane>) {
    let book = LaneBook::new(Some(Share::WHOLE), Some(Arc::default()));
    let record = LaneRecord {
        id: LaneId::from_u32(1),
        tenant: TenantId::default_tenant(),
        dependency: "it".to_owned(),
        policy: PolicyKey::from_u32(1),
        settings: LaneSettings::default(),
        budget: None,
        breaker: None,
        breaker_revision: 0,
    };
    let lane = book.add(record, &spec.clone().build(Timestamp::ZERO).unwrap());
    (book, lane)
}

/// Asks as the scheduler does, and starts the attempt if it is let through.
fn attempt(lane: &Lane, turn: Turn, now: Timestamp) -> Result<Pass, Refusal> {
    let Trial { mut gates, seen } = lane.trial().unwrap();
    let refused = match turn {
        Turn::First => gates.admit(turn, now).err(),
        Turn::Retry => gates
            .reserve_retry(now, 0)
            .map(drop)
            .and_then(|()| gates.admit(turn, now).map(drop))
            .err(),
    };
    match refused {
        None => Ok(lane.start(turn, now, 0)),
        Some(refusal) => {
            lane.hold(turn, Some(refusal), seen, now, 0);
            Err(refusal)
        }
    }
}

/// A node that spends what it may.
struct Spender {
    number: u32,
    book: LaneBook,
    lane: Arc<Lane>,
    membership: Membership,
    beats_at: u64,
    /// A beat that was sent: when, when it arrives, and when the answer is here.
    beat: Option<(u64, u64, u64)>,
    answer: Option<Share>,
}

/// The store's members, by number, and when they were last heard of.
type Members = HashMap<u32, u64>;

fn share_of(number: u32, members: &Members, now: u64) -> Share {
    let alive = members.iter().filter(|(_, seen_at)| **seen_at + FORGOTTEN_AFTER > now);
    let (mut rank, mut of) = (0, 0);
    for (other, _) in alive {
        rank += u32::from(*other < number);
        of += 1;
    }
    Share::new(rank, of)
}

impl Spender {
    fn new(number: u32, spec: &PolicySpec, now: u64) -> Spender {
        let (book, lane) = lane(spec);
        let membership = Membership::default();
        Spender { number, book, lane, membership, beats_at: now, beat: None, answer: None }
    }

    fn beats(&mut self, members: &mut Members, dice: &mut Dice, now: u64) {
        if self.beat.is_none() && now >= self.beats_at {
            let arrives_at = now + dice.up_to(100);
            self.beat = Some((now, arrives_at, arrives_at + dice.up_to(100)));
            self.beats_at = now + 250;
        }
        let Some((asked_at, arrives_at, answered_at)) = self.beat else { return };
        if now >= arrives_at && self.answer.is_none() {
            members.insert(self.number, now);
            self.answer = Some(share_of(self.number, members, now));
        }
        if now >= answered_at {
            self.beat = None;
            let share = self.answer.take().unwrap();
            let heard = self.membership.hear(share, at(asked_at), at(now));
            self.book.set_share(share, heard == relent_policy::Heard::Joined, at(now));
        }
    }
}

/// Runs a cluster for some seconds; what was sent when, in order, and the most nodes.
fn spend(spec: &PolicySpec, seed: u64) -> (Vec<(u64, Turn)>, u32) {
    let (mut dice, mut members) = (Dice(seed), Members::new());
    let mut nodes = vec![Spender::new(0, spec, 0)];
    let (mut sent, mut most) = (Vec::new(), 1);
    let (mut number, failing) = (0, dice.one_in(2));
    for now in (0..20_000).step_by(STEP) {
        if nodes.len() < 5 && dice.one_in(150) {
            number += 1;
            nodes.push(Spender::new(number, spec, now));
        }
        if nodes.len() > 1 && dice.one_in(200) {
            let dies = usize::try_from(dice.up_to(nodes.len() as u64 - 1)).unwrap();
            // A cluster that has lost everybody starts afresh, which is not what this looks at.
            if nodes
                .iter()
                .enumerate()
                .any(|(it, node)| it != dies && node.membership.may_work(at(now)))
            {
                nodes.remove(dies);
            }
        }
        most = most.max(u32::try_from(members.len()).unwrap());
        for node in &mut nodes {
            node.beats(&mut members, &mut dice, now);
            if !node.membership.may_work(at(now)) {
                continue;
            }
            let outcome = |dice: &mut Dice| match failing && !dice.one_in(20) {
                true => Outcome::http(503),
                false => Outcome::Success,
            };
            for _ in 0..dice.up_to(2) {
                let pass = attempt(&node.lane, Turn::First, at(now)).unwrap();
                node.lane.finish(pass, &outcome(&mut dice), at(now), 0);
                sent.push((now, Turn::First));
            }
            while let Ok(pass) = attempt(&node.lane, Turn::Retry, at(now)) {
                node.lane.finish(pass, &outcome(&mut dice), at(now), 0);
                sent.push((now, Turn::Retry));
            }
        }
    }
    (sent, most)
}

/// A node with a breaker of its own view.
struct Guard {
    lane: Arc<Lane>,
    _book: LaneBook,
    /// What it has told the store, when that arrives, and when the answer is here.
    telling: Option<(BreakerSwap, u64, u64)>,
    told: Option<BreakerSwapped>,
    /// What it has looked up, and when that is here.
    looking: Option<(u64, Option<(u64, BreakerSnapshot)>)>,
    sleeps_until: u64,
    probe: Option<Probe>,
}

struct Probe {
    pass: Option<Pass>,
    ends_at: u64,
}

/// The breaker in the store, with its revision.
type Stored = (u64, Option<BreakerSnapshot>);

fn swap(stored: &mut Stored, swap: &BreakerSwap) -> BreakerSwapped {
    if stored.0 != swap.seen {
        return BreakerSwapped::Lost { revision: stored.0, breaker: stored.1 };
    }
    *stored = (stored.0 + 1, Some(swap.breaker));
    BreakerSwapped::Done { revision: stored.0 }
}

impl Guard {
    fn new(spec: &PolicySpec) -> Guard {
        let (book, lane) = lane(spec);
        let (telling, told, looking, probe) = (None, None, None, None);
        Guard { lane, _book: book, telling, told, looking, sleeps_until: 0, probe }
    }

    /// Tells and looks, in turn, with answers that take their time or are lost.
    fn listens(&mut self, stored: &mut Stored, dice: &mut Dice, now: u64) {
        if let Some((told, arrives_at, answered_at)) = self.telling {
            if now >= arrives_at && self.told.is_none() {
                self.told = Some(swap(stored, &told));
            }
            if now >= answered_at {
                self.telling = None;
                match self.told.take() {
                    Some(answer) if !dice.one_in(8) => drop(self.lane.told(&told, answer)),
                    _ => self.lane.not_told(&told),
                }
            }
        } else if let Some((here_at, looked_up)) = self.looking {
            if now >= here_at {
                self.looking = None;
                if let Some((revision, breaker)) = looked_up {
                    self.lane.follow(revision, breaker);
                }
            }
        } else if let Some(swap) = self.lane.to_tell(at(now), dice.up_to(u64::MAX - 1)) {
            let arrives_at = now + dice.up_to(400);
            self.telling = Some((swap, arrives_at, arrives_at + dice.up_to(400)));
        } else if dice.one_in(20) {
            let looked_up = stored.1.map(|breaker| (stored.0, breaker));
            self.looking = Some((now + dice.up_to(400), looked_up));
        }
    }
}

/// Runs a cluster whose dependency is mostly down; when probes began and were over. Some are lost.
fn probe(spec: &PolicySpec, seed: u64) -> Vec<(u64, u64)> {
    let timeout = u64::try_from(spec.breaker.unwrap().probe_timeout.as_millis()).unwrap();
    let (mut dice, mut stored) = (Dice(seed), (0, None));
    let count = 2 + dice.up_to(3);
    let mut guards: Vec<Guard> = (0..count).map(|_| Guard::new(spec)).collect();
    let mut probes = Vec::new();
    for now in (0..60_000).step_by(STEP) {
        for guard in &mut guards {
            if now < guard.sleeps_until {
                continue;
            }
            // Not so often that a probe outlives its time.
            if now > guard.sleeps_until + 10_000 && dice.one_in(500) {
                guard.sleeps_until = now + dice.up_to(4_000);
            }
            guard.listens(&mut stored, &mut dice, now);
            let outcome = match dice.one_in(6) {
                true => Outcome::Success,
                false => Outcome::http(503),
            };
            if let Some(probe) = &mut guard.probe
                && now >= probe.ends_at
            {
                let (pass, late) = (probe.pass.take().unwrap(), now - probe.ends_at);
                guard.probe = None;
                if late < timeout / 4 && !dice.one_in(10) {
                    guard.lane.finish(pass, &outcome, at(now), dice.0);
                }
            }
            if guard.probe.is_some() || !dice.one_in(4) {
                continue;
            }
            let is_probe = guard.lane.view(at(now)).breaker == Some(BreakerState::HalfOpen);
            match attempt(&guard.lane, Turn::First, at(now)) {
                Err(_) => {}
                Ok(pass) if is_probe => {
                    let ends_at = now + dice.up_to(timeout / 4);
                    probes.push((now, ends_at));
                    guard.probe = Some(Probe { pass: Some(pass), ends_at });
                }
                Ok(pass) => drop(guard.lane.finish(pass, &outcome, at(now), dice.0)),
            }
        }
    }
    probes
}

/// As after a failover to a replica that had not received the last revisions.
#[test]
fn a_breaker_that_was_set_back_in_the_store_is_followed() {
    let rules = BreakerRules { calls_min: 1, ..BreakerRules::default() };
    let (_book, lane) = lane(&PolicySpec { breaker: Some(rules), ..PolicySpec::async_event() });
    let closed = Breaker::new(rules);
    let mut open = closed;
    open.record(Admission::Normal, Health::Failing, at(1_000), 0);
    let state = || lane.view(at(1_001)).breaker.unwrap();
    assert!(lane.follow(7, open.snapshot()));
    assert_eq!(state(), BreakerState::Open);
    assert!(!lane.follow(7, closed.snapshot()), "it is known");
    assert!(lane.follow(5, closed.snapshot()));
    assert_eq!(state(), BreakerState::Closed);

    // And whoever asks on top of what the store has forgotten is not refused for ever.
    lane.follow(9, open.snapshot());
    let swap = BreakerSwap { lane: lane.id, seen: 9, breaker: open.snapshot() };
    let lost = BreakerSwapped::Lost { revision: 5, breaker: Some(open.snapshot()) };
    lane.told(&swap, lost);
    lane.ask_leave(&mut lane.state(), Turn::First, at(120_000));
    assert_eq!(lane.to_tell(at(120_000), 0).map(|swap| swap.seen), Some(5));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// Over every stretch of time: a fifth of all nodes' first attempts, one burst, one floor.
    #[test]
    fn a_cluster_has_one_budget_whoever_joins_and_dies(seed in any::<u64>(), floor in 0..=10_u32) {
        let budget = BudgetRules { floor_retries: floor, ..BudgetRules::default() };
        let spec = PolicySpec { budget: Some(budget), breaker: None, ..PolicySpec::async_event() };
        let whole = service_floor(budget);
        let (sent, most) = spend(&spec, seed);
        prop_assert!(sent.iter().filter(|(_, turn)| *turn == Turn::First).count() > 500);
        let window = i64::try_from(whole.floor_window.as_millis()).unwrap();
        let allowed = i64::from(whole.burst.max(most) + floor) * 1_000;
        // In thousandths of a retry: what was taken, less what has been earned, since the beginning.
        let (mut taken, mut least) = (0_i64, 0_i64);
        for (now, turn) in sent {
            let grown = i64::from(floor) * 1_000 * i64::try_from(now).unwrap() / window;
            match turn {
                Turn::First => taken -= 200,
                Turn::Retry => {
                    least = least.min(taken - grown);
                    taken += 1_000;
                    let excess = taken - grown - least - allowed;
                    prop_assert!(excess <= 1_000, "{} thousandths too many at {}", excess, now);
                }
            }
        }
    }

    /// However late anything arrives, and whoever sleeps.
    #[test]
    fn a_cluster_never_has_two_probes_at_once(seed in any::<u64>()) {
        let breaker = BreakerRules {
            calls_min: 3,
            cool_down: Duration::from_secs(1),
            cool_down_max: Duration::from_secs(2),
            ramp: Duration::ZERO,
            probe_timeout: Duration::from_secs(20),
            ..BreakerRules::default()
        };
        let spec = PolicySpec { breaker: Some(breaker), ..PolicySpec::async_event() };
        let probes = probe(&spec, seed);
        prop_assert!(probes.len() > 1, "{:?}", probes);
        for (index, (_, ends_at)) in probes.iter().enumerate() {
            for (began_at, _) in &probes[index + 1..] {
                prop_assert!(began_at >= ends_at, "{:?}", probes);
            }
        }
    }
}
