//! Lanes in the running service: the engine's gates behind a lock, and what is told about them.
//!
//! A lane's budget, breaker and limits are those of the policy that opened it, under what people
//! have set since; of several nodes each holds itself to its part ([`shared`]). Their memory is saved
//! every second and at the end, and taken up again at the start. REQ-G2, REQ-K1, REQ-K2, REQ-L6.

mod shared;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use relent_api::WaitingReason;
use relent_policy::{
    Breaker, BreakerState, Budget, BudgetSnapshot, ConcurrencyLimits, Health, Lane as Gates,
    Outcome, Pass, Policy, Refusal, Share, Timestamp, Turn,
};
use relent_store::{BreakerSwap, LaneId, LaneRecord, LaneSettings, PolicyKey, TenantId};

use crate::metrics::LaneCounts;
use crate::scheduler::Starting;
pub(crate) use shared::News;
use shared::{Untold, Whole};

/// Every lane of the service, by id and by name.
#[derive(Debug)]
pub(crate) struct LaneBook {
    /// This node's part of every lane; `None` on a node that sends nothing.
    share: RwLock<Option<Share>>,
    /// `None` on a store that no other node has.
    news: Option<Arc<News>>,
    by_id: RwLock<HashMap<LaneId, Arc<Lane>>>,
    by_name: RwLock<HashMap<TenantId, HashMap<String, Arc<Lane>>>>,
}

/// One lane.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) id: LaneId,
    pub(crate) tenant: TenantId,
    pub(crate) dependency: Arc<str>,
    pub(crate) policy: PolicyKey,
    pub(crate) counts: LaneCounts,
    pub(crate) starting: Starting,
    /// One change at a time: the last to be stored is the last to be in force here.
    pub(crate) changes: tokio::sync::Mutex<()>,
    news: Option<Arc<News>>,
    state: Mutex<LaneState>,
}

#[derive(Debug)]
struct LaneState {
    gates: Gates,
    settings: LaneSettings,
    /// When they were set here.
    set_at: Option<Instant>,
    whole: Whole,
    share: Option<Share>,
    held: [Option<Held>; 2],
    /// How many attempts it may have in flight beyond [`UNPROVEN_MAX`], by what has come back.
    earned: u32,
    /// Counts what may have let a held line go.
    freed: u64,
    breaker_revision: u64,
    untold: Untold,
    /// Whether there is something to save.
    changed: bool,
}

/// A copy of a lane's gates, to be asked instead of the lane.
#[derive(Debug)]
pub(crate) struct Trial {
    pub(crate) gates: Gates,
    /// Tells whether the lane has changed since.
    pub(crate) seen: u64,
}

/// Why a line of a lane is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) reason: WaitingReason,
    /// [`Timestamp::MAX`]: until something happens.
    pub(crate) until: Timestamp,
}

/// What a lane looks like from outside.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaneView {
    pub(crate) settings: LaneSettings,
    pub(crate) limits: ConcurrencyLimits,
    pub(crate) in_flight: u32,
    pub(crate) retries_in_flight: u32,
    pub(crate) budget_utilization: Option<f64>,
    pub(crate) breaker: Option<BreakerState>,
    /// When it may let a probe through, while it is open.
    pub(crate) breaker_until: Option<Timestamp>,
}

/// How the breaker stands after an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Finished {
    pub(crate) breaker_before: Option<BreakerState>,
    pub(crate) breaker_after: Option<BreakerState>,
    pub(crate) estimated_call: Duration,
}

/// What of a lane is to be saved.
#[derive(Debug)]
pub(crate) struct Changed {
    pub(crate) budget: Option<(LaneId, BudgetSnapshot)>,
    pub(crate) breaker: Option<BreakerSwap>,
}

/// How many attempts a lane has in flight before anything has come back. A dependency that takes
/// connections and says nothing would otherwise get all that its policy allows in one moment, whose
/// connections and timeouts then keep everybody else waiting. Each answer earns a place more, as in
/// TCP's slow start, so a lane that answers has all of its places after a few rounds; each failure
/// takes one back.
const UNPROVEN_MAX: u32 = 64;

/// How often a line that waits for budget asks again.
const BUDGET_RECHECK: Duration = Duration::from_millis(100);

impl LaneBook {
    pub(crate) fn new(share: Option<Share>, news: Option<Arc<News>>) -> LaneBook {
        let (by_id, by_name) = (RwLock::default(), RwLock::default());
        LaneBook { share: RwLock::new(share), news, by_id, by_name }
    }

    pub(crate) fn get(&self, id: LaneId) -> Option<Arc<Lane>> {
        read(&self.by_id).get(&id).cloned()
    }

    pub(crate) fn named(&self, tenant: &TenantId, dependency: &str) -> Option<Arc<Lane>> {
        read(&self.by_name).get(tenant)?.get(dependency).cloned()
    }

