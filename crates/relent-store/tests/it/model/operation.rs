//! What is done to the two stores: small numbers that point at tenants, lanes, tasks and leases, so
//! that a sequence which fails is short and can be read. Durations are whole milliseconds, as a store
//! may take over what has reached its deadline that much later.

use std::time::Duration;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::sample::select;

/// Which of what there is so far, counted from the latest; beyond the first there is none.
pub(super) type Pick = usize;

#[derive(Clone, Debug)]
pub(super) enum Operation {
    Enqueue { tenant: usize, tasks: Vec<Item> },
    Claim { wants: Vec<Line>, max: u32, ahead: Duration },
    Record(Vec<(Pick, Result)>),
    Sweep,
    Cancel { asker: Asker, task: Pick },
    Redrive { asker: Asker, tasks: Vec<Pick>, after: Duration, other_policy: bool },
    Purge { asker: Asker, tasks: Vec<Pick> },
    Prune { chunk: u32 },
    Advance(Duration),
    Reopen,
    Look { asker: Asker, task: Pick, key: u8 },
    List { tenant: usize, narrowed: Narrowed, max: u32 },
    Count,
}

/// Who asks for something to be done with tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asker {
    /// The tenant of the first of them.
    Owner,
    Stranger,
}

#[derive(Clone, Debug)]
pub(super) struct Item {
    /// One of the tenant's two.
    pub(super) lane: usize,
    pub(super) key: Option<u8>,
    pub(super) content: u8,
    pub(super) after: Duration,
    pub(super) lifetime: Duration,
}

/// A line of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Line {
    pub(super) tenant: usize,
    pub(super) lane: usize,
    pub(super) retries: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Result {
    Delivered,
    Again(Duration),
    GaveUp,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Narrowed {
    Not,
    /// To one of the states.
    ToState(usize),
    ToLane(usize),
    ToOtherPolicy,
    /// To those stored so long after the beginning, or later.
    ToLater(Duration),
    ToEarlier(Duration),
    ToGivenUp,
}

/// Sequences of 60 operations on average, which can become shorter when they fail.
pub(super) fn sequences() -> impl Strategy<Value = Vec<Operation>> {
    vec(operation(), 1..120)
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        6 => (tenant(), vec(item(), 1..4))
            .prop_map(|(tenant, tasks)| Operation::Enqueue { tenant, tasks }),
        10 => (lines(), 0..5_u32, ahead())
            .prop_map(|(wants, max, ahead)| Operation::Claim { wants, max, ahead }),
        12 => vec((0..8_usize, result()), 1..4).prop_map(Operation::Record),
        3 => Just(Operation::Sweep),
        2 => (asker(), pick()).prop_map(|(asker, task)| Operation::Cancel { asker, task }),
        4 => (asker(), vec(pick(), 1..6), wait(), any::<bool>()).prop_map(
            |(asker, tasks, after, other_policy)| {
                Operation::Redrive { asker, tasks, after, other_policy }
            }
        ),
        1 => (asker(), vec(pick(), 1..4))
            .prop_map(|(asker, tasks)| Operation::Purge { asker, tasks }),
        1 => (1..5_u32).prop_map(|chunk| Operation::Prune { chunk }),
        8 => step().prop_map(Operation::Advance),
        1 => Just(Operation::Reopen),
        2 => (asker(), pick(), 0..3_u8)
            .prop_map(|(asker, task, key)| Operation::Look { asker, task, key }),
        2 => (tenant(), narrowed(), 1..4_u32)
            .prop_map(|(tenant, narrowed, max)| Operation::List { tenant, narrowed, max }),
        1 => Just(Operation::Count),
    ]
}

fn tenant() -> impl Strategy<Value = usize> {
    prop_oneof![4 => Just(0), 1 => Just(1)]
}

fn asker() -> impl Strategy<Value = Asker> {
    prop_oneof![9 => Just(Asker::Owner), 1 => Just(Asker::Stranger)]
}

fn pick() -> impl Strategy<Value = Pick> {
    0..6_usize
}

fn item() -> impl Strategy<Value = Item> {
    let content = prop_oneof![19 => Just(0), 1 => Just(1)];
    let wait = prop_oneof![2 => Just(Duration::ZERO), 1 => wait()];
    (0..2_usize, option::of(0..4_u8), content, wait, lifetime()).prop_map(
        |(lane, key, content, after, lifetime)| Item { lane, key, content, after, lifetime },
    )
}

/// Lines, each once: some of them, or all of a tenant.
fn lines() -> impl Strategy<Value = Vec<Line>> {
    let line = (tenant(), 0..2_usize, any::<bool>()).prop_map(|(tenant, lane, retries)| Line {
        tenant,
        lane,
        retries,
    });
    let some = vec(line, 1..4).prop_map(|mut lines| {
        lines.sort_unstable();
        lines.dedup();
        lines
    });
    let all = tenant().prop_map(|tenant| {
        let line = |n: usize| Line { tenant, lane: n / 2, retries: n.is_multiple_of(2) };
        (0..4).map(line).collect()
    });
    prop_oneof![some, all]
}

fn result() -> impl Strategy<Value = Result> {
    prop_oneof![
        1 => Just(Result::Delivered),
        2 => wait().prop_map(Result::Again),
        2 => Just(Result::GaveUp),
    ]
}

fn narrowed() -> impl Strategy<Value = Narrowed> {
    prop_oneof![
        Just(Narrowed::Not),
        (0..5_usize).prop_map(Narrowed::ToState),
        (0..2_usize).prop_map(Narrowed::ToLane),
        Just(Narrowed::ToOtherPolicy),
        step().prop_map(Narrowed::ToLater),
        step().prop_map(Narrowed::ToEarlier),
        Just(Narrowed::ToGivenUp),
    ]
}

const SECOND: u64 = 1_000;

/// How long something waits: within what a store holds in memory, and far beyond it.
fn wait() -> impl Strategy<Value = Duration> {
    prop_oneof![
        4 => Just(0),
        1 => Just(1),
        4 => Just(SECOND + 7),
        2 => Just(30 * SECOND),
        1 => Just(599 * SECOND),
        1 => Just(3_600 * SECOND),
        1 => Just(86_400 * SECOND + 11),
    ]
    .prop_map(Duration::from_millis)
}

/// Within what a store holds in memory.
fn ahead() -> impl Strategy<Value = Duration> {
    prop_oneof![6 => Just(0), 1 => Just(1), 2 => Just(SECOND + 7), 1 => Just(30 * SECOND)]
        .prop_map(Duration::from_millis)
}

fn lifetime() -> impl Strategy<Value = Duration> {
    let seconds = [0, 1, 60, 3_600, 3_600, 864_000, 864_000, 864_000, 864_000];
    select(seconds.to_vec()).prop_map(Duration::from_secs)
}

fn step() -> impl Strategy<Value = Duration> {
    prop_oneof![
        2 => Just(1),
        6 => Just(SECOND + 7),
        2 => Just(20 * SECOND),
        2 => Just(61 * SECOND),
        1 => Just(660 * SECOND),
        1 => Just(7_200 * SECOND),
        1 => Just(86_400 * SECOND),
    ]
    .prop_map(Duration::from_millis)
}
