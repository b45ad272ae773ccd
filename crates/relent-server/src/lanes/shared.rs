//! A lane on one of several nodes: its part of the whole, and the breaker that is one for all.
//!
//! What a lane allows is divided: each node holds itself to its [part](Share), and asks nobody before
//! it sends. The breaker is not divided. When a copy turns here, the store is told, and of several
//! nodes that tell at once one is believed and the others follow; when another's copy has turned,
//! this one follows. Only who was believed when it asked sends the probe. REQ-G4.

use std::mem;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use relent_api::WaitingReason;
use relent_policy::{
    Breaker, BreakerRules, BreakerSnapshot, BreakerState, BudgetRules, ConcurrencyLimits,
    Lane as Gates, Policy, Share, Timestamp, Turn,
};
use relent_store::{BreakerSwap, BreakerSwapped, LaneId, LaneSettings};
use tokio::sync::Notify;

use super::{Held, Lane, LaneBook, LaneState};

/// What the lane as a whole is held to by its policy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Whole {
    limits: ConcurrencyLimits,
    pub(super) budget: Option<BudgetRules>,
    pub(super) breaker: Option<BreakerRules>,
}

/// What one node is held to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) limits: ConcurrencyLimits,
    pub(super) budget: Option<BudgetRules>,
    pub(super) breaker: Option<BreakerRules>,
}

impl Whole {
    pub(super) fn of(policy: &Policy) -> Whole {
        let spec = policy.spec();
        Whole {
            limits: spec.concurrency,
            budget: spec.budget.map(service_floor),
            breaker: spec.breaker,
        }
    }

    /// The limits of the policy where people have set nothing.
    pub(super) fn limits_under(&self, settings: LaneSettings) -> ConcurrencyLimits {
        let LaneSettings { in_flight_max, retries_in_flight_max, rate_per_second, .. } = settings;
        ConcurrencyLimits {
            in_flight_max: in_flight_max.unwrap_or(self.limits.in_flight_max),
            retries_in_flight_max: retries_in_flight_max
                .unwrap_or(self.limits.retries_in_flight_max),
            rate_per_second: rate_per_second.or(self.limits.rate_per_second),
        }
    }

    /// A node that sends nothing is held to nothing.
    pub(super) fn part(&self, share: Option<Share>, settings: LaneSettings) -> Part {
        let share = share.unwrap_or(Share::WHOLE);
        Part {
            limits: share.limits(self.limits_under(settings)),
            budget: self.budget.map(|rules| share.budget(rules)),
            breaker: self.breaker.map(|rules| share.breaker(rules)),
        }
    }
}

/// A lane serves a whole company, where a library's floor is for one process: ten retries a second
/// instead of ten in thirty, unless the policy asks for another floor.
fn service_floor(rules: BudgetRules) -> BudgetRules {
    let usual = BudgetRules::default();
    let is_usual =
        (rules.floor_retries, rules.floor_window) == (usual.floor_retries, usual.floor_window);
    if is_usual { BudgetRules { floor_window: Duration::from_secs(1), ..rules } } else { rules }
}

/// What the other nodes are still to hear of a lane's breaker.
#[derive(Debug, Default)]
pub(super) struct Untold {
    /// It has turned here.
    turned: bool,
    /// It wants leave to probe.
    asks: bool,
    /// It stands among the [`News`].
    in_line: bool,
    /// What was asked for and not answered. If it is heard of after all, it was granted.
    asked: Option<Box<BreakerSnapshot>>,
}

/// Lanes of which other nodes are to hear. Each stands there once.
#[derive(Debug, Default)]
pub(crate) struct News {
    lanes: Mutex<Vec<LaneId>>,
    wake: Notify,
}