    pub(crate) fn of_tenant(&self, tenant: &TenantId) -> Vec<Arc<Lane>> {
        let by_name = read(&self.by_name);
        let mut lanes: Vec<_> =
            by_name.get(tenant).map(|lanes| lanes.values().cloned().collect()).unwrap_or_default();
        lanes.sort_unstable_by_key(|lane: &Arc<Lane>| lane.id);
        lanes
    }

    pub(crate) fn all(&self) -> Vec<Arc<Lane>> {
        read(&self.by_id).values().cloned().collect()
    }

    /// Takes a stored lane up; the one that is there already, if it is.
    pub(crate) fn add(&self, record: LaneRecord, policy: &Policy) -> Arc<Lane> {
        let id = record.id;
        // Held until the lane is in the book: it must not miss a change.
        let share = read(&self.share);
        let new = || Arc::new(Lane::new(record, policy, *share, self.news.clone()));
        let mut by_id = self.by_id.write().unwrap_or_else(PoisonError::into_inner);
        let lane = by_id.entry(id).or_insert_with(new);
        let mut by_name = self.by_name.write().unwrap_or_else(PoisonError::into_inner);
        let names = by_name.entry(lane.tenant.clone()).or_default();
        names.insert(lane.dependency.to_string(), Arc::clone(lane));
        Arc::clone(lane)
    }
}

fn read<T>(lock: &RwLock<T>) -> std::sync::RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

impl Lane {
    fn new(
        record: LaneRecord,
        policy: &Policy,
        share: Option<Share>,
        news: Option<Arc<News>>,
    ) -> Lane {
        let whole = Whole::of(policy);
        let part = whole.part(share, record.settings);
        // What was kept is for one node to go on with; of several each would spend it.
        let kept = record.budget.filter(|_| share.is_some_and(Share::is_whole));
        let budget = part.budget.map(|rules| {
            let restored = kept.and_then(|kept| Budget::restore(rules, kept).ok());
            restored.unwrap_or_else(|| Budget::new(rules))
        });
        let breaker = part.breaker.map(|rules| {
            let restored = record.breaker.and_then(|kept| Breaker::restore(rules, kept).ok());
            let breaker = restored.unwrap_or_else(|| Breaker::new(rules));
            if news.is_some() { breaker.asking_leave() } else { breaker }
        });
        let mut gates = Gates::new(policy).with_state(budget, breaker);
        gates.set_limits(part.limits);
        Lane {
            id: record.id,
            tenant: record.tenant,
            dependency: record.dependency.into(),
            policy: record.policy,
            counts: LaneCounts::default(),
            starting: Starting::default(),
            changes: tokio::sync::Mutex::default(),
            news,
            state: Mutex::new(LaneState {
                gates,
                settings: record.settings,
                set_at: None,
                whole,
                share,
                held: [None; 2],
                earned: 0,
                freed: 0,
                breaker_revision: record.breaker_revision,
                untold: Untold::default(),
                changed: false,
            }),
        }
    }

    fn state(&self) -> MutexGuard<'_, LaneState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A copy to ask how many attempts would be let through. `None` while people hold the lane.
    pub(crate) fn trial(&self) -> Option<Trial> {
        let state = self.state();
        let (mut gates, seen) = (state.gates, state.freed);
        let mut limits = gates.limits();
        limits.in_flight_max = limits.in_flight_max.min(UNPROVEN_MAX + state.earned);
        gates.set_limits(limits);
        (!state.settings.paused).then_some(Trial { gates, seen })
    }

    /// Starts an attempt that a trial let through.
    pub(crate) fn start(&self, turn: Turn, now: Timestamp, roll: u64) -> Pass {
        let mut state = self.state();
        state.changed = true;
        state.held[index(turn)] = None;
        self.change(&mut state, |gates| {
            let admitted = match turn {
                Turn::First => gates.admit(turn, now),
                Turn::Retry => match gates.reserve_retry(now, roll) {
                    Err(refusal) => Err(refusal),
                    Ok(reservation) => {
                        gates.admit(turn, now).inspect_err(|_| gates.release(reservation, now))
                    }
                },
            };
            admitted.unwrap_or_else(|_| gates.admit_anyway(turn, now))
        })
    }

    /// Learns how an attempt ended.
    pub(crate) fn finish(
        &self,
        pass: Pass,
        outcome: &Outcome,
        now: Timestamp,
        roll: u64,
    ) -> Finished {
        let mut state = self.state();
        let breaker_before = state.gates.breaker().map(|breaker| breaker.state(now));
        self.change(&mut state, |gates| gates.finish(pass, outcome, now, roll));
        state.earned = match Health::of(outcome) {
            Health::Alive => (state.earned + 1).min(state.gates.limits().in_flight_max),
            Health::Failing => state.earned.saturating_sub(1),
            Health::NoSignal => state.earned,
        };
        state.freed += 1;
        state.changed = true;
        Finished {
            breaker_before,
            breaker_after: state.gates.breaker().map(|breaker| breaker.state(now)),
            estimated_call: state.gates.estimated_call(),
        }
    }

