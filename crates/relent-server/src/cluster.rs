//! This node among those that share its store: who works, what each may do, and what has changed.
//!
//! A node beats four times a second. With each beat it says that it is there, and hears how many
//! others are and what they have changed: lanes' settings and breakers, new lanes, policies. From the
//! number follows its part of every lane, and [`Membership`] says when it may start anything at all.
//! Between beats it tells the others of breakers that have turned here, at once, and asks to be the
//! one that probes. One loop does all of this in turn, so that what it hears has an order.
//!
//! On a store that nobody else has there is no loop, and nothing is asked. REQ-G4, REQ-S7.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use relent_policy::{Heard, Membership, Share, Timestamp};
use relent_store::{Beat, BreakerSwap, Error, LaneRecord};
use tokio::time::{MissedTickBehavior, interval};

use crate::service::Service;
use crate::upkeep::{Stopping, stopped};

/// Breakers that the store is told of at once.
const TOLD_MAX: usize = 500;

/// See the module's head.
#[derive(Debug, Default)]
pub(crate) struct Cluster(Option<Member>);

#[derive(Debug)]
struct Member {
    /// Whether this node makes attempts.
    works: bool,
    since: Instant,
    membership: Mutex<Membership>,
    /// Whether the scheduler waits to be told that it may work.
    is_waited_for: AtomicBool,
}

impl Cluster {
    /// A node on a store that others have, too.
    pub(crate) fn shared(works: bool) -> Cluster {
        Cluster(Some(Member {
            works,
            since: Instant::now(),
            membership: Mutex::default(),
            is_waited_for: AtomicBool::new(false),
        }))
    }

    pub(crate) fn is_shared(&self) -> bool {
        self.0.is_some()
    }

    /// Whether attempts may be started now. Whoever hears that they may not is woken when they may.
    pub(crate) fn may_work(&self) -> bool {
        let Some(member) = &self.0 else { return true };
        let may_work = member.membership().may_work(member.now());
        if !may_work {
            member.is_waited_for.store(true, Ordering::SeqCst);
        }
        may_work
    }

    /// How many nodes make attempts; 0 on one that makes none, and is not told.
    pub(crate) fn nodes(&self) -> u32 {
        let Some(member) = &self.0 else { return 1 };
        member.membership().share().map_or(0, Share::of)
    }

    /// Whether this node is the one of all that keeps what need be kept once.
    pub(crate) fn keeps(&self) -> bool {
        let Some(member) = &self.0 else { return true };
        member.membership().share().is_some_and(|share| share.rank() == 0)
    }
}

impl Member {
    /// The time since the start, by the monotonic clock.
    fn now(&self) -> Timestamp {
        Timestamp::ZERO + self.since.elapsed()
    }

    fn membership(&self) -> MutexGuard<'_, Membership> {
        self.membership.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Beats, and learns its part.
    async fn beat(&self, service: &Service) -> Result<(Beat, Option<Heard>), Error> {
        let asked_at = self.now();
        let beat = service.store.beat(self.works).await?;
        let heard = beat.share.map(|share| self.membership().hear(share, asked_at, self.now()));
        Ok((beat, heard))
    }
}

/// The first beat, before lanes are taken up: they are this node's part from the start.
pub(crate) async fn join(service: &Service) -> Result<(), Error> {
    if let Some(member) = &service.cluster.0 {
        member.beat(service).await?;
        settle(service);
    }
    Ok(())
}

/// Lanes have been taken up that others may have been serving.
pub(crate) fn settle(service: &Service) {
    let share = service.cluster.0.as_ref().and_then(|member| member.membership().share());
    if let Some(share) = share {
        service.lanes.set_share(share, true, service.store.now());
    }
}

/// Beats, and tells of breakers that have turned, until the service stops.
pub(crate) async fn run(service: Arc<Service>, mut stopping: Stopping) {
    let (Some(member), Some(news)) = (&service.cluster.0, service.lanes.news()) else { return };
    let mut beats = interval(Membership::BEAT_EVERY);
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = beats.tick() => listen(&service, member).await,
            () = news.wait() => {}
            () = stopped(&mut stopping) => {
                tell(&service).await;
                return;
            }
        }
        tell(&service).await;
    }
}

/// Beats, and follows what it hears.
async fn listen(service: &Service, member: &Member) {
    let asked_at = Instant::now();
    match member.beat(service).await {
        Ok((beat, heard)) => {
            learn(service, &beat, heard);
            follow(service, beat, asked_at).await;
        }
        Err(error) => tracing::warn!(%error, "could not tell other nodes that this one is there"),
    }
    if member.is_waited_for.load(Ordering::SeqCst) && member.membership().may_work(member.now()) {
        member.is_waited_for.store(false, Ordering::SeqCst);
        service.inbox.nudge();
    }
}

fn learn(service: &Service, beat: &Beat, heard: Option<Heard>) {
    let Some((share, heard)) = beat.share.zip(heard) else { return };
    if heard == Heard::Same {
        return;
    }
    tracing::info!(nodes = share.of(), rank = share.rank(), ?heard, "this node's part has changed");
    let lanes = service.lanes.set_share(share, heard == Heard::Joined, service.store.now());
    for lane in lanes {
        service.inbox.freed(lane.id);
    }
}

async fn follow(service: &Service, beat: Beat, asked_at: Instant) {
    for (tenant, policy) in &beat.policies {
        // One that only a later relent understands must not hide the others.
        if let Err(error) = service.policies.hear(tenant, policy) {
            tracing::error!(%error, "a policy of another node cannot be used");
        }
    }
    for record in beat.lanes {
        let id = record.id;
        if let Err(error) = follow_lane(service, record, asked_at).await {
            tracing::error!(%error, lane = %id, "a lane of another node cannot be used");
        }
    }
}

async fn follow_lane(
    service: &Service,
    record: LaneRecord,
    asked_at: Instant,
) -> Result<(), Error> {
    let Some(lane) = service.lanes.get(record.id) else {
        return service.take_lane(record).await.map(drop);
    };
    let is_set = lane.hear(record.settings, asked_at);
    let has_turned = record.breaker.is_some_and(|it| lane.follow(record.breaker_revision, it));
    if is_set || has_turned {
        service.inbox.freed(lane.id);
    }
    Ok(())
}

/// Tells the store of breakers that have turned here, and asks to probe.
async fn tell(service: &Service) {
    let Some(news) = service.lanes.news() else { return };
    let now = service.store.now();
    let lanes = news.take().into_iter().filter_map(|id| service.lanes.get(id));
    let told: Vec<_> =
        lanes.filter_map(|lane| Some((lane.to_tell(now, fastrand::u64(..))?, lane))).collect();
    for told in told.chunks(TOLD_MAX) {
        let swaps: Vec<BreakerSwap> = told.iter().map(|(swap, _)| *swap).collect();
        match service.store.swap_breakers(swaps).await {
            Ok(answers) => {
                for ((swap, lane), answer) in told.iter().zip(answers) {
                    if lane.told(swap, answer) {
                        service.inbox.freed(lane.id);
                    }
                }
            }
            Err(error) => {
                tracing::warn!(%error, "could not tell other nodes of breakers");
                told.iter().for_each(|(swap, lane)| lane.not_told(swap));
            }
        }
    }
}