impl News {
    fn add(&self, lane: LaneId) {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner).push(lane);
    }

    pub(crate) fn take(&self) -> Vec<LaneId> {
        mem::take(&mut *self.lanes.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits until there is something new.
    pub(crate) async fn wait(&self) {
        self.wake.notified().await;
    }
}

impl LaneBook {
    pub(crate) fn news(&self) -> Option<&Arc<News>> {
        self.news.as_ref()
    }

    /// This node's part of every lane has become another. A node that has just joined others has saved
    /// nothing up: they have shared its part among themselves.
    pub(crate) fn set_share(&self, share: Share, joined: bool, now: Timestamp) -> Vec<Arc<Lane>> {
        *self.share.write().unwrap_or_else(PoisonError::into_inner) = Some(share);
        let lanes = self.all();
        for lane in &lanes {
            lane.set_share(share, joined && !share.is_whole(), now);
        }
        lanes
    }
}

impl LaneState {
    pub(super) fn set(&mut self, settings: LaneSettings) {
        self.settings = settings;
        self.gates.set_limits(self.whole.part(self.share, settings).limits);
        self.held = [None; 2];
        self.freed += 1;
    }

    /// Why it is held where there is a scheduler, on a node that has none.
    pub(super) fn held_elsewhere(&self, now: Timestamp) -> Option<Held> {
        let breaker = self.gates.breaker().filter(|_| self.share.is_none())?;
        let is_open = breaker.state(now) == BreakerState::Open;
        let until = breaker.would_admit(now).err().map(|open| open.until)?;
        is_open.then_some(Held { reason: WaitingReason::BreakerOpen, until })
    }
}

impl Lane {
    /// Does something to the gates, and tells of a breaker that has turned by it.
    pub(super) fn change<T>(&self, state: &mut LaneState, act: impl FnOnce(&mut Gates) -> T) -> T {
        if self.news.is_none() {
            return act(&mut state.gates);
        }
        let before = state.gates.breaker().map(Breaker::mark);
        let done = act(&mut state.gates);
        if let (Some(before), Some(breaker)) = (before, state.gates.breaker())
            && breaker.has_turned(before)
        {
            state.untold.turned = true;
            self.tell(state);
        }
        done
    }

    /// Asks for leave if an attempt of this line could be the probe.
    pub(super) fn ask_leave(&self, state: &mut LaneState, turn: Turn, now: Timestamp) {
        if self.news.is_some() && state.gates.wants_probe(turn, now) {
            state.untold.asks = true;
            self.tell(state);
        }
    }

    fn tell(&self, state: &mut LaneState) {
        if let Some(news) = &self.news {
            if !mem::replace(&mut state.untold.in_line, true) {
                news.add(self.id);
            }
            news.wake.notify_one();
        }
    }

    fn set_share(&self, share: Share, spends_all: bool, now: Timestamp) {
        let mut state = self.state();
        state.share = Some(share);
        let part = state.whole.part(Some(share), state.settings);
        state.gates.set_limits(part.limits);
        if let (Some(budget), Some(rules)) = (state.gates.budget_mut(), part.budget) {
            budget.set_rules(rules, now);
            if spends_all {
                budget.spend_all(now);
            }
        }
        if let (Some(breaker), Some(rules)) = (state.gates.breaker_mut(), part.breaker) {
            breaker.set_rules(rules);
        }
        state.held = [None; 2];
        state.freed += 1;
    }

    /// Learns what people have set, from a look that was begun at `asked_at`; whether it is new. What
    /// was set here since is newer.
    pub(crate) fn hear(&self, settings: LaneSettings, asked_at: Instant) -> bool {
        let mut state = self.state();
        let is_news =
            state.settings != settings && state.set_at.is_none_or(|set_at| set_at < asked_at);
        if is_news {
            state.set(settings);
        }
        is_news
    }

    /// What the other nodes are to hear of, if there is something.
    pub(crate) fn to_tell(&self, now: Timestamp, roll: u64) -> Option<BreakerSwap> {
        let mut state = self.state();
        state.untold.in_line = false;
        let (turned, asks) =
            (mem::take(&mut state.untold.turned), mem::take(&mut state.untold.asks));
        let breaker = *state.gates.breaker()?;
        let told = if turned {
            state.untold.asked = None;
            breaker.snapshot()
        } else if asks && breaker.wants_probe(now) {
            let asked = state.untold.asked.take().map(|asked| *asked);
            let still_good = asked
                .filter(|asked| restored(&state, *asked).is_some_and(|it| !it.wants_probe(now)));
            let asked = still_good.unwrap_or_else(|| breaker.half_opened(now, roll).snapshot());
            state.untold.asked = Some(Box::new(asked));
            asked
        } else {
            return None;
        };
        Some(BreakerSwap { lane: self.id, seen: state.breaker_revision, breaker: told })
    }

    /// The store could not be told: it is to be tried again.
    pub(crate) fn not_told(&self, swap: &BreakerSwap) {
        let mut state = self.state();
        match state.untold.asked.as_deref() == Some(&swap.breaker) {
            true => state.untold.asks = true,
            false => state.untold.turned = true,
        }
        if let Some(news) = &self.news
            && !mem::replace(&mut state.untold.in_line, true)
        {
            news.add(self.id);
        }
    }

    /// What came of telling the store; whether it has changed anything here.
    pub(crate) fn told(&self, swap: &BreakerSwap, swapped: BreakerSwapped) -> bool {
        match swapped {
            BreakerSwapped::Done { revision } => {
                if self.state().untold.asked.as_deref() == Some(&swap.breaker) {
                    return self.follow(revision, swap.breaker);
                }
                self.state().breaker_revision = revision;
                false
            }
            BreakerSwapped::Lost { revision, breaker: Some(breaker) } => {
                self.follow(revision, breaker)
            }
            BreakerSwapped::Lost { revision, breaker: None } => {
                self.state().breaker_revision = revision;
                self.not_told(swap);
                false
            }
            BreakerSwapped::Unknown => false,
        }
    }

    /// Becomes what the breaker is for all, if this is news. What is heard has an order, so an earlier
    /// revision is news too: a replica has taken over that had not received the later ones.
    pub(crate) fn follow(&self, revision: u64, breaker: BreakerSnapshot) -> bool {
        let mut state = self.state();
        if revision == state.breaker_revision {
            return false;
        }
        state.breaker_revision = revision;
        let granted = state.untold.asked.take().is_some_and(|asked| *asked == breaker);
        if granted && state.untold.turned {
            // A probe that was given up for lost has ended after all, and that is told next.
            return false;
        }
        (state.untold.turned, state.untold.asks) = (false, false);
        let Some(theirs) = restored(&state, breaker) else { return false };
        if let Some(ours) = state.gates.breaker_mut() {
            ours.follow(&theirs);
            if granted {
                ours.give_leave();
            }
        }
        state.held = [None; 2];
        state.freed += 1;
        true
    }
}

/// A breaker as another node has told of it; `None` if only a later version understands it.
fn restored(state: &LaneState, snapshot: BreakerSnapshot) -> Option<Breaker> {
    let rules = state.whole.part(state.share, state.settings).breaker?;
    let restored = Breaker::restore(rules, snapshot).map(Breaker::asking_leave);
    restored.inspect_err(|error| tracing::warn!(%error, "cannot follow a breaker")).ok()
}

#[cfg(test)]
mod tests;