    /// Frees the place of an attempt that was not made.
    pub(crate) fn abandon(&self, pass: Pass, now: Timestamp) {
        let mut state = self.state();
        self.change(&mut state, |gates| gates.abandon(pass, now));
        state.freed += 1;
    }

    /// Whether the end of an attempt may let a line go.
    pub(crate) fn is_held(&self) -> bool {
        self.state().held.iter().flatten().any(|held| ends_with_an_attempt(held.reason))
    }

    /// Notes that a line is held for a refusal, and says until when. An attempt that has ended since
    /// the trial has found nobody held and told nobody: then the line is not held, and asks again.
    pub(crate) fn hold(
        &self,
        turn: Turn,
        refusal: Option<Refusal>,
        seen: u64,
        now: Timestamp,
        roll: u64,
    ) -> Held {
        let mut state = self.state();
        let held = match refusal {
            None => Held { reason: WaitingReason::Paused, until: Timestamp::MAX },
            Some(Refusal::Concurrency) => {
                Held { reason: WaitingReason::Concurrency, until: Timestamp::MAX }
            }
            Some(Refusal::RateLimited { until }) => {
                Held { reason: WaitingReason::RateLimited, until }
            }
            Some(Refusal::BreakerOpen { until }) => {
                self.ask_leave(&mut state, turn, now);
                Held { reason: WaitingReason::BreakerOpen, until }
            }
            Some(Refusal::Budget) => {
                // The trial was refused on a copy; the breaker must hear of it too.
                self.change(&mut state, |gates| {
                    if let Ok(reservation) = gates.reserve_retry(now, roll) {
                        gates.release(reservation, now);
                    }
                });
                Held { reason: WaitingReason::Budget, until: now + BUDGET_RECHECK }
            }
        };
        if ends_with_an_attempt(held.reason) && seen != state.freed {
            return Held { until: now, ..held };
        }
        state.held[index(turn)] = Some(held);
        held
    }

    /// Sets what people have set here.
    pub(crate) fn set(&self, settings: LaneSettings) {
        let mut state = self.state();
        state.set_at = Some(Instant::now());
        state.set(settings);
    }

    pub(crate) fn settings(&self) -> LaneSettings {
        self.state().settings
    }

    /// Why a line is held, if it is.
    pub(crate) fn held(&self, turn: Turn, now: Timestamp) -> Option<Held> {
        let state = self.state();
        if state.settings.paused {
            return Some(Held { reason: WaitingReason::Paused, until: Timestamp::MAX });
        }
        let held = state.held[index(turn)].filter(|held| held.until > now);
        held.or_else(|| state.held_elsewhere(now))
    }

    pub(crate) fn view(&self, now: Timestamp) -> LaneView {
        let state = self.state();
        let breaker = state.gates.breaker();
        let open = breaker.filter(|breaker| breaker.state(now) == BreakerState::Open);
        LaneView {
            settings: state.settings,
            limits: state.whole.limits_under(state.settings),
            in_flight: state.gates.in_flight(),
            retries_in_flight: state.gates.retries_in_flight(),
            budget_utilization: state
                .gates
                .budget()
                .filter(|_| state.share.is_some())
                .copied()
                .map(|mut budget| budget.utilization_ratio(now)),
            breaker: breaker.map(|breaker| breaker.state(now)),
            breaker_until: open.and_then(|open| open.would_admit(now).err()).map(|open| open.until),
        }
    }

    /// What is to be saved, if it has changed since it was asked for.
    pub(crate) fn changed(&self) -> Option<Changed> {
        let mut state = self.state();
        if !std::mem::take(&mut state.changed) {
            return None;
        }
        let (lane, seen) = (self.id, state.breaker_revision);
        let swap = |breaker: &Breaker| BreakerSwap { lane, seen, breaker: breaker.snapshot() };
        // Where others have the breaker too, they are told of what matters, when it happens.
        let breaker = state.gates.breaker().filter(|_| self.news.is_none());
        Some(Changed {
            budget: state.gates.budget().map(|budget| (lane, budget.snapshot())),
            breaker: breaker.map(swap),
        })
    }

    /// Learns the revision of its breaker in the store.
    pub(crate) fn breaker_seen(&self, revision: u64) {
        self.state().breaker_revision = revision;
    }
}

fn index(turn: Turn) -> usize {
    usize::from(turn == Turn::Retry)
}

/// Whether what holds a line may be over when an attempt ends.
fn ends_with_an_attempt(reason: WaitingReason) -> bool {
    use WaitingReason::{BreakerOpen, Budget, Concurrency};
    matches!(reason, BreakerOpen | Budget | Concurrency)
}

#[cfg(test)]
mod tests;
